//! The key that submits a prompt.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::harness::as_text;

/// Letters that with Control end, stop or hold a program, or put a draft aside.
const KEPT_BACK: &str = "cdqsz";

/// `harnesses.<name>.typing.submit`: the key that submits a prompt, by its name in
/// tmux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SubmitKey {
    /// `Enter`, or `C-m`: a carriage return.
    #[default]
    Enter,
    /// `Tab`.
    Tab,
    /// `M-Enter`: with Alt.
    AltEnter,
    /// `S-Enter`: with Shift, where the agent knows keys by their codes.
    ShiftEnter,
    /// `C-Enter`: with Control, where the agent knows keys by their codes.
    ControlEnter,
    /// `C-j` and its like.
    Control(char),
}

impl SubmitKey {
    /// What the terminal sends for it.
    pub fn bytes(self) -> String {
        match self {
            Self::Enter => "\r".to_owned(),
            Self::Tab => "\t".to_owned(),
            Self::AltEnter => "\x1b\r".to_owned(),
            Self::ShiftEnter => "\x1b[13;2u".to_owned(),
            Self::ControlEnter => "\x1b[13;5u".to_owned(),
            Self::Control(letter) => char::from(letter as u8 & 0x1f).to_string(),
        }
    }
}

impl fmt::Display for SubmitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enter => f.write_str("Enter"),
            Self::Tab => f.write_str("Tab"),
            Self::AltEnter => f.write_str("M-Enter"),
            Self::ShiftEnter => f.write_str("S-Enter"),
            Self::ControlEnter => f.write_str("C-Enter"),
            Self::Control(letter) => write!(f, "C-{letter}"),
        }
    }
}

/// A text names no key that submits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the submit key is `Enter`, `Tab`, `M-Enter`, `S-Enter`, `C-Enter` or `C-` and a letter \
     that ends and stops nothing"
)]
pub struct InvalidKey;

impl FromStr for SubmitKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let letter = text.strip_prefix("C-").filter(|rest| rest.len() == 1);
        let letter = letter.and_then(|rest| rest.chars().next());
        Ok(match (text, letter) {
            ("Enter", _) | (_, Some('m')) => Self::Enter,
            ("Tab", _) | (_, Some('i')) => Self::Tab,
            ("M-Enter", _) => Self::AltEnter,
            ("S-Enter", _) => Self::ShiftEnter,
            ("C-Enter", _) => Self::ControlEnter,
            (_, Some(c)) if c.is_ascii_lowercase() && !KEPT_BACK.contains(c) => Self::Control(c),
            _ => return Err(InvalidKey),
        })
    }
}

as_text!(SubmitKey: "^(Enter|Tab|[MSC]-Enter|C-[abe-pru-wxy])$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_by_its_name_and_none_that_ends_or_stops_is_taken() {
        for (name, bytes) in [
            ("Enter", "\r"),
            ("C-m", "\r"),
            ("C-j", "\n"),
            ("Tab", "\t"),
            ("M-Enter", "\x1b\r"),
            ("S-Enter", "\x1b[13;2u"),
            ("C-Enter", "\x1b[13;5u"),
            ("C-o", "\x0f"),
        ] {
            assert_eq!(name.parse::<SubmitKey>().unwrap().bytes(), bytes, "{name}");
        }
        for name in ["C-c", "C-d", "C-z", "C-s", "C-q", "C-[", "C-J", "C-", "Escape", "enter", ""] {
            assert_eq!(name.parse::<SubmitKey>(), Err(InvalidKey), "{name}");
        }
        let all = ["Enter", "Tab", "M-Enter", "S-Enter", "C-Enter", "C-o"];
        assert!(all.iter().all(|name| name.parse::<SubmitKey>().unwrap().to_string() == *name));
    }
}
