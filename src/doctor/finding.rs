//! What the doctor says: typed, with a stable id, so that people, scripts and
//! `--json` read the same.

use serde::Serialize;

use super::repair::Repair;
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
    /// What `--fix` would do about it.
    pub fix: Option<Repair>,
}

impl Finding {
    /// A check that was made.
    pub fn new(id: impl Into<String>, severity: Severity, what: impl Into<String>) -> Self {
        let (id, what) = (id.into(), what.into());
        let evidence = Vec::new();
        Self { id, severity, checked: true, what, evidence, remedy: None, fix: None }
    }

    /// A check that could not be made.
    pub(super) fn unchecked(id: impl Into<String>, why: impl Into<String>) -> Self {
        Self { checked: false, ..Self::new(id, Severity::Warning, why) }
    }

    /// Adds what shows it.
    #[must_use]
    pub(super) fn shown_by(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    /// Adds what to do.
    #[must_use]
    pub fn remedy(self, remedy: Remedy) -> Self {
        Self { remedy: Some(remedy), ..self }
    }

    /// Adds what `--fix` would do.
    #[must_use]
    pub(super) fn fix(self, repair: Repair) -> Self {
        Self { fix: Some(repair), ..self }
    }
}
