//! What `--fix` does: each repair says first what it will do, touches only what
//! is this program's own or named in what it says, and never needs root.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::install::source::Source;
use super::install::store::{Installed, Store};
use super::install::{InstallError, Progress, advice, install, is_missing, pick, said_of};
use super::tool::ToolId;
use super::{agents, terminfo};
use crate::base::dirs::Dirs;
use crate::base::env::Env;
use crate::base::failure::chain;
use crate::base::files::{self, atomic, lock::LockFile};
use crate::base::text::{path_text, visible};
use crate::core::platform::Host;

/// Something that can be put right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// Install a pinned build.
    Install {
        /// The tool.
        id: ToolId,
        /// The version.
        version: String,
    },
    /// Take what others may do away.
    Private(PathBuf),
    /// Take the right to write away from others.
    Close(Vec<PathBuf>),
    /// Make a private directory.
    MakeDir(PathBuf),
    /// Remove the socket of a receiver that died, under its lock.
    StaleSocket {
        /// The socket.
        socket: PathBuf,
        /// The receiver's lock.
        lock: PathBuf,
    },
    /// Clear away what installs of this tool left that died.
    Litter(ToolId),
    /// Make descriptions of terminals.
    Terminfo,
    /// Answer the first-run questions of Claude Code in its own file.
    Claude {
        /// The file.
        file: PathBuf,
        /// Whether the onboarding is marked as done.
        onboarding: bool,
        /// The directory that is marked as trusted.
        trust: Option<PathBuf>,
    },
    /// Add what an agent needs to a file of it.
    Agent {
        /// The file.
        file: PathBuf,
        /// What is added.
        content: Value,
    },
}

impl Repair {
    /// What will be done, in one line.
    pub fn describe(&self) -> String {
        let shown = |path: &Path| path_text(path);
        match self {
            Self::Install { id, version } => format!("install {} {version}", id.as_str()),
            Self::Private(path) => {
                format!("take the permissions of others from {}", shown(path))
            }
            Self::Close(paths) => {
                let paths: Vec<_> = paths.iter().map(|path| shown(path)).collect();
                format!("take the right to write to {} from others", paths.join(" and "))
            }
            Self::MakeDir(path) => format!("make the private directory {}", shown(path)),
            Self::StaleSocket { socket, .. } => format!("remove the socket {}", shown(socket)),
            Self::Litter(id) => {
                format!("remove what broken installs of {} left", id.as_str())
            }
            Self::Terminfo => {
                format!("describe {} with tic", terminfo::NEEDED.join(", "))
            }
            Self::Claude { file, onboarding, trust } => {
                let mut set = Vec::new();
                if *onboarding {
                    set.push("hasCompletedOnboarding: true".to_owned());
                }
                if let Some(dir) = trust {
                    let dir = shown(dir);
                    set.push(format!("projects[\"{dir}\"].hasTrustDialogAccepted: true"));
                }
                format!("set {} in {}", set.join(" and "), shown(file))
            }
            Self::Agent { file, content } => {
                format!("add {} to {}", visible(&content.to_string()), shown(file))
            }
        }
    }
}

impl Repair {
    /// The repair without the directories that another closes, which are then
    /// among them; none when nothing is left of it.
    pub fn without(self, closed: &mut Vec<PathBuf>) -> Option<Self> {
        let Self::Close(mut paths) = self else { return Some(self) };
        paths.retain(|path| !closed.contains(path));
        closed.extend(paths.iter().cloned());
        (!paths.is_empty()).then_some(Self::Close(paths))
    }

    /// Whether others build on it: an install is made in a place that is closed.
    pub fn is_first(&self) -> bool {
        matches!(self, Self::Private(_) | Self::Close(_) | Self::MakeDir(_))
    }
}

impl Serialize for Repair {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.describe())
    }
}

/// Why a repair was not made.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// A file could not be changed.
    #[error("could not change `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no longer as it was found.
    #[error("`{}` {why}: it was left alone", path.display())]
    LeftAlone {
        /// The file.
        path: PathBuf,
        /// What is the matter.
        why: String,
    },
    /// The tool could not be installed.
    #[error("could not install {tool}")]
    Install {
        /// The tool.
        tool: &'static str,
        /// Why.
        source: Box<InstallError>,
        /// What helps.
        hints: Vec<String>,
    },
    /// The descriptions could not be made.
    #[error("could not describe the terminals: {why}")]
    Terminfo {
        /// Why.
        why: String,
    },
}

impl RepairError {
    /// The error and what helps, for a person.
    pub fn told(&self) -> String {
        let hints = match self {
            Self::Install { hints, .. } => hints.as_slice(),
            _ => &[],
        };
        hints.iter().fold(visible(&chain(self)), |told, hint| format!("{told}\nhint: {hint}"))
    }
}

/// What a repair works with.
pub struct Workshop<'a> {
    /// The surroundings.
    pub env: &'a Env,
    /// The user's directories.
    pub dirs: &'a Dirs,
    /// The machine.
    pub host: &'a Host,
    /// Where builds come from.
    pub source: &'a Source,
    /// Who is told of a download.
    pub progress: &'a dyn Progress,
}

impl Workshop<'_> {
    /// The repair as it will be made: the build that is where builds come from.
    pub fn meant(&self, repair: &Repair) -> Repair {
        let Repair::Install { id, version } = repair else { return repair.clone() };
        let version = match pick(*id, self.host, Some(version), self.source) {
            Ok(pin) => pin.version.clone(),
            Err(_) => version.clone(),
        };
        Repair::Install { id: *id, version }
    }

    /// What to say where that is another build than the one of choice.
    pub fn differs(&self, found: &Repair, meant: &Repair) -> Option<String> {
        match (found, meant) {
            (Repair::Install { id, version }, Repair::Install { version: taken, .. }) => {
                said_of(*id, version, taken, self.source)
            }
            _ => None,
        }
    }

    /// What is known to keep a repair from being made.
    pub fn hindrance(&self, repair: &Repair) -> Option<String> {
        let Repair::Install { id, version } = repair else { return None };
        let pin = id.data().pin_for(self.host, Some(version)).ok()?;
        let why = is_missing(self.source, pin)?;
        let hints = advice(id.as_str(), pin, self.source, 0, &why);
        let told = visible(&chain(&why));
        Some(hints.iter().fold(told, |told, hint| format!("{told}\nhint: {hint}")))
    }

    /// Makes a repair.
    pub async fn make(&self, repair: &Repair) -> Result<(), RepairError> {
        match repair {
            Repair::Install { id, version } => self.install(*id, version).await,
            Repair::Private(path) => take_from_others(path, 0o77),
            Repair::Close(paths) => paths.iter().try_for_each(|path| take_from_others(path, 0o22)),
            Repair::MakeDir(path) => files::private_dir(path).map_err(failed(path)),
            Repair::StaleSocket { socket, lock } => remove_socket(socket, lock),
            Repair::Litter(id) => {
                let store = Store::new(self.dirs);
                let cleared = store.clear_litter(*id);
                cleared.map(drop).map_err(|source| RepairError::Install {
                    tool: id.as_str(),
                    source: Box::new(source),
                    hints: Vec::new(),
                })
            }
            Repair::Terminfo => terminfo::make(self.env)
                .await
                .map(drop)
                .map_err(|why| RepairError::Terminfo { why }),
            Repair::Claude { file, onboarding, trust } => {
                merge(file, *onboarding, trust.as_deref())
            }
            Repair::Agent { file, content } => agents::add(file, content)
                .map_err(|why| RepairError::LeftAlone { path: file.clone(), why }),
        }
    }

    async fn install(&self, id: ToolId, version: &str) -> Result<(), RepairError> {
        let picked = id.data().pin_for(self.host, Some(version));
        let pin = picked.map_err(|error| RepairError::LeftAlone {
            path: id.as_str().into(),
            why: error.to_string(),
        })?;
        let store = Store::new(self.dirs);
        let done = install(self.env, id, pin, &store, self.source, self.progress).await;
        let done = done.map(|done| {
            let Installed { version, path } = done.installed;
            let name = id.as_str();
            self.progress.say(&format!("installed {name} {version}: {}", path_text(&path)));
        });
        done.map_err(|source| {
            let kept = store.kept(id, pin);
            let hints = advice(id.as_str(), pin, self.source, kept, &source);
            RepairError::Install { tool: id.as_str(), source: Box::new(source), hints }
        })
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> RepairError {
    move |source| RepairError::File { path: path.to_path_buf(), source }
}

/// Only of what is ours, and never through a link.
fn take_from_others(path: &Path, bits: u32) -> Result<(), RepairError> {
    let meta = fs::symlink_metadata(path).map_err(failed(path))?;
    if meta.is_symlink() || meta.uid() != rustix::process::geteuid().as_raw() {
        let why = "is a link, or belongs to somebody else".to_owned();
        return Err(RepairError::LeftAlone { path: path.to_path_buf(), why });
    }
    let mode = PermissionsExt::from_mode(meta.mode() & 0o7777 & !bits);
    fs::set_permissions(path, mode).map_err(failed(path))
}

fn remove_socket(socket: &Path, lock: &Path) -> Result<(), RepairError> {
    let _lock = LockFile::try_acquire(lock).map_err(|error| RepairError::LeftAlone {
        path: socket.to_path_buf(),
        why: format!("may be in use: {}", chain(&error)),
    })?;
    fs::remove_file(socket).map_err(failed(socket))
}

/// An object whose values stay as they are written: a number that is read and
/// written again can be another one.
type Object = BTreeMap<String, Box<RawValue>>;

fn object(of: &Object, key: &str) -> serde_json::Result<Object> {
    of.get(key).map_or_else(|| Ok(Object::new()), |value| serde_json::from_str(value.get()))
}

fn raw<T: Serialize>(value: &T) -> serde_json::Result<Box<RawValue>> {
    RawValue::from_string(serde_json::to_string_pretty(value)?)
}

/// An object as it stands so deep in a file: what is in it stays as it is written.
fn written(of: &Object, depth: usize) -> serde_json::Result<String> {
    let indent = |depth: usize| "  ".repeat(depth);
    let mut entries = Vec::new();
    for (key, value) in of {
        let key = serde_json::to_string(key)?;
        entries.push(format!("{}{key}: {}", indent(depth + 1), value.get()));
    }
    Ok(format!("{{\n{}\n{}}}", entries.join(",\n"), indent(depth)))
}

/// Marks a directory as trusted in Claude Code's file.
pub(super) fn trust_in(file: &Path, dir: &Path) -> Result<(), RepairError> {
    merge(file, false, Some(dir))
}

/// Sets the answers in Claude Code's file and leaves everything else in it as
/// it is. One that cannot be understood is left alone.
fn merge(file: &Path, onboarding: bool, trust: Option<&Path>) -> Result<(), RepairError> {
    // A link to the file stays one.
    let file = &fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf());
    let left_alone = |why: String| RepairError::LeftAlone { path: file.clone(), why };
    let before = match fs::read(file) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(file)(error)),
    };
    let text = before.as_deref().unwrap_or(b"{}");
    let mut root: Object = serde_json::from_slice(text)
        .map_err(|error| left_alone(format!("is not a JSON object ({error})")))?;
    let unknown = |_| left_alone("has an unknown form".to_owned());
    if onboarding {
        root.insert("hasCompletedOnboarding".to_owned(), raw(&true).map_err(unknown)?);
    }
    if let Some(dir) = trust {
        let mut projects = object(&root, "projects").map_err(unknown)?;
        let dir = dir.to_string_lossy().into_owned();
        let mut project = object(&projects, &dir).map_err(unknown)?;
        project.insert("hasTrustDialogAccepted".to_owned(), raw(&true).map_err(unknown)?);
        projects
            .insert(dir, written(&project, 2).and_then(RawValue::from_string).map_err(unknown)?);
        let projects = written(&projects, 1).and_then(RawValue::from_string);
        root.insert("projects".to_owned(), projects.map_err(unknown)?);
    }
    let after = written(&root, 0).map_err(|error| left_alone(error.to_string()))?;
    // Claude Code writes it too: nothing of what it wrote meanwhile is lost.
    if fs::read(file).ok() != before {
        return Err(left_alone("was changed at the same moment".to_owned()));
    }
    if let Some(dir) = file.parent() {
        files::private_dir(dir).map_err(failed(dir))?;
    }
    atomic::write_anew(file, after.as_bytes()).map_err(failed(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_closed_once() {
        let close = |paths: &[&str]| Repair::Close(paths.iter().map(PathBuf::from).collect());
        let mut closed = Vec::new();
        assert_eq!(close(&["/a", "/b"]).without(&mut closed), Some(close(&["/a", "/b"])));
        assert_eq!(close(&["/b", "/c"]).without(&mut closed), Some(close(&["/c"])));
        assert_eq!(close(&["/a"]).without(&mut closed), None);
    }

    #[test]
    fn every_number_stays_as_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(".claude.json");
        let numbers = "[0.10000000000000000001, 12345678901234567890123, 1e+21, 1.0, -0]";
        let text = format!(r#"{{"n":{numbers},"projects":{{"/x":{{"m":{numbers}}}}}}}"#);
        fs::write(&file, text).unwrap();
        merge(&file, true, Some(Path::new("/x"))).unwrap();
        let after = fs::read_to_string(&file).unwrap();
        assert_eq!(after.matches(numbers).count(), 2, "{after}");
        assert!(after.contains("hasTrustDialogAccepted"), "{after}");
    }

    #[test]
    fn a_file_of_the_users_keeps_its_form_and_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(".claude.json");
        let before = json(r#"{"a":{"b":[1,2]},"projects":{"/x":{"n":{"m":1}}}}"#);
        fs::write(&file, before).unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
        merge(&file, true, Some(Path::new("/x"))).unwrap();
        let after = fs::read_to_string(&file).unwrap();
        assert_eq!(after, json(&after), "its indentation is that of Claude Code");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o644);
    }

    /// As Claude Code writes it.
    fn json(text: &str) -> String {
        serde_json::to_string_pretty(&serde_json::from_str::<Value>(text).unwrap()).unwrap()
    }

    #[test]
    fn answers_are_added_and_everything_else_stays() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(".claude.json");
        fs::write(&file, r#"{"a":[1,2.5],"projects":{"/x":{"n":1}}}"#).unwrap();
        merge(&file, true, Some(Path::new("/x"))).unwrap();
        let value: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!(
            value,
            serde_json::json!({
                "a": [1, 2.5],
                "hasCompletedOnboarding": true,
                "projects": {"/x": {"n": 1, "hasTrustDialogAccepted": true}},
            })
        );
    }

    #[test]
    fn a_file_that_cannot_be_understood_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(".claude.json");
        for text in ["{\"a\":", "[]", r#"{"projects":3}"#] {
            fs::write(&file, text).unwrap();
            merge(&file, true, Some(Path::new("/x"))).unwrap_err();
            assert_eq!(fs::read(&file).unwrap(), text.as_bytes());
        }
        fs::remove_file(&file).unwrap();
        merge(&file, true, None).unwrap();
        assert!(file.exists());
    }
}
