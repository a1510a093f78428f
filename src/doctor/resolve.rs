//! Which binary of a tool is taken: the configured one and no other; else one on
//! `PATH` that is new enough and passes the probe; else the one that this
//! program installed. `tools.prefer: managed` turns the last two round.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::install::store::Store;
use super::path::usable;
use super::probe::{self, Unchecked};
use super::tool::{Origin, Tool, ToolId};
use super::trouble::Trouble;
use crate::base::dirs::Dirs;
use crate::base::env::Env;
use crate::core::config::{Prefer, Tools};

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
        for (path, origin) in self.candidates(id) {
            let why = if resolution.chosen.is_some() {
                Trouble::NotNeeded
            } else if path.is_relative() {
                Trouble::Relative
            } else {
                let candidate = Tool::candidate(id.as_str(), &path, origin, self.env);
                match probe::probe(id, candidate).await {
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
        for (path, origin) in self.candidates(id) {
            let candidate = Tool::candidate(id.as_str(), &path, origin, self.env);
            if let Ok(tool) = probe::new_enough(id, candidate).await {
                return Some(tool);
            }
        }
        None
    }

    fn candidates(&self, id: ToolId) -> Vec<(PathBuf, Origin)> {
        if let Some(path) = &id.config(self.tools).path {
            return vec![(path.clone(), Origin::Configured)];
        }
        let system = on_path(self.env, id.as_str()).into_iter().map(|path| (path, Origin::System));
        let managed = Store::new(self.dirs)
            .installed(id)
            .into_iter()
            .map(|installed| (installed.path, Origin::Managed));
        match self.tools.prefer {
            Prefer::System => system.chain(managed).collect(),
            Prefer::Managed => managed.chain(system).collect(),
        }
    }
}

/// The files of that name in the usable directories of `PATH`, each once.
fn on_path(env: &Env, name: &str) -> Vec<PathBuf> {
    let mut seen = BTreeSet::new();
    usable(env)
        .into_iter()
        .map(|dir| dir.join(name))
        .filter(|path| path.is_file() && seen.insert(real_path(path)))
        .take(SYSTEM_LIMIT)
        .collect()
}

/// `/bin` may be `/usr/bin`; one program is looked at once.
fn real_path(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}
