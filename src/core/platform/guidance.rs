//! Which command installs a tool on this machine, and never one that does not
//! exist here.

use serde::{Deserialize, Serialize};

use super::{Host, Os, PackageManager, ToolData, tool_data};

/// One line of a tool's guidance. It fits when everything that it names is so.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// The system.
    os: Option<Os>,
    /// A package manager that is here: the system's own, or `npm`.
    manager: Option<PackageManager>,
    /// The distribution is one of these, or is made of a release of one.
    #[serde(default)]
    distros: Vec<String>,
    /// The release of that distribution is below this one.
    below: Option<String>,
    /// What to type.
    command: Option<String>,
    /// What to type where its package is there and broken.
    again: Option<String>,
    /// Whether the command needs root.
    #[serde(default)]
    root: bool,
    /// Whether this program's own install is the advice.
    #[serde(default)]
    managed: bool,
    /// What a person must know.
    note: Option<String>,
}

impl Rule {
    fn fits(&self, host: &Host) -> bool {
        let manager_fits = self.manager.is_none_or(|manager| match manager {
            PackageManager::Npm => host.managers.contains(&manager),
            _ => host.managers.first() == Some(&manager),
        });
        let distro = host.distro.as_ref();
        let distro_fits = match (&self.below, distro) {
            _ if self.distros.is_empty() => self.below.is_none(),
            (_, None) => false,
            (Some(release), Some(own)) => own.is_one_below(&self.distros, release),
            (None, Some(own)) => own.is_one_of(&self.distros),
        };
        self.os.is_none_or(|os| os == host.os) && manager_fits && distro_fits
    }

    /// A command of this rule, with what root takes where it takes root.
    fn written(&self, command: &str, host: &Host) -> String {
        let by_npm = self.manager == Some(PackageManager::Npm);
        let needs_root = self.root || (by_npm && host.npm_needs_root);
        if needs_root { host.as_root(command) } else { command.to_owned() }
    }
}

/// What to do about a finding.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Remedy {
    /// Commands that can be pasted; any one of them does.
    pub commands: Vec<String>,
    /// What a person must know or do.
    pub note: Option<String>,
}

impl Remedy {
    /// One command.
    pub fn command(text: impl Into<String>) -> Self {
        Self { commands: vec![text.into()], note: None }
    }

    /// Only words.
    pub fn note(text: impl Into<String>) -> Self {
        Self { commands: Vec::new(), note: Some(text.into()) }
    }
}

/// How to get a tool on this machine: the system's own command first, then this
/// program's install where a pinned build fits.
pub fn remedy_for(data: &ToolData, host: &Host) -> Remedy {
    remedy(data, host, |rule| rule.command.as_deref())
}

/// How a command that installs something is run on this machine: one of npm's with
/// root where npm needs it, and after npm itself where that is missing; another one
/// as it is.
pub fn remedy_by(install: &str, host: &Host) -> Remedy {
    let is_npms = install.split_whitespace().next() == Some("npm");
    let Some(npm) = tool_data("npm").filter(|_| is_npms) else { return Remedy::command(install) };
    let rule = npm.guidance.iter().find(|rule| rule.fits(host));
    let full = |text: &String| text.replace("{install}", install);
    let run = |rule: &Rule| Some(rule.written(&full(rule.command.as_ref()?), host));
    Remedy {
        commands: rule.and_then(run).into_iter().collect(),
        note: rule.and_then(|rule| rule.note.as_ref()).map(full),
    }
}

/// The same where the tool's package is installed and does not work: installing
/// it would do nothing.
pub fn remedy_again(data: &ToolData, host: &Host) -> Remedy {
    remedy(data, host, |rule| rule.again.as_deref().or(rule.command.as_deref()))
}

fn remedy(data: &ToolData, host: &Host, command: fn(&Rule) -> Option<&str>) -> Remedy {
    if let Some(install) = &data.install {
        return remedy_by(install, host);
    }
    let rule = data.guidance.iter().find(|rule| rule.fits(host));
    let mut remedy = Remedy { commands: Vec::new(), note: rule.and_then(|rule| rule.note.clone()) };
    remedy.commands.extend(rule.and_then(|rule| Some(rule.written(command(rule)?, host))));
    match data.pin_for(host, None) {
        Ok(_) => remedy.commands.push(format!("the-loop doctor --install {}", data.tool)),
        Err(no_pin) if rule.is_none_or(|rule| rule.managed) => {
            remedy.note = Some(format!("{no_pin}: see {}", data.homepage));
        }
        Err(_) => {}
    }
    remedy
}

#[cfg(test)]
mod tests {
    use super::super::{Facts, tool_data};
    use super::*;

    struct Case {
        name: &'static str,
        facts: Facts,
        tmux: &'static [&'static str],
        ttyd: &'static [&'static str],
        git: &'static [&'static str],
    }

    fn linux(os_release: &str, programs: &[&str]) -> Facts {
        Facts {
            system: "Linux".into(),
            machine: "x86_64".into(),
            os_release: Some(os_release.replace(' ', "\n")),
            programs: programs.iter().map(ToString::to_string).collect(),
            ..Facts::default()
        }
    }

    fn macos(version: &str, programs: &[&str]) -> Facts {
        Facts {
            system: "Darwin".into(),
            machine: "arm64".into(),
            macos_version: Some(version.into()),
            programs: programs.iter().map(ToString::to_string).collect(),
            ..Facts::default()
        }
    }

    const TMUX: &str = "the-loop doctor --install tmux";
    const TTYD: &str = "the-loop doctor --install ttyd";

    #[test]
    fn the_advice_exists_on_the_platform() {
        let cases = [
            Case {
                name: "Debian 12",
                facts: linux("ID=debian VERSION_ID=12", &["apt", "sudo"]),
                tmux: &["sudo apt install tmux", TMUX],
                ttyd: &[TTYD],
                git: &["sudo apt install git"],
            },
            Case {
                name: "Debian 11",
                facts: linux("ID=debian VERSION_ID=11", &["apt", "sudo"]),
                tmux: &[TMUX],
                ttyd: &[TTYD],
                git: &["sudo apt install git"],
            },
            Case {
                name: "Debian testing, as root",
                facts: Facts { is_root: true, ..linux("ID=debian", &["apt"]) },
                tmux: &["apt install tmux", TMUX],
                ttyd: &["apt install ttyd", TTYD],
                git: &["apt install git"],
            },
            Case {
                name: "Ubuntu 22.04",
                facts: linux("ID=ubuntu ID_LIKE=debian VERSION_ID=22.04", &["apt", "sudo"]),
                tmux: &["sudo apt install tmux", TMUX],
                ttyd: &[TTYD],
                git: &["sudo apt install git"],
            },
            Case {
                name: "Ubuntu 20.04",
                facts: linux("ID=ubuntu ID_LIKE=debian VERSION_ID=20.04", &["apt", "sudo"]),
                tmux: &[TMUX],
                ttyd: &[TTYD],
                git: &["sudo apt install git"],
            },
            Case {
                name: "Mint 20.3",
                facts: linux(
                    "ID=linuxmint ID_LIKE=ubuntu VERSION_ID=20.3 UBUNTU_CODENAME=focal",
                    &["apt", "sudo"],
                ),
                tmux: &[TMUX],
                ttyd: &[TTYD],
                git: &["sudo apt install git"],
            },
            Case {
                name: "Pop 20.04",
                facts: linux(
                    "ID=pop ID_LIKE=ubuntu VERSION_ID=20.04 UBUNTU_CODENAME=focal",
                    &["apt", "sudo"],
                ),
                tmux: &[TMUX],
                ttyd: &[TTYD],
                git: &["sudo apt install git"],
            },
            Case {
                name: "elementary 6.1",
                facts: linux(
                    "ID=elementary ID_LIKE=ubuntu VERSION_ID=6.1 UBUNTU_CODENAME=focal",
                    &["apt", "sudo"],
                ),
                tmux: &[TMUX],
                ttyd: &[TTYD],
                git: &["sudo apt install git"],
            },
            Case {
                name: "Mint 21.3",
                facts: linux(
                    "ID=linuxmint ID_LIKE=ubuntu VERSION_ID=21.3 UBUNTU_CODENAME=jammy",
                    &["apt", "sudo"],
                ),
                tmux: &["sudo apt install tmux", TMUX],
                ttyd: &[TTYD],
                git: &["sudo apt install git"],
            },
            Case {
                name: "LMDE 5",
                facts: linux(
                    "ID=linuxmint ID_LIKE=debian VERSION_ID=5 DEBIAN_CODENAME=bullseye",
                    &["apt", "sudo"],
                ),
                tmux: &[TMUX],
                ttyd: &[TTYD],
                git: &["sudo apt install git"],
            },
            Case {
                name: "Raspbian 11",
                facts: linux(
                    "ID=raspbian ID_LIKE=debian VERSION_ID=11 VERSION_CODENAME=bullseye",
                    &["apt", "sudo"],
                ),
                tmux: &[TMUX],
                ttyd: &[TTYD],
                git: &["sudo apt install git"],
            },
            Case {
                name: "Raspbian 12",
                facts: linux(
                    "ID=raspbian ID_LIKE=debian VERSION_ID=12 VERSION_CODENAME=bookworm",
                    &["apt", "sudo"],
                ),
                tmux: &["sudo apt install tmux", TMUX],
                ttyd: &[TTYD],
                git: &["sudo apt install git"],
            },
            Case {
                name: "EuroLinux 8",
                facts: linux(
                    "ID=eurolinux ID_LIKE=rhel VERSION_ID=8.9 PLATFORM_ID=platform:el8",
                    &["dnf", "sudo"],
                ),
                tmux: &[TMUX],
                ttyd: &[TTYD],
                git: &["sudo dnf install git"],
            },
            Case {
                name: "Fedora",
                facts: linux("ID=fedora VERSION_ID=42", &["dnf", "sudo"]),
                tmux: &["sudo dnf install tmux", TMUX],
                ttyd: &[TTYD],
                git: &["sudo dnf install git"],
            },
            Case {
                name: "Rocky 8",
                facts: linux("ID=rocky VERSION_ID=8.10", &["dnf", "sudo"]),
                tmux: &[TMUX],
                ttyd: &[TTYD],
                git: &["sudo dnf install git"],
            },
            Case {
                name: "openSUSE",
                facts: linux("ID=opensuse-tumbleweed ID_LIKE=suse", &["zypper", "sudo"]),
                tmux: &["sudo zypper install tmux", TMUX],
                ttyd: &["sudo zypper install ttyd", TTYD],
                git: &["sudo zypper install git"],
            },
            Case {
                name: "Arch",
                facts: linux("ID=arch", &["pacman", "sudo"]),
                tmux: &["sudo pacman -S tmux", TMUX],
                ttyd: &["sudo pacman -S ttyd", TTYD],
                git: &["sudo pacman -S git"],
            },
            Case {
                name: "Alpine with doas",
                facts: linux("ID=alpine VERSION_ID=3.22", &["apk", "doas"]),
                tmux: &["doas apk add tmux", TMUX],
                ttyd: &["doas apk add ttyd", TTYD],
                git: &["doas apk add git"],
            },
            Case {
                name: "NixOS",
                facts: linux("ID=nixos VERSION_ID=25.05", &["nix-env", "sudo"]),
                tmux: &["nix-env -iA nixos.tmux", TMUX],
                ttyd: &["nix-env -iA nixos.ttyd", TTYD],
                git: &["nix-env -iA nixos.git"],
            },
            Case {
                name: "Debian without sudo",
                facts: linux("ID=debian VERSION_ID=12", &["apt"]),
                tmux: &["su -c 'apt install tmux'", TMUX],
                ttyd: &[TTYD],
                git: &["su -c 'apt install git'"],
            },
            Case {
                name: "no package manager",
                facts: linux("ID=distroless", &[]),
                tmux: &[TMUX],
                ttyd: &[TTYD],
                git: &[],
            },
            Case {
                name: "macOS 15 with Homebrew",
                facts: macos("15.1", &["brew"]),
                tmux: &["brew install tmux", TMUX],
                ttyd: &["brew install ttyd"],
                git: &["brew install git"],
            },
            Case {
                name: "macOS 14 without Homebrew",
                facts: macos("14.6", &[]),
                tmux: &[],
                ttyd: &[],
                git: &["xcode-select --install"],
            },
        ];
        for case in cases {
            let host = Host::from_facts(&case.facts);
            for (tool, expected) in [("tmux", case.tmux), ("ttyd", case.ttyd), ("git", case.git)] {
                let remedy = remedy_for(tool_data(tool).unwrap(), &host);
                assert_eq!(remedy.commands, expected, "{tool} on {}", case.name);
                let helpless = remedy.commands.is_empty() && remedy.note.is_none();
                assert!(!helpless, "{tool} on {}: nothing is said", case.name);
            }
        }
    }

    #[test]
    fn a_package_that_is_there_and_broken_is_installed_again() {
        for (manager, again) in [
            ("apt", "sudo apt install --reinstall tmux"),
            ("dnf", "sudo dnf reinstall tmux"),
            ("zypper", "sudo zypper install --force tmux"),
            ("pacman", "sudo pacman -S tmux"),
            ("apk", "sudo apk fix --reinstall tmux"),
        ] {
            let host = Host::from_facts(&linux("ID=x", &[manager, "sudo"]));
            assert_eq!(remedy_again(tool_data("tmux").unwrap(), &host).commands, [again, TMUX]);
        }
        let host = Host::from_facts(&macos("14.6", &["brew"]));
        let remedy = remedy_again(tool_data("git").unwrap(), &host);
        assert_eq!(remedy.commands, ["brew reinstall git"]);
    }

    type Told<'a> = &'a dyn Fn(&Host) -> Remedy;

    #[test]
    fn a_missing_npm_is_said_of_every_agent_that_it_installs() {
        let claude = tool_data("claude").unwrap();
        let codex = "npm install -g @openai/codex";
        let on = |facts: &Facts| Host::from_facts(facts);
        let agents: [(&str, Told<'_>); 2] = [
            ("npm install -g @anthropic-ai/claude-code", &|host| remedy_for(claude, host)),
            (codex, &|host| remedy_by(codex, host)),
        ];
        for (command, remedy) in agents {
            let facts = linux("ID=debian", &["apt", "npm"]);
            assert_eq!(remedy(&on(&facts)), Remedy::command(command));
            // Where npm installs for everybody, it takes root.
            for (programs, is_root, expected) in [
                (&["npm", "sudo"][..], false, format!("sudo {command}")),
                (&["npm"], false, format!("su -c '{command}'")),
                (&["npm"], true, command.to_owned()),
            ] {
                let facts = Facts { npm_needs_root: true, is_root, ..linux("ID=debian", programs) };
                assert_eq!(remedy(&on(&facts)), Remedy::command(expected));
            }
            // Where npm is not there it comes first, by whatever installs it.
            for (programs, first) in [
                (&["apt", "sudo"][..], &["sudo apt install npm"][..]),
                (&["zypper", "sudo"], &[]),
                (&[], &[]),
            ] {
                let without = remedy(&on(&linux("ID=debian", programs)));
                assert_eq!(without.commands, first);
                let note = without.note.unwrap();
                let then = format!("`{command}`");
                assert!(note.contains("Node.js") && note.ends_with(&then), "{note}");
            }
        }
    }

    #[test]
    fn a_release_without_a_number_is_known_by_its_name() {
        let commands = |text: &str| {
            let host = Host::from_facts(&linux(text, &["apt", "sudo"]));
            remedy_for(tool_data("ttyd").unwrap(), &host).commands
        };
        for (release, is_packaged) in [
            ("ID=debian VERSION_CODENAME=trixie", false),
            ("ID=debian VERSION_CODENAME=forky", true),
            ("ID=debian", true),
            ("ID=devuan ID_LIKE=debian VERSION_CODENAME=excalibur", false),
        ] {
            let told = commands(release);
            let package = told.iter().any(|command| command == "sudo apt install ttyd");
            assert_eq!(package, is_packaged, "{release}: {told:?}");
        }
    }

    #[test]
    fn a_derivatives_npm_is_judged_by_the_release_that_it_is_made_of() {
        let mint = |base: &str| {
            let text = format!("ID=linuxmint ID_LIKE=ubuntu UBUNTU_CODENAME={base}");
            let host = Host::from_facts(&linux(&text, &["apt", "sudo"]));
            remedy_for(tool_data("claude").unwrap(), &host).commands
        };
        assert_eq!(mint("jammy"), [""; 0]);
        assert_eq!(mint("noble"), ["sudo apt install npm"]);
    }

    #[test]
    fn a_command_that_is_not_npms_stays_as_it_was_written() {
        let host = Host::from_facts(&linux("ID=debian", &["apt", "sudo"]));
        let own = "curl -fsSL https://agent.example/install | sh";
        assert_eq!(remedy_by(own, &host), Remedy::command(own));
    }
}
