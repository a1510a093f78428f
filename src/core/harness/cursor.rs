//! Cursor's agent as a harness. Written from what is documented of it; no real
//! one has been run (docs/harnesses.md says what follows from that).

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    DeliverProfile, HarnessAdapter, OneShotSpec, Probe, Program, SETTLES_WITHIN, Seed, Signal,
    Source, StartPlan, StartSpec, declared,
};
use crate::base::ids::{HarnessSessionId, Marker};
use crate::core::config::{HarnessName, Identity, ScreenSigns, SubmitKey};
use crate::core::inject::screen::{Reading, Screen};
use crate::core::platform::Version;

/// The hooks that we listen to. One name that it does not know would void the
/// user's whole file, so these are the ones that every version has.
const HOOKS: [&str; 2] = ["beforeSubmitPrompt", "stop"];

/// The first version that takes `--trust` in a terminal; older ones end.
const TRUST_SINCE: &str = "2026.07.20";

/// Cursor's agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor;

impl HarnessAdapter for Cursor {
    fn name(&self) -> HarnessName {
        HarnessName::Cursor
    }

    fn program(&self) -> Program {
        Program::Looked(Probe {
            program: "cursor-agent".to_owned(),
            args: vec!["--version".to_owned()],
            minimum: None,
            install: Some("curl https://cursor.com/install -fsS | bash".to_owned()),
        })
    }

    /// An id that it does not know starts an empty chat under another one,
    /// silently: so it makes each id itself.
    fn identity(&self) -> Identity {
        Identity::Created
    }

    /// A command with an address in it voids the file; a hook that answers
    /// nothing is not documented.
    fn seeds(&self, hook_command: &str) -> Vec<Seed> {
        let run = json!([{ "command": format!("{hook_command} --json") }]);
        let hooks: serde_json::Map<_, _> =
            HOOKS.iter().map(|hook| ((*hook).to_owned(), run.clone())).collect();
        let content = json!({ "version": 1, "hooks": hooks });
        vec![Seed { path: "~/.cursor/hooks.json".to_owned(), content }]
    }

    fn create(&self, _spec: &StartSpec<'_>) -> Option<StartPlan> {
        Some(StartPlan { args: vec!["create-chat".to_owned()], env: Vec::new() })
    }

    fn start(&self, spec: &StartSpec<'_>) -> StartPlan {
        let mut args = vec!["--resume".to_owned(), spec.session_id.as_str().to_owned()];
        let since = Version::parse(TRUST_SINCE);
        if spec.trusted && spec.version.is_some_and(|version| since.is_some_and(|s| *version >= s))
        {
            args.push("--trust".to_owned());
        }
        args.extend(spec.extra_args.iter().cloned());
        StartPlan { args, env: Vec::new() }
    }

    /// Without a terminal every version takes `--trust`, and none runs a hook.
    fn oneshot(&self, spec: &OneShotSpec<'_>) -> StartPlan {
        let form = if spec.stream { "stream-json" } else { "json" };
        let id = spec.start.session_id.as_str();
        let mut args: Vec<_> =
            ["-p", "--output-format", form, "--resume", id].map(str::to_owned).into();
        if spec.start.trusted {
            args.push("--trust".to_owned());
        }
        args.extend(spec.start.extra_args.iter().cloned());
        StartPlan { args, env: Vec::new() }
    }

    /// It refuses none: it begins an empty one.
    fn refuses_resume(&self, _said: &str) -> bool {
        false
    }

    fn refuses_start(&self, _said: &str) -> bool {
        false
    }

    fn read_screen(&self, screen: &Screen<'_>) -> Reading {
        declared::screen::read(&signs(), screen)
    }

    /// A submit key that comes with the paste is not one, and long pastes often
    /// need a second.
    fn profile(&self) -> DeliverProfile {
        DeliverProfile {
            submit: SubmitKey::Enter,
            submit_gap: Duration::from_millis(300),
            submit_retries: 4,
            retry_gap: Duration::from_millis(1500),
            ack_timeout: Duration::from_secs(8),
            gives_proof: true,
            stashes: false,
            settles_within: SETTLES_WITHIN,
            ready_by_screen: true,
        }
    }

    fn signal_of(&self, raw: &Value) -> Option<Signal> {
        let text = |key: &str| raw.get(key).and_then(Value::as_str);
        match text("hook_event_name")? {
            "beforeSubmitPrompt" => Some(Signal::Accepted { prompt: text("prompt")?.to_owned() }),
            "stop" => Some(Signal::TurnEnded),
            _ => None,
        }
    }

    fn source_of(&self, raw: &Value) -> Source {
        let text = |key: &str| raw.get(key).and_then(Value::as_str);
        Source {
            conversation: text("conversation_id").and_then(|id| id.parse().ok()),
            transcript: None,
        }
    }

    fn may_call(&self, conversation: &HarnessSessionId) -> bool {
        conversation.is_uuid()
    }

    /// The form of its transcript is not documented: the hook says everything.
    fn transcript_has(&self, _line: &str, _marker: &Marker) -> bool {
        false
    }
}

fn signs() -> ScreenSigns {
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    ScreenSigns {
        prompt: Some("→".to_owned()),
        hints: texts(&["Plan, search, build anything", "Add a follow-up"]),
        busy: texts(&["ctrl+c to stop"]),
        dialog: texts(&["waiting for approval", "[a] trust", "mcp server approval"]),
        ..ScreenSigns::default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn spec<'a>(
        id: &'a HarnessSessionId,
        trusted: bool,
        version: Option<&'a Version>,
    ) -> StartSpec<'a> {
        StartSpec {
            session_id: id,
            resume: false,
            hook_command: "/bin/the-loop hook",
            extra_args: &[],
            cwd: Path::new("/w"),
            trusted,
            version,
        }
    }

    #[test]
    fn trust_is_given_only_to_a_version_that_takes_it_and_a_tree_that_may_have_it() {
        let id = HarnessSessionId::uuid([1; 16]);
        for (version, trusted, given) in [
            (Some("2026.09.10-fd3934a"), true, true),
            (Some("2026.07.20"), true, true),
            (Some("2026.06.15"), true, false),
            (Some("2026.09.10"), false, false),
            (None, true, false),
        ] {
            let version = version.and_then(Version::parse);
            let spec = spec(&id, trusted, version.as_ref());
            let has = |plan: StartPlan| plan.args.contains(&"--trust".to_owned());
            assert_eq!(has(Cursor.start(&spec)), given, "{version:?} {trusted}");
            let once = Cursor.oneshot(&OneShotSpec { start: spec, stream: false });
            assert_eq!(has(once), trusted);
        }
    }

    #[test]
    fn its_hooks_file_names_known_events_and_no_address() {
        let seeds = Cursor.seeds("'/opt/the loop' hook");
        let hooks = seeds[0].content["hooks"].as_object().unwrap();
        assert_eq!(hooks.keys().collect::<Vec<_>>(), ["beforeSubmitPrompt", "stop"]);
        assert!(!seeds[0].content.to_string().contains("://"));
    }
}
