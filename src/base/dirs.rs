//! Where the program keeps what is its own, by the platform's conventions.

use std::path::PathBuf;

use super::env::Env;
use super::text::visible;

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

/// Why there is no place for what is the program's own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoDirs {
    /// Neither `HOME` nor the system's list of users names one.
    #[error("no home directory is known")]
    NoHome,
    /// It would be another one in each directory that a program is started in.
    #[error("HOME is `{0}`, which is not an absolute path")]
    Relative(String),
}

impl NoDirs {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoHome => {
                "set HOME, or THE_LOOP_HOME to a directory for everything that is the-loop's"
            }
            Self::Relative(_) => "set HOME to the absolute path of your home directory",
        }
    }
}

impl Dirs {
    /// The directories for these surroundings. A relative `THE_LOOP_HOME` is
    /// taken from the working directory.
    pub fn new(env: &Env) -> Result<Self, NoDirs> {
        if let Some(home) = env.home().filter(|home| home.is_relative()) {
            return Err(NoDirs::Relative(visible(&home.to_string_lossy())));
        }
        if let Some(home) = env.var_os("THE_LOOP_HOME").map(PathBuf::from) {
            let home = env.cwd().join(home);
            return Ok(Self {
                config: home.join("config"),
                data: home.join("data"),
                state: home.join("state"),
            });
        }
        let project = directories::ProjectDirs::from("", "", "the-loop").ok_or(NoDirs::NoHome)?;
        let data = project.data_local_dir().to_path_buf();
        Ok(Self {
            config: project.config_dir().to_path_buf(),
            state: project.state_dir().map_or_else(|| data.join("state"), PathBuf::from),
            data,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_home_is_refused_and_a_relative_place_of_ours_is_made_absolute() {
        let dirs = |vars: &[(&str, &str)]| {
            Dirs::new(&Env::fixed(vars.iter().copied(), "/here", "/bin/the-loop"))
        };
        for vars in [&[("HOME", "~")][..], &[("HOME", "x"), ("THE_LOOP_HOME", "/y")]] {
            let error = dirs(vars).unwrap_err();
            assert!(error.to_string().contains("is not an absolute path"), "{error}");
        }
        let own = dirs(&[("THE_LOOP_HOME", "own")]).unwrap();
        assert_eq!(own.data, PathBuf::from("/here/own/data"));
    }
}
