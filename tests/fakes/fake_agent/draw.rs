//! What each agent draws: its box with what stands in it, its questions.

use std::io;

use rustix::termios::tcgetwinsize;

use crate::Fake;
use crate::args::Kind;
use crate::streams::print;

impl Fake {
    pub(crate) fn draw(&self) {
        let size = tcgetwinsize(io::stdout()).unwrap();
        let columns = usize::from(size.ws_col).max(40);
        let busy = self.turn_ends.is_some();
        let mut out = String::from("\x1b[2J\x1b[H");
        let title = match (self.kind, self.in_dialog, busy) {
            (Kind::Codex, _, true) => "⠋ a name | work",
            (Kind::Gemini, true, _) => "✋  Action Required",
            (Kind::Gemini, _, true) => "✦  Working…",
            _ => "a name",
        };
        for told in &self.told[self.told.len().saturating_sub(8)..] {
            out.push_str(&format!("{}\r\n", told.chars().take(columns - 1).collect::<String>()));
        }
        if self.in_dialog {
            out.push_str("\r\n");
            out.push_str(match self.kind {
                Kind::Gemini if self.script.mode == "first-run" => {
                    "│   How would you like to authenticate for this project?\r\n│\r\n\
                     │   ● 1. Sign in with Google\r\n│     2. Use Gemini API Key"
                }
                Kind::Codex if self.script.mode == "first-run" => {
                    "  Choose how you want to use Codex.\r\n\r\n> 1. Sign in with ChatGPT\r\n\
                     \x20 2. Sign in another way\r\n\r\n  Press enter to continue"
                }
                Kind::Codex => "  Would you like to run the following command?\r\n\r\n› 1. Yes, proceed (y)\r\n  2. No\r\n\r\n  Press enter to confirm or esc to cancel",
                Kind::Gemini => "│ Allow execution of [Shell]?\r\n│ ● 1. Allow once\r\n│   2. No (esc)",
                Kind::Copilot => "│ Do you want to run this command?\r\n│ ❯ 1. Yes\r\n│   2. No\r\n│ ↑/↓ to navigate · enter to select · esc to cancel",
                _ => "  Waiting for approval...\r\n  [y] Run  [n] Skip",
            });
            out.push_str("\x1b[H");
            return print(&format!("\x1b]2;{title}\x07{out}"));
        }
        if busy {
            out.push_str(match self.kind {
                Kind::Codex => "\r\n• Working (0s • esc to interrupt)\r\n",
                Kind::Gemini => "\r\n ⠼ Thinking... (esc to cancel, 2s)\r\n",
                _ => "\r\n",
            });
        }
        let (sign, hint) = match self.kind {
            Kind::Codex => ("› ", "\x1b[2mAsk Codex to do anything\x1b[m"),
            Kind::Gemini => (" > ", "  Type your message or @path/to/file"),
            Kind::Cursor => ("  → ", "\x1b[2mPlan, search, build anything\x1b[m"),
            _ => ("❯ ", ""),
        };
        let indent = sign.chars().count();
        let rule = "─".repeat(columns);
        out.push_str(&format!("\r\n{rule}\r\n\x1b[1m{sign}\x1b[m"));
        let rows = self.content(columns - indent - 1);
        if self.text.is_empty() {
            out.push_str(&format!("\x1b7{hint}"));
        } else {
            out.push_str(&rows.join(&format!("\r\n{}", " ".repeat(indent))));
            out.push_str("\x1b7");
        }
        out.push_str(match (self.kind, busy) {
            (Kind::Copilot, true) => "\r\n──\r\n ◎ Working · 4 B esc esc interrupt",
            (Kind::Copilot, false) => "\r\n──\r\n Interactive · Manual Approval · / commands",
            (Kind::Cursor, true) => "\r\n\r\n  ctrl+c to stop",
            // As before it is up.
            (Kind::Codex, _) if self.script.mode == "first-run" => "\r\n\r\n  ? for shortcuts",
            (Kind::Codex, _) => "\r\n\r\n  mock-model default · /work",
            _ => "\r\n\r\n workspace (/directory)",
        });
        out.push_str("\x1b8");
        print(&format!("\x1b]2;{title}\x07{out}"));
    }

    fn content(&self, width: usize) -> Vec<String> {
        let mut rows = vec![String::new()];
        for piece in &self.text {
            let shown = match piece {
                Ok('\n') => {
                    rows.push(String::new());
                    continue;
                }
                Ok(c) => c.to_string(),
                Err(paste) => paste.split_once('\0').unwrap().0.to_owned(),
            };
            if rows.last().unwrap().chars().count() + shown.chars().count() > width {
                rows.push(String::new());
            }
            rows.last_mut().unwrap().push_str(&shown);
        }
        rows
    }
}
