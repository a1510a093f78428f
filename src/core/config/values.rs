//! Values that are more than their type: checked while the file is read, so
//! that the error can point at them.

use std::fmt::Display;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use serde::de::{Deserialize, Deserializer, Error};

use crate::base::text::{cap, visible};

fn shown(text: &str) -> String {
    visible(&cap(text, 60))
}

/// An address to listen on.
pub(super) fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IpAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| {
        D::Error::custom(format!("`{}` is not an IP address, as in `127.0.0.1`", shown(&text)))
    })
}

/// The path of the receiver. `/healthz` is taken.
pub(super) fn url_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/-._~".contains(c));
    if !plain || !text.starts_with('/') || text.len() < 2 || text.len() > 200 {
        let text = shown(&text);
        return Err(D::Error::custom(format!("`{text}` is not a path, as in `/gh-webhook`")));
    }
    if text == "/healthz" {
        return Err(D::Error::custom("`/healthz` is the receiver's own; choose another path"));
    }
    Ok(text)
}

/// The name of an environment variable. What stands there may be the secret
/// itself, put into the wrong place: the message does not repeat it.
pub(super) fn variable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let fits = text.len() <= 200
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    fits.then_some(text)
        .ok_or_else(|| D::Error::custom("this is not the name of an environment variable"))
}

/// The name of a label.
pub(super) fn label<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.trim().is_empty() {
        return Err(D::Error::custom("a label has a name"));
    }
    Ok(text)
}

/// GitHub logins.
pub(super) fn logins<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let logins = Vec::<Login>::deserialize(deserializer)?;
    Ok(logins.into_iter().map(|Login(login)| login).collect())
}

struct Login(String);

impl<'de> Deserialize<'de> for Login {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let name = text.strip_suffix("[bot]").unwrap_or(&text);
        let fits = (1..=100).contains(&name.len())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        if fits {
            return Ok(Self(text));
        }
        let text = shown(&text);
        Err(D::Error::custom(match text.strip_prefix('@') {
            Some(login) => format!("`{text}`: write the login without its `@`: `{login}`"),
            None => format!("`{text}` is not the login of a GitHub user"),
        }))
    }
}

/// How many starts may be under way at once.
pub(super) fn dispatches<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    within(deserializer, 1..=64)
}

/// A time-out in seconds.
pub(super) fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, 1..=86_400)
}

fn within<'de, D, T>(deserializer: D, range: RangeInclusive<T>) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + PartialOrd + Display,
{
    let value = T::deserialize(deserializer)?;
    if range.contains(&value) {
        return Ok(value);
    }
    let (from, to) = range.into_inner();
    Err(D::Error::custom(format!("`{value}` is not between {from} and {to}")))
}
