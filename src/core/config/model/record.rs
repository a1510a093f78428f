//! Signs in JSON records of an agent, and what a record is that has them.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::harness::as_text;

/// JSON values of a record that say something: `/pointer` is there and not null,
/// `/pointer=value` has that value; of several with ` & ` between, all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sign {
    marks: Vec<Mark>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    pointer: String,
    value: Option<String>,
}

impl Sign {
    /// Whether a record has it.
    pub fn fits(&self, record: &Value) -> bool {
        self.marks.iter().all(|mark| mark.fits(record))
    }
}

impl Mark {
    fn fits(&self, record: &Value) -> bool {
        let Some(found) = record.pointer(&self.pointer) else { return false };
        match &self.value {
            None => !found.is_null(),
            Some(value) => match found {
                Value::String(text) => text == value,
                Value::Bool(found) => value.parse() == Ok(*found),
                Value::Number(found) => {
                    value.parse().is_ok_and(|value: serde_json::Number| value == *found)
                }
                _ => false,
            },
        }
    }
}

impl fmt::Display for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, mark) in self.marks.iter().enumerate() {
            f.write_str(if number == 0 { "" } else { " & " })?;
            f.write_str(&mark.pointer)?;
            if let Some(value) = &mark.value {
                write!(f, "={value}")?;
            }
        }
        Ok(())
    }
}

/// A text is no [`Sign`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a sign is a JSON pointer, or one with a value, as in `/type=result`")]
pub struct InvalidSign;

impl FromStr for Sign {
    type Err = InvalidSign;

    fn from_str(text: &str) -> Result<Self, InvalidSign> {
        let mark = |text: &str| {
            let (pointer, value) = match text.split_once('=') {
                Some((pointer, value)) => (pointer, Some(value.to_owned())),
                None => (text, None),
            };
            let is_one = pointer.starts_with('/') && pointer.len() > 1;
            is_one.then(|| Mark { pointer: pointer.to_owned(), value }).ok_or(InvalidSign)
        };
        Ok(Self { marks: text.split(" & ").map(mark).collect::<Result<_, _>>()? })
    }
}

as_text!(Sign: "^/");

/// `harnesses.<name>.result.shows[]` and `.transcript.words[]`: what a record is,
/// and where its text stands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RecordRule {
    /// The records that it is about.
    pub when: Vec<Sign>,
    /// What they are.
    pub is: RecordKind,
    /// Where the name of the tool stands.
    pub name: Vec<String>,
    /// Where the text stands; a `*` in a pointer stands for each item of a list.
    pub text: Vec<String>,
    /// Whether the text is a part, which goes on in the next record.
    pub part: bool,
}

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecordKind {
    /// Words of the agent.
    #[default]
    Said,
    /// A call of a tool.
    Call,
    /// What a tool answered.
    Answer,
    /// A failure.
    Failure,
    /// Nothing for people.
    Nothing,
}

impl RecordRule {
    /// Whether a record is one that it is about.
    pub fn fits(&self, record: &Value) -> bool {
        self.when.iter().any(|sign| sign.fits(record))
    }

    /// The values at the places of its text.
    pub fn texts<'a>(&self, record: &'a Value) -> Vec<&'a Value> {
        let mut found = Vec::new();
        for pointer in &self.text {
            at(record, pointer, &mut found);
        }
        found
    }
}

/// The values at a pointer in which a `*` stands for each item of a list.
fn at<'a>(record: &'a Value, pointer: &str, found: &mut Vec<&'a Value>) {
    let Some((before, behind)) = pointer.split_once("/*") else {
        found.extend(record.pointer(pointer));
        return;
    };
    for item in record.pointer(before).and_then(Value::as_array).into_iter().flatten() {
        at(item, behind, found);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sign_is_a_value_or_that_there_is_one_and_several_are_all_of_them() {
        let record = json!({"type": "end", "item": {"n": 3, "none": null}});
        for (text, fits) in [
            ("/type", true),
            ("/type=end", true),
            ("/type=start", false),
            ("/item/n=3", true),
            ("/item/none", false),
            ("/item/other", false),
            ("/type=end & /item/n=3", true),
            ("/type=end & /item/n=4", false),
        ] {
            let sign: Sign = text.parse().unwrap();
            assert_eq!((sign.fits(&record), sign.to_string().as_str()), (fits, text), "{text}");
        }
        for text in ["", "/", "type", "=x", "/type & x"] {
            assert_eq!(text.parse::<Sign>(), Err(InvalidSign), "{text:?}");
        }
    }

    #[test]
    fn a_star_stands_for_each_item() {
        let record = json!({"calls": [{"args": 1}, {"args": 2}, {}], "x": 3});
        let rule = |text: &str| RecordRule { text: vec![text.to_owned()], ..RecordRule::default() };
        assert_eq!(rule("/calls/*/args").texts(&record), [&json!(1), &json!(2)]);
        assert_eq!(rule("/x").texts(&record), [&json!(3)]);
        assert_eq!(rule("/x/*").texts(&record), Vec::<&Value>::new());
    }
}
