//! `--report`: what a bug report needs, without what is nobody's business. No
//! secret, login, repository or host name is in it; the home directory is `~`.

use std::fmt::Write as _;
use std::path::Path;

use super::Context;
use super::managed::WIDTH;
use crate::base::text::{count, push_wrapped, visible, visible_lines};
use crate::core::config::{Config, leaves};
use crate::doctor::{Finding, Report, ToolId};

/// Variables whose values tell something about a fault and nothing of a person.
const SHOWN: &[&str] =
    &["LANG", "LC_ALL", "LC_CTYPE", "TERM", "COLORTERM", "SHELL", "PATH", "TMPDIR", "TMUX_TMPDIR"];
/// Variables of which only their being set is told.
const NAMED: &[&str] = &[
    "TMUX",
    "SSH_CONNECTION",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "SSL_CERT_FILE",
    "THE_LOOP_MIRROR",
    "THE_LOOP_HOME",
    "THE_LOOP_CONFIG",
    "TERMINFO",
    "TERMINFO_DIRS",
    "XDG_RUNTIME_DIR",
];

/// The bundle as text.
pub(super) fn text(
    context: &Context,
    report: &Report,
    config: Option<&Config>,
    project: Option<&Path>,
) -> String {
    let env = &context.env;
    let mut out = format!("the-loop {}\n\n", env!("CARGO_PKG_VERSION"));
    out.push_str(&report.render(true));
    out.push_str("\nvariables:\n");
    for name in SHOWN {
        if let Some(value) = env.var_os(name) {
            let mut line = format!("  {name}={}", visible(&value.to_string_lossy()));
            if line.chars().count() > WIDTH {
                // One entry of a list on each line: none is broken.
                line = line.replace(':', ":\n    ");
            }
            let _ = writeln!(out, "{line}");
        }
    }
    for name in NAMED.iter().filter(|name| env.var_os(name).is_some()) {
        let _ = writeln!(out, "  {name} is set");
    }
    if let Some(config) = config {
        let routing = &config.routing;
        let _ = write!(
            out,
            "\nconfiguration:\n  runner {}, harness {}, {}, {}\n",
            routing.runner.as_str(),
            routing.default_harness.as_str(),
            count(routing.authorized_users.len(), "user"),
            match routing.repositories.len() {
                1 => "1 repository".to_owned(),
                number => format!("{number} repositories"),
            },
        );
    }
    let out = redact(&visible_lines(&out), &secrets(context, config));
    let out =
        names(config, project).iter().fold(out, |out, (name, by)| replace_word(&out, name, by));
    fitted(&out)
}

/// A placeholder can be longer than what it stands for: lines are broken again.
fn fitted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let inner = line.trim_start();
        let is_command = ["run:", "or:"].iter().any(|label| inner.starts_with(label));
        // A piece of a file with a pointer: its spaces carry the meaning.
        if line.chars().count() <= WIDTH || is_command || line.contains(" |") {
            out.push_str(line);
            out.push('\n');
        } else {
            let head = &line[..line.len() - inner.len()];
            push_wrapped(&mut out, head, head.len() + 2, inner, WIDTH);
        }
    }
    out
}

/// What is wrong with a configuration, without what stands in it: where it
/// cannot be understood, nobody knows which of its words are names.
pub(super) fn masked(mut about: Finding) -> Finding {
    about.what = mask(&about.what);
    // Its lines are shown with a pointer; the place is told with the fault.
    about.evidence.retain(|line| !line.starts_with(' ') && !line.contains(" |"));
    about.evidence.iter_mut().for_each(|line| *line = mask(line));
    about.remedy = None;
    about
}

/// Replaces what is quoted, but for the names of keys.
fn mask(text: &str) -> String {
    let keys = leaves(&Config::default());
    let is_key = |quoted: &str| {
        let quoted = quoted.split('[').next().unwrap_or_default();
        keys.iter().any(|leaf| {
            leaf.key
                .strip_prefix(quoted)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['`', '"', '\'']) {
        let mark = char::from(rest.as_bytes()[at]);
        let (before, quoted) = rest.split_at(at + 1);
        out.push_str(before);
        let end = quoted.find(mark).unwrap_or(quoted.len());
        out.push_str(if is_key(&quoted[..end]) { &quoted[..end] } else { "…" });
        rest = &quoted[end..];
        if let Some(behind) = rest.strip_prefix(mark) {
            out.push(mark);
            rest = behind;
        }
    }
    out + rest
}

/// The names of project, repositories and their owners, the longest first. They
/// can stand in any path, and a short one inside of other words.
fn names(config: Option<&Config>, project: Option<&Path>) -> Vec<(String, &'static str)> {
    let mut names = Vec::new();
    let place = project.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    names.extend(place.map(|name| (name, "[repository]")));
    for repo in config.into_iter().flat_map(|config| &config.routing.repositories) {
        names.push((repo.name().to_owned(), "[repository]"));
        names.push((repo.owner().to_owned(), "[user]"));
    }
    // What every report says anyway tells nothing, and is needed.
    names.retain(|(name, _)| {
        !name.is_empty() && name != "the-loop" && ToolId::parse(name).is_none()
    });
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    names
}

/// Replaces a name where it is not a part of a longer word.
fn replace_word(text: &str, name: &str, by: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(name) {
        let (before, behind) = (&rest[..at], &rest[at + name.len()..]);
        let inside = before.ends_with(char::is_alphanumeric)
            || behind.starts_with(char::is_alphanumeric)
            // A name inside of a placeholder is that placeholder's.
            || (before.ends_with('[') && behind.starts_with(']'));
        out.push_str(before);
        out.push_str(if inside { name } else { by });
        rest = behind;
    }
    out + rest
}

/// What is replaced, the longest first.
fn secrets(context: &Context, config: Option<&Config>) -> Vec<(String, &'static str)> {
    let env = &context.env;
    let mut found = Vec::new();
    let mut add = |text: Option<&str>, by: &'static str| {
        // A short word would be found inside others.
        found.extend(text.filter(|text| text.len() > 3).map(|text| (visible(text), by)));
    };
    add(env.home().and_then(|home| home.to_str()).filter(|home| *home != "/"), "~");
    for name in ["USER", "LOGNAME"] {
        add(env.var(name).filter(|user| *user != "root"), "[user]");
    }
    for name in ["HOSTNAME", "HOST"] {
        add(env.var(name), "[host]");
    }
    add(rustix::system::uname().nodename().to_str().ok(), "[host]");
    let usual = Config::default().webhooks.gh_webhook.secret_env;
    add(env.var(&usual), "[secret]");
    if let Some(config) = config {
        add(env.var(&config.webhooks.gh_webhook.secret_env), "[secret]");
        for user in &config.routing.authorized_users {
            add(Some(user), "[user]");
        }
        for repo in &config.routing.repositories {
            add(Some(&repo.to_string()), "[repository]");
        }
    }
    found.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
    found
}

fn redact(text: &str, secrets: &[(String, &'static str)]) -> String {
    secrets.iter().fold(text.to_owned(), |text, (secret, by)| text.replace(secret, by))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_replaced_as_a_word_wherever_it_stands() {
        let said = replace_word("~/src/app/x app+y apple map app", "app", "[repository]");
        assert_eq!(said, "~/src/[repository]/x [repository]+y apple map [repository]");
    }

    #[test]
    fn a_fault_of_the_configuration_is_told_without_its_words() {
        let said = mask("x.yaml:2:3: `routing.repositories[1]` is not `octo7`: \"hunter2\" is `a");
        assert_eq!(said, "x.yaml:2:3: `routing.repositories[1]` is not `…`: \"…\" is `…");
    }

    #[test]
    fn the_longest_is_replaced_first() {
        let secrets = [("/home/alice".to_owned(), "~"), ("alice".to_owned(), "[user]")];
        assert_eq!(redact("/home/alice/x by alice", &secrets), "~/x by [user]");
    }
}
