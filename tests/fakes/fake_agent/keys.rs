//! What keys do to the input box: letters, pastes in each agent's form, Enter.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::Fake;
use crate::args::Kind;

impl Fake {
    pub(crate) fn take(&mut self, byte: u8, with_paste: bool) -> bool {
        if let Some(paste) = &mut self.paste {
            paste.push(byte);
            if paste.ends_with(b"\x1b[201~") {
                let mut paste = self.paste.take().unwrap();
                paste.truncate(paste.len() - 6);
                self.pasted(&String::from_utf8_lossy(&paste));
            }
            return false;
        }
        if let Some(sequence) = &mut self.sequence {
            sequence.push(byte);
            let is_long = sequence.len() > 1 && (0x40..=0x7e).contains(&byte);
            if sequence[0] != b'[' || is_long {
                let is_paste = sequence == b"[200~";
                self.sequence = None;
                self.paste = is_paste.then(Vec::new);
            }
            return false;
        }
        match byte {
            0x1b => self.sequence = Some(Vec::new()),
            b'\r' if self.in_dialog => {
                self.note(&json!({ "dialog": "approved" }));
                self.in_dialog = false;
            }
            _ if self.in_dialog => {}
            b'\r' => self.enter(with_paste),
            0x7f => {
                self.text.pop();
            }
            0x15 => self.text.clear(),
            0x03 if self.text.is_empty() => return true,
            0x03 => self.text.clear(),
            0x20..0x7f => self.text.push(Ok(char::from(byte))),
            _ => {}
        }
        false
    }

    fn pasted(&mut self, text: &str) {
        if self.in_dialog {
            return self.note(&json!({ "lostPaste": text.len() }));
        }
        let (lines, chars) = (text.lines().count(), text.chars().count());
        let shown = match self.kind {
            Kind::Codex if chars > 1000 => Some(format!("[Pasted Content {chars} chars]")),
            Kind::Gemini if lines > 5 => Some(format!("[Pasted Text: {lines} lines]")),
            Kind::Gemini if chars > 500 => Some(format!("[Pasted Text: {chars} chars]")),
            Kind::Copilot if lines > 10 => {
                Some(format!("[Paste #{} - {lines} lines]", self.pastes + 1))
            }
            Kind::Cursor if lines > 8 => {
                Some(format!("[Pasted text #{} +{} lines]", self.pastes + 1, lines - 1))
            }
            _ => None,
        };
        self.pastes += usize::from(shown.is_some());
        match shown {
            Some(shown) => self.text.push(Err(format!("{shown}\0{text}"))),
            None => self.text.extend(text.chars().map(Ok)),
        }
        self.pasted_at = Some(Instant::now());
    }

    fn enter(&mut self, with_paste: bool) {
        let since = self.pasted_at.map(|at| at.elapsed());
        let is_too_soon = match self.kind {
            // Taken for a line's end.
            Kind::Gemini => since.is_some_and(|since| since < Duration::from_millis(70)),
            // Absorbed with the paste.
            Kind::Cursor => {
                with_paste || since.is_some_and(|since| since < Duration::from_millis(100))
            }
            _ => false,
        };
        if is_too_soon {
            return;
        }
        let whole = |piece: &Result<char, String>| match piece {
            Ok(c) => c.to_string(),
            Err(paste) => paste.split_once('\0').unwrap().1.to_owned(),
        };
        let text: String = self.text.iter().map(whole).collect();
        if text.is_empty() {
            return;
        }
        self.text.clear();
        self.told.push(text.lines().next().unwrap_or_default().to_owned());
        self.accept(&text);
        let now = Instant::now();
        self.turn_ends = Some(now + self.turn());
        self.dialog_opens = self.script.dialog_after_ms.map(|ms| now + Duration::from_millis(ms));
        self.turn_ends = self.turn_ends.max(self.dialog_opens);
    }
}
