//! The webhook's secret: what a start would say of it.

use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::Scene;
use crate::base::failure::bare;
use crate::base::files::lock::is_held;
use crate::base::process::shell_word;
use crate::base::text::path_text;
use crate::core::config::variable_shown;
use crate::core::platform::Remedy;
use crate::doctor::finding::{Finding, Severity};
use crate::doctor::program;
use crate::doctor::repair::Repair;

const ID: &str = "secret.there";
/// How long a secret may be, in bytes.
pub const SECRET_MAX: usize = 64 << 10;
/// What helps where the file is not one that may be changed.
const ANOTHER: &str = "set `webhooks.ghWebhook.secretFile` to a file of this user's own that holds \
                       the secret and nothing else";

pub(super) fn secret(scene: &Scene) -> Vec<Finding> {
    let Some(variable) = &scene.project.secret_env else { return Vec::new() };
    let name = variable_shown(variable);
    vec![match (scene.env.var_os(variable), &scene.project.secret_file) {
        (Some(value), _) => in_variable(name, value.as_bytes()),
        (None, Some(file)) => in_file(scene, file),
        (None, None) if scene.project.lock.as_deref().is_some_and(is_held) => {
            let what = format!("{name} is not set here; the receiver that runs has a secret");
            Finding::new(ID, Severity::Note, what)
        }
        (None, None) => {
            let what = format!("the webhook has no secret here: {name} is not set");
            refused(what).remedy(fresh(secret_export(name)))
        }
    }]
}

fn refused(what: String) -> Finding {
    Finding::new(ID, Severity::Error, what)
}

/// A command that makes another secret, and what goes with it.
fn fresh(command: String) -> Remedy {
    Remedy { commands: vec![command], note: Some("and give GitHub the same".to_owned()) }
}

/// Why this is no secret, if so. The newline at its end is an editor's.
fn fault(bytes: &[u8]) -> Option<String> {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    match bytes.trim_ascii().len() {
        0 if bytes.is_empty() => Some("is empty".to_owned()),
        0 => Some("holds nothing but blanks".to_owned()),
        _ if bytes.len() > SECRET_MAX => Some(format!("is longer than {SECRET_MAX} bytes")),
        _ => None,
    }
}

fn in_variable(name: &str, value: &[u8]) -> Finding {
    if let Some(why) = fault(value) {
        let what = format!("the webhook's secret in the variable {name} {why}");
        return refused(what).remedy(fresh(secret_export(name)));
    }
    Finding::new(ID, Severity::Ok, format!("the webhook's secret is in the variable {name}"))
}

fn in_file(scene: &Scene, file: &Path) -> Finding {
    let link = file.is_symlink().then(|| fs::canonicalize(file).ok()).flatten();
    let shown = match &link {
        Some(target) => format!("{} (a link to {})", path_text(file), path_text(target)),
        None => path_text(file),
    };
    let meta = match fs::metadata(file) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let what = format!("the file of the webhook's secret is not there: {shown}");
            return refused(what).remedy(fresh(secret_command(file)));
        }
        Err(error) => return unreadable(&shown, &error),
    };
    if let Some(kind) = program::kind(meta.file_type()) {
        let what = format!("the webhook's secret {shown} is no file, but {kind}");
        return refused(what).remedy(Remedy::note(ANOTHER));
    }
    let own = rustix::process::geteuid().as_raw();
    if meta.uid() != own && (is_exposed(&meta) || !may_read(file)) {
        let what = format!("the webhook's secret {shown} belongs to the user {}", meta.uid());
        let is_at_home = link.is_none() && file.parent().is_some_and(|dir| is_own(dir, own));
        if !is_at_home {
            return refused(what).remedy(Remedy::note(ANOTHER));
        }
        let word = shell_word(&file.to_string_lossy());
        let remedy = Remedy {
            commands: vec![scene.host.as_root(&format!("chown {own} {word}"))],
            note: Some(format!("then `chmod 600 {word}`")),
        };
        return refused(what).remedy(remedy);
    }
    if is_exposed(&meta) {
        let finding = refused(format!("others may read the webhook's secret {shown}"));
        return match secret_close(file) {
            Some(command) => {
                finding.remedy(Remedy::command(command)).fix(Repair::Private(PathBuf::from(file)))
            }
            None => finding.remedy(Remedy::note(ANOTHER)),
        };
    }
    match read(file).map(|bytes| fault(&bytes)) {
        Err(error) => unreadable(&shown, &error),
        Ok(None) => Finding::new(ID, Severity::Ok, format!("the webhook's secret is in {shown}")),
        Ok(Some(why)) => {
            let finding = refused(format!("the webhook's secret {shown} {why}"));
            let is_whole = meta.len() > SECRET_MAX as u64;
            finding.remedy(match link {
                None if !is_whole => fresh(secret_command(file)),
                _ => Remedy::note(ANOTHER),
            })
        }
    }
}

fn unreadable(shown: &str, error: &io::Error) -> Finding {
    let what = format!("the webhook's secret {shown} cannot be read: {}", bare(error));
    refused(what).remedy(Remedy::note(ANOTHER))
}

/// As much of a file as shows whether it holds a secret.
fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(file)?.take(SECRET_MAX as u64 + 2).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The command that takes a secret's file away from others. None where that would
/// change something else: what a link leads to, or a file that is no secret's.
pub fn secret_close(file: &Path) -> Option<String> {
    let is_file = fs::symlink_metadata(file).is_ok_and(|meta| meta.is_file());
    // A system's own files have many lines.
    let is_secret = || {
        let bytes = read(file).unwrap_or_default();
        !bytes.trim_ascii_end().contains(&b'\n') && bytes.len() <= SECRET_MAX
    };
    let word = shell_word(&file.to_string_lossy());
    (is_file && is_secret()).then(|| format!("chmod 600 {word}"))
}

fn is_exposed(meta: &Metadata) -> bool {
    meta.mode() & 0o077 != 0
}

fn is_own(dir: &Path, own: u32) -> bool {
    fs::metadata(dir).is_ok_and(|meta| meta.uid() == own)
}

fn may_read(file: &Path) -> bool {
    rustix::fs::access(file, rustix::fs::Access::READ_OK).is_ok()
}

/// Prints 32 random bytes as hexadecimal digits, on any system.
const RANDOM: &str = r"od -An -tx1 -N32 /dev/urandom | tr -d ' \n'";

/// The command that sets this variable to a fresh secret.
pub fn secret_export(name: &str) -> String {
    format!("export {name}=\"$({RANDOM})\"")
}

/// The command that makes a secret in this file, for this user alone.
pub fn secret_command(file: &Path) -> String {
    let word = shell_word(&file.to_string_lossy());
    let make = format!("(umask 077; {RANDOM} > {word})");
    match file.parent().filter(|dir| !dir.is_dir()) {
        Some(dir) => format!("mkdir -p -m 700 {} && {make}", shell_word(&dir.to_string_lossy())),
        None => make,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::base::env::Env;
    use crate::core::platform::{Facts, Host};
    use crate::doctor::Needs;

    const NAME: &str = "THE_LOOP_GH_WEBHOOK_SECRET";

    fn told(dir: &Path, value: Option<&str>, file: Option<&Path>) -> (Severity, String, String) {
        let vars = [("HOME", dir.to_string_lossy().into_owned())];
        let set = value.map(|value| (NAME, value.to_owned()));
        let env = Env::fixed(vars.into_iter().chain(set), "/", "/bin/the-loop");
        let scene = Scene {
            dirs: crate::base::dirs::Dirs::new(&env).unwrap(),
            env,
            needs: Needs::default(),
            project: super::super::Project {
                secret_env: Some(NAME.to_owned()),
                secret_file: file.map(Path::to_path_buf),
                ..Default::default()
            },
            host: Host::from_facts(&Facts::default()),
        };
        let found = secret(&scene).remove(0);
        let remedy = found.remedy.unwrap_or_default();
        let advice = remedy.commands.first().cloned().or(remedy.note).unwrap_or_default();
        (found.severity, found.what, advice)
    }

    #[test]
    fn what_a_start_refuses_is_an_error_here_too() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let put = |name: &str, text: &[u8], mode| {
            fs::write(at(name), text).unwrap();
            fs::set_permissions(at(name), PermissionsExt::from_mode(mode)).unwrap();
        };
        let long = "x".repeat(SECRET_MAX + 1);
        for (value, what, advice) in [
            (None, "is not set", "export "),
            (Some(""), "is not set", "export "),
            (Some("   "), "holds nothing but blanks", "export "),
            (Some(long.as_str()), "is longer than", "export "),
        ] {
            let (severity, said, helps) = told(dir.path(), value, None);
            assert_eq!(severity, Severity::Error, "{said}");
            assert!(said.contains(what) && helps.starts_with(advice), "{said}: {helps}");
        }
        assert_eq!(told(dir.path(), Some("s3cret"), None).0, Severity::Ok);
        put("good", b"s3cret\n", 0o600);
        put("blank", b"   \n", 0o600);
        put("empty", b"\n", 0o600);
        put("long", long.as_bytes(), 0o600);
        put("open", b"s3cret\n", 0o644);
        put("list", b"root:x:0\nann:x:1\n", 0o644);
        fs::create_dir(at("dir")).unwrap();
        fs::set_permissions(at("dir"), PermissionsExt::from_mode(0o755)).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        std::os::unix::fs::symlink(at("open"), at("link")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", at("passwd")).unwrap();
        let of = |name: &str| told(dir.path(), None, Some(&at(name)));
        assert_eq!(of("good").0, Severity::Ok);
        let another = "set `webhooks.ghWebhook.secretFile` to ";
        let chmod = format!("chmod 600 {}", at("open").display());
        for (name, what, advice) in [
            ("blank", "holds nothing but blanks", "(umask 077; "),
            ("empty", "is empty", "(umask 077; "),
            ("long", "is longer than", another),
            ("dir", "is no file, but a directory", another),
            ("pipe", "is no file, but a named pipe", another),
            ("open", "others may read", chmod.as_str()),
            // A mode that is taken from these is taken from something else.
            ("list", "others may read", another),
            ("link", "a link to ", another),
            ("passwd", "(a link to /etc/passwd)", another),
        ] {
            let (severity, said, helps) = of(name);
            assert_eq!(severity, Severity::Error, "{said}");
            assert!(said.contains(what) && helps.starts_with(advice), "{name}: {said}: {helps}");
        }
    }
}
