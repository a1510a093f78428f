//! What the demo agent does with a key: pure, so that it can be read and tested
//! without a terminal.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::editor::Editor;
use super::keys::Key;
use super::view::{Entry, Look};
use crate::base::ids::HarnessSessionId;
use crate::base::text::{cap, count, visible};

/// What a key leads to.
#[derive(Debug, PartialEq)]
pub(super) enum Effect {
    /// Something for the transcript.
    Print(Entry),
    /// A signal for the spool, in the form of Claude's hooks.
    Signal(Value),
    /// A new title of the pane.
    Title(String),
    /// A turn starts now.
    TurnStarts,
    /// The program ends.
    Ended,
}

#[derive(Debug)]
pub(super) struct Agent {
    session: String,
    resumed: bool,
    editor: Editor,
    /// The prompt of the running turn.
    turn: Option<String>,
    /// Prompts that wait for the end of the turn.
    queue: VecDeque<String>,
    /// `^C` was pressed once.
    leaving: bool,
    has_title: bool,
}

impl Agent {
    pub(super) fn new(session: &HarnessSessionId, resumed: bool) -> Self {
        Self {
            session: session.as_str().to_owned(),
            resumed,
            editor: Editor::default(),
            turn: None,
            queue: VecDeque::new(),
            leaving: false,
            has_title: false,
        }
    }

    /// The first lines, and the signal that prompts are taken from now on.
    pub(super) fn greet(&self) -> Vec<Effect> {
        let verb = if self.resumed { "resumed" } else { "started" };
        vec![
            Effect::Title("the-loop demo agent".to_owned()),
            Effect::Print(Entry::Remark(format!(
                "The demo agent of the-loop {verb} session {}.\n\
                 It repeats what it is told, and does nothing else.",
                self.session
            ))),
            Effect::Signal(json!({
                "hook_event_name": "SessionStart",
                "source": if self.resumed { "resume" } else { "startup" },
            })),
        ]
    }

    pub(super) fn is_busy(&self) -> bool {
        self.turn.is_some()
    }

    /// What the box and the lines around it show.
    pub(super) fn look(&self) -> Look {
        Look {
            text: self.editor.shown(),
            busy: self.is_busy(),
            queued: self.queue.len(),
            leaving: self.leaving,
        }
    }

    pub(super) fn press(&mut self, key: Key) -> Vec<Effect> {
        let was_leaving = std::mem::take(&mut self.leaving);
        match key {
            Key::Char(c) => self.editor.insert(c),
            Key::Newline => self.editor.insert('\n'),
            Key::Paste(text) => self.editor.paste(text),
            Key::Backspace => self.editor.backspace(),
            Key::Clear => self.editor.clear(),
            Key::Interrupt if was_leaving => return Self::end("prompt_input_exit"),
            Key::Interrupt => {
                self.editor.clear();
                self.leaving = true;
            }
            Key::End if self.editor.is_empty() => return Self::end("prompt_input_exit"),
            Key::End => {}
            Key::Enter => return self.submit(),
        }
        Vec::new()
    }

    fn submit(&mut self) -> Vec<Effect> {
        let prompt = self.editor.take();
        if prompt.trim().is_empty() {
            return Vec::new();
        }
        let mut effects = vec![Effect::Signal(json!({
            "hook_event_name": "UserPromptSubmit",
            "prompt": prompt,
        }))];
        if self.is_busy() {
            self.queue.push_back(prompt);
        } else {
            effects.extend(self.start_turn(prompt));
        }
        effects
    }

    fn start_turn(&mut self, prompt: String) -> Vec<Effect> {
        let mut effects = Vec::new();
        if !self.has_title
            && let Some(headline) = headline(&prompt)
        {
            effects.push(Effect::Title(headline));
            self.has_title = true;
        }
        effects.extend([Effect::Print(Entry::Prompt(prompt.clone())), Effect::TurnStarts]);
        self.turn = Some(prompt);
        effects
    }

    /// The turn is over: answers, and goes on with what waits.
    pub(super) fn end_turn(&mut self) -> Vec<Effect> {
        let Some(prompt) = self.turn.take() else { return Vec::new() };
        let lines = count(prompt.lines().count(), "line");
        let answer = format!("Received {lines}, {} bytes.", prompt.len());
        let mut effects = vec![
            Effect::Print(Entry::Answer(answer.clone())),
            Effect::Signal(json!({
                "hook_event_name": "Stop",
                "last_assistant_message": answer,
            })),
        ];
        if let Some(next) = self.queue.pop_front() {
            effects.extend(self.start_turn(next));
        }
        effects
    }

    /// The program ends.
    pub(super) fn end(reason: &str) -> Vec<Effect> {
        vec![
            Effect::Print(Entry::Remark("The demo agent ended.".to_owned())),
            Effect::Signal(json!({ "hook_event_name": "SessionEnd", "reason": reason })),
            Effect::Ended,
        ]
    }
}

/// The first line of a prompt that says something: one that carries a delivery's
/// marker is not for people.
fn headline(prompt: &str) -> Option<String> {
    let has_marker =
        |line: &str| line.split(|c: char| !c.is_ascii_hexdigit()).any(|word| word.len() == 32);
    prompt
        .lines()
        .map(|line| line.trim_start_matches(['#', ' ']).trim())
        .find(|line| line.chars().any(char::is_alphanumeric) && !has_marker(line))
        .map(|line| cap(&visible(line), 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent() -> Agent {
        Agent::new(&"s-1".parse().unwrap(), false)
    }

    fn typed(agent: &mut Agent, text: &str) -> Vec<Effect> {
        text.chars()
            .flat_map(|c| agent.press(if c == '\r' { Key::Enter } else { Key::Char(c) }))
            .collect()
    }

    fn signals(effects: &[Effect]) -> Vec<&str> {
        effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Signal(signal) => signal["hook_event_name"].as_str(),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn a_prompt_is_a_turn_with_its_signals() {
        let mut agent = agent();
        assert_eq!(signals(&agent.greet()), ["SessionStart"]);
        let effects = typed(&mut agent, "hello\r");
        assert_eq!(signals(&effects), ["UserPromptSubmit"]);
        assert!(effects.contains(&Effect::TurnStarts) && agent.is_busy());
        assert_eq!(agent.look().text, "");
        assert_eq!(signals(&agent.end_turn()), ["Stop"]);
        assert!(!agent.is_busy());
    }

    #[test]
    fn a_prompt_in_the_middle_of_a_turn_gets_a_turn_of_its_own() {
        let mut agent = agent();
        typed(&mut agent, "one\r");
        let effects = typed(&mut agent, "two\r");
        assert_eq!(signals(&effects), ["UserPromptSubmit"]);
        assert_eq!(agent.look().queued, 1);
        let effects = agent.end_turn();
        assert_eq!(signals(&effects), ["Stop"]);
        assert!(effects.contains(&Effect::Print(Entry::Prompt("two".into()))));
        assert!(agent.is_busy());
        agent.end_turn();
        assert!(!agent.is_busy());
    }

    #[test]
    fn an_empty_box_submits_nothing() {
        let mut agent = agent();
        assert!(typed(&mut agent, "\r \r").is_empty());
        assert!(!agent.is_busy());
    }

    #[test]
    fn control_bytes_in_a_paste_are_part_of_the_prompt() {
        let mut agent = agent();
        assert!(agent.press(Key::Paste("a\u{3}\u{3}\u{4}\u{15}b".into())).is_empty());
        let effects = agent.press(Key::Enter);
        assert!(matches!(
            &effects[0],
            Effect::Signal(signal) if signal["prompt"] == "a\u{3}\u{3}\u{4}\u{15}b"
        ));
    }

    #[test]
    fn only_a_second_interrupt_in_a_row_or_an_end_on_an_empty_box_leaves() {
        let mut agent = agent();
        agent.press(Key::Interrupt);
        assert!(agent.look().leaving);
        typed(&mut agent, "x");
        assert!(agent.press(Key::End).is_empty());
        assert!(agent.press(Key::Interrupt).is_empty());
        assert_eq!(agent.look().text, "");
        assert_eq!(agent.press(Key::Interrupt).last(), Some(&Effect::Ended));
        assert_eq!(self::agent().press(Key::End).last(), Some(&Effect::Ended));
    }

    #[test]
    fn the_headline_is_the_first_line_for_people() {
        let prompt = format!("[the-loop event {}]\n\n## Fix \u{1b}[31m it\nmore", "0a".repeat(16));
        assert_eq!(headline(&prompt).as_deref(), Some("Fix \\x1b[31m it"));
        assert_eq!(headline("\n--\n"), None);
    }
}
