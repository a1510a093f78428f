//! The names of things: repositories, work items, deliveries, sessions.
//!
//! Every one is parsed once and is valid from then on. None of them can hold a
//! character that tmux, a shell or a path would read as syntax.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The host whose name is left out of references and slugs.
pub const GITHUB: &str = "github.com";

/// A text is not the kind of name that was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct InvalidId {
    text: String,
    expected: &'static str,
}

impl InvalidId {
    fn new(text: &str, expected: &'static str) -> Self {
        let text = super::text::visible(&super::text::cap(text, 120));
        Self { text, expected }
    }
}

/// A repository on a host. Owner and name are kept in lower case, because
/// GitHub compares them without it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Repo {
    host: String,
    owner: String,
    name: String,
}

impl Repo {
    /// A repository on `host` (with `:port` when it has one).
    pub fn new(host: &str, owner: &str, name: &str) -> Result<Self, InvalidId> {
        let host_ok = !host.is_empty()
            && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':'))
            && host.split('.').all(|label| !label.is_empty())
            && host.split_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_ok());
        if !host_ok {
            return Err(InvalidId::new(host, "a host name"));
        }
        let owner_ok = !owner.is_empty()
            && owner.len() <= 100
            && owner.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        if !owner_ok {
            return Err(InvalidId::new(owner, "the owner of a repository"));
        }
        let name_ok = !name.is_empty()
            && name.len() <= 100
            && !matches!(name, "." | "..")
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        if !name_ok {
            return Err(InvalidId::new(name, "the name of a repository"));
        }
        Ok(Self {
            host: host.to_ascii_lowercase(),
            owner: owner.to_ascii_lowercase(),
            name: name.to_ascii_lowercase(),
        })
    }

    /// The host, with its port when it has one.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The owner, in lower case.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The name, in lower case.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The issue or pull request `number` of this repository.
    pub fn item(&self, number: u64) -> WorkItem {
        WorkItem { repo: self.clone(), number }
    }
}

impl fmt::Display for Repo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host != GITHUB {
            write!(f, "{}/", self.host)?;
        }
        write!(f, "{}/{}", self.owner, self.name)
    }
}

impl FromStr for Repo {
    type Err = InvalidId;

    /// `OWNER/NAME` or `HOST/OWNER/NAME`.
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        match text.split('/').collect::<Vec<_>>()[..] {
            [owner, name] => Self::new(GITHUB, owner, name),
            [host, owner, name] => Self::new(host, owner, name),
            _ => Err(InvalidId::new(text, "a repository (`OWNER/NAME`)")),
        }
    }
}

/// An issue or a pull request: `github:OWNER/REPO#N`, with `HOST/` in front of
/// the owner for GitHub Enterprise.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkItem {
    /// The repository it belongs to.
    pub repo: Repo,
    /// Its number there.
    pub number: u64,
}

impl WorkItem {
    /// The slug: a name that is safe as a file name, in tmux and in a URL.
    pub fn slug(&self) -> Slug {
        let escape = |text: &str| text.replace('.', "++").replace(':', "_");
        let Repo { host, owner, name } = &self.repo;
        let host = if host == GITHUB { String::new() } else { format!("{}+", escape(host)) };
        Slug(format!("{host}{owner}+{}+{}", escape(name), self.number))
    }

    /// `OWNER/REPO#N`, as people write it.
    pub fn short(&self) -> String {
        format!("{}#{}", self.repo, self.number)
    }
}

impl fmt::Display for WorkItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "github:{}#{}", self.repo, self.number)
    }
}

impl FromStr for WorkItem {
    type Err = InvalidId;

    /// `github:OWNER/REPO#N`, `OWNER/REPO#N` or an issue's or pull request's URL,
    /// also one without `https://`, as browsers show it.
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let invalid = || InvalidId::new(text, "a work item (`OWNER/REPO#N` or its URL)");
        let schemes = ["https://", "http://"];
        let page = schemes.iter().find_map(|scheme| text.strip_prefix(scheme));
        let address = page.unwrap_or(text);
        let path = address.split(['?', '#']).next().unwrap_or(address);
        let parts: Vec<_> = path.trim_end_matches('/').split('/').collect();
        if let [host, owner, name, "issues" | "pull", number, ..] = parts[..] {
            return Ok(
                Repo::new(host, owner, name)?.item(parse_number(number).ok_or_else(invalid)?)
            );
        }
        if page.is_some() {
            return Err(invalid());
        }
        let rest = text.strip_prefix("github:").unwrap_or(text);
        let (repo, number) = rest.split_once('#').ok_or_else(invalid)?;
        let number = parse_number(number).ok_or_else(invalid)?;
        Ok(repo.parse::<Repo>().map_err(|_| invalid())?.item(number))
    }
}

fn parse_number(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|&number: &u64| plain && number > 0)
}

/// A work item's name in file names and in tmux: `owner+repo+number`.
///
/// `.` is written `++`, another host stands in front, a port's `:` is `_`. Two
/// work items never have the same slug.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slug(String);

impl Slug {
    /// The slug as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the tmux session for this work item.
    pub fn tmux_name(&self) -> String {
        format!("loop/{}", self.0)
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Slug {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let fits = text.len() <= 400
            && text
                .split_once('+')
                .and_then(|(_, rest)| rest.rsplit_once('+'))
                .is_some_and(|(name, _)| !name.is_empty())
            && !text.starts_with('+')
            && text.rsplit('+').next().is_some_and(|number| parse_number(number).is_some())
            && text.chars().all(|c| {
                c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '+')
            });
        if fits { Ok(Self(text.to_owned())) } else { Err(InvalidId::new(text, "a session's slug")) }
    }
}

/// A delivery's id: GitHub's `X-GitHub-Delivery`, or ours for local messages.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryId(String);

impl DeliveryId {
    /// An id of ours, from random bytes, for a message that a person sends.
    pub fn local(random: [u8; 16]) -> Self {
        Self(format!("local-{}", hex::encode(random)))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for DeliveryId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let fits = (1..=64).contains(&text.len())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if fits { Ok(Self(text.to_owned())) } else { Err(InvalidId::new(text, "a delivery id")) }
    }
}

/// 128 random bits that name one delivery inside a conversation. Found in the
/// agent's own record, they prove that the delivery arrived.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Marker(String);

impl Marker {
    /// A marker from random bytes.
    pub fn new(random: [u8; 16]) -> Self {
        Self(hex::encode(random))
    }

    /// The marker as text: 32 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Marker {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let fits = text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if fits { Ok(Self(text.to_owned())) } else { Err(InvalidId::new(text, "a marker")) }
    }
}

/// A harness's own id of a conversation. A version 4 UUID where we choose it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HarnessSessionId(String);

impl HarnessSessionId {
    /// A version 4 UUID from random bytes.
    pub fn uuid(mut random: [u8; 16]) -> Self {
        random[6] = (random[6] & 0x0f) | 0x40;
        random[8] = (random[8] & 0x3f) | 0x80;
        let hex = hex::encode(random);
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        Self(parts.join("-"))
    }

    /// Whether it has the form of a UUID.
    pub fn is_uuid(&self) -> bool {
        let parts: Vec<_> = self.0.split('-').collect();
        parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
            && parts.iter().all(|part| part.chars().all(|c| c.is_ascii_hexdigit()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HarnessSessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for HarnessSessionId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let fits = (1..=128).contains(&text.len())
            && !text.starts_with('-')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        if fits { Ok(Self(text.to_owned())) } else { Err(InvalidId::new(text, "a session id")) }
    }
}

macro_rules! as_string {
    ($($name:ident),+) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}

as_string!(Repo, WorkItem, Slug, DeliveryId, Marker, HarnessSessionId);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn item(text: &str) -> WorkItem {
        text.parse().unwrap()
    }

    #[test]
    fn slugs_of_awkward_names() {
        for (text, slug) in [
            ("Codertocat/Hello-World#1", "codertocat+hello-world+1"),
            ("o/.github#7", "o+++github+7"),
            ("o/a.b.c#7", "o+a++b++c+7"),
            ("o/...#7", "o++++++++7"),
            ("github:ghe.example:8443/o/r#2", "ghe++example_8443+o+r+2"),
            ("https://github.com/o/r/pull/12/files#x", "o+r+12"),
            ("github.com/o/r/issues/2", "o+r+2"),
            ("github.com/O/R/pull/2/?x#issuecomment-1", "o+r+2"),
            ("ghe.example:8443/o/r/issues/2", "ghe++example_8443+o+r+2"),
            // Names of repositories, not of pages.
            ("issues/pull#2", "issues+pull+2"),
            ("ghe.example/issues/pull#2", "ghe++example+issues+pull+2"),
        ] {
            let slug_of = item(text).slug();
            assert_eq!(slug_of.as_str(), slug);
            assert_eq!(slug.parse::<Slug>().unwrap(), slug_of);
        }
    }

    #[test]
    fn case_does_not_make_another_item_but_a_dash_does() {
        assert_eq!(item("Octo/Repo#1"), item("octo/repo#1"));
        assert_ne!(item("octo-a/b#1").slug(), item("octo/a-b#1").slug());
    }

    #[test]
    fn what_is_not_a_work_item_is_refused() {
        for text in [
            "",
            "#1",
            "o/r",
            "o/r#0",
            "o/r#x",
            "o/r#-1",
            "o/r#+1",
            "o/r r#1",
            "o/..#1",
            "a/b/c/d#1",
            "o/$(id)#1",
            "https://github.com/o/r/tree/1",
            "https://github.com/o/r#1",
            "github.com/o/r/tree/1",
            "github.com/o/r/issues/",
            "github.com/o/r/issues/0",
            "git hub/o/r/issues/1",
            "o/r#1\n",
        ] {
            assert!(text.parse::<WorkItem>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_uuid_says_that_it_is_version_4() {
        let id = HarnessSessionId::uuid([0xff; 16]);
        assert_eq!(id.as_str(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }

    proptest! {
        #[test]
        fn two_items_never_share_a_slug(
            a in "([a-c.]{1,4}(:[1-9]{1,2})?/)?[a-c-]{1,3}/[a-c._-]{1,4}#[1-9]{1,2}",
            b in "([a-c.]{1,4}(:[1-9]{1,2})?/)?[a-c-]{1,3}/[a-c._-]{1,4}#[1-9]{1,2}",
        ) {
            if let (Ok(a), Ok(b)) = (a.parse::<WorkItem>(), b.parse::<WorkItem>()) {
                prop_assert_eq!(a == b, a.slug() == b.slug());
                prop_assert!(a.slug().as_str().parse::<Slug>().is_ok());
                prop_assert_eq!(a.to_string().parse::<WorkItem>().unwrap(), a);
            }
        }
    }
}
