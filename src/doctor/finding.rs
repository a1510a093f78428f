//! What the doctor says: typed, with a stable id, so that people, scripts and
//! `--json` read the same.

use serde::Serialize;

use crate::core::platform::Remedy;

/// How much a finding matters, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// All is well.
    Ok,
    /// Good to know.
    Note,
    /// Something will work less well.
    Warning,
    /// What is enabled cannot work.
    Error,
}

impl Severity {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }

    /// The sign in front of the word; the word says everything.
    pub(super) fn sign(self) -> char {
        match self {
            Self::Ok => '✓',
            Self::Note => '·',
            Self::Warning => '!',
            Self::Error => '✗',
        }
    }
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// A stable dotted name: the tool, then the check.
    pub id: String,
    /// How much it matters here.
    pub severity: Severity,
    /// `false` when the check could not be made; `what` says why.
    pub checked: bool,
    /// The finding, in one line.
    pub what: String,
    /// What shows it: paths, versions, what was tried.
    pub evidence: Vec<String>,
    /// What to do.
    pub remedy: Option<Remedy>,
}
