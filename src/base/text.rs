//! Text that comes from elsewhere, made fit to be looked at.

use std::fmt::Write as _;

/// The text with every character that could act on a terminal shown instead:
/// control characters as `\x1b`, bidirectional and invisible ones as `\u{202e}`.
/// Newlines and tabs are shown too: the result is one line.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        push_visible(&mut out, c);
    }
    out
}

/// Like [`visible`], but newlines stay and a tab becomes four spaces.
pub fn visible_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push('\n'),
            '\t' => out.push_str("    "),
            c => push_visible(&mut out, c),
        }
    }
    out
}

fn push_visible(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\t' => out.push_str("\\t"),
        '\r' => out.push_str("\\r"),
        c if (c as u32) < 0x20 || c as u32 == 0x7f => {
            let _ = write!(out, "\\x{:02x}", c as u32);
        }
        c if is_invisible(c) => {
            let _ = write!(out, "\\u{{{:x}}}", c as u32);
        }
        c => out.push(c),
    }
}

/// Whether a character is a C1 control or acts on a text without being seen:
/// line separators, zero-width and bidirectional controls, tag characters.
pub fn is_invisible(c: char) -> bool {
    matches!(c as u32,
        0x80..=0x9f | 0xad | 0x61c | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e
        | 0x2060..=0x206f | 0xfeff | 0xfff9..=0xfffb | 0xe0000..=0xe007f)
}

/// At most `limit` characters, with a visible mark when some were cut.
pub fn cap(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some((at, _)) => {
            let left = text[at..].chars().count();
            format!("{}… [cut: {left} more characters]", &text[..at])
        }
    }
}

/// `1 event`, `2 events`.
pub fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_shown_instead() {
        assert_eq!(visible("a\x1b[31m\u{202e}b\u{9b}\n"), "a\\x1b[31m\\u{202e}b\\u{9b}\\n");
        assert_eq!(visible_lines("a\tb\nc\x07"), "a    b\nc\\x07");
    }

    #[test]
    fn a_cut_is_visible() {
        assert_eq!(cap("äöü", 3), "äöü");
        assert_eq!(cap("äöüß", 3), "äöü… [cut: 1 more characters]");
    }
}
