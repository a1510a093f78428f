//! JSON on standard output, safe to look at on a terminal.

use serde_json::Value;

use crate::base::text::is_invisible;

/// The value as indented JSON. Characters that act on a terminal or on the
/// reader are written as escapes: the same text to a program, harmless to a
/// person.
pub(crate) fn render(value: &Value) -> String {
    let mut out = String::new();
    for c in format!("{value:#}").chars() {
        if c == '\u{7f}' || is_invisible(c) {
            // Outside a string JSON is plain ASCII, so this is inside one.
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format_unit(*unit));
            }
        } else {
            out.push(c);
        }
    }
    out
}

fn format_unit(unit: u16) -> String {
    format!("\\u{unit:04x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_escaped_and_reads_back() {
        let value = Value::from("a\u{1b}[31m\u{9b}\u{202e}\u{e0041}ä\u{7f}");
        let text = render(&value);
        assert_eq!(text, r#""a\u001b[31m\u009b\u202e\udb40\udc41ä\u007f""#);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
