//! What keys do: in the box with its cursor, its vi mode and its pastes, in a dialog,
//! in a viewer.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::script::Mode;
use crate::streams::print;
use crate::{Fake, Focus};

impl Fake {
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        if let Some(paste) = &mut self.paste {
            paste.push(byte);
            if paste.ends_with(b"\x1b[201~") {
                let mut paste = self.paste.take().unwrap();
                paste.truncate(paste.len() - 6);
                self.pasted(&paste);
            }
            return false;
        }
        if let Some(sequence) = &mut self.sequence {
            sequence.push(byte);
            let is_long = sequence.len() > 1 && (0x40..=0x7e).contains(&byte);
            if sequence == b"\x1b" {
                // The first was the key by itself.
                self.sequence = Some(Vec::new());
                self.escape();
            } else if sequence[0] != b'[' || is_long {
                let sequence = self.sequence.take().unwrap();
                match sequence.as_slice() {
                    b"[200~" => self.paste = Some(Vec::new()),
                    b"[D" if self.focus == Focus::Box => self.at = self.at.saturating_sub(1),
                    b"[C" if self.focus == Focus::Box => {
                        self.at = (self.at + 1).min(self.text.len());
                    }
                    b"[13u" if self.script.mode == Mode::NamedKey => return self.enter(),
                    _ => {}
                }
            }
            return false;
        }
        if byte == 0x1b {
            self.sequence = Some(Vec::new());
            return false;
        }
        match self.focus {
            Focus::Box => self.key(byte),
            Focus::Overlay => {
                self.note(&json!({ "overlayKey": hex::encode([byte]) }));
                false
            }
            Focus::Dialog => {
                self.note(&json!({ "dialogKey": hex::encode([byte]) }));
                if byte == b'n' {
                    self.focus = Focus::Box;
                }
                if byte == b'\r' && self.script.mode != Mode::NeverReady {
                    self.note(&json!({ "dialog": "approved" }));
                    self.focus = Focus::Box;
                }
                false
            }
        }
    }

    /// The Escape key by itself.
    pub(crate) fn escape(&mut self) {
        if self.focus == Focus::Overlay {
            self.focus = Focus::Box;
        } else if self.focus == Focus::Box && self.script.vim && !self.vim_normal {
            self.vim_normal = true;
            self.at = self.at.saturating_sub(1);
        }
    }

    pub(crate) fn key(&mut self, byte: u8) -> bool {
        let was_leaving = std::mem::take(&mut self.leaving);
        match byte {
            b'\r' if self.script.mode == Mode::NamedKey => {}
            b'\r' if self.script.enter_alone && !self.is_alone => {}
            b'\r' => return self.enter(),
            b'\n' if self.script.mode == Mode::Canonical => return self.enter(),
            0x03 if was_leaving => return true,
            0x03 => {
                self.put(Vec::new());
                self.leaving = true;
            }
            0x04 if self.text.is_empty() => return true,
            0x0f => {
                self.focus = Focus::Overlay;
                self.overlays += 1;
            }
            // Puts the draft aside, over an older one; on an empty box it comes back.
            0x13 if self.text.is_empty() => {
                let draft = self.stash.take().unwrap_or_default();
                self.put(draft);
            }
            0x13 => {
                self.stash = Some(std::mem::take(&mut self.text));
                self.at = 0;
            }
            0x15 => self.put(Vec::new()),
            0x7f if self.vim_normal => self.at = self.at.saturating_sub(1),
            0x7f if self.text.is_empty() => self.shell_mode = false,
            0x7f if self.at > 0 => {
                self.at -= 1;
                drop(self.text.remove(self.at));
            }
            b'i' if self.vim_normal => self.vim_normal = false,
            b'a' if self.vim_normal => {
                self.vim_normal = false;
                self.at = (self.at + 1).min(self.text.len());
            }
            _ if self.vim_normal => {}
            b'!' if self.text.is_empty() => self.shell_mode = true,
            b'\n' => self.insert(vec![Ok('\n')]),
            byte if byte >= 0x20 => self.insert(vec![Ok(char::from(byte))]),
            _ => {}
        }
        false
    }

    pub(crate) fn insert(&mut self, pieces: Vec<Result<char, String>>) {
        let count = pieces.len();
        self.text.splice(self.at..self.at, pieces);
        self.at += count;
    }

    /// What stands in the box now, the cursor behind it.
    pub(crate) fn put(&mut self, text: Vec<Result<char, String>>) {
        self.at = text.len();
        self.text = text;
    }

    pub(crate) fn pasted(&mut self, bytes: &[u8]) {
        if self.focus != Focus::Box {
            return self.note(&json!({ "lostPaste": bytes.len() }));
        }
        let after = self.script.millis(self.script.swallow_enter_ms, Mode::SwallowEnter, 400, 0);
        self.no_enter_until = Some(Instant::now() + after);
        let text = String::from_utf8_lossy(bytes);
        let mut text = text.replace("\r\n", "\n").replace('\r', "\n").replace('\t', "    ");
        if self.text.is_empty() && text.starts_with('!') {
            self.shell_mode = true;
            text.remove(0);
        }
        self.pastes += 1;
        if text.lines().count() > 3 || text.chars().count() > 800 {
            self.insert(vec![Err(text)]);
        } else {
            self.insert(text.chars().map(Ok).collect());
        }
        if let Some(after) = self.script.tools_after_paste_ms.get(self.tools) {
            self.tool_begins = Some(Instant::now() + Duration::from_millis(*after));
            self.tools += 1;
        }
        if self.script.shell_after_paste == Some(self.pastes) {
            print("\x1b[?2004l\x1b[?1049l\x1b[2J\x1b[H");
            let _ = std::os::unix::process::CommandExt::exec(&mut Command::new("/bin/sh"));
            std::process::exit(127);
        }
    }

    pub(crate) fn enter(&mut self) -> bool {
        if self.no_enter_until.is_some_and(|until| Instant::now() < until) {
            return false;
        }
        let mut text = String::new();
        let mut told = String::new();
        for piece in &self.text {
            match piece {
                Ok(c) => {
                    text.push(*c);
                    told.push(*c);
                }
                Err(paste) => {
                    text.push_str(paste);
                    told.push_str("\n\n<pasted_content id=\"1e54\">\n");
                    told.push_str(paste);
                    told.push_str("\n</pasted_content id=\"1e54\">\n");
                }
            }
        }
        if text.ends_with('\\') {
            self.text.pop();
            self.at = self.text.len();
            self.insert(vec![Ok('\n')]);
            return false;
        }
        self.put(Vec::new());
        let text = text.strip_suffix('\n').unwrap_or(&text).to_owned();
        if std::mem::take(&mut self.shell_mode) {
            self.note(&json!({ "ranInShell": text }));
            return false;
        }
        match text.as_str() {
            "" => return false,
            "/exit" | "exit" | ":q" => {
                self.note(&json!({ "command": text }));
                return true;
            }
            _ if text.starts_with('/') && !text[1..].contains('/') => {
                self.note(&json!({ "command": text }));
                self.focus = Focus::Overlay;
                return false;
            }
            _ => {}
        }
        self.note(&json!({ "prompt": text }));
        let draft = self.stash.take().unwrap_or_default();
        self.put(draft);
        // Hooks, transcript and model get a placeholder's text wrapped.
        if self.turn_ends.is_some() {
            self.record(&json!({
                "type": "queue-operation", "operation": "enqueue", "content": told,
            }));
            self.hook("UserPromptSubmit", json!({ "prompt": told }));
            self.queue.push_back(told);
        } else {
            self.hook("UserPromptSubmit", json!({ "prompt": told }));
            self.begin_turn(&[told]);
        }
        false
    }
}
