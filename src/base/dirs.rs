//! Where the program keeps what is its own, by the platform's conventions.

use std::path::PathBuf;

use super::env::Env;

/// The user's directories for this program. `THE_LOOP_HOME` puts all of them
/// below one directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dirs {
    /// The user's own configuration, used where no project has one.
    pub config: PathBuf,
    /// Managed tools.
    pub data: PathBuf,
    /// Inboxes, locks, sockets, spools.
    pub state: PathBuf,
}

impl Dirs {
    /// The directories for these surroundings; `None` without a home directory.
    pub fn new(env: &Env) -> Option<Self> {
        if let Some(home) = env.var_os("THE_LOOP_HOME").map(PathBuf::from) {
            let home = env.cwd().join(home);
            return Some(Self {
                config: home.join("config"),
                data: home.join("data"),
                state: home.join("state"),
            });
        }
        let project = directories::ProjectDirs::from("", "", "the-loop")?;
        let data = project.data_local_dir().to_path_buf();
        Some(Self {
            config: project.config_dir().to_path_buf(),
            state: project.state_dir().map_or_else(|| data.join("state"), PathBuf::from),
            data,
        })
    }
}
