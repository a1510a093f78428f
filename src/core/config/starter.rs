//! The configuration that `init` writes: with the answers in it, and a remark
//! on every line that a person may want to change.

use super::{Config, HarnessName, RunnerKind, SCHEMA_URL, SpawnPolicy};
use crate::base::ids::Repo;

/// What the starter's configuration says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Starter {
    /// How sessions are hosted.
    pub runner: RunnerKind,
    /// The agent.
    pub harness: HarnessName,
    /// The agents that were found here, whether it is one of them or not.
    pub others: Vec<HarnessName>,
    /// When an event without a session starts one.
    pub spawn: SpawnPolicy,
    /// The label that arms an item.
    pub label: String,
    /// Whose events are acted on.
    pub users: Vec<String>,
    /// The repositories whose events are acted on.
    pub repositories: Vec<Repo>,
    /// Whether each item has a git work tree of its own.
    pub worktrees: bool,
    /// Whether sessions are shown in the browser.
    pub web: bool,
    /// The file for the webhook's secret, as it is to be written.
    pub secret_file: String,
}

/// Text as YAML reads it back, whatever is in it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn list<T: ToString>(items: &[T]) -> String {
    let items: Vec<_> = items.iter().map(|item| quoted(&item.to_string())).collect();
    format!("[{}]", items.join(", "))
}

impl Starter {
    /// The text of the file.
    pub fn text(&self) -> String {
        let users = list(&self.users);
        let repositories = list(&self.repositories);
        let label = quoted(&self.label);
        let (runner, harness, spawn) =
            (self.runner.as_str(), self.harness.as_str(), self.spawn.as_str());
        let secret_file = quoted(&self.secret_file);
        let found: Vec<_> = self.others.iter().filter(|name| **name != self.harness).collect();
        let others = if found.is_empty() {
            String::new()
        } else {
            let names: Vec<_> = found.into_iter().map(HarnessName::as_str).collect();
            format!("\x20 # Also found here: {}.\n", names.join(", "))
        };
        let place = if self.worktrees {
            "\x20 # Each item in a git work tree of its own (docs/workspaces.md), cloned with your\n\
             \x20 # credentials (https, or ssh).\n\
             \x20 workspace: { enabled: true, clone: https }\n"
        } else {
            "\x20 # Where sessions start, relative to the directory that holds .the-loop.\n\
             \x20 spawnWorkdir: .\n\
             \x20 # A git work tree for each item instead (docs/workspaces.md):\n\
             \x20 # workspace: { enabled: true }\n"
        };
        // Only where it is wanted.
        let web = if self.web {
            "\x20 webTerminal:\n\
             \x20   # Sessions in the browser, on 127.0.0.1:7681.\n\
             \x20   enabled: true\n"
        } else {
            ""
        };
        format!(
            "# yaml-language-server: $schema={SCHEMA_URL}\n\
             # `the-loop config check` checks this file, `the-loop config show` shows every\n\
             # value in effect. All keys: docs/configuration.md.\n\
             \n\
             routing:\n\
             \x20 # The GitHub logins that are listened to. With none, nothing human is acted\n\
             \x20 # on; what others write never reaches an agent.\n\
             \x20 authorizedUsers: {users}\n\
             \x20 # The repositories that are listened to. With none: every one whose deliveries\n\
             \x20 # carry the right signature.\n\
             \x20 repositories: {repositories}\n\
             \x20 # When an event without a session starts one: never, labeled (the item has the\n\
             \x20 # label below, set by a listed user) or always.\n\
             \x20 spawnOnUnmatched: {spawn}\n\
             \x20 autoExecuteLabel: {label}\n\
             \x20 # The agent, and how it is hosted: tmux (a live terminal) or process (headless,\n\
             \x20 # one run for each event).\n\
             {others}\
             \x20 defaultHarness: {harness}\n\
             \x20 runner: {runner}\n\
             {place}\
             \x20 # harnessArgs: {{ claude: [--model, opus] }}\n\
             {web}\n\
             webhooks:\n\
             \x20 ghWebhook:\n\
             \x20   # Where the receiver listens; GitHub reaches it through a proxy or tunnel.\n\
             \x20   host: 127.0.0.1\n\
             \x20   port: 8787\n\
             \x20   path: /gh-webhook\n\
             \x20   # The secret never stands in this file: it is in this variable, or else in\n\
             \x20   # this file, which `the-loop init --github` makes.\n\
             \x20   secretEnv: THE_LOOP_GH_WEBHOOK_SECRET\n\
             \x20   secretFile: {secret_file}\n"
        )
    }

    /// The values that the text stands for.
    pub fn config(&self) -> Config {
        let mut config = Config::default();
        let routing = &mut config.routing;
        routing.runner = self.runner;
        routing.default_harness = self.harness.clone();
        routing.spawn_on_unmatched = self.spawn;
        routing.auto_execute_label.clone_from(&self.label);
        routing.authorized_users.clone_from(&self.users);
        routing.repositories.clone_from(&self.repositories);
        routing.workspace.enabled = self.worktrees;
        routing.web_terminal.enabled = self.web;
        config.webhooks.gh_webhook.secret_file = Some(self.secret_file.clone().into());
        config
    }
}

/// The hosts that the GitHub CLI knows, each with the login there, out of its
/// `hosts.yml`. The tokens that may stand there are not looked at.
pub fn gh_logins(text: &str) -> Vec<(String, Option<String>)> {
    let Ok(serde_yaml::Value::Mapping(hosts)) = serde_yaml::from_str(text) else {
        return Vec::new();
    };
    let is_login = |login: &&str| {
        (1..=100).contains(&login.len())
            && login.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    hosts
        .iter()
        .filter_map(|(host, about)| {
            let login = about.get("user").and_then(|user| user.as_str()).filter(is_login);
            Some((host.as_str()?.to_ascii_lowercase(), login.map(str::to_owned)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::parse;
    use super::*;

    fn starter() -> Starter {
        Starter {
            runner: RunnerKind::Tmux,
            harness: HarnessName::Demo,
            others: vec![HarnessName::Demo, HarnessName::Claude, HarnessName::Cursor],
            spawn: SpawnPolicy::Labeled,
            label: "the-loop: \"go\" # \\ now".to_owned(),
            users: vec!["null".to_owned(), "123".to_owned(), "me".to_owned()],
            repositories: vec![
                "octo/hello".parse().unwrap(),
                "ghe.corp:8443/octo/hello".parse().unwrap(),
            ],
            worktrees: true,
            web: true,
            secret_file: "~/a b: c".to_owned(),
        }
    }

    #[test]
    fn what_is_written_reads_back_as_what_was_meant() {
        let empty =
            Starter { users: Vec::new(), repositories: Vec::new(), web: false, ..starter() };
        let empty = Starter { worktrees: false, others: Vec::new(), ..empty };
        assert!(starter().text().contains("  # Also found here: claude, cursor.\n"));
        assert!(!empty.text().contains("Also found"), "nothing was");
        assert!(!empty.text().contains("webTerminal"), "it is off until it is wanted");
        for starter in [starter(), empty] {
            let text = starter.text();
            assert_eq!(parse(&text, Path::new("x")), Ok(starter.config()), "{text}");
            let wide = text.lines().skip(1).filter(|line| line.chars().count() > 82).count();
            assert_eq!(wide, 0, "{text}");
        }
    }

    #[test]
    fn logins_are_read_and_tokens_are_not() {
        let text = "github.com:\n    user: octocat\n    oauth_token: gho_x\n\
                    GHE.corp:\n    users:\n        a:\n\nodd:\n    user: 'a b'\n";
        let said = gh_logins(text);
        let said: Vec<_> =
            said.iter().map(|(host, login)| (host.as_str(), login.as_deref())).collect();
        assert_eq!(said, [("github.com", Some("octocat")), ("ghe.corp", None), ("odd", None)]);
        assert_eq!(gh_logins("[broken"), []);
    }
}
