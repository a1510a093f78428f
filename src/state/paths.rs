//! Where state is kept: one directory for each configuration file, out of reach
//! of `git clean` and of the agents; the registry alone is beside the
//! configuration.

use std::fmt;
use std::fs::Metadata;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use fs_err as fs;
use sha2::{Digest as _, Sha256};

use crate::base::dirs::{Dirs, MissingHome};
use crate::base::env::Env;
use crate::base::failure::Failure;
use crate::base::files::{SOCKET_PATH, atomic, private_dir};
use crate::base::ids::Slug;
use crate::base::random;
use crate::core::config::Config;

/// The places of one configuration's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatePaths {
    /// The directory that holds everything but the registry.
    pub dir: PathBuf,
    /// The directory of the registry.
    pub registry: PathBuf,
    /// Where sockets are when the directory's own path is too long for them.
    short: PathBuf,
}

impl StatePaths {
    /// The places for the configuration file `file`, given by its canonical
    /// path, whose paths are absolute.
    pub fn new(file: &Path, config: &Config, dirs: &Dirs) -> Self {
        let dir = config
            .state
            .dir
            .clone()
            .unwrap_or_else(|| dirs.state.join(digest(file.as_os_str().as_bytes(), 8)));
        let registry = file.parent().unwrap_or(Path::new("/")).join("sessions");
        // Not below XDG_RUNTIME_DIR: it differs between the shell, the service and
        // cron, and the daemon and its callers must agree.
        let user = rustix::process::getuid().as_raw();
        let short = PathBuf::from(format!("/tmp/the-loop-{user}"));
        Self { dir, registry, short }
    }

    /// The places as the receiver last started for this file had them: its
    /// configuration may have named another directory than it does now, or be broken
    /// since. Nothing where that is not known.
    pub fn noted(file: &Path, dirs: &Dirs) -> Option<Self> {
        let text = fs::read(note_of(file, dirs)).ok()?;
        let dir: PathBuf = serde_json::from_slice(&text).ok()?;
        let mut config = Config::default();
        config.state.dir = Some(dir).filter(|dir| dir.is_absolute());
        config.state.dir.is_some().then(|| Self::new(file, &config, dirs))
    }

    /// The same registry with its state in another directory.
    pub(super) fn at(&self, dir: PathBuf) -> Self {
        Self { dir, ..self.clone() }
    }

    /// Notes where the receiver of a file keeps its state, when that is not the usual
    /// place.
    pub fn note(&self, file: &Path, dirs: &Dirs) -> io::Result<()> {
        let note = note_of(file, dirs);
        if *self == Self::new(file, &Config::default(), dirs) {
            return match fs::remove_file(&note) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        private_dir(&dirs.state)?;
        let text = serde_json::to_vec(&self.dir).map_err(io::Error::other)?;
        atomic::write(&note, &text)
    }

    /// A short name for this state, told to what is made for it elsewhere: two
    /// receivers know their tmux sessions apart by it.
    pub fn instance(&self) -> String {
        digest(self.dir.as_os_str().as_bytes(), 8)
    }

    /// The queue of deliveries.
    pub fn inbox(&self) -> PathBuf {
        self.dir.join("inbox.db")
    }

    /// What is remembered of GitHub.
    pub fn github(&self) -> PathBuf {
        self.dir.join("github.json")
    }

    /// What is remembered of what was said on GitHub. A file of its own: whoever
    /// writes the other one replaces it as a whole.
    pub fn telling(&self) -> PathBuf {
        self.dir.join("github-telling.json")
    }

    /// The lock that the running receiver holds.
    pub fn lock(&self) -> PathBuf {
        self.dir.join("receiver.lock")
    }

    /// The socket on which the receiver takes orders.
    pub fn control(&self) -> PathBuf {
        self.socket("control.sock")
    }

    /// The socket of a tmux server of our own.
    pub fn tmux_socket(&self) -> PathBuf {
        self.socket("tmux.sock")
    }

    /// The socket of the ttyd for those who look at a session. ttyd takes a path for
    /// a socket only when it ends like this.
    pub fn ttyd_socket(&self, slug: &Slug) -> PathBuf {
        let name = digest(slug.as_str().as_bytes(), 8);
        self.socket(&format!("web/{name}.sock"))
    }

    /// The directory of what the ttyds have said.
    pub fn ttyd_logs(&self) -> PathBuf {
        self.dir.join("web-logs")
    }

    /// The directory of the agents' signals.
    pub fn spool(&self) -> PathBuf {
        self.dir.join("spool")
    }

    /// The directory of the files that say how an agent is started.
    pub fn launch(&self) -> PathBuf {
        self.dir.join("launch")
    }

    /// The directory of what headless turns read and wrote, by session.
    pub fn turns(&self) -> PathBuf {
        self.dir.join("turns")
    }

    /// The directory of the locks of those who drive a conversation.
    pub fn drive(&self) -> PathBuf {
        self.dir.join("drive")
    }

    /// The directory of what panes have shown before they ended.
    pub fn logs(&self) -> PathBuf {
        self.dir.join("logs")
    }

    /// The directory of the copies of the registry's entries.
    pub fn copies(&self) -> PathBuf {
        self.dir.join("sessions")
    }

    /// The directory of texts that are too long to be typed.
    pub fn texts(&self) -> PathBuf {
        self.dir.join("texts")
    }

    /// The directory of what was done to type, by session.
    pub fn traces(&self) -> PathBuf {
        self.dir.join("traces")
    }

    /// The directory of clones and work trees, unless the configuration names
    /// another.
    pub fn workspace(&self, config: &Config) -> PathBuf {
        config.routing.workspace.root.clone().unwrap_or_else(|| self.dir.join("workspace"))
    }

    /// The log of a detached receiver.
    pub fn log(&self) -> PathBuf {
        self.dir.join("receiver.log")
    }

    /// Makes the directories, and says what helps where that cannot be.
    pub fn make(&self, env: &Env) -> Result<(), Failure> {
        self.prepare().map_err(|error| {
            let what = format!("could not make the state directory `{}`", self.dir.display());
            let failure = Failure::failed(what).because(error);
            match MissingHome::of(env, &self.dir) {
                Some(home) => failure.hint(format!("{home}: {}", MissingHome::HINT)),
                None => failure,
            }
        })
    }

    /// Makes the directories, each for this user alone. One that others may
    /// write to is refused, never changed: it was not made for this.
    pub fn prepare(&self) -> io::Result<()> {
        let [turns, drive, logs] = [self.turns(), self.drive(), self.logs()];
        for dir in [&self.dir, &self.spool(), &self.launch(), &turns, &drive, &logs, &self.registry]
        {
            private_dir(dir)?;
            own_dir(dir, &fs::metadata(dir)?, 0o022)?;
        }
        if self.control().starts_with(&self.short) || self.tmux_socket().starts_with(&self.short) {
            private_dir(&self.short)?;
            // Everybody may write to its parent: a link there is a trap.
            own_dir(&self.short, &fs::symlink_metadata(&self.short)?, 0o077)?;
        }
        Ok(())
    }

    /// The key of our own voice: 32 random bytes, made on first use. One that is
    /// there and cannot be a key is an error, for with a new one the agents'
    /// older words would be taken for somebody else's.
    pub fn key(&self) -> io::Result<OwnVoiceKey> {
        let path = self.dir.join("own-voice.key");
        if !path.exists() {
            private_dir(&self.dir)?;
            let mut file = tempfile::Builder::new().prefix(".tmp-").tempfile_in(&self.dir)?;
            file.write_all(&random::bytes::<32>())?;
            file.as_file().sync_all()?;
            match file.persist_noclobber(&path) {
                Ok(_) => fs::File::open(&self.dir)?.sync_all()?,
                // Another process made it first: theirs is the key.
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error.error),
            }
        }
        if fs::metadata(&path)?.permissions().mode() & 0o077 != 0 {
            let text = format!(
                "others may read the key `{0}`: take that from them with `chmod 600 '{0}'`",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        let bytes = fs::read(&path)?;
        bytes.try_into().map(OwnVoiceKey).map_err(|bytes: Vec<u8>| {
            let text = format!(
                "`{}` is not a key: it has {} bytes, not 32; remove it to have a new one made",
                path.display(),
                bytes.len()
            );
            io::Error::new(io::ErrorKind::InvalidData, text)
        })
    }

    fn socket(&self, name: &str) -> PathBuf {
        let path = self.dir.join(name);
        if path.as_os_str().len() <= SOCKET_PATH {
            return path;
        }
        self.short.join(format!("{}-{name}", digest(self.dir.as_os_str().as_bytes(), 8)))
    }
}

/// Where it is noted which directory a file's receiver uses.
fn note_of(file: &Path, dirs: &Dirs) -> PathBuf {
    dirs.state.join(format!("{}.dir.json", digest(file.as_os_str().as_bytes(), 8)))
}

/// The key under which our own words are marked. Never shown.
#[derive(Clone)]
pub struct OwnVoiceKey([u8; 32]);

impl OwnVoiceKey {
    /// The key's bytes, for the marker's computation.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for OwnVoiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnVoiceKey(..)")
    }
}

/// The first `bytes` bytes of a digest, in hexadecimal digits.
fn digest(of: &[u8], bytes: usize) -> String {
    hex::encode(&Sha256::digest(of)[..bytes])
}

/// Refuses a directory that is not this user's, or that others may use in one
/// of the ways in `forbidden`.
fn own_dir(dir: &Path, metadata: &Metadata, forbidden: u32) -> io::Result<()> {
    let refused = |text: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    let path = dir.display();
    if !metadata.is_dir() {
        return refused(format!("`{path}` is not a directory"));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return refused(format!("the directory `{path}` belongs to somebody else"));
    }
    if metadata.mode() & forbidden != 0 {
        return refused(format!(
            "others may use the directory `{path}`: choose another, or run `chmod 700 '{path}'`"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn paths(root: &Path, state: Option<PathBuf>) -> StatePaths {
        let mut config = Config::default();
        config.state.dir = state;
        let dirs = Dirs { config: root.join("c"), data: root.join("d"), state: root.join("state") };
        StatePaths::new(&root.join("p/.the-loop/config.yaml"), &config, &dirs)
    }

    #[test]
    fn each_configuration_has_its_own_directory() {
        let one = paths(Path::new("/a"), None);
        assert_eq!(one.registry, Path::new("/a/p/.the-loop/sessions"));
        let name = one.dir.strip_prefix("/a/state").unwrap().to_str().unwrap().to_owned();
        assert_eq!(name.len(), 16);
        assert_ne!(Some(name.as_str()), paths(Path::new("/b"), None).dir.to_str());
        assert_eq!(one.control(), one.dir.join("control.sock"));
    }

    #[test]
    fn a_socket_is_never_too_long_and_never_shared() {
        let long = |name: &str| paths(Path::new("/a"), Some(Path::new("/x").join(name)));
        let (one, other) = (long(&"d".repeat(120)), long(&"e".repeat(120)));
        for socket in [one.control(), one.tmux_socket()] {
            assert!(socket.as_os_str().len() <= SOCKET_PATH, "{}", socket.display());
        }
        assert_ne!(one.control(), other.control());
        assert_ne!(one.control(), one.tmux_socket());
    }

    #[test]
    fn the_key_is_made_once_and_not_shown() {
        let root = tempfile::tempdir().unwrap();
        let paths = paths(root.path(), None);
        let key = paths.key().unwrap();
        assert_eq!(key.bytes(), paths.key().unwrap().bytes());
        assert_ne!(key.bytes(), &[0; 32]);
        assert_eq!(format!("{key:?}"), "OwnVoiceKey(..)");
        let file = paths.dir.join("own-voice.key");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&paths.dir).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(&file, "short").unwrap();
        let error = paths.key().unwrap_err().to_string();
        assert!(error.contains("own-voice.key") && error.contains("5 bytes"), "{error}");
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_not_taken() {
        let root = tempfile::tempdir().unwrap();
        let shared = root.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, PermissionsExt::from_mode(0o777)).unwrap();
        let error = paths(root.path(), Some(shared.clone())).prepare().unwrap_err().to_string();
        assert!(error.contains("chmod 700"), "{error}");
        assert_eq!(fs::metadata(&shared).unwrap().permissions().mode() & 0o777, 0o777);
    }

    #[test]
    fn a_trap_in_the_place_for_long_sockets_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let long = root.path().join("d".repeat(100));
        let at = |short: &str| StatePaths {
            short: root.path().join(short),
            ..paths(root.path(), Some(long.clone()))
        };
        at("fresh").prepare().unwrap();
        assert!(at("fresh").control().starts_with(root.path().join("fresh")));
        let fresh = fs::metadata(root.path().join("fresh")).unwrap();
        assert_eq!(fresh.permissions().mode() & 0o777, 0o700);

        std::os::unix::fs::symlink(root.path().join("fresh"), root.path().join("link")).unwrap();
        let error = at("link").prepare().unwrap_err().to_string();
        assert!(error.contains("is not a directory"), "{error}");
        fs::create_dir(root.path().join("open")).unwrap();
        fs::set_permissions(root.path().join("open"), PermissionsExt::from_mode(0o755)).unwrap();
        let error = at("open").prepare().unwrap_err().to_string();
        assert!(error.contains("others may use"), "{error}");
    }

    #[test]
    fn everything_is_made_private() {
        let root = tempfile::tempdir().unwrap();
        let paths = paths(root.path(), None);
        paths.prepare().unwrap();
        for dir in [&paths.dir, &paths.registry, &paths.spool(), &paths.launch()] {
            assert_eq!(fs::metadata(dir).unwrap().permissions().mode() & 0o777, 0o700);
        }
        paths.prepare().unwrap();
    }
}
