//! Where the program keeps what is its own, by the platform's conventions.

use std::path::{Path, PathBuf};

use fs_err as fs;

use super::env::Env;
use super::text::{path_text, visible};

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
    #[error("{variable} is `{value}`, which is not an absolute path")]
    Relative {
        /// `HOME` or `THE_LOOP_HOME`.
        variable: &'static str,
        /// Its value.
        value: String,
    },
}

impl NoDirs {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoHome => {
                "set HOME, or THE_LOOP_HOME to a directory for everything that is the-loop's"
            }
            Self::Relative { variable: "HOME", .. } => {
                "set HOME to the absolute path of your home directory"
            }
            Self::Relative { .. } => {
                "set THE_LOOP_HOME to an absolute path: no `~` and no `.` in front"
            }
        }
    }
}

/// A home directory that is named and not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} {}, which does not exist and cannot be made", self.named_by, path_text(&self.path))]
pub struct MissingHome {
    path: PathBuf,
    named_by: &'static str,
}

impl MissingHome {
    /// What to do about it.
    pub const HINT: &str = "set HOME, or THE_LOOP_HOME, to a directory of yours that exists";

    /// The home in which `place` is to be made, where it is not there. Nothing where
    /// another directory is what `place` lacks.
    pub fn of(env: &Env, place: &Path) -> Option<Self> {
        let (path, named_by) = if let Some(home) = env.home() {
            (home.to_path_buf(), "HOME is")
        } else {
            let listed = directories::BaseDirs::new()?.home_dir().to_path_buf();
            (listed, "HOME is not set, and the system's list of users names")
        };
        let is_gone = matches!(
            fs::metadata(&path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound
        );
        // A link that leads nowhere is there, and in the way.
        let is_gone = is_gone && !path.is_symlink();
        (is_gone && place.starts_with(&path)).then_some(Self { path, named_by })
    }
}

impl Dirs {
    /// The directories for these surroundings. A relative `THE_LOOP_HOME` is
    /// refused: it would be another place in each working directory.
    pub fn new(env: &Env) -> Result<Self, NoDirs> {
        let relative = |variable, path: &Path| {
            Err(NoDirs::Relative { variable, value: visible(&path.to_string_lossy()) })
        };
        if let Some(home) = env.home().filter(|home| home.is_relative()) {
            return relative("HOME", home);
        }
        if let Some(home) = env.var_os("THE_LOOP_HOME").map(PathBuf::from) {
            if home.is_relative() {
                return relative("THE_LOOP_HOME", &home);
            }
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
    fn a_home_is_missing_for_what_is_to_be_made_in_it_alone() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        let env = Env::fixed([("HOME", home.as_os_str())], "/here", "/bin/the-loop");
        let told = MissingHome::of(&env, &home.join("a/b")).map(|home| home.to_string());
        let said = format!("HOME is {}, which does not exist and cannot be made", home.display());
        assert_eq!(told, Some(said));
        assert_eq!(MissingHome::of(&env, &dir.path().join("other")), None);
        fs::create_dir(&home).unwrap();
        assert_eq!(MissingHome::of(&env, &home.join("a/b")), None);
    }

    #[test]
    fn a_relative_home_is_refused_and_a_relative_place_of_ours_too() {
        let dirs = |vars: &[(&str, &str)]| {
            Dirs::new(&Env::fixed(vars.iter().copied(), "/here", "/bin/the-loop"))
        };
        for (vars, variable) in [
            (&[("HOME", "~")][..], "HOME is"),
            (&[("HOME", "x"), ("THE_LOOP_HOME", "/y")], "HOME is"),
            (&[("THE_LOOP_HOME", "own")], "THE_LOOP_HOME is"),
            (&[("HOME", "/h"), ("THE_LOOP_HOME", "~/x")], "THE_LOOP_HOME is"),
        ] {
            let error = dirs(vars).unwrap_err();
            assert!(error.to_string().starts_with(variable), "{error}");
            assert!(error.to_string().contains("is not an absolute path"), "{error}");
            assert!(error.hint().starts_with(&format!("set {}", &variable[..variable.len() - 3])));
        }
        let own = dirs(&[("THE_LOOP_HOME", "/own")]).unwrap();
        assert_eq!(own.data, PathBuf::from("/own/data"));
    }
}
