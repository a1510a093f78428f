//! Text that comes from elsewhere, made fit to be looked at.

use std::fmt::Write as _;
use std::path::Path;

use unicode_width::UnicodeWidthStr as _;

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

/// A path for people, on one line: in backticks where it holds a space, so that
/// it stays one piece.
pub fn path_text(path: &Path) -> String {
    let shown = visible(&path.to_string_lossy());
    if shown.contains(' ') { format!("`{shown}`") } else { shown }
}

/// Adds a text broken at spaces so that its lines fit `width`: the first one
/// after `head`, the others indented. What stands in backticks, or is too long
/// for a line, is never broken.
pub fn push_wrapped(out: &mut String, head: &str, indent: usize, text: &str, width: usize) {
    let mut line = head.to_owned();
    let mut is_empty = true;
    for piece in words(text) {
        let space = usize::from(!is_empty);
        if !is_empty && line.width() + space + piece.width() > width {
            out.push_str(line.trim_end());
            out.push('\n');
            line = " ".repeat(indent);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(piece);
        is_empty = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
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

/// The text on one line of at most `columns` columns and characters, fit to be
/// looked at; what was cut ends with `…`.
pub fn brief(text: &str, columns: usize) -> String {
    // An accent takes no column.
    let length = |text: &str| text.width().max(text.chars().count());
    let mut out = String::new();
    for c in text.chars() {
        push_visible(&mut out, c);
        if length(&out) > columns {
            while length(&out) >= columns && out.pop().is_some() {}
            out.push('…');
            break;
        }
    }
    out
}

/// The text in lines of at most `width` columns, each after `indent`. Lines are
/// broken at blanks, but not within backticks, which may hold a command; a word that
/// is longer stays whole.
pub fn wrapped(text: &str, width: usize, indent: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        push_wrapped(&mut out, indent, indent.len(), line, width);
    }
    out.truncate(out.trim_end().len());
    out
}

/// The words of a text; what stands in backticks is one.
fn words(line: &str) -> Vec<&str> {
    let (mut words, mut begin, mut is_code) = (Vec::new(), 0, false);
    for (at, c) in line.char_indices() {
        match c {
            '`' => is_code = !is_code,
            c if c.is_whitespace() && !is_code => {
                words.push(&line[begin..at]);
                begin = at + c.len_utf8();
            }
            _ => {}
        }
    }
    words.push(&line[begin..]);
    words.retain(|word| !word.is_empty());
    words
}

/// What a program said, in a few lines: its first and its last ones, without blank
/// ones and with a `…` for those between them. The reason of an end stands on either side
/// of a usage or of a trace.
pub fn gist<'a>(
    lines: impl DoubleEndedIterator<Item = &'a str> + Clone,
    first: usize,
    last: usize,
) -> Vec<&'a str> {
    let said = lines.filter(|line| !line.trim().is_empty());
    let mut all: Vec<_> = said.collect();
    if all.len() > first + last {
        let end = all.split_off(all.len() - last);
        all.truncate(first);
        if first > 0 {
            all.push("…");
        }
        all.extend(end);
    }
    all
}

/// The text without the sequences that colour it or move the cursor.
pub fn without_colours(text: &str) -> String {
    let mut pieces = text.split("\x1b[");
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|c: char| !matches!(c, ' '..='?')).unwrap_or(piece.len());
        let rest = &piece[end..];
        out.push_str(rest.strip_prefix(|c: char| matches!(c, '@'..='~')).unwrap_or(rest));
    }
    out
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
    fn what_was_said_at_length_keeps_its_begin_and_its_end() {
        let said = "why\n\nusage\n  a\n  b\n  c\n\nsee --help\n";
        assert_eq!(gist(said.lines(), 2, 1), ["why", "usage", "…", "see --help"]);
        assert_eq!(gist(said.lines(), 3, 3).len(), 6);
        assert_eq!(gist(said.lines(), 0, 2), ["  c", "see --help"]);
        assert!(gist(" \n".lines(), 1, 1).is_empty());
    }

    #[test]
    fn colours_are_left_out() {
        for (text, plain) in [
            ("\x1b[91m\x1b[1mError: \x1b[0mit", "Error: it"),
            ("a\x1b[2K\x1b[1;31mb\x1b[", "ab"),
            ("\x1b[3\u{7}x", "\u{7}x"),
            ("\x1b]0;x", "\x1b]0;x"),
        ] {
            assert_eq!(without_colours(text), plain);
        }
    }

    #[test]
    fn lines_fit_and_what_is_one_piece_stays_one() {
        let wrapped = |text: &str| {
            let mut out = String::new();
            push_wrapped(&mut out, "- ", 2, text, 19);
            out
        };
        assert_eq!(wrapped("some words that are long"), "- some words that\n  are long\n");
        assert_eq!(wrapped("in `/a b/c d e f`, yes"), "- in\n  `/a b/c d e f`,\n  yes\n");
        assert_eq!(wrapped("a b `not closed by any"), "- a b\n  `not closed by any\n");
        assert_eq!(path_text(Path::new("/a b\x1b")), "`/a b\\x1b`");
        assert_eq!(path_text(Path::new("/ab")), "/ab");
    }

    #[test]
    fn lines_are_broken_at_blanks_and_not_within_a_command() {
        let text = "one two `three four` five";
        assert_eq!(wrapped(text, 12, ""), "one two\n`three four`\nfive");
        assert_eq!(wrapped(text, 14, "  "), "  one two\n  `three four`\n  five");
        assert_eq!(wrapped("a\nb", 9, " "), " a\n b");
        assert_eq!(wrapped("averylongword b", 5, ""), "averylongword\nb");
    }

    #[test]
    fn a_cut_is_visible() {
        assert_eq!(brief("a\u{202e}", 9), "a\\u{202e}");
        assert_eq!(brief("a\u{202e}b", 9), "a\\u{202e…");
        assert_eq!((brief("字字", 4), brief("字字字", 5)), ("字字".into(), "字字…".into()));
        assert_eq!(brief(&"e\u{301}".repeat(5), 3), "e\u{301}…");
        assert_eq!(cap("äöü", 3), "äöü");
        assert_eq!(cap("äöüß", 3), "äöü… [cut: 1 more characters]");
    }
}
