//! Our own voice: the line that ends everything the-loop and its agents post.
//! Without it an agent would answer its own comments, which come back as
//! events of its operator.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::markdown::{Line, own_lines};
use crate::base::ids::WorkItem;

const BEFORE: &str = "(the-loop ";
const AFTER: char = ')';

/// Makes and knows the line of each work item: a MAC of its reference, so that
/// nobody else can make one for an item where none was posted.
#[derive(Clone)]
pub struct OwnVoice {
    key: [u8; 32],
}

impl fmt::Debug for OwnVoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnVoice").finish_non_exhaustive()
    }
}

impl OwnVoice {
    /// The voice of the installation with this key.
    pub fn new(key: [u8; 32]) -> Self {
        Self { key }
    }

    /// The line for an item. GitHub shows it as it is.
    pub fn line(&self, item: &WorkItem) -> String {
        let code = self.mac(b"the-loop own voice 1\0", &item.to_string());
        format!("{BEFORE}{}{AFTER}", hex::encode(&code[..16]))
    }

    /// A word that nobody else can know before it is posted: by it, what was posted
    /// is found again.
    pub fn key_of(&self, what: &str) -> String {
        hex::encode(&self.mac(b"the-loop said 1\0", what)[..16])
    }

    fn mac(&self, purpose: &[u8], what: &str) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes any key");
        mac.update(purpose);
        mac.update(what.as_bytes());
        mac.finalize().into_bytes().into()
    }

    /// Whether the last line of the text that is its author's own and for all to
    /// see is the line of this item.
    pub fn is_own(&self, text: &str, item: &WorkItem) -> bool {
        self.is_own_of_any(text, [item])
    }

    /// Whether the text ends with the line of one of these items: an agent also
    /// writes on pull requests and on other issues than its own.
    pub fn is_own_of_any<'a>(
        &self,
        text: &str,
        items: impl IntoIterator<Item = &'a WorkItem>,
    ) -> bool {
        // Most texts are by people, and need no parser.
        if !text.contains(BEFORE) {
            return false;
        }
        let lines = own_lines(text);
        // An agent may have put emphasis around it.
        let Some(last) = lines.iter().map(Line::bare).rfind(|line| !line.is_empty()) else {
            return false;
        };
        // Most texts end differently: no MAC is made for those.
        last.starts_with(BEFORE)
            && last.ends_with(AFTER)
            && items.into_iter().any(|item| self.line(item) == last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(text: &str) -> WorkItem {
        text.parse().unwrap()
    }

    #[test]
    fn the_line_is_fixed_for_an_item_and_another_for_every_other() {
        let voice = OwnVoice::new([7; 32]);
        let line = voice.line(&item("o/r#1"));
        assert_eq!(line, voice.line(&item("O/R#1")));
        assert_eq!(line.len(), "(the-loop )".len() + 32);
        assert_ne!(line, voice.line(&item("o/r#11")));
        assert_ne!(line, voice.line(&item("ghe.example/o/r#1")));
        assert_ne!(line, OwnVoice::new([8; 32]).line(&item("o/r#1")));
    }

    #[test]
    fn only_the_last_line_outside_quotes_and_code_counts() {
        let voice = OwnVoice::new([7; 32]);
        let line = voice.line(&item("o/r#1"));
        let other = voice.line(&item("o/r#2"));
        for (text, own) in [
            (format!("Done.\n\n{line}"), true),
            (format!("Done.\r\n\r\n  {line}  \r\n\r\n"), true),
            (format!("Done.\n{line}\n\n> {line}\n> more"), true),
            (format!("Done.\n**{line}**"), true),
            (format!("Done.\n_{line}_\n<!-- x -->"), true),
            (format!("- one\n- two\n{line}"), true),
            (format!("|a|\n|-|\n|b|\n{line}"), true),
            (format!("<details>\n\nlong\n\n</details>\n{line}"), true),
            (format!("<details>long</details>\n\n<sub>{line}</sub>"), true),
            (format!("Done: <!-- not closed\n{line}"), true),
            (format!("What is this?\n`{line}`"), false),
            (format!("No.\n\n> Done.\n{line}"), false),
            (format!("do it <blockquote>\n\n{line}"), false),
            (format!("<blockquote>\n{line}\n</blockquote>"), false),
            (format!("go on\n<!--\n{line}\n-->"), false),
            (line.clone(), true),
            (format!("> Done.\n>\n> {line}\n\nNo, it is not."), false),
            (format!("No, it is not.\n\n> Done.\n> {line}"), false),
            (format!("> {line}"), false),
            (format!("- > {line}"), false),
            (format!("```\n{line}\n```"), false),
            (format!("See:\n\n    {line}"), false),
            (format!("{line}\nP.S."), false),
            (format!("I saw {line}"), false),
            (format!("{line} {line}"), false),
            (other, false),
            ("(the-loop )".to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(voice.is_own(&text, &item("o/r#1")), own, "{text:?}");
        }
    }

    #[test]
    fn the_key_is_not_printed() {
        assert_eq!(format!("{:?}", OwnVoice::new([7; 32])), "OwnVoice { .. }");
    }
}
