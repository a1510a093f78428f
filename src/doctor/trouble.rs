//! Why a binary that was looked at is not the one to use.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::base::failure::chain;
use crate::base::runtime::more;
use crate::base::text::visible;
use crate::core::platform::Version;

/// Why a binary is not used. The text continues a line that names its path.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// Nothing is at the configured path.
    #[error("does not exist")]
    Missing,
    /// The configured path depends on where it is read.
    #[error("is not an absolute path")]
    Relative,
    /// A link is there, and nothing behind it.
    #[error("is a link to `{}`, which is not there", visible(&target.to_string_lossy()))]
    Dangling {
        /// Where the link leads.
        target: PathBuf,
    },
    /// A link is there that leads back to itself.
    #[error("is a link that leads in a circle")]
    LinkLoop,
    /// Something else than a file is there.
    #[error("is not a file, but {kind}")]
    NotAFile {
        /// What it is.
        kind: &'static str,
    },
    /// Somebody else can change it.
    #[error("is not to be trusted: {why}")]
    Untrusted {
        /// Who can, or where it lies.
        why: String,
    },
    /// It is no longer what was installed.
    #[error("is damaged: {why}")]
    Damaged {
        /// What shows it.
        why: String,
    },
    /// The file's mode does not let us run it.
    #[error("is not executable")]
    NotExecutable,
    /// The mode is right and the system still refuses.
    #[error("may not be executed here (is its file system mounted noexec?)")]
    Denied,
    /// It is built for another machine.
    #[error("is built for {built_for}, and this system cannot run that")]
    WrongArchitecture {
        /// What it is built for.
        built_for: String,
    },
    /// It is no program.
    #[error("is not a program that this system can run")]
    WrongFormat,
    /// What must load or interpret it is not there.
    #[error("needs `{loader}`, which is not there")]
    LoaderMissing {
        /// The loader or interpreter.
        loader: PathBuf,
    },
    /// A script was written where lines end otherwise.
    #[error("has the line ends of Windows, and there is no `{}`", visible(&interpreter.to_string_lossy()))]
    LineEnds {
        /// What should interpret it, as the system reads it.
        interpreter: PathBuf,
    },
    /// A library that it is linked with is not there.
    #[error("cannot start: {said}")]
    LibraryMissing {
        /// What the loader said.
        said: String,
    },
    /// It ended with a failure where it should tell its version.
    #[error("fails: {what}")]
    Failed {
        /// What was run, how it ended, and what it said.
        what: String,
    },
    /// It did not answer.
    #[error("hangs: `{command}` did not answer within {} s", after.as_secs_f32())]
    Hung {
        /// What was run.
        command: String,
        /// How long it was given.
        after: Duration,
    },
    /// It answered with something that is no version.
    #[error("{}", no_version(said))]
    NoVersion {
        /// What it said.
        said: String,
    },
    /// It is too old.
    #[error("is version {found}, and {needed} or newer is needed")]
    TooOld {
        /// Its version.
        found: Version,
        /// The oldest that can be used.
        needed: Version,
    },
    /// It runs, and does not do what it is needed for.
    #[error("{what}")]
    Misbehaved {
        /// Which probe found that: the second part of the check's id.
        probe: &'static str,
        /// What it did, or did not do.
        what: String,
    },
    /// Somebody is writing it at this moment.
    #[error("is being written to by another process")]
    Busy,
    /// macOS keeps what was downloaded from running.
    #[error("is held in quarantine by macOS")]
    Quarantined,
    /// It could not be looked at.
    #[error("could not be looked at: {}", chain(source))]
    Unreadable {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It works, and another one comes first.
    #[error("was not needed: one that comes first works")]
    NotNeeded,
}

impl Trouble {
    /// What helps where it is this process, or its user, that may have no more: that
    /// says nothing of the binary.
    pub(super) fn limit(&self) -> Option<&'static str> {
        match self {
            Self::Unreadable { source } => more(source),
            _ => None,
        }
    }

    /// The second part of the id of the check that found it.
    pub fn check(&self) -> &'static str {
        match self {
            Self::Missing | Self::Relative | Self::Untrusted { .. } | Self::NotNeeded => "found",
            Self::TooOld { .. } | Self::NoVersion { .. } => "version",
            Self::Misbehaved { probe, .. } => probe,
            _ => "runs",
        }
    }
}

fn no_version(said: &str) -> String {
    match said {
        "" => "told no version, nor anything else".to_owned(),
        said => format!("told no version, but `{said}`"),
    }
}
