//! Cleans a text of theirs before an agent or a terminal sees it: nothing in it
//! may act without being seen. What is replaced is counted, so that it can be
//! said.

use unicode_normalization::UnicodeNormalization as _;

/// What stands where a character was that may not pass.
pub(super) const REPLACEMENT: char = '\u{fffd}';

/// A text that is safe to type, and what was done to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sanitised {
    /// The text: NFC, `\n` its only control character.
    pub text: String,
    /// How many characters were replaced by U+FFFD.
    pub replaced: usize,
    /// How many hidden HTML comments were made visible.
    pub hidden_comments: usize,
}

/// Cleans a text: line ends become LF, a tab four spaces; every other control,
/// line separator, zero-width, tag or bidirectional character becomes U+FFFD
/// unless an emoji is made of it; HTML comments become visible; the result is
/// in NFC.
pub fn sanitise(text: &str) -> Sanitised {
    let (clean, replaced) = replace(&text.replace("\r\n", "\n"));
    // After it, for NFC makes ASCII of some characters: U+1FEF is a backtick.
    let composed: String = clean.nfc().collect();
    let (text, hidden_comments) = show_comments(&composed);
    Sanitised { text, replaced, hidden_comments }
}

/// The text as one line: what would end a line becomes a visible sign.
pub(super) fn one_line(text: &str) -> Sanitised {
    let mut clean = sanitise(text.trim());
    if clean.text.contains('\n') {
        clean.text = clean.text.replace('\n', " \u{23ce} ");
    }
    clean
}

fn replace(text: &str) -> (String, usize) {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut replaced = 0;
    let mut at = 0;
    // Whether what was put out last is part of an emoji, and can be joined.
    let mut emoji = false;
    while let Some(&c) = chars.get(at) {
        at += 1;
        let next = chars.get(at).copied();
        let previous = at.checked_sub(2).and_then(|at| chars.get(at)).copied();
        match c {
            '\n' | '\r' => out.push('\n'),
            '\t' => out.push_str("    "),
            '\u{1f3f4}' => {
                out.push(c);
                let flag = flag_tags(&chars[at..]);
                out.extend(&chars[at..at + flag]);
                at += flag;
            }
            '\u{200d}' if emoji && next.is_some_and(is_emoji) => {
                out.push(c);
                continue;
            }
            '\u{fe0e}' | '\u{fe0f}' if previous.is_some_and(takes_presentation) => {
                out.push(c);
                continue;
            }
            '\u{e0100}'..='\u{e01ef}' if previous.is_some_and(is_han) => out.push(c),
            c if acts_unseen(c) => {
                out.push(REPLACEMENT);
                replaced += 1;
            }
            c => out.push(c),
        }
        emoji = is_emoji(c);
    }
    (out, replaced)
}

/// How many characters at the start are the tags that make one of the flags
/// that are drawn (England, Scotland, Wales). Any other sequence could spell
/// hidden text.
fn flag_tags(chars: &[char]) -> usize {
    let tag = |c: char| char::from_u32(c as u32 + 0xe0000);
    for name in ["gbeng", "gbsct", "gbwls"] {
        let tags = name.chars().filter_map(tag).chain(['\u{e007f}']);
        if chars.iter().copied().take(6).eq(tags) {
            return 6;
        }
    }
    0
}

/// Whether a character acts on what is read or shown without being seen.
fn acts_unseen(c: char) -> bool {
    c.is_control()
        || crate::base::text::is_invisible(c)
        || matches!(c as u32,
            0x034f | 0x115f | 0x1160 | 0x17b4 | 0x17b5 | 0x180b..=0x180f | 0x3164
            | 0xfe00..=0xfe0f | 0xffa0 | 0xfff0..=0xfff8 | 0x1bca0..=0x1bca3
            | 0x1d173..=0x1d17a | 0xe0000..=0xe0fff)
}

fn is_emoji(c: char) -> bool {
    matches!(c as u32,
        0xa9 | 0xae | 0x203c | 0x2049 | 0x2122 | 0x2139 | 0x2190..=0x21ff | 0x2300..=0x23ff
        | 0x25aa..=0x25fe | 0x2600..=0x27bf | 0x2934 | 0x2935 | 0x2b00..=0x2bff
        | 0x1f000..=0x1faff)
}

fn takes_presentation(c: char) -> bool {
    is_emoji(c) || c.is_ascii_digit() || matches!(c, '#' | '*')
}

fn is_han(c: char) -> bool {
    matches!(c as u32, 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0x20000..=0x3ffff)
}

fn show_comments(text: &str) -> (String, usize) {
    let mut out = String::with_capacity(text.len());
    let mut count = 0;
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("<!--") {
        out.push_str(before);
        out.push_str("[hidden comment:");
        count += 1;
        let (inside, after) = comment.split_once("-->").unwrap_or((comment, ""));
        out.push_str(&inside.replace("<!--", "[hidden comment:"));
        out.push_str(" :end of hidden comment]");
        rest = after;
    }
    out.push_str(rest);
    (out, count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_passes_and_what_is_replaced() {
        for (text, clean, replaced) in [
            ("plain äöü 漢字 \u{5e9}\u{5dc}", "plain äöü 漢字 \u{5e9}\u{5dc}", 0),
            ("a\r\nb\rc\nd", "a\nb\nc\nd", 0),
            ("a\tb", "a    b", 0),
            ("\u{1b}[31mred\u{1b}[201~", "\u{fffd}[31mred\u{fffd}[201~", 2),
            ("\0\u{8}\u{b}\u{c}\u{7f}", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}", 5),
            ("\u{85}\u{9b}x", "\u{fffd}\u{fffd}x", 2),
            ("a\u{2028}b\u{2029}c", "a\u{fffd}b\u{fffd}c", 2),
            ("a\u{200b}b\u{200c}c\u{feff}d\u{2060}e", "a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}e", 4),
            ("\u{202e}abc\u{202c}\u{2066}\u{2069}\u{200e}\u{200f}\u{61c}", "", 7),
            ("a\u{ad}b\u{34f}c", "a\u{fffd}b\u{fffd}c", 2),
            ("a\u{200d}b", "a\u{fffd}b", 1),
            ("\u{1f600}\u{200d}b", "\u{1f600}\u{fffd}b", 1),
            ("\u{1f468}\u{200d}\u{1f469}", "\u{1f468}\u{200d}\u{1f469}", 0),
            ("\u{1f3f3}\u{fe0f}\u{200d}\u{1f308}", "\u{1f3f3}\u{fe0f}\u{200d}\u{1f308}", 0),
            (
                "\u{1f469}\u{1f3fd}\u{200d}\u{2764}\u{fe0f}\u{200d}\u{1f468}",
                "\u{1f469}\u{1f3fd}\u{200d}\u{2764}\u{fe0f}\u{200d}\u{1f468}",
                0,
            ),
            ("\u{1f468}\u{200d}\u{200d}\u{1f469}", "\u{1f468}\u{fffd}\u{fffd}\u{1f469}", 2),
            ("1\u{fe0f}\u{20e3}", "1\u{fe0f}\u{20e3}", 0),
            ("a\u{fe0f}", "a\u{fffd}", 1),
            ("\u{2764}\u{fe0f}\u{fe0f}", "\u{2764}\u{fe0f}\u{fffd}", 1),
            ("漢\u{e0100}\u{e0101}", "漢\u{e0100}\u{fffd}", 1),
            (
                "\u{1f3f4}\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
                "\u{1f3f4}\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
                0,
            ),
            ("\u{1f3f4}\u{e0067}\u{e0062}", "\u{1f3f4}\u{fffd}\u{fffd}", 2),
            ("\u{e0041}\u{e0042}", "\u{fffd}\u{fffd}", 2),
            ("e\u{301}", "\u{e9}", 0),
            ("\u{1fef}\u{1fef}\u{1fef}", "```", 0),
        ] {
            let result = sanitise(text);
            if !clean.is_empty() {
                assert_eq!(result.text, clean, "{text:?}");
            }
            assert_eq!(result.replaced, replaced, "{text:?}");
        }
    }

    #[test]
    fn hidden_comments_become_visible() {
        let shown = sanitise("a <!-- run rm --> b <!-- c");
        assert_eq!(
            shown.text,
            "a [hidden comment: run rm  :end of hidden comment] b \
             [hidden comment: c :end of hidden comment]"
        );
        assert_eq!(shown.hidden_comments, 2);
        assert!(!sanitise("<!-<!---->- -->").text.contains("<!--"));
    }

    #[test]
    fn a_title_is_one_line() {
        assert_eq!(one_line(" a\r\nb\n").text, "a \u{23ce} b");
    }

    proptest! {
        #[test]
        fn nothing_that_acts_unseen_is_left(text in "[\\PC\\p{C}\u{200d}\u{1f3f4}\u{e0067}<!>-]{0,80}") {
            let clean = sanitise(&text);
            prop_assert!(clean.text.chars().all(|c| c == '\n' || !c.is_control()));
            let unseen = ['\u{202e}', '\u{200b}', '\u{feff}', '\u{2028}'];
            prop_assert!(!clean.text.contains(unseen));
            prop_assert!(unicode_normalization::is_nfc(&clean.text));
            prop_assert_eq!(sanitise(&clean.text).text, clean.text);
        }
    }
}
