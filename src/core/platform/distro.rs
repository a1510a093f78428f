//! The Linux distribution, from `/etc/os-release`.

use serde::Serialize;

/// A Linux distribution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Distro {
    /// `ID`: `debian`, `ubuntu`, `fedora`.
    pub id: String,
    /// `ID_LIKE`.
    pub like: Vec<String>,
    /// `VERSION_ID`; rolling and testing releases have none.
    pub release: Option<String>,
    /// The name for people.
    pub name: String,
    /// The distribution, and its release, that this one is made of.
    #[serde(skip)]
    base: Option<(&'static str, &'static str)>,
}

/// The releases of distributions that others are made of, by their names.
const RELEASES: &[(&str, &str, &str)] = &[
    ("debian", "9", "stretch"),
    ("debian", "10", "buster"),
    ("debian", "11", "bullseye"),
    ("debian", "12", "bookworm"),
    ("debian", "13", "trixie"),
    ("debian", "14", "forky"),
    // Devuan's, each made of one of them.
    ("debian", "10", "beowulf"),
    ("debian", "11", "chimaera"),
    ("debian", "12", "daedalus"),
    ("debian", "13", "excalibur"),
    ("ubuntu", "16.04", "xenial"),
    ("ubuntu", "18.04", "bionic"),
    ("ubuntu", "20.04", "focal"),
    ("ubuntu", "20.10", "groovy"),
    ("ubuntu", "21.04", "hirsute"),
    ("ubuntu", "21.10", "impish"),
    ("ubuntu", "22.04", "jammy"),
    ("ubuntu", "22.10", "kinetic"),
    ("ubuntu", "23.04", "lunar"),
    ("ubuntu", "23.10", "mantic"),
    ("ubuntu", "24.04", "noble"),
    ("ubuntu", "24.10", "oracular"),
    ("ubuntu", "25.04", "plucky"),
    ("ubuntu", "25.10", "questing"),
    ("rhel", "7", "platform:el7"),
    ("rhel", "8", "platform:el8"),
    ("rhel", "9", "platform:el9"),
    ("rhel", "10", "platform:el10"),
];

impl Distro {
    /// Reads `/etc/os-release`.
    pub fn parse(os_release: &str) -> Option<Self> {
        let value = |key: &str| {
            os_release.lines().find_map(|line| {
                let (name, value) = line.trim().split_once('=')?;
                let value = value.trim().trim_matches(['"', '\'']);
                (name == key && !value.is_empty()).then(|| value.to_owned())
            })
        };
        let id = value("ID")?.to_ascii_lowercase();
        let name = value("PRETTY_NAME").or_else(|| value("NAME")).unwrap_or_else(|| id.clone());
        let like = value("ID_LIKE").unwrap_or_default();
        // What it says of its base comes before its own name, which may be any word.
        let keys = ["UBUNTU_CODENAME", "DEBIAN_CODENAME", "PLATFORM_ID", "VERSION_CODENAME"];
        let base = keys.iter().filter_map(|key| value(key)).find_map(|name| {
            RELEASES.iter().find(|(.., codename)| *codename == name).map(|(id, at, _)| (*id, *at))
        });
        Some(Self {
            base,
            like: like.split_whitespace().map(str::to_ascii_lowercase).collect(),
            release: value("VERSION_ID"),
            id,
            name,
        })
    }

    /// Whether this distribution is, or descends from, one of these.
    pub(super) fn is_like(&self, ids: &[&str]) -> bool {
        std::iter::once(&self.id).chain(&self.like).any(|own| {
            ids.iter()
                .any(|id| own == id || own.strip_prefix(id).is_some_and(|r| r.starts_with('-')))
        })
    }

    /// Whether this distribution is one of these, or is made of one.
    pub(super) fn is_one_of(&self, ids: &[String]) -> bool {
        ids.contains(&self.id) || self.base.is_some_and(|(base, _)| ids.iter().any(|id| id == base))
    }

    /// The same, in a release below this one. One with neither a number
    /// nor a name that is known (rolling) is the newest there is.
    pub(super) fn is_one_below(&self, ids: &[String], release: &str) -> bool {
        let key = |text: &str| {
            text.split('.').map(|part| part.parse().unwrap_or(0)).collect::<Vec<u32>>()
        };
        let own = match self.base {
            // Its own number counts before what its name stands for.
            _ if ids.contains(&self.id) && self.release.is_some() => self.release.as_deref(),
            Some((base, at)) if ids.iter().any(|id| id == base) => Some(at),
            _ => None,
        };
        own.is_some_and(|own| key(own) < key(release))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_compared_by_number_and_a_rolling_one_is_newest() {
        let distro = |text: &str| Distro::parse(text).unwrap();
        assert!(
            distro("ID=ubuntu\nVERSION_ID=\"20.04\"")
                .is_one_below(&["debian".into(), "ubuntu".into()], "22.04")
        );
        assert!(
            !distro("ID=ubuntu\nVERSION_ID=\"22.04\"")
                .is_one_below(&["debian".into(), "ubuntu".into()], "22.04")
        );
        assert!(
            distro("ID=debian\nVERSION_ID=9")
                .is_one_below(&["debian".into(), "ubuntu".into()], "12")
        );
        assert!(!distro("ID=debian").is_one_below(&["debian".into(), "ubuntu".into()], "14"));
    }
}
