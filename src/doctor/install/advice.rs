//! What helps when an install failed.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::InstallError;
use super::follow::SELF_SIGNED;
use super::source::Source;
use crate::base::dirs::MissingHome;
use crate::base::files::lock::LockError;
use crate::base::process::shell_word;
use crate::base::text::path_text;
use crate::core::platform::Pin;
use crate::doctor::checks::away;
use crate::doctor::trouble::Trouble;

/// What to do after this error, line by line. `kept` says how many bytes of the
/// download wait for the next try.
pub fn advice(
    name: &str,
    pin: &Pin,
    source: &Source,
    kept: u64,
    error: &InstallError,
) -> Vec<String> {
    let (version, url) = (&pin.version, &pin.url);
    let elsewhere = format!("or: the-loop doctor --install {name}@{version} --offline DIR");
    let again = if kept > 0 { "run it again: what came is kept" } else { "run it again" };
    let mirror = matches!(source, Source::Mirror(_)).then_some("THE_LOOP_MIRROR");
    let advice = Advice::default();
    let advice = match error {
        InstallError::Open { remedy, .. } => {
            remedy.commands.iter().chain(&remedy.note).cloned().fold(advice, Advice::hint)
        }
        InstallError::NotInFolder { .. } => advice.hint(format!("get it from {url}")),
        InstallError::Unreadable { path, cause } | InstallError::Folder { folder: path, cause }
            if cause.kind() == ErrorKind::PermissionDenied =>
        {
            advice.hint(readable(path))
        }
        InstallError::Folder { .. } | InstallError::Unreadable { .. } => advice
            .hint(format!("name a directory that holds {}", pin.file_name()))
            .hint(format!("get it from {url}")),
        InstallError::WrongDigest { is_web_page: true, .. } => advice
            .hint("a proxy or a network may want a login first: open the URL in a browser")
            .hint(UNCHANGED),
        InstallError::TooLarge { .. } | InstallError::WrongDigest { .. } => {
            advice.hint(UNCHANGED).hint(match source {
                Source::Mirror(_) => {
                    format!("the mirror holds another file: name another one in THE_LOOP_MIRROR, or unset it: {url}")
                }
                Source::Folder(_) => format!("get the pinned file from {url}"),
                Source::Upstream => elsewhere,
            })
        }
        InstallError::Status { status: 404 | 410, .. } => match mirror {
            Some(_) => {
                let path = url.split_once("//").and_then(|(_, rest)| rest.split_once('/'));
                let path = path.map_or(url.as_str(), |(_, path)| path);
                advice
                    .hint(format!("the mirror must hold /{path}"))
                    .hint(format!("or unset THE_LOOP_MIRROR: upstream has it: {url}"))
            }
            None => advice.hint("the release may have been taken away").hint(elsewhere),
        },
        InstallError::Status { status: 401 | 403 | 407, .. } => {
            advice.hint("the server, or a proxy before it, wants to know who asks").hint(elsewhere)
        }
        InstallError::Redirect { .. } => match mirror {
            Some(_) => advice.hint("is THE_LOOP_MIRROR right?").hint(elsewhere),
            None => advice
                .hint("a network may want a login first: open the URL in a browser")
                .hint(elsewhere),
        },
        InstallError::Certificate { why, .. } if why == SELF_SIGNED => advice
            .hint(
                "give the server one that an authority signed (openssl x509 -req -CA …, with \
                 basicConstraints=CA:FALSE), and name that authority in SSL_CERT_FILE",
            )
            .hint(elsewhere),
        InstallError::Certificate { only: Some(variable), .. } => advice
            .hint(format!("{variable} is set: only the authorities in it are trusted"))
            .hint(elsewhere),
        InstallError::Certificate { .. } => advice
            .hint("SSL_CERT_FILE names a file with the authorities that are trusted")
            .hint(elsewhere),
        InstallError::BadAuthorities { variable, .. } => advice
            .hint(format!("name what holds certificates in PEM form, or unset {variable}"))
            .hint(elsewhere),
        InstallError::BadProxy { variable, .. } => advice
            .hint(format!("name an HTTP proxy, as in {variable}=http://HOST:PORT"))
            .hint(format!("or unset {variable}, or name the host in NO_PROXY, to go without"))
            .hint(elsewhere),
        InstallError::Proxy { variable, .. } => advice
            .hint(format!("is {variable} right? It is http://NAME:PASSWORD@HOST:PORT"))
            .hint("what NO_PROXY names is reached without it")
            .hint(elsewhere),
        InstallError::Download { .. } if mirror.is_some() => {
            advice.hint(format!("is THE_LOOP_MIRROR right? Then {again}")).hint(elsewhere)
        }
        InstallError::Status { .. } if mirror.is_some() => advice
            .hint(format!("the mirror is at fault: {again}, or unset THE_LOOP_MIRROR"))
            .hint(elsewhere),
        InstallError::Download { .. }
        | InstallError::Status { .. }
        | InstallError::TooManyTries { .. } => {
            advice.hint(again).hint("where a proxy is needed, HTTPS_PROXY names it").hint(elsewhere)
        }
        InstallError::DoesNotRun { why, .. } if matches!(**why, Trouble::Denied) => {
            advice.hint("set THE_LOOP_HOME to a directory from which programs can be run")
        }
        InstallError::File { path, cause } => advice.hint(of_file(path, cause.kind(), ELSEWHERE)),
        InstallError::Homeless { .. } => advice.hint(MissingHome::HINT),
        InstallError::InUse { .. } => advice.hint(END_IT),
        InstallError::Lock { source, .. } => of_lock(advice, source, ELSEWHERE),
        _ => advice,
    };
    advice.0
}

/// The same after a build that was to be removed.
pub fn removal_advice(error: &InstallError) -> Vec<String> {
    let advice = Advice::default();
    let advice = match error {
        InstallError::InUse { .. } => advice.hint(END_IT),
        InstallError::UseUnknown { .. } => {
            advice.hint("mount /proc (mount -t proc proc /proc), then run it again")
        }
        InstallError::File { path, cause } => {
            advice.hint(of_file(path, cause.kind(), BY_ITS_OWNER))
        }
        InstallError::Lock { source, .. } => of_lock(advice, source, BY_ITS_OWNER),
        _ => advice.hint("`the-loop doctor --list` shows what is installed"),
    };
    advice.0
}

/// What helps where a file of ours could not be made, read or moved.
fn of_file(path: &Path, kind: ErrorKind, elsewhere: &str) -> String {
    match (kind, obstacle(path)) {
        (ErrorKind::NotADirectory | ErrorKind::AlreadyExists, Some(at)) => {
            format!("move it away: {}", away(&at))
        }
        (ErrorKind::DirectoryNotEmpty, _) => format!("move it away: {}", away(path)),
        (ErrorKind::StorageFull | ErrorKind::QuotaExceeded, _) => {
            // A work directory went with what failed.
            let dir = path.ancestors().find(|at| at.is_dir()).unwrap_or(path);
            let what = if has_no_inodes(dir) { "-i" } else { "-h" };
            format!("make room: df {what} {}", shell_word(&dir.to_string_lossy()))
        }
        (ErrorKind::FileTooLarge, _) => {
            "raise the limit of a file's size (ulimit -f unlimited)".to_owned()
        }
        (kind, _) => blocked(path, kind, elsewhere),
    }
}

/// Whether it is the number of files that a file system has no room for.
fn has_no_inodes(dir: &Path) -> bool {
    rustix::fs::statvfs(dir).is_ok_and(|it| it.f_files > 0 && it.f_favail == 0)
}

/// What lets this user read a file or look into a directory.
fn readable(path: &Path) -> String {
    let own = rustix::process::geteuid().as_raw();
    let meta = fs_err::metadata(path);
    let shown = path.to_string_lossy();
    match meta {
        Ok(meta) if meta.uid() == own && meta.is_dir() => {
            format!("make it readable: chmod u+rx {}", shell_word(&shown))
        }
        Ok(meta) if meta.uid() == own => {
            format!("make it readable: chmod u+r {}", shell_word(&shown))
        }
        _ => "give this user the right to read it, or name another directory".to_owned(),
    }
}

fn of_lock(advice: Advice, error: &LockError, elsewhere: &str) -> Advice {
    match error {
        LockError::Held { holder, .. } => {
            let end = holder.strip_prefix("pid ").map(|pid| format!("kill {pid}"));
            advice
                .hint(match end {
                    Some(end) => format!("end it when it is stuck: {end}"),
                    None => "end it when it is stuck".to_owned(),
                })
                .hint("then run it again: nothing that it fetched is lost")
        }
        LockError::Io { path, source } => match odd(path) {
            Some(remove) => {
                advice.hint(format!("remove it: {remove} {}", shell_word(&path.to_string_lossy())))
            }
            None => advice.hint(of_file(path, source.kind(), elsewhere)),
        },
    }
}

/// Lines that grow.
#[derive(Default)]
struct Advice(Vec<String>);

impl Advice {
    fn hint(mut self, line: impl Into<String>) -> Self {
        self.0.push(line.into());
        self
    }
}

const UNCHANGED: &str = "nothing was changed: what was fetched is thrown away";

/// What helps where this user may not install.
const ELSEWHERE: &str = "set THE_LOOP_HOME to a directory of yours";

/// What helps where this user may not remove.
const BY_ITS_OWNER: &str = "only that user, or root, can remove it";

/// What to do about something that is being used.
const END_IT: &str = "end what uses it, then run it again";

/// What helps where a file could not be made, read or moved.
fn blocked(path: &Path, kind: ErrorKind, elsewhere: &str) -> String {
    let shut = |dir: &Path| access(dir, Access::WRITE_OK | Access::EXEC_OK).is_err();
    let there = at_fault(path, shut);
    let own = rustix::process::geteuid().as_raw();
    match (kind, there) {
        (ErrorKind::PermissionDenied, Some((at, meta))) if meta.uid() == own => {
            format!("chmod u+rwX {}", shell_word(&at.to_string_lossy()))
        }
        (ErrorKind::PermissionDenied, Some((at, meta))) => {
            format!("{} belongs to the user {}: {elsewhere}", path_text(at), meta.uid())
        }
        (ErrorKind::ReadOnlyFilesystem, _) if elsewhere == BY_ITS_OWNER => {
            "the file system there is read-only: make it writable, then run it again".to_owned()
        }
        (ErrorKind::ReadOnlyFilesystem, _) => {
            format!("the file system there is read-only: {elsewhere}")
        }
        _ => elsewhere.to_owned(),
    }
}

/// What keeps something from being made or changed there: the directory that is to
/// hold it where that is shut, else what is there already, or what holds that.
fn at_fault(path: &Path, shut: impl Fn(&Path) -> bool) -> Option<(&Path, Metadata)> {
    let there = path.ancestors().find_map(|at| Some((at, fs_err::symlink_metadata(at).ok()?)));
    let (at, meta) = there?;
    let is_shut = meta.is_dir() && shut(at);
    match at.parent().filter(|parent| !is_shut && shut(parent)) {
        Some(parent) => Some((parent, fs_err::symlink_metadata(parent).ok()?)),
        None => Some((at, meta)),
    }
}

/// How something is removed that stands at the place of a lock and can be none.
fn odd(lock: &Path) -> Option<&'static str> {
    match fs_err::symlink_metadata(lock).ok()?.file_type() {
        kind if kind.is_file() => None,
        kind if kind.is_dir() => Some("rm -r"),
        _ => Some("rm"),
    }
}

/// What stands where a directory is needed, and is nothing of the system's.
fn obstacle(path: &Path) -> Option<PathBuf> {
    let there = path.ancestors().find(|at| fs_err::symlink_metadata(at).is_ok())?;
    let kind = fs_err::symlink_metadata(there).ok()?.file_type();
    let is_system = kind.is_char_device() || kind.is_block_device();
    (!there.is_dir() && !is_system).then(|| there.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::ToolId;

    #[test]
    fn what_stands_in_the_way_is_named_with_what_moves_it() {
        let dir = tempfile::tempdir().unwrap();
        let shown = dir.path().display();
        let missing = dir.path().join("a/b");
        let told = |path: &Path, kind| blocked(path, kind, ELSEWHERE);
        assert_eq!(told(&missing, ErrorKind::PermissionDenied), format!("chmod u+rwX {shown}"));
        let place = "set THE_LOOP_HOME to a directory of yours";
        let read_only = format!("the file system there is read-only: {place}");
        assert_eq!(told(&missing, ErrorKind::ReadOnlyFilesystem), read_only);
        assert_eq!(told(&missing, ErrorKind::NotADirectory), place);
        let file = dir.path().join("file");
        fs_err::write(&file, "").unwrap();
        let (user, group) = (rustix::fs::Uid::from_raw(1), rustix::fs::Gid::from_raw(1));
        // Only root may give a file away.
        if rustix::fs::chown(&file, Some(user), Some(group)).is_ok() {
            let told = told(&file, ErrorKind::PermissionDenied);
            assert_eq!(told, format!("{shown}/file belongs to the user 1: {place}"));
        }
    }

    #[test]
    fn a_directory_that_is_shut_is_named_and_not_what_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let (home, file) = (dir.join("home"), dir.join("home/file"));
        fs_err::create_dir(&home).unwrap();
        fs_err::write(&file, "").unwrap();
        let missing = home.join("a/b");
        let at = |path: &Path, shut: &[&Path]| {
            at_fault(path, |dir| shut.contains(&dir)).unwrap().0.to_path_buf()
        };
        assert_eq!(at(&missing, &[&home, dir]), home);
        assert_eq!(at(&missing, &[&home]), home);
        assert_eq!(at(&missing, &[]), home);
        assert_eq!(at(&file, &[&home]), home);
        assert_eq!(at(&file, &[]), file);
        assert_eq!(at(&home, &[dir]), dir);
    }

    #[test]
    fn a_source_and_a_full_disk_are_told_with_what_helps_there() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a file");
        fs_err::write(&file, "").unwrap();
        let pin = &ToolId::Tmux.data().pins[0];
        let told = |error: InstallError| advice("tmux", pin, &Source::Upstream, 0, &error);
        let cause = || std::io::Error::from(ErrorKind::PermissionDenied);
        let shut = told(InstallError::Unreadable { path: file.clone(), cause: cause() });
        assert_eq!(shut, [format!("make it readable: chmod u+r '{}'", file.display())]);
        let shut = told(InstallError::Folder { folder: dir.path().into(), cause: cause() });
        assert_eq!(shut, [format!("make it readable: chmod u+rx {}", dir.path().display())]);
        let path = dir.path().join(".work-gone/3.7c/tmux");
        let full = InstallError::File { path, cause: ErrorKind::StorageFull.into() };
        assert_eq!(told(full), [format!("make room: df -h {}", dir.path().display())]);
    }

    #[test]
    fn a_removal_is_not_told_to_go_elsewhere() {
        let cause = ErrorKind::PermissionDenied.into();
        let refused = InstallError::File { path: "/proc/1/x".into(), cause };
        let told = removal_advice(&refused);
        assert!(!told[0].contains("THE_LOOP_HOME"), "{told:?}");
        let missing = InstallError::NotInstalled { tool: "tmux", version: String::new() };
        assert!(removal_advice(&missing)[0].contains("--list"));
        let cause = ErrorKind::ReadOnlyFilesystem.into();
        let told = removal_advice(&InstallError::File { path: "/proc/1/x".into(), cause });
        assert!(told[0].contains("make it writable, then run it again"), "{told:?}");
    }

    #[test]
    fn a_wrong_file_is_told_with_where_the_right_one_is() {
        let pin = &ToolId::Ttyd.data().pins[0];
        for (source, said) in [
            (Source::Mirror("https://a.b".into()), "in THE_LOOP_MIRROR, or unset it"),
            (Source::Folder("/d".into()), "get the pinned file from https://"),
            (Source::Upstream, "--offline DIR"),
        ] {
            let error = InstallError::WrongDigest {
                from: "x".into(),
                found: "0".into(),
                expected: "1".into(),
                is_web_page: false,
                length: None,
            };
            let long = InstallError::TooLarge { from: "x".into(), limit: 1, expected: "1".into() };
            for error in [error, long] {
                let told = advice("ttyd", pin, &source, 0, &error);
                assert!(told.iter().any(|hint| hint.contains(said)), "{told:?}");
            }
        }
    }

    #[test]
    fn one_that_waited_in_vain_is_told_how_to_end_the_other() {
        let pin = &ToolId::Ttyd.data().pins[0];
        for (holder, said) in [
            ("pid 42", "end it when it is stuck: kill 42"),
            ("another process", "end it when it is stuck"),
        ] {
            let held = LockError::Held { path: "/x/.lock".into(), holder: holder.to_owned() };
            let error = InstallError::Lock { tool: "ttyd", source: held };
            let told = advice("ttyd", pin, &Source::Upstream, 0, &error);
            assert_eq!(told[0], said);
        }
    }

    #[test]
    fn only_what_came_is_said_to_be_kept() {
        let pin = &ToolId::Ttyd.data().pins[0];
        let error = InstallError::Download { url: "https://a.b".into(), why: "no".into() };
        for (source, kept, said) in [
            (Source::Upstream, 0, "run it again"),
            (Source::Upstream, 7, "run it again: what came is kept"),
            (Source::Mirror("https://a.b".into()), 0, "right? Then run it again"),
        ] {
            let told = advice("ttyd", pin, &source, kept, &error);
            assert!(told[0].ends_with(said), "{told:?}");
        }
    }
}
