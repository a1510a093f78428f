//! What the fake draws: Claude's box with what stands in it, a dialog, a viewer.

use std::{fs, io};

use rustix::termios::tcgetwinsize;

use crate::script::Mode;
use crate::streams::print;
use crate::{Fake, Focus};

impl Fake {
    pub(crate) fn draw(&self) {
        let size = tcgetwinsize(io::stdout()).unwrap();
        let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
        let mut out = String::from("\x1b[m\x1b[2J\x1b[H");
        match self.focus {
            Focus::Dialog => out.push_str(&self.dialog(columns)),
            Focus::Overlay if !self.script.overlays.is_empty() => {
                let path = &self.script.overlays[self.overlays % self.script.overlays.len()];
                let screen = fs::read_to_string(path).unwrap();
                out.push_str(&screen.trim_end().replace('\n', "\r\n"));
            }
            Focus::Overlay => {
                let line = "▔".repeat(columns);
                out.push_str(&format!("{line}\r\n  Help\r\n\r\n  Esc to cancel\r\n"));
            }
            Focus::Box => self.draw_box(columns, rows, &mut out),
        }
        let sign = if self.turn_ends.is_some() { '⠂' } else { '✳' };
        print(&format!("\x1b]2;{sign} Fake\x07{out}"));
    }

    fn dialog(&self, columns: usize) -> String {
        match &self.script.screen {
            Some(path) => fs::read_to_string(path).unwrap().trim_end().replace('\n', "\r\n"),
            None => format!(
                "{}\r\n Bash command\r\n\r\n   touch x\r\n\r\n Do you want to proceed?\r\n \
                 ❯ 1. Yes\r\n   2. No\r\n\r\n Esc to cancel · Tab to amend",
                "─".repeat(columns)
            ),
        }
    }

    fn draw_box(&self, columns: usize, rows: usize, out: &mut String) {
        let (content, cursor) = self.content(columns - 3);
        let busy = self.turn_ends.is_some();
        let top = rows.saturating_sub(content.len() + 3).max(4);
        let room = top.saturating_sub(4);
        let lines: Vec<&str> = self.told.iter().flat_map(|told| told.lines()).collect();
        for line in &lines[lines.len().saturating_sub(room)..] {
            let line: String = line.chars().filter(|c| !c.is_control()).take(columns - 1).collect();
            out.push_str(&format!("{line}\r\n"));
        }
        if busy {
            out.push_str(&format!("\x1b[{};1H✶ Cultivating… (1s)", top - 1));
        }
        let rule = "─".repeat(columns);
        let sign = match (self.shell_mode, busy) {
            (true, _) => "! ",
            (false, true) => "\x1b[38;5;246m❯\x1b[m ",
            (false, false) => "❯ ",
        };
        out.push_str(&format!("\x1b[{};1H{rule}\r\n{sign}", top + 1));
        out.push_str(&content.join("\r\n  "));
        let bottom = top + 2 + content.len();
        let inserts = self.script.vim && !self.vim_normal;
        let footer = match (self.leaving, busy) {
            (true, _) => "Press Ctrl-C again to exit",
            (_, true) if inserts => "-- INSERT -- · esc to interrupt",
            (_, true) => "esc to interrupt",
            _ if inserts => "-- INSERT --",
            _ => "? for shortcuts",
        };
        let stash = if self.stash.is_some() { " · › stashed" } else { "" };
        let (row, column) = (top + 2 + cursor.0, 3 + cursor.1);
        out.push_str(&format!(
            "\x1b[7m \x1b[m\x1b[{bottom};1H{rule}\r\n  {footer}{stash}\x1b[{row};{column}H"
        ));
    }

    /// The rows of the box, and the cursor's row and column in them.
    fn content(&self, width: usize) -> (Vec<String>, (usize, usize)) {
        if self.script.mode == Mode::NoEcho {
            return (vec![String::new()], (0, 0));
        }
        let place = |rows: &[String]| (rows.len() - 1, rows.last().unwrap().chars().count());
        let mut cursor = (0, 0);
        let mut rows = vec![String::new()];
        let mut number = self.pastes - self.text.iter().filter(|piece| piece.is_err()).count();
        for (n, piece) in self.text.iter().enumerate() {
            if n == self.at {
                cursor = place(&rows);
            }
            let shown = match piece {
                Ok('\n') => {
                    rows.push(String::new());
                    continue;
                }
                Ok(c) => c.to_string(),
                Err(paste) => {
                    number += 1;
                    format!("[Pasted text #{number} +{} lines]", paste.matches('\n').count())
                }
            };
            if rows.last().unwrap().chars().count() + shown.chars().count() > width {
                rows.push(String::new());
            }
            rows.last_mut().unwrap().extend(shown.chars().filter(|c| !c.is_control()));
        }
        if self.at == self.text.len() {
            cursor = place(&rows);
        }
        (rows, cursor)
    }
}
