//! Where in the text a key or value stands.
//!
//! The YAML reader tells a position only with an error. So the file is read
//! again with a visitor that fails on purpose at the path that is looked for.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::tree::Step;

/// A spot in the text: line and column count characters from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Spot {
    /// The spot just behind a text.
    pub(super) fn behind(before: &str) -> Self {
        let lines = super::error::yaml_lines(before);
        let column = lines.last().map_or(0, |line| line.chars().count()) + 1;
        Self { line: lines.len(), column }
    }
}

/// What is looked for at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// The key itself, at its n-th appearance (from 0).
    Key(usize),
    /// The value behind it.
    Value,
}

/// The spot of the key or value at `path`.
pub(super) fn locate(text: &str, path: &[Step], what: What) -> Option<Spot> {
    let deserializer = serde_yaml::Deserializer::from_str(text);
    let error = Walk { path, what }.deserialize(deserializer).err()?;
    let location = error.location()?;
    Some(Spot { line: location.line(), column: location.column() })
}

#[derive(Clone, Copy)]
struct Walk<'a> {
    path: &'a [Step],
    what: What,
}

fn here<E: Error>() -> E {
    E::custom("here")
}

impl Walk<'_> {
    fn arrived<E: Error>(self) -> Result<(), E> {
        if self.path.is_empty() { Err(here()) } else { Ok(()) }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.arrived()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.arrived()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.arrived()
    }

    fn visit_i128<E: Error>(self, _: i128) -> Result<(), E> {
        self.arrived()
    }

    fn visit_u128<E: Error>(self, _: u128) -> Result<(), E> {
        self.arrived()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.arrived()
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        self.arrived()
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.arrived()
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.arrived()
    }

    fn visit_enum<A: EnumAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Err(here())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Some((first, rest)) = self.path.split_first() else { return Err(here()) };
        let mut index = 0;
        loop {
            let found = if *first == Step::Index(index) {
                seq.next_element_seed(Walk { path: rest, ..self })?
            } else {
                seq.next_element::<IgnoredAny>()?.map(|_| ())
            };
            if found.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((first, rest)) = self.path.split_first() else { return Err(here()) };
        let mut seen = 0;
        let fail_at = match self.what {
            What::Key(nth) if rest.is_empty() => Some(nth),
            _ => None,
        };
        while let Some(is_it) = map.next_key_seed(Key { step: first, seen, fail_at })? {
            if is_it {
                seen += 1;
            }
            if is_it && fail_at.is_none() {
                map.next_value_seed(Walk { path: rest, ..self })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// Reads a key and says whether it is the one of the step.
struct Key<'a> {
    step: &'a Step,
    seen: usize,
    fail_at: Option<usize>,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<bool, E> {
        let is_it = matches!(self.step, Step::Key(wanted) if wanted == key);
        if is_it && self.fail_at == Some(self.seen) { Err(here()) } else { Ok(is_it) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(steps: &[&str]) -> Vec<Step> {
        steps
            .iter()
            .map(|step| step.parse().map_or_else(|_| Step::Key((*step).to_owned()), Step::Index))
            .collect()
    }

    fn spot(text: &str, steps: &[&str], what: What) -> Option<(usize, usize)> {
        locate(text, &path(steps), what).map(|spot| (spot.line, spot.column))
    }

    #[test]
    fn keys_and_values_are_found_where_they_stand() {
        let text = "a: 1\nb:\n  c: x\n  list:\n    - one\n    - {d: two}\n  \"c\": y\n";
        assert_eq!(spot(text, &["a"], What::Key(0)), Some((1, 1)));
        assert_eq!(spot(text, &["a"], What::Value), Some((1, 4)));
        assert_eq!(spot(text, &["b", "c"], What::Key(0)), Some((3, 3)));
        assert_eq!(spot(text, &["b", "c"], What::Key(1)), Some((7, 3)));
        assert_eq!(spot(text, &["b", "list", "0"], What::Value), Some((5, 7)));
        assert_eq!(spot(text, &["b", "list", "1", "d"], What::Value), Some((6, 11)));
        assert_eq!(spot(text, &["b", "nothing"], What::Value), None);
    }

    #[test]
    fn columns_count_characters() {
        assert_eq!(spot("{ä: 1, b: 2}\n", &["b"], What::Key(0)), Some((1, 8)));
    }
}
