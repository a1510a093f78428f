//! Amounts with a unit: sizes and spans of time, as people write them.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::values::shown;

/// A number of bytes: `512MB`. Units are of 1024; a bare number is bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ByteSize(u64);

/// A span of time: `30m`. A bare number is seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Span(u64);

const SIZES: &[(&str, u64)] = &[("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10), ("B", 1)];
const SPANS: &[(&str, u64)] = &[("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)];

/// More than anybody means: 2^50 bytes, and a hundred years.
const MOST_BYTES: u64 = 1 << 50;
const MOST_SECONDS: u64 = 3_155_760_000;

impl ByteSize {
    /// So many KB.
    pub const fn kilobytes(number: u32) -> Self {
        Self((number as u64) << 10)
    }

    /// So many MB.
    pub const fn megabytes(number: u32) -> Self {
        Self((number as u64) << 20)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl Span {
    /// So many minutes.
    pub const fn minutes(number: u32) -> Self {
        Self(number as u64 * 60)
    }

    /// So many days.
    pub const fn days(number: u32) -> Self {
        Self(number as u64 * 86_400)
    }

    /// The span that a text says, with its unit or without; nothing where it says none.
    pub(super) fn read(text: &str) -> Option<Self> {
        parse(text, SPANS, MOST_SECONDS).ok().map(Self)
    }

    /// The span as the library has it.
    pub const fn duration(self) -> Duration {
        Duration::from_secs(self.0)
    }
}

/// Why a text is no amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    NoAmount,
    TooMuch,
}

/// The number in front and the unit behind it, whatever its case.
fn parse(text: &str, units: &[(&str, u64)], most: u64) -> Result<u64, Wrong> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    let factor = if unit.is_empty() {
        1
    } else {
        let mut fitting = units.iter().filter(|(name, _)| name.eq_ignore_ascii_case(unit));
        fitting.next().ok_or(Wrong::NoAmount)?.1
    };
    if number.is_empty() {
        return Err(Wrong::NoAmount);
    }
    let amount = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    amount.filter(|&amount| amount <= most).ok_or(Wrong::TooMuch)
}

/// In the largest unit that leaves no rest.
fn write(number: u64, units: &[(&str, u64)], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match units.iter().find(|(_, factor)| number > 0 && number.is_multiple_of(*factor)) {
        Some((name, factor)) => write!(f, "{}{name}", number / factor),
        None => write!(f, "{number}"),
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self.0, SIZES, f)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self.0, SPANS, f)
    }
}

/// An amount may be written with its unit, or as a bare number.
fn schema(units: &str) -> schemars::Schema {
    schemars::json_schema!({
        "anyOf": [
            { "type": "integer", "minimum": 0 },
            { "type": "string", "pattern": format!("^[0-9]+ *({units})?$") },
        ]
    })
}

impl schemars::JsonSchema for ByteSize {
    fn schema_name() -> Cow<'static, str> {
        "ByteSize".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schema("[bB]|[kKmMgG][bB]")
    }
}

impl schemars::JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schema("[smhdSMHD]")
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

struct Amount {
    units: &'static [(&'static str, u64)],
    most: u64,
    expected: &'static str,
    at_most: &'static str,
}

impl Visitor<'_> for Amount {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
        parse(text, self.units, self.most).map_err(|wrong| {
            let text = shown(text);
            match wrong {
                Wrong::NoAmount => E::custom(format!("`{text}` is not {}", self.expected)),
                Wrong::TooMuch => E::custom(format!("`{text}` is more than {}", self.at_most)),
            }
        })
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a size, as in `512MB` (units: B, KB, MB, GB)";
        let at_most = "1048576GB";
        deserializer
            .deserialize_any(Amount { units: SIZES, most: MOST_BYTES, expected, at_most })
            .map(Self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a span of time, as in `30m` (units: s, m, h, d)";
        let at_most = "36525d";
        deserializer
            .deserialize_any(Amount { units: SPANS, most: MOST_SECONDS, expected, at_most })
            .map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_written_as_it_is_read() {
        for text in ["0", "1B", "16KB", "1GB", "1536MB"] {
            assert_eq!(ByteSize(parse(text, SIZES, MOST_BYTES).unwrap()).to_string(), text);
        }
        for text in ["0", "90s", "30m", "36h", "30d"] {
            assert_eq!(Span(parse(text, SPANS, MOST_SECONDS).unwrap()).to_string(), text);
        }
        assert_eq!(parse("16 kb", SIZES, MOST_BYTES), Ok(16 << 10));
        assert_eq!(parse("90", SPANS, MOST_SECONDS), Ok(90));
        // What is said of too much is the most there is.
        assert_eq!(parse("1048576GB", SIZES, MOST_BYTES), Ok(MOST_BYTES));
        assert_eq!(parse("36525d", SPANS, MOST_SECONDS), Ok(MOST_SECONDS));
    }

    #[test]
    fn what_is_no_amount_is_none_and_too_much_is_told_apart() {
        for text in ["", "KB", "-1", "1.5GB", "1TB", "99999999TB"] {
            assert_eq!(parse(text, SIZES, MOST_BYTES), Err(Wrong::NoAmount), "{text}");
        }
        for text in ["99999999999999999999", "9999999GB", "1048577GB"] {
            assert_eq!(parse(text, SIZES, MOST_BYTES), Err(Wrong::TooMuch), "{text}");
        }
    }
}
