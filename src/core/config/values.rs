//! Values that are more than their type: checked while the file is read, so
//! that the error can point at them.

use std::fmt::{self, Display};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

use crate::base::text::brief;

/// What is said about an address with a password in it, which is not repeated.
pub(super) const NO_PASSWORD: &str = "an address here holds no user name or password";

/// A text of the file between backticks, in which it has none of its own: lines are
/// not broken within a pair.
pub(super) fn shown(text: &str) -> String {
    brief(&text.replace('`', "'"), 60)
}

/// The same within a hint, which is one line.
pub(super) fn hinted(text: &str) -> String {
    brief(&text.replace('`', "'"), 40)
}

/// An address to listen on.
pub(super) fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IpAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| {
        D::Error::custom(format!("`{}` is not an IP address, as in `127.0.0.1`", shown(&text)))
    })
}

/// An address and port to listen on.
pub(super) fn listen<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        let text = shown(&text);
        D::Error::custom(format!("`{text}` is not an address and port, as in `127.0.0.1:9090`"))
    })
}

/// An address to listen on, or the name of a network interface.
pub(super) fn interface<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let name = (1..=15).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.@:".contains(c));
    if text.parse::<IpAddr>().is_ok() || name {
        return Ok(text);
    }
    Err(D::Error::custom(format!(
        "`{}` is not an IP address or a network interface, as in\n`127.0.0.1` or `tailscale0`",
        shown(&text)
    )))
}

/// Names of hosts, with a port when they have one.
pub(super) fn host_names<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
    let names = Vec::<HostName>::deserialize(deserializer)?;
    Ok(names.into_iter().map(|HostName(name)| name).collect())
}

struct HostName(String);

impl<'de> Deserialize<'de> for HostName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((v6, rest)) => (v6, rest.strip_prefix(':').or(rest.is_empty().then_some("0"))),
            None => text
                .split_once(':')
                .map_or((text.as_str(), Some("0")), |(name, port)| (name, Some(port))),
        };
        let fits = (1..=253).contains(&name.len())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "-.:".contains(c))
            && port.is_some_and(|port| port.parse::<u16>().is_ok());
        if fits {
            return Ok(Self(text));
        }
        Err(D::Error::custom(format!(
            "`{}` is not the name of a host, as in `box.example.net`",
            shown(&text)
        )))
    }
}

/// The address of a web page. One with a password in it is not repeated.
pub(super) fn web_url<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    if text.contains('@') {
        return Err(D::Error::custom(NO_PASSWORD));
    }
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let fits = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        && text.len() <= 500
        && text.chars().all(|c| c.is_ascii_graphic() && !"\"'<>\\`?#".contains(c));
    if fits && rest.is_some_and(|rest| rest.trim_end_matches('/').contains('/')) {
        let text = shown(&text);
        return Err(D::Error::custom(format!(
            "`{text}` has a path, and the pages are at the root of a name"
        )));
    }
    if fits {
        return Ok(Some(text.trim_end_matches('/').to_owned()));
    }
    let text = shown(&text);
    Err(D::Error::custom(format!("`{text}` is not a web address, as in `https://box.example.net`")))
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
    // Random digits can begin with a letter: they would be shown as a name is.
    let is_random = text.len() >= 24
        && !text.contains('_')
        && text.contains(|c: char| c.is_ascii_digit())
        && text.contains(|c: char| c.is_ascii_lowercase());
    (fits && !is_random)
        .then_some(text)
        .ok_or_else(|| D::Error::custom("this is not the name of an environment variable"))
}

/// The path of a program. A relative one would be taken out of the work tree,
/// where whoever can push can put a program.
pub(super) fn program_path<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PathBuf>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    if text.starts_with('/') || text.starts_with("~/") {
        return Ok(Some(PathBuf::from(text)));
    }
    let text = shown(&text);
    Err(D::Error::custom(format!(
        "`{text}` is not an absolute path, as in\n`/usr/bin/tmux` or `~/bin/tmux`"
    )))
}

/// A path, which is not empty: joined to the project, an empty one would be the
/// project itself.
pub(super) fn path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    let path = PathBuf::deserialize(deserializer)?;
    if path.as_os_str().is_empty() {
        return Err(D::Error::custom("a path is not empty; `.` is the project itself"));
    }
    Ok(path)
}

/// The same where nothing need stand.
pub(super) fn optional_path<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PathBuf>, D::Error> {
    let path = Option::<PathBuf>::deserialize(deserializer)?;
    if path.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
        return Err(D::Error::custom("a path is not empty; leave out the key for the default"));
    }
    Ok(path)
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

/// Names of GitHub's events. A list that is given is not empty, for a webhook
/// without events is none.
pub(super) fn events<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let events = Vec::<EventName>::deserialize(deserializer)?;
    if events.is_empty() {
        return Ok(super::EVENTS.iter().map(|&event| event.to_owned()).collect());
    }
    Ok(events.into_iter().map(|EventName(event)| event).collect())
}

struct EventName(String);

impl<'de> Deserialize<'de> for EventName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if super::EVENT_NAMES.contains(&text.as_str()) {
            return Ok(Self(text));
        }
        Err(D::Error::unknown_variant(&text, super::EVENT_NAMES))
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
    T: TryFrom<u64> + PartialOrd + Display,
{
    deserializer.deserialize_u64(Whole(range))
}

/// A whole number of a range, of which every refusal speaks.
struct Whole<T>(RangeInclusive<T>);

impl<T: TryFrom<u64> + PartialOrd + Display> Visitor<'_> for Whole<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {} to {}", self.0.start(), self.0.end())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        let fits = T::try_from(number).ok().filter(|number| self.0.contains(number));
        fits.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }
}
