//! From the tree to typed values. Every fault says what is wrong, and the path
//! of the key or value that is.
//!
//! A group of keys or a list with nothing behind its key has its defaults: so a
//! file whose lines are all commented out stays valid.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, Visitor,
};

use super::tree::{Node, Step};

/// What is wrong with one key or value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// What is wrong.
    pub(super) kind: FaultKind,
    /// The way to it, innermost step first while it travels up.
    pub(super) path: Vec<Step>,
    /// Whether the key at the end of the path is at fault, not its value.
    pub(super) at_key: bool,
}

/// The ways in which a tree can fail to be a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// No such key here.
    UnknownKey { known: &'static [&'static str] },
    /// Not one of the words that the key takes.
    UnknownValue { value: String, known: &'static [&'static str] },
    /// A value of another kind than the key takes.
    WrongType { found: Found, expected: String },
    /// A single value where further keys belong.
    NeedsKeys { found: Found, known: &'static [&'static str] },
    /// A value that its type refuses, with the type's own words.
    Invalid(String),
}

/// What stands in the file, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing.
    Nothing,
    /// A list.
    List,
    /// A group of keys.
    Keys,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as it would be written.
    Number(String),
    /// A whole number that no type here can hold.
    Huge,
    /// Text.
    Text(String),
}

impl Fault {
    fn new(kind: FaultKind) -> Self {
        Self { kind, path: Vec::new(), at_key: false }
    }

    fn below(mut self, step: Step) -> Self {
        self.path.push(step);
        self
    }

    /// The fault at the end of its journey: the path from the root.
    pub(super) fn arrived(mut self) -> Self {
        self.path.reverse();
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.kind)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::new(FaultKind::Invalid(text.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(FaultKind::WrongType {
            found: Found::of(found),
            expected: in_words(&expected.to_string()),
        })
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(value: &str, known: &'static [&'static str]) -> Self {
        Self::new(FaultKind::UnknownValue { value: value.to_owned(), known })
    }

    fn unknown_field(_: &str, known: &'static [&'static str]) -> Self {
        Self::new(FaultKind::UnknownKey { known })
    }
}

impl Found {
    fn of(found: Unexpected<'_>) -> Self {
        match found {
            Unexpected::Bool(value) => Self::Bool(value),
            Unexpected::Unsigned(number) => Self::Number(number.to_string()),
            Unexpected::Signed(number) => Self::Number(number.to_string()),
            Unexpected::Float(number) => Self::Number(number.to_string()),
            Unexpected::Str(text) => Self::Text(text.to_owned()),
            Unexpected::Seq => Self::List,
            Unexpected::Map => Self::Keys,
            // A number beyond 64 bits is the only other thing a tree can hold.
            Unexpected::Other(_) => Self::Huge,
            _ => Self::Nothing,
        }
    }
}

/// What a type says it expects, in the words of the documentation.
fn in_words(expected: &str) -> String {
    match expected {
        "u8" => "a whole number from 0 to 255".to_owned(),
        "u16" => "a whole number from 0 to 65535".to_owned(),
        "u32" => "a whole number from 0 to 4294967295".to_owned(),
        "a boolean" => "`true` or `false`".to_owned(),
        "a string" => "text".to_owned(),
        "path string" => "a path".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "keys".to_owned(),
        other => other.to_owned(),
    }
}

impl Node {
    fn unexpected(&self) -> Unexpected<'_> {
        match self {
            Self::Null => Unexpected::Unit,
            Self::Bool(value) => Unexpected::Bool(*value),
            Self::Integer(number) => match (i64::try_from(*number), u64::try_from(*number)) {
                (Ok(number), _) => Unexpected::Signed(number),
                (_, Ok(number)) => Unexpected::Unsigned(number),
                _ => Unexpected::Other("huge"),
            },
            Self::Float(number) => Unexpected::Float(*number),
            Self::Text(text) => Unexpected::Str(text),
            Self::List(_) => Unexpected::Seq,
            Self::Map(_) => Unexpected::Map,
        }
    }

    fn visit_entries<'de, V: Visitor<'de>>(&'de self, visitor: V) -> Result<V::Value, Fault> {
        match self {
            Self::Null => visitor.visit_map(Entries { rest: [].iter(), current: None }),
            Self::Map(entries) => {
                visitor.visit_map(Entries { rest: entries.iter(), current: None })
            }
            other => Err(de::Error::invalid_type(other.unexpected(), &visitor)),
        }
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self {
            Node::Null => visitor.visit_unit(),
            Node::Bool(value) => visitor.visit_bool(*value),
            Node::Integer(number) => match (u64::try_from(*number), i64::try_from(*number)) {
                (Ok(number), _) => visitor.visit_u64(number),
                (_, Ok(number)) => visitor.visit_i64(number),
                _ => Err(de::Error::invalid_type(self.unexpected(), &visitor)),
            },
            Node::Float(number) => visitor.visit_f64(*number),
            Node::Text(text) => visitor.visit_borrowed_str(text),
            Node::List(items) => visitor.visit_seq(Items { rest: items.iter().enumerate() }),
            Node::Map(_) => self.visit_entries(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self {
            Node::Null => visitor.visit_none(),
            other => visitor.visit_some(other),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self {
            Node::Null => visitor.visit_seq(Items { rest: [].iter().enumerate() }),
            other => other.deserialize_any(visitor),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit_entries(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self {
            Node::Null | Node::Map(_) => self.visit_entries(visitor),
            other => {
                let found = Found::of(other.unexpected());
                Err(Fault::new(FaultKind::NeedsKeys { found, known }))
            }
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self {
            Node::Text(text) => {
                visitor.visit_enum(IntoDeserializer::<Fault>::into_deserializer(text.as_str()))
            }
            // A word that YAML takes for something else (`true`, `5`) is still a wrong word.
            Node::Bool(value) => Err(de::Error::unknown_variant(&value.to_string(), known)),
            Node::Integer(number) => Err(de::Error::unknown_variant(&number.to_string(), known)),
            other => Err(Fault::new(FaultKind::WrongType {
                found: Found::of(other.unexpected()),
                expected: super::suggest::one_of(known),
            })),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct tuple tuple_struct identifier ignored_any
    }
}

struct Items<'de> {
    rest: std::iter::Enumerate<std::slice::Iter<'de, Node>>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some((index, node)) = self.rest.next() else { return Ok(None) };
        seed.deserialize(node).map(Some).map_err(|fault| fault.below(Step::Index(index)))
    }
}

struct Entries<'de> {
    rest: std::slice::Iter<'de, (String, Node)>,
    current: Option<&'de (String, Node)>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        self.current = self.rest.next();
        let Some((key, _)) = self.current else { return Ok(None) };
        seed.deserialize(StrDeserializer::new(key)).map(Some).map_err(|mut fault: Fault| {
            if let FaultKind::UnknownValue { known, .. } = fault.kind {
                fault.kind = FaultKind::UnknownKey { known };
            }
            fault.at_key = true;
            fault.below(Step::Key(key.clone()))
        })
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        let (key, node) = self.current.expect("a value is asked for after its key");
        seed.deserialize(node).map_err(|fault| fault.below(Step::Key(key.clone())))
    }
}
