//! Halves of characters in JSON. GitHub cuts texts, and what it writes as two
//! `\u` escapes may lose one of them. A reader of UTF-8 refuses the whole body for
//! that; here the half is replaced, as everything is that is no character.

use std::borrow::Cow;

/// The JSON with `\ufffd` in the place of every escape that is half a character.
pub(super) fn paired(json: &[u8]) -> Cow<'_, [u8]> {
    let mut out = Cow::Borrowed(json);
    let mut at = 0;
    while let Some(found) = json.get(at..).and_then(|rest| rest.iter().position(|b| *b == b'\\')) {
        let start = at + found;
        at = match escape(json, start) {
            Some(0xd800..=0xdbff) if matches!(escape(json, start + 6), Some(0xdc00..=0xdfff)) => {
                start + 12
            }
            Some(0xd800..=0xdfff) => {
                if let Some(half) = out.to_mut().get_mut(start..start + 6) {
                    half.copy_from_slice(b"\\ufffd");
                }
                start + 6
            }
            // Also past an escaped backslash, which begins no escape.
            _ => start + 2,
        };
    }
    out
}

/// The number of a `\u` escape.
fn escape(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let text = std::str::from_utf8(digits).ok()?;
    if text.starts_with('+') { None } else { u16::from_str_radix(text, 16).ok() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(json: &str) -> String {
        serde_json::from_slice(&paired(json.as_bytes())).unwrap()
    }

    #[test]
    fn half_a_character_is_replaced_and_a_whole_one_is_not() {
        for (json, text) in [
            (r#""a\ud800b""#, "a\u{fffd}b"),
            (r#""\uDE00""#, "\u{fffd}"),
            (r#""\ud83d\ude00""#, "\u{1f600}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (r#""\\\\ud800""#, "\\\\ud800"),
            (r#""\\\ud800""#, "\\\u{fffd}"),
            (r#""\u00e9\n""#, "\u{e9}\n"),
        ] {
            assert_eq!(read(json), text, "{json}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read_and_keep_their_length(bytes in "([\\\\uUdD89fab0+\"]){0,40}") {
            prop_assert_eq!(paired(bytes.as_bytes()).len(), bytes.len());
        }
    }
}
