//! Who somebody is on GitHub, by the GitHub CLI: `gh auth status`, and where that
//! is not to be had (no `gh`, no network, a hanging keyring) its `hosts.yml`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::env::Env;
use crate::core::config::gh_logins;
use crate::doctor;

/// How long `gh auth status` may take. It asks GitHub whether the log-in is good.
const WITHIN: Duration = Duration::from_secs(5);

/// What the CLI goes by besides what every program is given. It is this person's
/// own CLI, on this person's terminal: it may have its token.
const VARIABLES: &[&str] = &[
    "GH_CONFIG_DIR",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_ENTERPRISE_TOKEN",
    "GITHUB_ENTERPRISE_TOKEN",
    "GH_HOST",
    "XDG_CONFIG_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
];

/// A host that the CLI knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Account {
    /// The host.
    pub(super) host: String,
    /// The login there, where it is known.
    pub(super) login: Option<String>,
    /// GitHub does not take the log-in any more.
    pub(super) is_refused: bool,
}

/// The hosts that the GitHub CLI knows, each once.
pub(super) async fn accounts(env: &Env) -> Vec<Account> {
    let mut accounts = match doctor::github_cli(env) {
        Some(gh) => {
            let call = gh.invocation().args(["auth", "status"]).deadline(WITHIN);
            let call = call.env("GH_PROMPT_DISABLED", "1").env("GH_NO_UPDATE_NOTIFIER", "1");
            let call = VARIABLES.iter().fold(call, |call, name| match env.var_os(name) {
                Some(value) => call.env(*name, value),
                None => call,
            });
            // It fails when one log-in of several does, and has said what it knows.
            match call.env("NO_COLOR", "1").run().await {
                Ok(output) => parse(&[output.stdout, b"\n".to_vec(), output.stderr].concat()),
                Err(_) => Vec::new(),
            }
        }
        None => Vec::new(),
    };
    let dir = env
        .var_os("GH_CONFIG_DIR")
        .map(PathBuf::from)
        .or_else(|| env.var_os("XDG_CONFIG_HOME").map(|dir| Path::new(dir).join("gh")))
        .or_else(|| env.home().map(|home| home.join(".config/gh")));
    let text = dir.and_then(|dir| fs_err::read_to_string(dir.join("hosts.yml")).ok());
    for (host, login) in gh_logins(&text.unwrap_or_default()) {
        match accounts.iter_mut().find(|account| account.host == host) {
            Some(account) => account.login = account.login.take().or(login),
            None => accounts.push(Account { host, login, is_refused: false }),
        }
    }
    accounts
}

/// What `gh auth status` says. Every version of it says it in other words and on
/// another stream; the host and the login are in these.
fn parse(said: &[u8]) -> Vec<Account> {
    // An account is the active one of its host unless it says that it is not.
    let mut found: Vec<(Account, bool)> = Vec::new();
    for line in String::from_utf8_lossy(said).lines() {
        let line = line.trim().trim_start_matches(['✓', 'X', '!', '-', ' ']);
        if line == "Active account: false" {
            if let Some((_, is_active)) = found.last_mut() {
                *is_active = false;
            }
            continue;
        }
        let is_refused = line.starts_with("Failed to log in to ");
        let rest = ["Logged in to ", "Failed to log in to ", "Timeout trying to log in to "]
            .iter()
            .find_map(|start| line.strip_prefix(start));
        let Some(rest) = rest else { continue };
        let mut words = rest.split_whitespace();
        let Some(host) = words.next() else { continue };
        let login = match words.next() {
            Some("account" | "as") => words.next().filter(|login| super::login(login).is_ok()),
            _ => None,
        };
        let host = host.to_ascii_lowercase();
        found.push((Account { host, login: login.map(str::to_owned), is_refused }, true));
    }
    let mut accounts: Vec<Account> = Vec::new();
    found.sort_by_key(|(account, is_active)| (!is_active, account.login.is_none()));
    for (account, _) in found {
        if accounts.iter().all(|known| known.host != account.host) {
            accounts.push(account);
        }
    }
    accounts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(said: &str) -> Vec<(String, Option<String>, bool)> {
        let accounts = parse(said.as_bytes()).into_iter();
        accounts.map(|account| (account.host, account.login, account.is_refused)).collect()
    }

    #[test]
    fn every_version_of_the_status_is_understood() {
        let of = |host: &str, login: &str| (host.to_owned(), Some(login.to_owned()), false);
        let new = "github.com\n  ✓ Logged in to github.com account other (keyring)\n  \
                   - Active account: false\n  - Token: gho_****\n\n  \
                   ✓ Logged in to github.com account octocat (/h/.config/gh/hosts.yml)\n  \
                   - Active account: true\n\nghe.corp\n  \
                   ✓ Logged in to ghe.corp account me (GH_ENTERPRISE_TOKEN)\n";
        assert_eq!(parsed(new), [of("github.com", "octocat"), of("ghe.corp", "me")]);
        let old = "github.com\n  ✓ Logged in to github.com as octocat (oauth_token)\n  \
                   ✓ Git operations for github.com configured to use https protocol.\n";
        assert_eq!(parsed(old), [of("github.com", "octocat")]);
        let offline =
            "github.com\n  X Timeout trying to log in to github.com account octocat (keyring)\n";
        assert_eq!(parsed(offline), [of("github.com", "octocat")]);
    }

    #[test]
    fn a_log_in_that_is_refused_still_names_the_person() {
        let said = "github.com\n  X Failed to log in to github.com account octocat (keyring)\n  \
                    - Active account: true\n  - The token in keyring is invalid.\n";
        assert_eq!(parsed(said), [("github.com".into(), Some("octocat".into()), true)]);
        let said = "github.com\n  X Failed to log in to github.com using token (GH_TOKEN)\n";
        assert_eq!(parsed(said), [("github.com".into(), None, true)]);
        for said in [
            "You are not logged into any GitHub hosts. Run gh auth login to authenticate.\n",
            "",
            "Logged in to",
            "Logged in to github.com account a/b (x)",
        ] {
            assert!(parsed(said).iter().all(|(_, login, _)| login.is_none()), "{said}");
        }
    }
}
