//! `platforms/*.yaml`: what is known about each tool, compiled in. A pin is one
//! build that may be downloaded; it is chosen by machine and version.

use std::sync::OnceLock;

use serde::Deserialize;

use super::guidance::Rule;
use super::{Arch, Host, Os, Version};

/// The sources that must agree on a digest before a pin is offered.
const SOURCES_NEEDED: u32 = 2;

/// What is known about one tool.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolData {
    /// The tool's name.
    pub tool: String,
    /// The oldest version that can be used.
    pub minimum: Option<String>,
    /// Below this one a warning is due.
    pub recommended: Option<String>,
    /// Under what licence it comes.
    pub licence: String,
    /// Where its makers speak of it.
    pub homepage: String,
    /// What some versions are known to do wrong.
    #[serde(default)]
    pub defects: Vec<Defect>,
    /// The builds that may be downloaded, the version of choice first.
    #[serde(default)]
    pub pins: Vec<Pin>,
    /// The command that installs it everywhere; one of npm's follows npm's rules.
    pub install: Option<String>,
    /// How it is installed otherwise; the first rule that fits is taken.
    #[serde(default)]
    pub guidance: Vec<Rule>,
}

/// What some versions are known to do wrong.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Defect {
    /// The first version that has it.
    pub from: String,
    /// The first version that no longer has it.
    pub below: String,
    /// What happens.
    pub text: String,
}

/// One build of one version for one kind of machine.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pin {
    /// The version.
    pub version: String,
    /// The system it runs on.
    pub os: Os,
    /// The architecture it is built for.
    pub arch: Arch,
    /// Where it is downloaded from.
    pub url: String,
    /// What is downloaded.
    pub format: Format,
    /// The one file in the archive.
    pub member: Option<String>,
    /// The digest of what is downloaded.
    pub sha256: String,
    /// The digest of the program itself, where known.
    pub binary_sha256: Option<String>,
    /// The size of what is downloaded, where known.
    pub size: Option<u64>,
    /// The oldest release of the system that it runs on.
    pub minimum_os: Option<String>,
    /// How many independent sources agree on the digest.
    pub sources: u32,
}

impl Pin {
    /// The last part of the URL.
    pub fn file_name(&self) -> &str {
        self.url.rsplit('/').next().unwrap_or(&self.url)
    }
}

/// In what form a build comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Format {
    /// The program itself.
    #[serde(rename = "binary")]
    Binary,
    /// A compressed archive with one member.
    #[serde(rename = "tar.gz")]
    TarGz,
}

/// Why there is nothing to download.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoPin {
    /// Upstream has no build for this machine.
    #[error("no pinned build of {tool} runs on {host}")]
    NoBuild {
        /// The tool.
        tool: String,
        /// The machine.
        host: String,
    },
    /// There is a build, and no version like that.
    #[error("no build of {tool} {version} is pinned for this machine; there is {known}")]
    UnknownVersion {
        /// The tool.
        tool: String,
        /// The version asked for.
        version: String,
        /// The versions there are.
        known: String,
    },
    /// There is a build whose digest too few sources confirm.
    #[error("the digest of {tool} {version} for {} has one source only, and two are needed", arch.as_str())]
    TooFewSources {
        /// The tool.
        tool: String,
        /// The version.
        version: String,
        /// The architecture.
        arch: Arch,
    },
    /// The system is too old for the build.
    #[error("{tool} {version} needs macOS {minimum} or newer")]
    SystemTooOld {
        /// The tool.
        tool: String,
        /// The version.
        version: String,
        /// The oldest release it runs on.
        minimum: String,
    },
}

impl ToolData {
    /// The build for this machine: of one version, or the version of choice.
    pub fn pin_for(&self, host: &Host, version: Option<&str>) -> Result<&Pin, NoPin> {
        let tool = || self.tool.clone();
        let mut fitting =
            self.pins.iter().filter(|pin| pin.os == host.os && pin.arch == host.arch).peekable();
        if fitting.peek().is_none() {
            return Err(NoPin::NoBuild { tool: tool(), host: host.describe() });
        }
        let known = fitting.clone().map(|pin| pin.version.as_str()).collect::<Vec<_>>().join(", ");
        let pin = fitting
            .find(|pin| version.is_none_or(|version| pin.version == version))
            .ok_or_else(|| NoPin::UnknownVersion {
                tool: tool(),
                version: version.unwrap_or_default().to_owned(),
                known,
            })?;
        if pin.sources < SOURCES_NEEDED {
            let version = pin.version.clone();
            return Err(NoPin::TooFewSources { tool: tool(), version, arch: pin.arch });
        }
        match &pin.minimum_os {
            Some(minimum) if host.macos_below(minimum) => Err(NoPin::SystemTooOld {
                tool: tool(),
                version: pin.version.clone(),
                minimum: minimum.clone(),
            }),
            _ => Ok(pin),
        }
    }

    /// Every build that may be installed on this machine, the one of choice first.
    pub fn pins_for(&self, host: &Host) -> Vec<&Pin> {
        let versions = self.pins.iter().map(|pin| pin.version.as_str());
        let mut pins: Vec<&Pin> =
            versions.filter_map(|version| self.pin_for(host, Some(version)).ok()).collect();
        let mut seen = Vec::new();
        pins.retain(|pin| {
            !seen.contains(&&pin.sha256) && {
                seen.push(&pin.sha256);
                true
            }
        });
        pins
    }

    /// The oldest version that can be used.
    pub fn minimum(&self) -> Option<Version> {
        self.minimum.as_deref().and_then(Version::parse)
    }

    /// The version below which a warning is due.
    pub fn recommended(&self) -> Option<Version> {
        self.recommended.as_deref().and_then(Version::parse)
    }

    /// What this version is known to do wrong.
    pub fn defects_of<'a>(&'a self, version: &'a Version) -> impl Iterator<Item = &'a Defect> {
        self.defects.iter().filter(move |defect| {
            Version::parse(&defect.from).is_some_and(|from| *version >= from)
                && Version::parse(&defect.below).is_some_and(|below| *version < below)
        })
    }
}

/// What is known about a tool; `None` for a name that no file speaks of.
///
/// # Panics
/// Not in a build whose tests have passed: they read every file.
pub fn tool_data(tool: &str) -> Option<&'static ToolData> {
    static DATA: OnceLock<Vec<ToolData>> = OnceLock::new();
    let data = DATA.get_or_init(|| parse_all().expect("a test reads the compiled-in files"));
    data.iter().find(|data| data.tool == tool)
}

fn parse_all() -> Result<Vec<ToolData>, serde_yaml::Error> {
    let mut all: Vec<ToolData> =
        serde_yaml::from_str(include_str!("../../../platforms/harnesses.yaml"))?;
    for text in [
        include_str!("../../../platforms/tmux.yaml"),
        include_str!("../../../platforms/ttyd.yaml"),
        include_str!("../../../platforms/git.yaml"),
        include_str!("../../../platforms/npm.yaml"),
    ] {
        all.push(serde_yaml::from_str(text)?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::super::Facts;
    use super::*;

    fn is_digest(text: &str) -> bool {
        text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    }

    fn host(system: &str, machine: &str) -> Host {
        Host::from_facts(&Facts {
            system: system.into(),
            machine: machine.into(),
            macos_version: Some("14.6".into()),
            ..Facts::default()
        })
    }

    #[test]
    fn every_compiled_in_pin_is_sound() {
        for data in parse_all().unwrap() {
            assert!(data.homepage.starts_with("https://"), "{}", data.tool);
            for text in [&data.minimum, &data.recommended].into_iter().flatten() {
                assert!(Version::parse(text).is_some(), "{}: {text}", data.tool);
            }
            for defect in &data.defects {
                assert!(Version::parse(&defect.from) < Version::parse(&defect.below));
            }
            let is_told = data.install.is_some() || !data.guidance.is_empty();
            assert!(is_told, "{} has no guidance", data.tool);
            for pin in &data.pins {
                assert!(pin.url.starts_with("https://"), "{}", pin.url);
                assert!(pin.url.contains(&pin.version), "{} is not {}", pin.url, pin.version);
                assert!(is_digest(&pin.sha256), "{}: {}", pin.url, pin.sha256);
                assert!(pin.binary_sha256.as_deref().is_none_or(is_digest), "{}", pin.url);
                assert!(Version::parse(&pin.version) >= data.minimum(), "{}", pin.url);
                assert!(pin.sources > 0, "{}", pin.url);
                match pin.format {
                    Format::TarGz => assert!(pin.member.is_some(), "{}", pin.url),
                    Format::Binary => {
                        assert!(pin.member.is_none(), "{}", pin.url);
                        assert_eq!(pin.binary_sha256.as_ref(), Some(&pin.sha256), "{}", pin.url);
                    }
                }
            }
        }
    }

    #[test]
    fn no_two_pins_share_a_machine_and_version_or_a_digest() {
        for data in parse_all().unwrap() {
            for (index, pin) in data.pins.iter().enumerate() {
                for other in &data.pins[index + 1..] {
                    assert_ne!(pin.sha256, other.sha256, "{}", pin.url);
                    let same =
                        (&pin.version, pin.os, pin.arch) == (&other.version, other.os, other.arch);
                    assert!(!same, "{} and {}", pin.url, other.url);
                }
            }
        }
    }

    #[test]
    fn the_build_is_chosen_by_machine_and_version() {
        let tmux = tool_data("tmux").unwrap();
        let linux = host("Linux", "x86_64");
        assert_eq!(tmux.pin_for(&linux, None).unwrap().version, "3.7c");
        assert_eq!(tmux.pin_for(&linux, Some("3.6a")).unwrap().version, "3.6a");
        assert!(matches!(
            tmux.pin_for(&linux, Some("3.8")),
            Err(NoPin::UnknownVersion { known, .. }) if known == "3.7c, 3.6a"
        ));
        assert!(matches!(
            tmux.pin_for(&host("Darwin", "arm64"), None),
            Err(NoPin::SystemTooOld { .. })
        ));
        assert!(matches!(tmux.pin_for(&host("Linux", "armv7l"), None), Err(NoPin::NoBuild { .. })));
        let ttyd = tool_data("ttyd").unwrap();
        assert!(ttyd.pin_for(&host("Linux", "armv7l"), None).unwrap().url.ends_with("ttyd.armhf"));
        assert!(matches!(
            ttyd.pin_for(&host("Linux", "i686"), None),
            Err(NoPin::TooFewSources { .. })
        ));
        assert!(matches!(ttyd.pin_for(&host("Darwin", "arm64"), None), Err(NoPin::NoBuild { .. })));
    }

    #[test]
    fn the_defects_of_a_version_are_named() {
        let tmux = tool_data("tmux").unwrap();
        let named = |version: &str| tmux.defects_of(&Version::parse(version).unwrap()).count();
        assert_eq!((named("3.2a"), named("3.3a"), named("3.7c")), (1, 1, 0));
    }
}
