//! The machine, parsed from facts that somebody else gathered.

use serde::{Deserialize, Serialize};

use super::{Distro, Version};
use crate::base::process::shell_word;

/// What was found out about the machine, as it was found.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// `uname -s`.
    pub system: String,
    /// `uname -m`: the kernel's architecture.
    pub machine: String,
    /// `uname -r`.
    pub kernel: String,
    /// How many bits this program's own userland has, when known.
    pub userland_bits: Option<u8>,
    /// The content of `/etc/os-release`.
    pub os_release: Option<String>,
    /// The release of macOS.
    pub macos_version: Option<String>,
    /// Those of [`Facts::ASKED`] that exist.
    pub present: Vec<String>,
    /// The programs of [`Facts::PROGRAMS`] that are there.
    pub programs: Vec<String>,
    /// Whether we run as root.
    pub is_root: bool,
    /// Whether npm installs programs where only root may write.
    pub npm_needs_root: bool,
}

impl Facts {
    /// Paths whose being there says something.
    pub const ASKED: &'static [&'static str] = &[
        "/lib/ld-musl-x86_64.so.1",
        "/lib/ld-musl-aarch64.so.1",
        "/lib/ld-musl-armhf.so.1",
        "/lib/ld-musl-i386.so.1",
        "/lib64/ld-linux-x86-64.so.2",
        "/lib/ld-linux-aarch64.so.1",
        "/lib/ld-linux-armhf.so.3",
        "/lib/ld-linux.so.2",
        "/.dockerenv",
        "/run/.containerenv",
        "/run/systemd/container",
        "/var/run/secrets/kubernetes.io",
    ];

    /// Those of them that only a container has.
    const CONTAINER: &'static [&'static str] = &[
        "/.dockerenv",
        "/run/.containerenv",
        "/run/systemd/container",
        "/var/run/secrets/kubernetes.io",
    ];

    /// Programs whose being there says something.
    pub const PROGRAMS: &'static [&'static str] =
        &["apt", "dnf", "zypper", "pacman", "apk", "nix-env", "brew", "npm", "sudo", "doas"];
}

/// An operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Os {
    /// Linux.
    Linux,
    /// macOS.
    Macos,
    /// Any other.
    Other,
}

/// The architecture that programs are built for here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// 64-bit x86.
    #[serde(rename = "x86_64")]
    X86_64,
    /// 64-bit ARM.
    Aarch64,
    /// 32-bit ARM with hardware floating point.
    Armv7,
    /// 32-bit ARM without.
    Armv6,
    /// 32-bit x86.
    I686,
    /// Any other.
    Other,
}

impl Arch {
    /// The name as pins write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
            Self::Armv7 => "armv7",
            Self::Armv6 => "armv6",
            Self::I686 => "i686",
            Self::Other => "an unknown architecture",
        }
    }
}

/// The C library that dynamic programs are linked with here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Libc {
    /// The GNU library.
    Glibc,
    /// musl.
    Musl,
    /// Another, or not found out.
    Unknown,
}

/// A program that installs packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PackageManager {
    /// Debian, Ubuntu.
    Apt,
    /// Fedora, RHEL.
    Dnf,
    /// openSUSE.
    Zypper,
    /// Arch.
    Pacman,
    /// Alpine.
    Apk,
    /// NixOS, or Nix elsewhere.
    Nix,
    /// Homebrew.
    Brew,
    /// Node's, for what is published there alone.
    Npm,
}

impl PackageManager {
    const SYSTEM: &'static [(Self, &'static str, &'static [&'static str])] = &[
        (Self::Apt, "apt", &["debian", "ubuntu"]),
        (Self::Dnf, "dnf", &["fedora", "rhel", "centos"]),
        (Self::Zypper, "zypper", &["opensuse", "suse", "sles"]),
        (Self::Pacman, "pacman", &["arch"]),
        (Self::Apk, "apk", &["alpine"]),
        (Self::Nix, "nix-env", &["nixos"]),
        (Self::Brew, "brew", &[]),
    ];
}

/// How a command that needs root is written here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Privilege {
    /// We are root.
    Root,
    /// With `sudo`.
    Sudo,
    /// With `doas`.
    Doas,
    /// Through `su`.
    Su,
}

impl Privilege {
    /// What there is: root itself, else one of the programs that are here.
    pub fn of(is_root: bool, has: impl Fn(&str) -> bool) -> Self {
        match () {
            () if is_root => Self::Root,
            () if has("sudo") => Self::Sudo,
            () if has("doas") => Self::Doas,
            () => Self::Su,
        }
    }

    /// A command that needs root, as it is written with this.
    pub fn command(self, command: &str) -> String {
        match self {
            Self::Root => command.to_owned(),
            Self::Sudo => format!("sudo {command}"),
            Self::Doas => format!("doas {command}"),
            Self::Su => format!("su -c {}", shell_word(command)),
        }
    }
}

/// The machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Host {
    /// The operating system.
    pub os: Os,
    /// The release of macOS.
    pub macos_version: Option<String>,
    /// What programs here are built for.
    pub arch: Arch,
    /// What dynamic programs here are linked with.
    pub libc: Libc,
    /// The distribution, on Linux.
    pub distro: Option<Distro>,
    /// The package managers found, the system's own first.
    pub managers: Vec<PackageManager>,
    /// Whether this is a container.
    pub container: bool,
    /// Whether this is Windows' subsystem for Linux.
    pub wsl: bool,
    /// How a command that needs root is written.
    pub privilege: Privilege,
    /// Whether `npm install -g` needs root.
    #[serde(skip)]
    pub npm_needs_root: bool,
}

impl Host {
    /// Draws the conclusions.
    pub fn from_facts(facts: &Facts) -> Self {
        let os = match facts.system.as_str() {
            "Linux" => Os::Linux,
            "Darwin" => Os::Macos,
            _ => Os::Other,
        };
        let distro =
            facts.os_release.as_deref().filter(|_| os == Os::Linux).and_then(Distro::parse);
        let has = |program: &str| facts.programs.iter().any(|found| found == program);
        let mut managers: Vec<_> =
            PackageManager::SYSTEM.iter().filter(|(_, program, _)| has(program)).collect();
        // Arch can have an `apt` and Debian a `brew`: the distribution's own comes first.
        managers.sort_by_key(|(.., ids)| !distro.as_ref().is_some_and(|own| own.is_like(ids)));
        let mut managers: Vec<_> = managers.into_iter().map(|(manager, ..)| *manager).collect();
        if has("npm") {
            managers.push(PackageManager::Npm);
        }
        let there = |path: &str| facts.present.iter().any(|present| present == path);
        let starts = |start: &str| facts.present.iter().any(|path| path.starts_with(start));
        let kernel = facts.kernel.to_ascii_lowercase();
        Self {
            os,
            macos_version: facts.macos_version.clone().filter(|_| os == Os::Macos),
            arch: arch(&facts.machine, facts.userland_bits),
            libc: match os {
                // Some glibc systems carry musl's loader beside their own.
                Os::Linux if starts("/lib64/ld-linux") || starts("/lib/ld-linux") => Libc::Glibc,
                Os::Linux if starts("/lib/ld-musl") => Libc::Musl,
                _ => Libc::Unknown,
            },
            distro,
            managers,
            container: Facts::CONTAINER.iter().any(|path| there(path)),
            wsl: kernel.contains("microsoft") || kernel.contains("wsl"),
            privilege: Privilege::of(facts.is_root, has),
            npm_needs_root: facts.npm_needs_root,
        }
    }

    /// A command that needs root, as it is written here.
    pub fn as_root(&self, command: &str) -> String {
        self.privilege.command(command)
    }

    /// The machine in a few words: `Debian GNU/Linux 12 (bookworm), x86_64, glibc`.
    pub fn describe(&self) -> String {
        let name = match (&self.distro, self.os, &self.macos_version) {
            (Some(distro), ..) => distro.name.clone(),
            (None, Os::Macos, Some(version)) => format!("macOS {version}"),
            (None, Os::Macos, None) => "macOS".to_owned(),
            (None, Os::Linux, _) => "Linux".to_owned(),
            (None, Os::Other, _) => "an unknown system".to_owned(),
        };
        let mut words = vec![name, self.arch.as_str().to_owned()];
        match self.libc {
            Libc::Glibc => words.push("glibc".to_owned()),
            Libc::Musl => words.push("musl".to_owned()),
            Libc::Unknown => {}
        }
        if self.container {
            words.push("container".to_owned());
        }
        if self.wsl {
            words.push("WSL".to_owned());
        }
        words.join(", ")
    }

    /// Whether macOS is below a release. An unknown release is not.
    pub(super) fn macos_below(&self, release: &str) -> bool {
        let key =
            |text: &str| Version::parse(text).or_else(|| Version::parse(&format!("{text}.0")));
        match (self.macos_version.as_deref().and_then(key), key(release)) {
            (Some(own), Some(other)) => own < other,
            _ => false,
        }
    }
}

fn arch(machine: &str, userland_bits: Option<u8>) -> Arch {
    let narrow = userland_bits == Some(32);
    match machine {
        "x86_64" | "amd64" if narrow => Arch::I686,
        "x86_64" | "amd64" => Arch::X86_64,
        "aarch64" | "arm64" | "armv8l" if narrow => Arch::Armv7,
        "aarch64" | "arm64" => Arch::Aarch64,
        "armv7l" | "armv8l" => Arch::Armv7,
        "armv6l" => Arch::Armv6,
        "i386" | "i486" | "i586" | "i686" => Arch::I686,
        _ => Arch::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linux(machine: &str, os_release: &str, programs: &[&str]) -> Facts {
        Facts {
            system: "Linux".into(),
            machine: machine.into(),
            os_release: Some(os_release.into()),
            programs: programs.iter().map(ToString::to_string).collect(),
            ..Facts::default()
        }
    }

    #[test]
    fn a_32_bit_userland_decides_what_is_built_for_it() {
        for (machine, bits, expected) in [
            ("x86_64", Some(64), Arch::X86_64),
            ("x86_64", Some(32), Arch::I686),
            ("x86_64", None, Arch::X86_64),
            ("aarch64", Some(32), Arch::Armv7),
            ("arm64", None, Arch::Aarch64),
            ("armv7l", Some(32), Arch::Armv7),
            ("armv6l", Some(32), Arch::Armv6),
            ("riscv64", Some(64), Arch::Other),
        ] {
            let facts = Facts { userland_bits: bits, ..linux(machine, "ID=debian", &[]) };
            assert_eq!(Host::from_facts(&facts).arch, expected, "{machine} {bits:?}");
        }
    }

    #[test]
    fn the_systems_own_package_manager_comes_first() {
        use PackageManager::{Apt, Brew, Dnf, Npm, Pacman, Zypper};
        for (os_release, programs, expected) in [
            ("ID=debian\nVERSION_ID=\"12\"", ["brew", "apt", "npm"], vec![Apt, Brew, Npm]),
            ("ID=linuxmint\nID_LIKE=\"ubuntu debian\"", ["brew", "apt", "ls"], vec![Apt, Brew]),
            ("ID=manjaro\nID_LIKE=arch", ["apt", "pacman", "ls"], vec![Pacman, Apt]),
            ("ID=rocky\nID_LIKE=\"rhel centos fedora\"", ["dnf", "apt", "ls"], vec![Dnf, Apt]),
            ("ID=\"opensuse-leap\"\nID_LIKE=\"suse\"", ["apt", "zypper", "ls"], vec![Zypper, Apt]),
        ] {
            let host = Host::from_facts(&linux("x86_64", os_release, &programs));
            assert_eq!(host.managers, expected, "{os_release}");
        }
    }

    #[test]
    fn the_loader_tells_the_c_library() {
        let facts = |paths: &[&str]| Facts {
            present: paths.iter().map(ToString::to_string).collect(),
            ..linux("x86_64", "ID=alpine", &[])
        };
        let libc = |paths: &[&str]| Host::from_facts(&facts(paths)).libc;
        assert_eq!(libc(&["/lib/ld-musl-x86_64.so.1"]), Libc::Musl);
        assert_eq!(libc(&["/lib/ld-musl-x86_64.so.1", "/lib64/ld-linux-x86-64.so.2"]), Libc::Glibc);
        assert_eq!(libc(&[]), Libc::Unknown);
    }

    #[test]
    fn wsl_containers_and_root_are_seen() {
        let facts = Facts {
            kernel: "5.15.90.1-microsoft-standard-WSL2".into(),
            present: vec!["/.dockerenv".into()],
            is_root: true,
            ..linux("x86_64", "ID=ubuntu\nPRETTY_NAME=\"Ubuntu 22.04.5 LTS\"", &["sudo"])
        };
        let host = Host::from_facts(&facts);
        assert!(host.wsl && host.container);
        assert_eq!(host.privilege, Privilege::Root);
        assert_eq!(host.describe(), "Ubuntu 22.04.5 LTS, x86_64, container, WSL");
    }

    #[test]
    fn every_kind_of_machine_is_told_by_its_facts() {
        for (machine, bits, kernel, os_release, present, expected) in [
            (
                "x86_64",
                64,
                "6.1.0",
                "ID=debian\nNAME=Debian",
                "/lib64/ld-linux-x86-64.so.2",
                "Debian, x86_64, glibc",
            ),
            (
                "x86_64",
                32,
                "6.1.0",
                "ID=debian\nNAME=Debian",
                "/lib/ld-linux.so.2",
                "Debian, i686, glibc",
            ),
            (
                "aarch64",
                32,
                "6.6.31+rpt-rpi-v8",
                "ID=raspbian\nNAME=Raspbian",
                "/lib/ld-linux-armhf.so.3",
                "Raspbian, armv7, glibc",
            ),
            (
                "aarch64",
                64,
                "6.6.0",
                "ID=alpine\nNAME=Alpine",
                "/lib/ld-musl-aarch64.so.1",
                "Alpine, aarch64, musl",
            ),
            ("x86_64", 64, "6.12.0", "ID=nixos\nNAME=NixOS", "", "NixOS, x86_64"),
            (
                "x86_64",
                64,
                "4.4.0-19041-Microsoft",
                "ID=ubuntu\nNAME=Ubuntu",
                "",
                "Ubuntu, x86_64, WSL",
            ),
            (
                "x86_64",
                64,
                "6.8.0",
                "ID=fedora\nNAME=Fedora",
                "/run/.containerenv",
                "Fedora, x86_64, container",
            ),
            (
                "x86_64",
                64,
                "6.8.0",
                "ID=arch\nNAME=Arch",
                "/run/systemd/container",
                "Arch, x86_64, container",
            ),
            (
                "riscv64",
                64,
                "6.8.0",
                "ID=opensuse-tumbleweed\nNAME=openSUSE",
                "",
                "openSUSE, an unknown architecture",
            ),
        ] {
            let facts = Facts {
                userland_bits: Some(bits),
                kernel: kernel.into(),
                present: vec![present.into()],
                ..linux(machine, os_release, &[])
            };
            assert_eq!(Host::from_facts(&facts).describe(), expected);
        }
    }

    #[test]
    fn macos_is_compared_with_the_minimum_of_a_pin() {
        let host = |version: &str| {
            Host::from_facts(&Facts {
                system: "Darwin".into(),
                machine: "arm64".into(),
                macos_version: Some(version.into()),
                ..Facts::default()
            })
        };
        assert!(host("14.7.1").macos_below("15"));
        assert!(!host("15.0").macos_below("15"));
        assert!(!host("26").macos_below("15"));
    }
}
