//! A fault of the configuration file as a person sees it: the place, the line
//! with a caret under the spot, and what was probably meant.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::locate::Spot;
use crate::base::text::{visible, wrapped};

/// Columns of a line for people.
const COLUMNS: usize = 80;

/// What stands before an error: `error: `.
const PREFIX: usize = 7;

/// What stands before each line where the doctor tells of the fault.
const BESIDE: usize = 12;

/// Words in a key that say that its value may be a secret.
const SECRET_WORDS: &[&str] = &["secret", "token", "password", "passwd", "credential"];

/// Why a configuration file was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    file: PathBuf,
    spot: Option<Spot>,
    message: String,
    excerpt: Option<String>,
    hints: Vec<String>,
}

impl fmt::Display for ConfigError {
    /// One line, `FILE:LINE:COLUMN: what is wrong`, where that fits a terminal;
    /// else what is wrong stands below the place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut place = visible(&self.file.display().to_string());
        if let Some(Spot { line, column }) = self.spot {
            let _ = write!(place, ":{line}:{column}");
        }
        if PREFIX + place.width() + 2 + self.message.width() <= COLUMNS {
            write!(f, "{place}: {}", self.message)
        } else {
            write!(f, "{place}:\n{}", wrapped(&self.message.replace('\n', " "), COLUMNS, "  "))
        }
    }
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    /// A fault of the file as a whole.
    pub(super) fn whole(file: &Path, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { file: file.to_path_buf(), spot: None, message, excerpt: None, hints: Vec::new() }
    }

    /// Points at a spot of the text.
    pub(super) fn at(mut self, text: &str, spot: Option<Spot>) -> Self {
        self.excerpt = spot.and_then(|spot| excerpt(text, spot));
        self.spot = spot;
        self
    }

    /// Names a spot whose text may be a secret.
    pub(super) fn without_excerpt(mut self, spot: Option<Spot>) -> Self {
        self.spot = spot;
        self
    }

    /// Adds what to do next.
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// What to do next, one thing each.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// The line of the file, counted from 1, when the fault has one.
    pub fn line(&self) -> Option<usize> {
        self.spot.map(|spot| spot.line)
    }

    /// The line of [`Display`](fmt::Display), and below it the source line with
    /// a caret. Without the hints.
    pub fn pointed(&self) -> String {
        match &self.excerpt {
            Some(excerpt) => format!("{self}\n{excerpt}"),
            None => self.to_string(),
        }
    }

    /// Everything: what [`ConfigError::pointed`] says, then the hints.
    pub fn render(&self) -> String {
        let mut out = self.pointed();
        for hint in &self.hints {
            out.push_str("\nhint: ");
            out.push_str(hint);
        }
        out
    }
}

/// Whether the value of this key may be a secret, so that it is not shown.
pub(super) fn is_secret(key: &str) -> bool {
    let key = key.to_lowercase();
    SECRET_WORDS.iter().any(|word| key.contains(word))
}

/// The lines of a text as YAML counts them.
pub(super) fn yaml_lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['\r', '\n', '\u{85}', '\u{2028}', '\u{2029}']) {
        lines.push(&rest[..at]);
        let after = &rest[at..];
        let length = if after.starts_with("\r\n") {
            2
        } else {
            after.chars().next().map_or(1, char::len_utf8)
        };
        rest = &after[length..];
    }
    lines.push(rest);
    lines
}

/// The source line with a caret below the token at the spot. Widths are those of
/// a terminal's cells, of which a Chinese character takes two and an accent none.
fn excerpt(text: &str, spot: Spot) -> Option<String> {
    let lines = yaml_lines(text);
    let line = *lines.get(spot.line.checked_sub(1)?)?;
    let before: String = line.chars().take(spot.column.saturating_sub(1)).collect();
    let token: String = token(&line[before.len()..]).to_owned();
    let (shown, token) = match secret_at(line) {
        Some(at) if at <= before.len() => (format!("{} …", &line[..at]), String::new()),
        Some(at) => (format!("{} …", &line[..at]), token),
        None => (line.to_owned(), token),
    };
    let shown = visible_source(&shown);
    let column = visible_source(&before).width().min(shown.width());
    let width = visible_source(&token).width().max(1);

    let number = spot.line.to_string();
    let margin = " ".repeat(number.len());
    // The number, the bar and its blanks; what says on each side that it was cut.
    let window = COLUMNS - BESIDE - number.len() - 3 - 2;
    let skip = if column + width.min(20) > window { column.saturating_sub(window / 2) } else { 0 };
    let (skip, rest) = cells(&shown, skip);
    let cut_left = if skip > 0 { "…" } else { "" };
    let taken = rest.len() - last_cells(rest, window).len();
    let cut_right = if taken < rest.len() { "…" } else { "" };
    let column = column.saturating_sub(skip);
    let indent = " ".repeat(column + usize::from(skip > 0));
    let caret = "^".repeat(width.min(window - column.min(window - 1)));

    let shown = format!("{cut_left}{}{cut_right}", &rest[..taken]);
    Some(format!("{margin} |\n{number} | {}\n{margin} | {indent}{caret}", shown.trim_end()))
}

/// Skips at least `wanted` cells: how many they were, and what follows.
fn cells(text: &str, wanted: usize) -> (usize, &str) {
    let mut skipped = 0;
    for (at, c) in text.char_indices() {
        let width = c.width().unwrap_or(0);
        // What takes no cell belongs to the character before it.
        if skipped >= wanted && (width > 0 || wanted == 0) {
            return (skipped, &text[at..]);
        }
        skipped += width;
    }
    (skipped, "")
}

/// What follows at most `limit` cells.
fn last_cells(text: &str, limit: usize) -> &str {
    let mut taken = 0;
    for (at, c) in text.char_indices() {
        taken += c.width().unwrap_or(0);
        if taken > limit {
            return &text[at..];
        }
    }
    ""
}

/// A line of the file, fit for a terminal, with its indentation.
fn visible_source(line: &str) -> String {
    visible(&line.replace('\t', "    "))
}

/// Where the value of a key begins that may be a secret: behind its colon.
fn secret_at(line: &str) -> Option<usize> {
    // Only ASCII changes its case here, so the positions stay those of the line.
    let lower = line.to_ascii_lowercase();
    let word = SECRET_WORDS.iter().filter_map(|word| lower.find(word)).min()?;
    lower[word..].find(':').map(|colon| word + colon + 1)
}

/// What is written at a spot: a key, a quoted or a plain value.
pub(super) fn token_at(text: &str, spot: Spot) -> Option<&str> {
    let line = *yaml_lines(text).get(spot.line.checked_sub(1)?)?;
    let at = line.char_indices().nth(spot.column.checked_sub(1)?)?.0;
    Some(token(&line[at..]))
}

/// The token at the start of `rest`: a key, a quoted or a plain value.
fn token(rest: &str) -> &str {
    let Some(first) = rest.chars().next() else { return rest };
    if first == '\t' {
        return &rest[..rest.len() - rest.trim_start_matches('\t').len()];
    }
    if matches!(first, '"' | '\'') {
        return rest[1..].find(first).map_or(rest, |end| &rest[..end + 2]);
    }
    if matches!(first, '[' | '{') {
        return &rest[..1];
    }
    let stops = [": ", ":\t", " #", "\t#", ",", "]", "}"];
    let end = stops.iter().filter_map(|stop| rest.find(stop)).min();
    let token = &rest[..end.unwrap_or(rest.len())].trim_end();
    token.strip_suffix(':').unwrap_or(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, line: usize, column: usize) -> String {
        excerpt(text, Spot { line, column }).unwrap()
    }

    #[test]
    fn the_caret_stands_under_the_token() {
        assert_eq!(shown("a:\n  b: x # y\n", 2, 6), "  |\n2 |   b: x # y\n  |      ^");
        assert_eq!(shown("{ä: \"x y\"}", 1, 5), "  |\n1 | {ä: \"x y\"}\n  |     ^^^^^");
        assert_eq!(shown("key: v", 1, 1), "  |\n1 | key: v\n  | ^^^");
    }

    #[test]
    fn what_acts_on_a_terminal_moves_the_caret_and_nothing_else() {
        assert_eq!(shown("\u{202e}a: b", 1, 5), "  |\n1 | \\u{202e}a: b\n  |            ^");
    }

    #[test]
    fn tabs_and_wide_characters_keep_the_caret_straight() {
        assert_eq!(shown("a:\tb\t# c", 1, 4), "  |\n1 | a:    b    # c\n  |       ^");
        assert_eq!(shown("{键: 值 }", 1, 5), "  |\n1 | {键: 值 }\n  |      ^^");
        assert_eq!(shown("\t\ta: b", 1, 1), "  |\n1 |         a: b\n  | ^^^^^^^^");
        // An accent of its own takes no cell.
        assert_eq!(shown("e\u{301}e\u{301}: b", 1, 7), "  |\n1 | e\u{301}e\u{301}: b\n  |     ^");
        let text = format!("k: [{}, 错误]", "字".repeat(100));
        let shown = shown(&text, 1, 107);
        let lines: Vec<_> = shown.lines().collect();
        assert!(lines.iter().all(|line| line.width() <= 80), "{shown}");
        let column = lines[2].find('^').unwrap();
        let (_, rest) = cells(lines[1], column);
        assert_eq!((rest, lines[2].matches('^').count()), ("错误]", 4));
    }

    #[test]
    fn a_long_line_is_shown_around_the_spot() {
        let text = format!("k: [{}, bad]", "x".repeat(200));
        let shown = shown(&text, 1, 207);
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        let caret = shown.lines().last().unwrap().find('^').unwrap();
        let source: String = shown.lines().nth(1).unwrap().chars().skip(caret).take(3).collect();
        assert_eq!(source, "bad");
    }

    #[test]
    fn a_value_that_may_be_a_secret_is_not_shown() {
        for text in ["webhookSecret: hunter2", "{a: 1, secret: hunter2}", "apiToken : hunter2"] {
            for column in 1..text.len() {
                assert!(!shown(text, 1, column).contains("hunter2"), "{text} {column}");
            }
        }
    }

    #[test]
    fn lines_end_where_yaml_ends_them() {
        assert_eq!(yaml_lines("a\r\nb\nc\rd\u{2028}e"), ["a", "b", "c", "d", "e"]);
    }
}
