//! The file as a tree: YAML without its types, keys in order and with
//! duplicates, so that the walk to typed values can say exactly what is where.

use std::fmt;

use serde::de::{Deserialize, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess, Visitor};

/// One value of the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// Nothing, `~` or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i128),
    /// Another number.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Self>),
    /// Keys with values, as they stand in the file.
    Map(Vec<(String, Self)>),
}

/// One step from the root of the file towards a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Into the value of a key.
    Key(String),
    /// Into an element of a list.
    Index(usize),
}

/// The path as people write it: `routing.repositories[1]`.
pub(super) fn dotted(path: &[Step]) -> String {
    let mut out = String::new();
    for step in path {
        match step {
            Step::Key(key) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(key);
            }
            Step::Index(index) => {
                out.push('[');
                out.push_str(&index.to_string());
                out.push(']');
            }
        }
    }
    out
}

/// A test of one key: all keys of the place, and the number of the one.
type IsIt = dyn Fn(&[(String, Node)], usize) -> bool;

impl Node {
    /// The first key that stands twice in one place, with the path to it.
    pub(super) fn duplicate(&self) -> Option<Vec<Step>> {
        self.key_where(&|entries, at| entries[..at].iter().any(|(key, _)| *key == entries[at].0))
    }

    /// The first merge key, with the path to it.
    pub(super) fn merge_key(&self) -> Option<Vec<Step>> {
        self.key_where(&|entries, at| entries[at].0 == "<<")
    }

    /// The path to the first key that a test holds for.
    fn key_where(&self, is_it: &IsIt) -> Option<Vec<Step>> {
        match self {
            Self::Map(entries) => entries.iter().enumerate().find_map(|(at, (key, value))| {
                let step = Step::Key(key.clone());
                if is_it(entries, at) {
                    return Some(vec![step]);
                }
                value.key_where(is_it).map(|rest| [vec![step], rest].concat())
            }),
            Self::List(items) => items.iter().enumerate().find_map(|(at, item)| {
                item.key_where(is_it).map(|rest| [vec![Step::Index(at)], rest].concat())
            }),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

/// A key, which must be written as plain or quoted text.
pub(super) struct KeyText(pub(super) String);

impl<'de> Deserialize<'de> for KeyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Integer(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Node, E> {
        Ok(Node::Integer(value))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Node, E> {
        Ok(Node::Integer(i128::try_from(value).unwrap_or(i128::MAX)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(KeyText(key)) = map.next_key()? {
            entries.push((key, map.next_value()?));
        }
        Ok(Node::Map(entries))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, _: A) -> Result<Node, A::Error> {
        Err(A::Error::custom("a value cannot have a tag (`!…`)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Node {
        serde_yaml::from_str(text).unwrap()
    }

    #[test]
    fn a_key_given_twice_is_found_wherever_it_is() {
        assert_eq!(tree("a: {b: 1}\nb: [1]\n").duplicate(), None);
        let path = tree("a: 1\nb: [x, {c: 1, d: 2, c: 3}]\n").duplicate().unwrap();
        assert_eq!(dotted(&path), "b[1].c");
    }

    #[test]
    fn an_empty_file_is_nothing() {
        assert_eq!(tree(""), Node::Null);
        assert_eq!(tree("# only a remark\n"), Node::Null);
    }
}
