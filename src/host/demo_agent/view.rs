//! What the demo agent looks like: a transcript that scrolls, and below it the
//! box. The form is Claude Code's, so that one reader reads both.
//!
//! Pure: it turns entries into the bytes that a terminal is sent. Every text
//! that came in is made visible before it is drawn.

use std::fmt::Write as _;

use crate::base::text::visible_lines;

/// The most lines of a prompt that are shown.
const MAX_ECHO: usize = 60;

/// What is kept for drawing again after the window's size changed.
const MAX_KEPT: usize = 200;

/// A piece of the transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// What was submitted.
    Prompt(String),
    /// What was answered.
    Answer(String),
    /// What the agent says about itself.
    Remark(String),
}

/// What the box and the lines around it show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) text: String,
    pub(super) busy: bool,
    pub(super) queued: usize,
    pub(super) leaving: bool,
}

/// Draws, and knows where the cursor was left.
#[derive(Debug)]
pub(super) struct Painter {
    columns: usize,
    rows: usize,
    /// How many rows of the frame stand above the cursor.
    above: usize,
    kept: Vec<Entry>,
}

impl Painter {
    pub(super) fn new((columns, rows): (usize, usize)) -> Self {
        Self { columns, rows, above: 0, kept: Vec::new() }
    }

    /// The bytes that print the entries and draw the frame below them. Without
    /// a look the frame is taken away.
    pub(super) fn paint(&mut self, entries: Vec<Entry>, look: Option<Look>) -> String {
        let mut out = String::from("\r");
        if self.above > 0 {
            let _ = write!(out, "\x1b[{}A", self.above);
        }
        out.push_str("\x1b[J");
        for entry in &entries {
            for line in self.lines(entry) {
                out.push_str(&line);
                out.push_str("\r\n");
            }
        }
        self.kept.extend(entries);
        let surplus = self.kept.len().saturating_sub(MAX_KEPT);
        self.kept.drain(..surplus);
        self.above = 0;
        if let Some(look) = look {
            self.frame(&look, &mut out);
        }
        out
    }

    /// The bytes that draw everything again for a window of another size.
    pub(super) fn resize(&mut self, (columns, rows): (usize, usize), look: &Look) -> String {
        (self.columns, self.rows) = (columns, rows);
        let lines: Vec<String> = self.kept.iter().flat_map(|entry| self.lines(entry)).collect();
        let shown = lines.len().min(rows.saturating_sub(6));
        let mut out = String::from("\x1b[2J\x1b[H");
        for line in &lines[lines.len() - shown..] {
            out.push_str(line);
            out.push_str("\r\n");
        }
        self.above = 0;
        self.frame(look, &mut out);
        out
    }

    fn lines(&self, entry: &Entry) -> Vec<String> {
        let (sign, style, text) = match entry {
            Entry::Prompt(text) => ("❯ ", "\x1b[48;5;237m", text),
            Entry::Answer(text) => ("● ", "", text),
            Entry::Remark(text) => ("  ", "\x1b[38;5;246m", text),
        };
        let mut rows = wrap(&visible_lines(&drawable(text)), self.columns.saturating_sub(2));
        let more = rows.len().saturating_sub(MAX_ECHO);
        if more > 0 {
            rows.truncate(MAX_ECHO);
            rows.push(format!("… [{more} more lines]"));
        }
        let mut lines: Vec<String> = rows
            .iter()
            .enumerate()
            .map(|(at, row)| {
                let sign = if at == 0 { sign } else { "  " };
                format!("{style}{sign}{row}\x1b[m")
            })
            .collect();
        lines.push(String::new());
        lines
    }

    fn frame(&mut self, look: &Look, out: &mut String) {
        let mut lines = Vec::new();
        if look.busy {
            let waiting = match look.queued {
                0 => String::new(),
                queued => format!(" · {queued} queued"),
            };
            lines.push(format!("\x1b[38;5;174m✻ Echoing…\x1b[38;5;246m (demo{waiting})\x1b[m"));
            lines.push(String::new());
        }
        let rule = format!("\x1b[38;5;244m{}\x1b[m", "─".repeat(self.columns));
        lines.push(rule.clone());
        let mut content =
            wrap(&visible_lines(&drawable(&look.text)), self.columns.saturating_sub(3));
        // A text that is higher than the window shows its end.
        let room = self.rows.saturating_sub(lines.len() + 3).max(1);
        content.drain(..content.len().saturating_sub(room));
        let last = content.len() - 1;
        let sign = if look.busy { "\x1b[38;5;246m❯\x1b[m " } else { "❯ " };
        for (at, row) in content.iter().enumerate() {
            let sign = if at == 0 { sign } else { "  " };
            // The place of the cursor is saved while drawing: nobody has to
            // know how wide the terminal draws a character.
            let cursor = if at == last { "\x1b7\x1b[7m \x1b[m" } else { "" };
            lines.push(format!("{sign}{row}{cursor}"));
        }
        let cursor_row = lines.len() - 1;
        lines.push(rule);
        lines.push(format!(
            "  \x1b[38;5;246m{}\x1b[m",
            match (look.leaving, look.busy) {
                (true, _) => "Press Ctrl-C again to exit",
                (false, true) => "esc to interrupt",
                (false, false) => "? for shortcuts",
            }
        ));
        // Room first, so that nothing scrolls while the cursor's place is saved.
        let height = lines.len() - 1;
        out.push_str(&"\r\n".repeat(height));
        let _ = write!(out, "\x1b[{height}A\r");
        out.push_str(&lines.join("\r\n"));
        out.push_str("\x1b8");
        self.above = cursor_row;
    }
}

/// The text without what only joins or varies the signs of an emoji: not every
/// terminal draws it, and none should be told that it stands there.
fn drawable(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '\u{200d}' | '\u{fe00}'..='\u{fe0f}')).collect()
}

/// The text in rows that fit `width`, at least one. Rows break anywhere.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut rows = Vec::new();
    for line in text.split('\n') {
        let mut row = String::new();
        let mut used = 0;
        for c in line.chars() {
            let wide = columns_of(c);
            if used + wide > width && !row.is_empty() {
                rows.push(std::mem::take(&mut row));
                used = 0;
            }
            row.push(c);
            used += wide;
        }
        rows.push(row);
    }
    rows
}

/// A careful guess: what may be drawn wide counts as wide, so that a row never
/// runs over.
fn columns_of(c: char) -> usize {
    match c as u32 {
        0..0x1100 | 0x2010..=0x2027 | 0x2030..=0x205e | 0x2190..=0x21ff | 0x2500..=0x259f => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(text: &str) -> Look {
        Look { text: text.into(), busy: false, queued: 0, leaving: false }
    }

    #[test]
    fn rows_never_run_over_and_lose_nothing() {
        assert_eq!(wrap("abcdef", 4), ["abcd", "ef"]);
        assert_eq!(wrap("漢字漢字x", 5), ["漢字", "漢字x"]);
        assert_eq!(wrap("a\n\nb", 4), ["a", "", "b"]);
        assert_eq!(wrap("", 4), [""]);
    }

    #[test]
    fn nothing_that_came_in_reaches_the_terminal_as_a_command() {
        let mut painter = Painter::new((80, 24));
        let hostile = "x\u{1b}]0;title\u{7}\u{9b}2Jy\u{202e}".to_owned();
        let out = painter.paint(vec![Entry::Prompt(hostile.clone())], Some(idle(&hostile)));
        assert!(!out.contains("\u{1b}]") && !out.contains('\u{9b}') && !out.contains('\u{202e}'));
        assert_eq!(out.matches("\\x1b]0;title\\x07\\u{9b}2Jy\\u{202e}").count(), 2);
    }

    #[test]
    fn a_long_echo_says_how_much_it_leaves_out() {
        let mut painter = Painter::new((80, 24));
        let out = painter.paint(vec![Entry::Prompt("l\n".repeat(100))], None);
        assert!(out.contains("… [41 more lines]"), "{out}");
    }

    #[test]
    fn a_text_higher_than_the_window_keeps_its_end_in_sight() {
        let mut painter = Painter::new((40, 10));
        let text: String = (0..30).map(|n| n.to_string() + " line\n").collect();
        let out = painter.paint(Vec::new(), Some(idle(&text)));
        assert!(out.matches("\r\n").count() < 2 * 10, "{out}");
        assert!(out.contains("29 line") && !out.contains("20 line"));
    }
}
