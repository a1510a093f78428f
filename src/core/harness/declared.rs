//! A harness that is declared as data: its command lines are templates, what it
//! says and shows is known by signs. docs/harnesses.md tells how to write one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    DeliverProfile, HarnessAdapter, OneShotResult, OneShotSpec, Probe, Program, SETTLES_WITHIN,
    Seed, Signal, Source, StartPlan, StartSpec, TurnEnd, words,
};
use crate::base::ids::{HarnessSessionId, Marker};
use crate::base::text::{cap, visible};
use crate::core::config::{
    DeclaredHarness, DeclaredName, FirstRun, HarnessName, Identity, RecordRule, ResultSigns,
    RunnerKind, Sign,
};
use crate::core::inject::screen::{Reading, Screen};
use crate::core::platform::Version;

pub(super) mod screen;

/// A harness that is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    name: DeclaredName,
    says: DeclaredHarness,
    home: Option<PathBuf>,
}

impl Declared {
    /// One of this name. `home` is the user's.
    pub fn new(name: DeclaredName, says: &DeclaredHarness, home: Option<&Path>) -> Self {
        let says = says.whole(&name);
        Self { name, says, home: home.map(Path::to_path_buf) }
    }

    fn plan(&self, template: &[String], spec: &StartSpec<'_>) -> StartPlan {
        let trust = if spec.trusted { self.says.trust.as_slice() } else { &[] };
        // What is appended stands before a bare `-` or a sub-command's own end.
        let fill = |text: &String| filled(text, spec);
        let mut args = Vec::new();
        for word in template {
            match word.as_str() {
                "{trust}" => args.extend(trust.iter().map(fill)),
                "{args}" => args.extend(spec.extra_args.iter().cloned()),
                _ => args.push(fill(word)),
            }
        }
        if !template.iter().any(|word| word == "{args}") {
            args.extend(spec.extra_args.iter().cloned());
        }
        let env = self.says.env.iter().map(|(name, value)| (name.clone(), filled(value, spec)));
        StartPlan { args, env: env.collect() }
    }

    fn path(&self, text: &str) -> Option<PathBuf> {
        match text.strip_prefix("~/") {
            Some(rest) => self.home.as_ref().map(|home| home.join(rest)),
            None => Some(PathBuf::from(text)).filter(|path| path.is_absolute()),
        }
    }
}

impl HarnessAdapter for Declared {
    fn name(&self) -> HarnessName {
        HarnessName::Declared(self.name.clone())
    }

    fn program(&self) -> Program {
        let says = &self.says;
        Program::Looked(Probe {
            program: says.program.clone().unwrap_or_default(),
            args: says.probe.clone(),
            minimum: says.minimum.as_deref().and_then(Version::parse),
            install: says.install.clone(),
        })
    }

    fn identity(&self) -> Identity {
        self.says.identity.unwrap_or_default()
    }

    fn can_be(&self, runner: RunnerKind) -> bool {
        match runner {
            RunnerKind::Tmux => !self.says.spawn.is_empty(),
            RunnerKind::Process => !self.says.one_shot.is_empty(),
        }
    }

    fn seeds(&self, hook_command: &str) -> Vec<Seed> {
        let seed = |(path, content): (&String, &Value)| {
            let content = with_hook(content, hook_command);
            Seed { path: path.clone(), content }
        };
        self.says.files.iter().map(seed).collect()
    }

    fn first_run(&self) -> &[FirstRun] {
        &self.says.first_run
    }

    fn create(&self, spec: &StartSpec<'_>) -> Option<StartPlan> {
        let is_made = self.identity() == Identity::Created;
        is_made.then(|| self.plan(&self.says.create, &StartSpec { extra_args: &[], ..*spec }))
    }

    fn start(&self, spec: &StartSpec<'_>) -> StartPlan {
        let says = &self.says;
        let template = if spec.resume { &says.resume } else { &says.spawn };
        self.plan(template, spec)
    }

    fn oneshot(&self, spec: &OneShotSpec<'_>) -> StartPlan {
        let says = &self.says;
        let template = if spec.start.resume { &says.resume_one_shot } else { &says.one_shot };
        self.plan(template, &spec.start)
    }

    fn parse_result(&self, stdout: &[u8]) -> OneShotResult {
        parse(&self.says.result, stdout)
    }

    fn shows(&self) -> Option<Vec<RecordRule>> {
        Some(self.says.result.shows.clone())
    }

    fn refuses_resume(&self, said: &str) -> bool {
        self.says.refusals.resume.iter().any(|text| said.contains(text))
    }

    fn refuses_start(&self, said: &str) -> bool {
        self.says.refusals.start.iter().any(|text| said.contains(text))
    }

    fn read_screen(&self, screen: &Screen<'_>) -> Reading {
        screen::read(&self.says.screen, screen)
    }

    fn is_loading(&self, screen: &Screen<'_>) -> bool {
        screen::is_loading(&self.says.screen, screen)
    }

    fn profile(&self) -> DeliverProfile {
        let typing = &self.says.typing;
        let time = |ms: Option<u32>| Duration::from_millis(ms.unwrap_or_default().into());
        let signals = &self.says.signals;
        DeliverProfile {
            submit: typing.submit.unwrap_or_default(),
            submit_gap: time(typing.gap_ms),
            submit_retries: typing.retries.unwrap_or_default(),
            retry_gap: time(typing.retry_gap_ms),
            ack_timeout: time(typing.proof_ms),
            gives_proof: !signals.accepted.is_empty() || !self.says.transcript.proof.is_empty(),
            stashes: false,
            settles_within: SETTLES_WITHIN,
            ready_by_screen: self.says.screen.says_ready || signals.ready.is_empty(),
        }
    }

    fn signal_of(&self, raw: &Value) -> Option<Signal> {
        let signs = &self.says.signals;
        let any = |signs: &[Sign]| signs.iter().any(|sign| sign.fits(raw));
        if any(&signs.ready) {
            let Source { conversation, transcript } = self.source_of(raw);
            return Some(Signal::Ready { session_id: conversation?, transcript });
        }
        if any(&signs.accepted) {
            return Some(Signal::Accepted { prompt: text_at(raw, &signs.prompt)? });
        }
        if any(&signs.waiting) {
            let what = text_at(raw, &signs.question).unwrap_or_else(|| "permission".to_owned());
            return Some(Signal::Waiting { what: cap(&visible(&what), 200) });
        }
        if any(&signs.turn_ended) {
            return Some(Signal::TurnEnded);
        }
        any(&signs.ended).then(|| Signal::Ended { reason: "ended".to_owned() })
    }

    fn source_of(&self, raw: &Value) -> Source {
        let signs = &self.says.signals;
        Source {
            conversation: text_at(raw, &signs.conversation).and_then(|id| id.parse().ok()),
            transcript: text_at(raw, &signs.transcript).map(PathBuf::from),
        }
    }

    fn transcript_of(&self, conversation: &HarnessSessionId) -> Option<PathBuf> {
        let path = self.says.transcript.path.as_ref()?;
        self.path(&path.replace("{id}", conversation.as_str()))
    }

    fn transcript_has(&self, transcript_line: &str, marker: &Marker) -> bool {
        if !transcript_line.contains(marker.as_str()) {
            return false;
        }
        let Ok(record) = serde_json::from_str::<Value>(transcript_line) else { return false };
        let signs = &self.says.transcript;
        signs.proof.iter().any(|sign| sign.fits(&record))
            && text_at(&record, &signs.prompt).is_some_and(|text| text.contains(marker.as_str()))
    }

    fn transcript_says(&self, line: &str, text: &str, since: Timestamp) -> bool {
        let signs = &self.says.transcript;
        words::declared(&signs.words, &signs.at, line, text, since)
    }

    fn output_says(&self, line: &str, text: &str, since: Timestamp) -> bool {
        let signs = &self.says.result;
        words::declared(&signs.shows, &signs.at, line, text, since)
    }
}

/// The first text at one of these places: a string, or the texts of a list.
fn text_at(record: &Value, pointers: &[String]) -> Option<String> {
    pointers.iter().find_map(|pointer| match record.pointer(pointer)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Array(parts) => {
            let texts: Vec<_> =
                parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
            (!texts.is_empty()).then(|| texts.join("\n"))
        }
        _ => None,
    })
}

/// A template with what it names in its place. One pass: what was put in is not
/// looked at again.
fn filled(template: &str, spec: &StartSpec<'_>) -> String {
    let cwd = spec.cwd.to_string_lossy();
    let quoted = |text: &str| Value::from(text).to_string();
    let values: [(&str, &dyn Fn() -> String); 5] = [
        ("{id}", &|| spec.session_id.as_str().to_owned()),
        ("{cwdString}", &|| quoted(&cwd)),
        ("{cwd}", &|| cwd.to_string()),
        ("{hookString}", &|| quoted(spec.hook_command)),
        ("{hook}", &|| spec.hook_command.to_owned()),
    ];
    let mut out = String::new();
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        rest = &rest[open..];
        if let Some((name, value)) = values.iter().find(|(name, _)| rest.starts_with(name)) {
            out.push_str(&value());
            rest = &rest[name.len()..];
        } else {
            out.push('{');
            rest = &rest[1..];
        }
    }
    out + rest
}

/// The content of a file with the hook's command in its place.
pub(super) fn with_hook(content: &Value, hook_command: &str) -> Value {
    match content {
        Value::String(text) => Value::from(text.replace("{hook}", hook_command)),
        Value::Array(items) => items.iter().map(|item| with_hook(item, hook_command)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), with_hook(value, hook_command)))
            .collect(),
        other => other.clone(),
    }
}

/// What a turn printed: one JSON object, or one in a line.
pub(super) fn parse(signs: &ResultSigns, stdout: &[u8]) -> OneShotResult {
    let text = String::from_utf8_lossy(stdout);
    if text.trim().is_empty() {
        return OneShotResult::Nothing;
    }
    let records: Vec<Value> = match serde_json::from_str(text.trim()) {
        Ok(whole) => vec![whole],
        Err(_) => text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(),
    };
    let any = |signs: &[Sign], record: &Value| signs.iter().any(|sign| sign.fits(record));
    let last =
        |pointers: &[String]| records.iter().rev().find_map(|record| text_at(record, pointers));
    let failed = records.iter().find(|record| any(&signs.failed, record));
    let ended = records.iter().rev().find(|record| any(&signs.ended, record));
    let (is_error, text) = match (failed, ended) {
        (Some(record), _) => (true, text_at(record, &signs.text)),
        (None, _) if records.iter().any(|record| any(&signs.cut, record)) => {
            return OneShotResult::Cut;
        }
        (None, Some(_)) => (false, last(&signs.text)),
        (None, None) => return OneShotResult::Cut,
    };
    OneShotResult::Ended(TurnEnd {
        session_id: last(&signs.conversation).and_then(|id| id.parse().ok()),
        is_error,
        text: text.unwrap_or_default(),
        cost_usd: None,
        duration_ms: None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::core::harness::{Harness, Harnesses};

    fn harness(name: &str) -> Harness {
        let harnesses = Harnesses::new(&BTreeMap::new(), Some(Path::new("/home/me")));
        harnesses.get(&name.parse().unwrap()).unwrap()
    }

    fn spec(id: &HarnessSessionId, resume: bool, trusted: bool) -> StartSpec<'_> {
        StartSpec {
            session_id: id,
            resume,
            hook_command: "'/opt/the \"loop' hook",
            extra_args: &[],
            cwd: Path::new("/w/{id}"),
            trusted,
            version: None,
        }
    }

    #[test]
    fn a_template_is_filled_once_and_what_is_put_in_stays_as_it_is() {
        let id: HarnessSessionId = "abc".parse().unwrap();
        let spec = spec(&id, false, true);
        for (template, filled_in) in [
            ("{id}", "abc"),
            ("--x={id}", "--x=abc"),
            ("{cwd}", "/w/{id}"),
            ("p={{cwdString}={a=1}}", "p={\"/w/{id}\"={a=1}}"),
            ("{hookString}", "\"'/opt/the \\\"loop' hook\""),
            ("{other} {", "{other} {"),
        ] {
            assert_eq!(filled(template, &spec), filled_in);
        }
    }

    #[test]
    fn what_a_fork_sent_is_not_trusted() {
        let id: HarnessSessionId = "abc".parse().unwrap();
        let codex = harness("codex");
        let has_trust = |trusted| {
            let args = codex.start(&spec(&id, false, trusted)).args;
            args.iter().any(|arg| arg.contains("trust_level"))
        };
        assert!(has_trust(true) && !has_trust(false));
    }

    #[test]
    fn a_turn_of_copilot_that_was_cut_off_has_no_result_whatever_it_prints() {
        let copilot = harness("copilot");
        let end = r#"{"type":"result","sessionId":"abc","exitCode":0}"#;
        let abort = r#"{"type":"abort","data":{"reason":"user_initiated"}}"#;
        let failed = r#"{"type":"session.error","data":{"message":"no model"}}"#;
        let ended = |lines: &[&str]| copilot.parse_result(lines.join("\n").as_bytes());
        assert!(matches!(ended(&[end]), OneShotResult::Ended(turn) if !turn.is_error));
        assert_eq!(ended(&[abort, end]), OneShotResult::Cut);
        assert!(matches!(ended(&[failed, abort, end]), OneShotResult::Ended(t) if t.is_error));
    }

    #[test]
    fn what_codex_and_gemini_print_at_the_end_of_a_turn_is_understood() {
        let codex = harness("codex");
        let begun = r#"{"type":"thread.started","thread_id":"01a2-b3"}"#;
        let said = r#"{"type":"item.completed","item":{"type":"agent_message","text":"done"}}"#;
        let end = r#"{"type":"turn.completed","usage":{"input_tokens":1}}"#;
        let failed = r#"{"type":"turn.failed","error":{"message":"no model"}}"#;
        let ended = |lines: &[&str]| codex.parse_result(lines.join("\n").as_bytes());
        let OneShotResult::Ended(turn) = ended(&[begun, said, end]) else { unreachable!() };
        assert_eq!((turn.is_error, turn.text.as_str()), (false, "done"));
        assert_eq!(turn.session_id.unwrap().as_str(), "01a2-b3");
        let OneShotResult::Ended(turn) = ended(&[begun, failed]) else { unreachable!() };
        assert_eq!((turn.is_error, turn.text.as_str()), (true, "no model"));
        assert_eq!(ended(&[begun, said]), OneShotResult::Cut);
        assert_eq!(ended(&[" "]), OneShotResult::Nothing);
        let gemini = harness("gemini");
        let whole = include_bytes!("../../../tests/fixtures/turns/gemini.jsonl");
        let OneShotResult::Ended(turn) = gemini.parse_result(whole) else { unreachable!() };
        assert_eq!(turn.session_id.unwrap().as_str(), "11111111-1111-4111-8111-111111111111");
        assert!(!turn.is_error);
        assert_eq!(gemini.parse_result(&whole[..whole.len() - 4]), OneShotResult::Cut);
        // A tool that failed is no failed turn.
        let tool = r#"{"type":"tool_result","status":"error","error":{"message":"no file"}}"#;
        let end = |status: &str| {
            let end = json!({"type": "result", "status": status, "error": {"message": "quota"}});
            gemini.parse_result(format!("{tool}\n{end}").as_bytes())
        };
        let OneShotResult::Ended(turn) = end("success") else { unreachable!() };
        assert!(!turn.is_error);
        let OneShotResult::Ended(turn) = end("error") else { unreachable!() };
        assert_eq!((turn.is_error, turn.text.as_str()), (true, "quota"));
        // One JSON object over several lines.
        let signs = ResultSigns {
            ended: vec!["/response".parse().unwrap()],
            text: vec!["/response".to_owned()],
            ..ResultSigns::default()
        };
        let pretty = serde_json::to_vec_pretty(&json!({"response": "ok", "stats": {}})).unwrap();
        let OneShotResult::Ended(turn) = parse(&signs, &pretty) else { unreachable!() };
        assert_eq!((turn.is_error, turn.text.as_str()), (false, "ok"));
        assert_eq!(parse(&signs, &pretty[..pretty.len() - 4]), OneShotResult::Cut);
    }

    #[test]
    fn the_signals_of_a_declared_harness_mean_what_it_declares() {
        let codex = harness("codex");
        let raw = json!({"hook_event_name": "UserPromptSubmit", "prompt": "x", "session_id": "i-1",
            "transcript_path": "/t"});
        assert_eq!(codex.signal_of(&raw), Some(Signal::Accepted { prompt: "x".into() }));
        let source = codex.source_of(&raw);
        assert_eq!(source.conversation.unwrap().as_str(), "i-1");
        assert_eq!(source.transcript, Some("/t".into()));
        let asks = json!({"hook_event_name": "PermissionRequest",
            "tool_input": {"command": "touch\n\u{1b}x"}});
        let what = "touch\\n\\x1bx".to_owned();
        assert_eq!(codex.signal_of(&asks), Some(Signal::Waiting { what }));
        assert_eq!(codex.signal_of(&json!({"hook_event_name": "Other"})), None);
        assert_eq!(codex.signal_of(&json!(3)), None);
    }
}
