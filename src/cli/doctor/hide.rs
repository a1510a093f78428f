//! What is hidden in a report that is published: secrets by their form, names
//! because somebody knows them. What the doctor itself says stays as it is: a
//! login can be a word like `config`, and then it tells nothing.

use super::Context;
use crate::base::accounts::Accounts;
use crate::base::text::visible;
use crate::core::config::Config;

/// The words of the doctor's own texts, of its platforms and of its handbook.
const OWN_WORDS: &str = include_str!("words.txt");
/// Variables whose values nobody else may know.
const SECRET_VARIABLES: &[&str] =
    &["GITHUB_TOKEN", "GH_TOKEN", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"];
/// Words in the name of a value that nobody else may know.
const SECRET_KEYS: &[&str] =
    &["secret", "token", "password", "passwd", "credential", "apikey", "api_key", "api-key"];
/// How a token begins that says itself what it is, and how long it is at least.
const TOKENS: &[(&str, usize)] = &[
    ("ghp_", 8),
    ("gho_", 8),
    ("ghu_", 8),
    ("ghs_", 8),
    ("ghr_", 8),
    ("github_pat_", 15),
    ("glpat-", 12),
    ("sk-", 12),
    ("xoxb-", 12),
    ("xoxp-", 12),
    ("npm_", 20),
    ("hf_", 20),
    ("AKIA", 20),
    ("AIza", 20),
    ("eyJ", 20),
];
/// From this length on, letters of both cases with digits are taken for a secret.
const LONG: usize = 32;

const SECRET: &str = "[secret]";
const USER: &str = "[user]";
const HOST: &str = "[host]";
const REPOSITORY: &str = "[repository]";

/// Everything that is hidden in one report.
pub(super) struct Hider {
    /// Texts that are replaced wherever they stand.
    secrets: Vec<String>,
    home: Option<String>,
    /// Names, which are replaced as words, the longest first.
    names: Vec<(String, &'static str)>,
}

impl Hider {
    /// What this user, this host and this configuration would not have told.
    pub(super) fn new(context: &Context, config: Option<&Config>, place: Option<&str>) -> Self {
        let env = &context.env;
        let usual = Config::default().webhooks.gh_webhook.secret_env;
        let own = config.map(|config| config.webhooks.gh_webhook.secret_env.as_str());
        let variables = own.into_iter().chain([usual.as_str()]).chain(SECRET_VARIABLES.to_vec());
        let secrets = variables.filter_map(|name| env.var(name)).map(visible).collect();
        let home = env.home().filter(|home| home.parent().is_some());
        let mut names: Vec<(String, &'static str)> = Vec::new();
        let mut add = |name: &str, by| names.push((visible(name), by));
        for name in ["USER", "LOGNAME"].into_iter().filter_map(|name| env.var(name)) {
            add(name, USER);
        }
        add(&Accounts::read().plain(rustix::process::geteuid().as_raw()), USER);
        let node = rustix::system::uname();
        let node = node.nodename().to_str().ok();
        for name in ["HOSTNAME", "HOST"].into_iter().filter_map(|name| env.var(name)).chain(node) {
            add(name, HOST);
            // Most programs say the name without its domain.
            add(name.split('.').next().unwrap_or_default(), HOST);
        }
        if let Some(name) = place {
            add(name, REPOSITORY);
        }
        for user in config.into_iter().flat_map(|config| &config.routing.authorized_users) {
            add(user, USER);
        }
        for repo in config.into_iter().flat_map(|config| &config.routing.repositories) {
            add(&repo.to_string(), REPOSITORY);
            add(repo.name(), REPOSITORY);
            add(repo.owner(), USER);
        }
        Self::of(secrets, home.map(|home| visible(&home.to_string_lossy())), names)
    }

    fn of(
        mut secrets: Vec<String>,
        home: Option<String>,
        mut names: Vec<(String, &'static str)>,
    ) -> Self {
        // A short one would be found inside of other words.
        secrets.retain(|secret| secret.len() > 3);
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        names.retain(|(name, _)| name.len() > 1 && name != "root" && !is_number(name));
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        Self { secrets, home, names }
    }

    /// The text without it.
    pub(super) fn hide(&self, text: &str) -> String {
        let text = self.secrets.iter().fold(text.to_owned(), |text, it| text.replace(it, SECRET));
        let text = match &self.home {
            Some(home) => replace_word(&text, home, "~", |before, behind| {
                !before.ends_with(char::is_alphanumeric) && !goes_on(behind)
            }),
            None => text,
        };
        let text = without_homes(&without_secrets(&text));
        self.names.iter().fold(text, |text, (name, by)| {
            let is_own = is_own(name);
            replace_word(&text, name, by, |before, behind| {
                if is_own {
                    let is_quoted = before.ends_with('`') && behind.starts_with('`');
                    return is_quoted && SAYS_WHO.iter().any(|words| before.ends_with(words));
                }
                // A name inside of a placeholder is that placeholder's.
                let is_placeholder = before.ends_with('[') && behind.starts_with(']');
                !before.ends_with(char::is_alphanumeric)
                    && !behind.starts_with(char::is_alphanumeric)
                    && !is_placeholder
            })
        })
    }
}

/// What we say before the name of somebody.
const SAYS_WHO: &[&str] = &["user `", "group `", "to `", "not `"];

fn is_number(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_digit())
}

/// Whether a name is nothing but words that every report may hold anyway.
fn is_own(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.split(['-', '_', '.'])
        .all(|word| OWN_WORDS.lines().any(|own| own == word) || is_number(word))
}

/// Whether a name of a file goes on with this text.
fn goes_on(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphanumeric() || "-_.".contains(c))
}

/// Replaces a name, however it is written, where the text before and behind it
/// lets it.
fn replace_word(text: &str, name: &str, by: &str, fits: impl Fn(&str, &str) -> bool) -> String {
    // Only ASCII changes its case here, so the positions stay those of the text.
    let (lower, name) = (text.to_ascii_lowercase(), name.to_ascii_lowercase());
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in lower.match_indices(&name) {
        let end = at + name.len();
        out.push_str(&text[done..at]);
        out.push_str(if fits(&text[..at], &text[end..]) { by } else { &text[at..end] });
        done = end;
    }
    out + &text[done..]
}

/// Replaces whose home directories are named.
fn without_homes(text: &str) -> String {
    let mut out = text.to_owned();
    for root in ["/home/", "/Users/"] {
        let mut text = String::with_capacity(out.len());
        let mut rest = out.as_str();
        while let Some(at) = rest.find(root) {
            let is_first = !rest[..at].ends_with(|c: char| goes_on(c.encode_utf8(&mut [0; 4])))
                && !rest[..at].ends_with(['~', ']', '/']);
            let (before, name) = rest.split_at(at + root.len());
            let length = name.find(|c: char| !(c.is_alphanumeric() || "-_.".contains(c)));
            let (name, behind) = name.split_at(length.unwrap_or(name.len()));
            text.push_str(before);
            let is_somebodys = is_first && !name.is_empty() && name != "linuxbrew";
            text.push_str(if is_somebodys { USER } else { name });
            rest = behind;
        }
        text.push_str(rest);
        out = text;
    }
    out
}

/// Replaces what is a secret by its form.
fn without_secrets(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_next = false;
    for piece in text.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        let lower = word.to_ascii_lowercase();
        let bare = lower.trim_matches(|c: char| QUOTES.contains(c));
        if word.is_empty() {
            out.push_str(piece);
            continue;
        }
        let is_scheme = matches!(bare, "bearer" | "basic" | "token");
        if is_next && !is_scheme {
            let inner = word.trim_matches(|c: char| QUOTES.contains(c));
            out.push_str(&if inner.is_empty() { word.into() } else { word.replace(inner, SECRET) });
        } else {
            out.push_str(&without_secret(word));
        }
        is_next = announces(bare, is_next);
        out.push_str(&piece[word.len()..]);
    }
    out
}

const QUOTES: &str = "\"'`,;()<>";

/// Whether the word behind this one is a secret.
fn announces(word: &str, was_announced: bool) -> bool {
    let is_key = |key: &str| SECRET_KEYS.iter().any(|secret| key.contains(secret));
    match word {
        "bearer" => true,
        "basic" | "token" => was_announced,
        _ if word.ends_with("authorization:") => true,
        _ => {
            let option = word.strip_prefix("--").filter(|key| !key.contains('='));
            // The doctor itself says `secret:`, and never one of the others.
            let said = word.strip_suffix(':').filter(|key| !key.ends_with("secret"));
            option.or(said).is_some_and(is_key)
        }
    }
}

fn without_secret(word: &str) -> String {
    without_tokens(&without_values(&without_mail(&without_credentials(word))))
}

/// A URL without who asks, and without its query, which may hold a token.
fn without_credentials(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(at) = rest.find("://") {
        let (before, url) = rest.split_at(at + 3);
        out.push_str(before);
        let end = url.find(|c: char| "\"'`<>|;)".contains(c)).unwrap_or(url.len());
        let (url, behind) = url.split_at(end);
        let (url, had_query) = match url.find(['?', '#']) {
            Some(at) => (&url[..at], true),
            None => (url, false),
        };
        let authority = url.find('/').unwrap_or(url.len());
        match url[..authority].rfind('@') {
            Some(at) => {
                out.push('…');
                out.push_str(&url[at..]);
            }
            None => out.push_str(url),
        }
        if had_query {
            out.push_str("?…");
        }
        rest = behind;
    }
    out + rest
}

fn without_mail(word: &str) -> String {
    let is_local = |c: char| c.is_ascii_alphanumeric() || "._%+-".contains(c);
    let Some(at) = word.find('@') else { return word.to_owned() };
    let local = word[..at]
        .rfind(|c| !is_local(c))
        .map_or(0, |at| at + word[at..].chars().next().map_or(1, char::len_utf8));
    let domain = &word[at + 1..];
    let end = domain.find(|c: char| !(c.is_ascii_alphanumeric() || ".-".contains(c)));
    let domain = domain[..end.unwrap_or(domain.len())].trim_end_matches('.');
    let top = domain.rsplit_once('.').map(|(_, top)| top);
    let is_domain =
        top.is_some_and(|top| top.len() > 1 && top.chars().all(|c| c.is_ascii_alphabetic()));
    // Everybody asks a git server as `git`.
    if !is_domain || local == at || &word[local..at] == "git" {
        return word.to_owned();
    }
    format!("{}[e-mail]{}", &word[..local], without_mail(&word[at + 1 + domain.len()..]))
}

/// `token=…`: a value behind a name that says what it is.
fn without_values(word: &str) -> String {
    let Some(at) = word.find(['=', ':']) else { return word.to_owned() };
    let (key, rest) = word.split_at(at);
    let (sign, value) = rest.split_at(1);
    let key_lower = key.to_ascii_lowercase();
    let last = key_lower.rsplit(|c: char| !(c.is_alphanumeric() || "-_".contains(c))).next();
    let is_secret = last.is_some_and(|key| SECRET_KEYS.iter().any(|it| key.contains(it)));
    let end = value.find(|c: char| "&,;\"'`)".contains(c)).unwrap_or(value.len());
    // A command that makes one is none, and a path is a place.
    let is_value = end > 0 && !value.starts_with(['$', '/', '~', '[', ':', '…']);
    if is_secret && is_value {
        return format!("{key}{sign}{SECRET}{}", without_values(&value[end..]));
    }
    format!("{key}{sign}{}", without_values(value))
}

fn without_tokens(word: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let mut out = String::with_capacity(word.len());
    let mut rest = word;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (run, behind) = rest.split_at(end);
        let is_token =
            TOKENS.iter().any(|(start, least)| run.starts_with(start) && run.len() >= *least);
        out.push_str(if is_token || is_random(run) { SECRET } else { run });
        let next = behind.find(is_part).unwrap_or(behind.len());
        out.push_str(&behind[..next]);
        rest = &behind[next..];
    }
    out
}

fn is_random(run: &str) -> bool {
    let has = |kind: fn(&char) -> bool| run.chars().any(|c| kind(&c));
    run.len() >= LONG
        && has(char::is_ascii_uppercase)
        && has(char::is_ascii_lowercase)
        && has(char::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hider(names: &[(&str, &'static str)]) -> Hider {
        let names = names.iter().map(|(name, by)| ((*name).to_owned(), *by)).collect();
        Hider::of(vec!["s3cret".to_owned()], Some("/home/alice".to_owned()), names)
    }

    #[test]
    fn what_is_a_secret_by_its_form_is_hidden_wherever_it_stands() {
        let none = hider(&[]);
        for (text, said) in [
            (
                "curl https://u:PW9@acme.internal/get?token=TOK | sh",
                "curl https://…@acme.internal/get?… | sh",
            ),
            ("fatal: 'https://bob:PW@h/x?token=T55'", "fatal: 'https://…@h/x?…'"),
            ("with ghp_abcdEFGH1234 and github_pat_11ABC_xyz", "with [secret] and [secret]"),
            ("key sk-ant-api03-xyz_9, then", "key [secret], then"),
            ("Authorization: Bearer abc.DEF", "Authorization: Bearer [secret]"),
            ("'authorization: token abc'", "'authorization: token [secret]'"),
            ("mail bob.x@example.org, now", "mail [e-mail], now"),
            ("--token=abc --password hunter2 x", "--token=[secret] --password [secret] x"),
            ("API_KEY=abc&x=1", "API_KEY=[secret]&x=1"),
            ("password: hunter2", "password: [secret]"),
            ("is s3cret", "is [secret]"),
        ] {
            assert_eq!(none.hide(text), said);
        }
    }

    #[test]
    fn what_is_none_stays() {
        let sha = "0123456789abcdef".repeat(4);
        let none = hider(&[]);
        for text in [
            "the-loop doctor --install tmux@3.6a --offline DIR",
            "export THE_LOOP_GH_WEBHOOK_SECRET=$(openssl rand -hex 32)",
            "git@github.com:octo/x https://github.com/octo/x",
            "the webhook has no secret: set one",
            "`webhooks.ghWebhook.secretFile` /etc/x",
            sha.as_str(),
        ] {
            assert_eq!(none.hide(text), text);
        }
    }

    #[test]
    fn a_name_is_replaced_as_a_word_wherever_it_stands() {
        let hider = hider(&[("app9", REPOSITORY), ("Octo/app9", REPOSITORY), ("vm7", HOST)]);
        let said = hider.hide("~/src/app9/x app9+y apple mapp9 octo/APP9 on vm7");
        assert_eq!(said, "~/src/[repository]/x [repository]+y apple mapp9 [repository] on [host]");
        assert_eq!(hider.hide("/home/alice/x /home/alice"), "~/x ~");
        assert_eq!(hider.hide("/home/alicex/y /Users/bob"), "/home/[user]/y /Users/[user]");
    }

    #[test]
    fn our_own_words_stay_and_a_name_that_is_one_is_hidden_where_it_is_a_name() {
        let names = ["claude", "the-loop", "tmux", "nobody", "config", "doctor"];
        let hider = hider(&names.map(|name| (name, USER)));
        let own = "the-loop doctor --install tmux: nobody else can ~/.the-loop/config.yaml";
        assert_eq!(hider.hide(own), own);
        assert_eq!(hider.hide("/usr/bin/tmux /home/tmux/x"), "/usr/bin/tmux /home/[user]/x");
        assert_eq!(hider.hide("the user `nobody` owns it"), "the user `[user]` owns it");
    }

    #[test]
    fn the_words_are_those_of_the_doctor() {
        let all = fs_err::read_to_string("src/doctor/catalogue.rs").unwrap()
            + &fs_err::read_to_string("src/doctor/check.rs").unwrap()
            + &fs_err::read_to_string("src/doctor/trouble.rs").unwrap();
        let missing: Vec<_> = all
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .filter_map(|line| line.split('"').nth(1))
            .flat_map(|text| text.split(|c: char| !c.is_ascii_alphabetic()))
            .filter(|word| word.len() > 1 && !is_own(word))
            .collect();
        assert_eq!(missing.len() * 20 / all.split('"').count(), 0, "{missing:?}");
    }
}
