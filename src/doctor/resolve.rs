//! Which binary of a tool is taken: the configured one and no other; else one on
//! `PATH` that is new enough and passes the probe; else the one that this
//! program installed. `tools.prefer: managed` turns the last two round.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::install::store::Store;
use super::path::{Ignored, Judge, judged};
use super::probe::{self, Unchecked};
use super::tool::{Origin, Tool, ToolId};
use super::trouble::Trouble;
use crate::base::dirs::Dirs;
use crate::base::env::Env;
use crate::core::config::{Prefer, Tools};
use crate::core::platform::Version;

/// How many binaries of one name on `PATH` are looked at.
const SYSTEM_LIMIT: usize = 4;

/// Where tools are looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search<'a> {
    pub(super) env: &'a Env,
    pub(super) dirs: &'a Dirs,
    pub(super) tools: &'a Tools,
}

/// Which binary was taken, and why the others were not.
#[derive(Debug)]
pub struct Resolution {
    /// The tool.
    pub id: ToolId,
    /// The one to use.
    pub chosen: Option<Tool>,
    /// The others, in the order in which they were looked at.
    pub lost: Vec<Lost>,
    pub(super) unchecked: Vec<Unchecked>,
}

/// A binary that was not taken.
#[derive(Debug)]
pub struct Lost {
    /// The binary.
    pub path: PathBuf,
    /// Where it comes from.
    pub origin: Origin,
    /// Why it was not taken.
    pub why: Trouble,
}

impl Search<'_> {
    /// Probes the candidates in order until one passes.
    pub(super) async fn resolve(&self, id: ToolId) -> Resolution {
        let mut resolution =
            Resolution { id, chosen: None, lost: Vec::new(), unchecked: Vec::new() };
        for candidate in self.candidates(id) {
            // What is not needed is not read either.
            let is_needed = resolution.chosen.is_none() || candidate.ignored.is_some();
            let vetted = if is_needed { self.vet(id, &candidate) } else { Err(Trouble::NotNeeded) };
            let Candidate { path, origin, .. } = candidate;
            let why = if let Err(why) = vetted {
                why
            } else {
                let candidate = Tool::candidate(id.as_str(), &path, origin, self.env);
                let probed = probe::probe(id, candidate).await;
                match probed.and_then(|passed| is_its_folders(&passed.tool).map(|()| passed)) {
                    Ok(passed) => {
                        resolution.chosen = Some(passed.tool);
                        resolution.unchecked = passed.unchecked;
                        continue;
                    }
                    Err(why) => why,
                }
            };
            resolution.lost.push(Lost { path, origin, why });
        }
        resolution
    }

    /// The first candidate that is new enough, by its own word.
    pub(super) async fn find(&self, id: ToolId) -> Option<Tool> {
        for candidate in self.candidates(id) {
            if self.vet(id, &candidate).is_err() {
                continue;
            }
            let Candidate { path, origin, .. } = candidate;
            let candidate = Tool::candidate(id.as_str(), &path, origin, self.env);
            if let Ok(tool) = probe::new_enough(id, candidate).await
                && is_its_folders(&tool).is_ok()
            {
                return Some(tool);
            }
        }
        None
    }

    /// Whether a binary may be run at all.
    fn vet(&self, id: ToolId, candidate: &Candidate) -> Result<(), Trouble> {
        if let Some(why) = &candidate.ignored {
            return Err(Trouble::Untrusted { why: why.to_string() });
        }
        if candidate.path.is_relative() {
            return Err(Trouble::Relative);
        }
        if let Some(why) = by_others(&candidate.path, candidate.origin) {
            return Err(why);
        }
        if candidate.origin == Origin::Managed {
            let intact = Store::new(self.dirs).verify(id, &candidate.path);
            return intact.map_err(|why| Trouble::Damaged { why });
        }
        Ok(())
    }

    fn candidates(&self, id: ToolId) -> Vec<Candidate> {
        let known = |path, origin| Candidate { path, origin, ignored: None };
        if let Some(path) = &id.config(self.tools).path {
            return vec![known(path.clone(), Origin::Configured)];
        }
        let system = on_path(self.env, id.as_str()).into_iter();
        let managed = Store::new(self.dirs)
            .installed(id)
            .into_iter()
            .map(|installed| known(installed.path, Origin::Managed));
        match self.tools.prefer {
            Prefer::System => system.chain(managed).collect(),
            Prefer::Managed => managed.chain(system).collect(),
        }
    }
}

/// A binary that may be the one.
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) origin: Origin,
    /// Why it is not even tried.
    pub(super) ignored: Option<Ignored>,
}

/// Whether a build of ours is of the version whose folder it is in.
fn is_its_folders(tool: &Tool) -> Result<(), Trouble> {
    let folder = tool.path().parent().filter(|_| tool.origin() == Origin::Managed);
    let Some(folder) = folder.and_then(Path::file_name) else { return Ok(()) };
    let told = tool.version();
    if told.is_none() || told == Version::parse(&folder.to_string_lossy()).as_ref() {
        return Ok(());
    }
    let told = told.map(ToString::to_string).unwrap_or_default();
    Err(Trouble::Damaged { why: format!("it says that it is version {told}") })
}

/// Why a program that was configured, or that this one installed, is not run:
/// somebody else could have changed it.
pub(super) fn by_others(path: &Path, origin: Origin) -> Option<Trouble> {
    if !matches!(origin, Origin::Configured | Origin::Managed) {
        return None;
    }
    let open = Judge::of_places().open(path).into_iter().next()?;
    Some(Trouble::Untrusted { why: open.why })
}

/// What has that name in the directories of `PATH`, each once: also what is no
/// program, and what is not to be run, so that it can be named.
pub(super) fn on_path(env: &Env, name: &str) -> Vec<Candidate> {
    let judge = Judge::new(env);
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    let mut tried = 0;
    for (dir, ignored) in judged(env) {
        let path = dir.join(name);
        let is_there = dir.is_absolute() && fs::symlink_metadata(&path).is_ok();
        if !is_there || tried == SYSTEM_LIMIT || !seen.insert(real_path(&path)) {
            continue;
        }
        let ignored = ignored.or_else(|| judge.judge(&path));
        tried += usize::from(ignored.is_none());
        found.push(Candidate { path, origin: Origin::System, ignored });
    }
    found
}

/// `/bin` may be `/usr/bin`; one program is looked at once.
fn real_path(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}
