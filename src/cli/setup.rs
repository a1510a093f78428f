//! What a command needs before it can begin: the configuration and the places
//! of its state.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::Context;
use crate::base::dirs::Dirs;
use crate::base::failure::Failure;
use crate::base::files::lock::is_held;
use crate::base::process::shell_word;
use crate::core::config::Config;
use crate::state::config_file::{self, ReadError};
use crate::state::in_use::{ClaimError, User};
use crate::state::paths::StatePaths;

/// The smallest configuration that does something, for those who have none.
const MINIMAL: &str = "\
routing:
  runner: tmux
  spawnOnUnmatched: labeled
  authorizedUsers: [YOUR-GITHUB-LOGIN]
  repositories: [OWNER/NAME]";

/// A configuration that was found, read and understood.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    /// The values; every path in them is absolute.
    pub(crate) config: Config,
    /// The file they are from, by its canonical path.
    pub(crate) file: PathBuf,
    /// The project: the directory that holds `.the-loop`, or the file's.
    pub(crate) project: PathBuf,
    /// What stands in the file.
    pub(crate) text: String,
    /// Why it was this file.
    pub(crate) origin: FileOrigin,
    /// Where state is kept.
    pub(crate) paths: StatePaths,
}

/// Why a file is the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileOrigin {
    /// `--config` names it.
    CommandLine,
    /// The variable `THE_LOOP_CONFIG` names it.
    Environment,
    /// It was found in the current directory or above.
    Found,
    /// It is the user's own.
    User,
}

impl FileOrigin {
    /// The reason, in words.
    pub(crate) fn why(self) -> &'static str {
        match self {
            Self::CommandLine => "`--config` names it",
            Self::Environment => "the variable `THE_LOOP_CONFIG` names it",
            Self::Found => "it was found upward from here",
            Self::User => "it is the user's own",
        }
    }
}

impl Loaded {
    /// What was read, as it was.
    pub(crate) fn read(&self) -> config_file::Read {
        config_file::Read {
            config: self.config.clone(),
            file: self.file.clone(),
            project: self.project.clone(),
            text: self.text.clone(),
        }
    }
}

impl Context {
    /// The user's directories for this program.
    pub(crate) fn dirs(&self) -> Result<Dirs, Failure> {
        Dirs::new(&self.env).map_err(|error| Failure::failed(error.to_string()).hint(error.hint()))
    }

    /// Finds and reads the configuration: `--config`, else `THE_LOOP_CONFIG`,
    /// else `.the-loop/config.yaml` upward, else the user's own.
    ///
    /// The state is that with which the sessions are in use now, be it another than
    /// this configuration's: only there is who receives and who drives.
    pub(crate) fn load(&self) -> Result<Loaded, Failure> {
        let loaded = self.load_own()?;
        let paths = self.in_use(&loaded.file, loaded.paths)?;
        Ok(Loaded { paths, ..loaded })
    }

    /// The same with this configuration's own state, for those who begin something
    /// there or tell of it.
    pub(crate) fn load_own(&self) -> Result<Loaded, Failure> {
        let dirs = self.dirs()?;
        let (path, origin) = self.find(&dirs)?;
        let config_file::Read { config, file, project, text } =
            config_file::read(&path, &self.env).map_err(|error| failure(error, origin.why()))?;
        let paths = StatePaths::new(&file, &config, &dirs);
        Ok(Loaded { config, file, project, text, origin, paths })
    }

    /// The directory of the project whose configuration may be a broken one.
    pub(crate) fn project(&self) -> Option<PathBuf> {
        let (file, _) = self.find(&self.dirs().ok()?).ok()?;
        let dir = file.parent()?;
        let is_ours = dir.file_name().is_some_and(|name| name == ".the-loop");
        if is_ours { dir.parent() } else { Some(dir) }.map(Path::to_path_buf)
    }

    /// Whether there is a configuration, be it a broken one.
    pub(crate) fn has_config(&self) -> bool {
        self.dirs().is_ok_and(|dirs| self.find(&dirs).is_ok())
    }

    /// The file and where its state is kept, for a command that only talks to the
    /// receiver: also where the configuration is broken, is gone, or names another
    /// directory, since the receiver read it.
    pub(crate) fn paths(&self) -> Result<(PathBuf, StatePaths), Failure> {
        let dirs = self.dirs()?;
        if let Some((file, paths)) = self.orphaned(&dirs) {
            self.printer.note(&format!(
                "note: the configuration is gone; a receiver still runs with what was in\n  `{}`",
                file.display()
            ));
            return Ok((file, paths));
        }
        let (path, origin) = self.find(&dirs)?;
        let (file, config, fault) = match config_file::read(&path, &self.env) {
            Ok(read) => (read.file, read.config, None),
            Err(ReadError::Fault(fault)) => {
                let said = fault.to_string();
                let file = fs_err::canonicalize(&path)
                    .map_err(|_| failure(ReadError::Fault(fault), origin.why()))?;
                (file, Config::default(), Some(said))
            }
            Err(error) => return Err(failure(error, origin.why())),
        };
        let paths = StatePaths::new(&file, &config, &dirs);
        let found = self.in_use(&file, paths.clone())?;
        if let (true, Some(fault)) = (found == paths && !is_held(&paths.lock()), fault) {
            // It may have named the directory where a receiver is to be found.
            self.printer.note(&format!("note: the configuration is broken: {fault}"));
            self.printer.note("  so `state.dir` is not known, and the usual place was looked at");
        }
        Ok((file, found))
    }

    /// The file of a receiver that runs though its file is gone, as after a `git
    /// clean -fdx` in a project that had not committed it, and where its state is.
    fn orphaned(&self, dirs: &Dirs) -> Option<(PathBuf, StatePaths)> {
        let candidates = match self.named() {
            Some((path, _)) => vec![path],
            None if config_file::search(self.env.cwd()).is_some() => Vec::new(),
            None => config_file::searched(self.env.cwd()).collect(),
        };
        let gone = candidates.iter().filter(|path| !config_file::is_there(path));
        gone.filter_map(|path| config_file::canonical(path)).find_map(|file| {
            let usual = StatePaths::new(&file, &Config::default(), dirs);
            let noted = StatePaths::noted(&file, dirs);
            let paths = noted.into_iter().chain([usual]).find(|paths| is_held(&paths.lock()))?;
            Some((file, paths))
        })
    }

    /// The places of the state with which the sessions are in use: these, or
    /// another's, which is said.
    fn in_use(&self, file: &Path, paths: StatePaths) -> Result<StatePaths, Failure> {
        match paths.user(file, &self.dirs()?) {
            User::Own => Ok(paths),
            User::Other(found) => {
                self.printer.note(&format!(
                    "note: {} uses these sessions, with the state in\n  `{}`",
                    found.what,
                    found.paths.dir.display()
                ));
                Ok(found.paths)
            }
            User::Unknown => {
                let registry = paths.registry;
                Err(ClaimError::InUse { registry, by: None }.into())
            }
        }
    }

    fn find(&self, dirs: &Dirs) -> Result<(PathBuf, FileOrigin), Failure> {
        self.in_a_directory()?;
        if let Some(named) = self.named() {
            return Ok(named);
        }
        if let Some(path) = config_file::search(self.env.cwd()) {
            return Ok((path, FileOrigin::Found));
        }
        let own = dirs.config.join("config.yaml");
        if config_file::is_there(&own) {
            return Ok((own, FileOrigin::User));
        }
        Err(none(self.env.cwd(), &own))
    }

    /// The file that the command line or the environment names.
    pub(crate) fn named(&self) -> Option<(PathBuf, FileOrigin)> {
        if let Some(path) = &self.config {
            return Some((self.absolute(path), FileOrigin::CommandLine));
        }
        let path = self.env.var_os("THE_LOOP_CONFIG")?;
        Some((self.absolute(Path::new(path)), FileOrigin::Environment))
    }

    pub(crate) fn absolute(&self, path: &Path) -> PathBuf {
        // `components` drops a `.`, so that messages read well.
        self.env.cwd().join(path).components().collect()
    }
}

fn none(cwd: &Path, own: &Path) -> Failure {
    Failure::refused(format!(
        "there is no configuration: no `.the-loop/config.yaml` in `{}`\nor above it, and no `{}`",
        cwd.display(),
        own.display()
    ))
    .hint(format!(
        "`the-loop init` writes one into `.the-loop/config.yaml`; the least is:\n\n{}\n",
        MINIMAL.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
    ))
}

/// What to say about a configuration that cannot be read. `why` says why it was
/// this file.
pub(super) fn failure(error: ReadError, why: &str) -> Failure {
    match error {
        ReadError::Missing { .. } | ReadError::NotAFile { .. } => {
            Failure::refused(format!("{error} ({why})"))
        }
        ReadError::Dangling { .. } => Failure::refused(format!("{error}\n({why})"))
            .hint("remove the link, or make what it leads to"),
        ReadError::Foreign(foreign) => Failure::refused(foreign.to_string())
            .hint("it says whose words reach an agent, so only you may write to it")
            .hint(foreign.remedy()),
        ReadError::Fault(fault) => {
            fault.hints().iter().fold(Failure::refused(fault.pointed()), Failure::hint)
        }
        ReadError::Io { path, source } => {
            let message = format!("could not read the configuration `{}`", path.display());
            let failure = Failure::failed(message).because(source);
            match opens(&path) {
                Some(command) => failure.hint(command),
                None => failure,
            }
        }
    }
}

/// What lets this user read a file of its own again.
fn opens(path: &Path) -> Option<String> {
    // A directory that is shut hides what is in it.
    let at = path.ancestors().find(|at| fs_err::symlink_metadata(at).is_ok())?;
    let meta = fs_err::metadata(at).ok()?;
    let own = rustix::process::geteuid().as_raw();
    let rights = Access::READ_OK | if meta.is_dir() { Access::EXEC_OK } else { Access::READ_OK };
    if rustix::fs::access(at, rights).is_ok() {
        return None;
    }
    Some(opening(at, meta.is_dir(), meta.uid(), own))
}

fn opening(at: &Path, is_dir: bool, owner: u32, own: u32) -> String {
    let word = shell_word(&at.to_string_lossy());
    if owner == own {
        return format!("chmod {} {word}", if is_dir { "u+rx" } else { "u+r" });
    }
    format!("have the user {owner} let you read {word}, or name another with --config")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::config::{SpawnPolicy, parse};

    #[test]
    fn the_configuration_that_is_proposed_is_valid() {
        let text = MINIMAL.replace("OWNER/NAME", "octo/hello").replace("YOUR-GITHUB-LOGIN", "me");
        let config = parse(&text, Path::new("x")).unwrap();
        assert_eq!(config.routing.spawn_on_unmatched, SpawnPolicy::Labeled);
    }

    #[test]
    fn a_file_of_ones_own_that_is_shut_is_told_with_what_opens_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(opens(file.path()), None);
        let text = |is_dir, owner| opening(Path::new("/p/x"), is_dir, owner, 7);
        assert_eq!(text(false, 7), "chmod u+r /p/x");
        assert_eq!(text(true, 7), "chmod u+rx /p/x");
        let others = "have the user 8 let you read /p/x, or name another with --config";
        assert_eq!(text(false, 8), others);
    }
}
