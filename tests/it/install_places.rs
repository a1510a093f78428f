//! Managed installs where it is hard to install: targets that cannot be used, other
//! mounts, odd homes, things in the way.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::{Value, json};
use the_loop::base::failure::chain;

use crate::doctor::{Place, finding, json, test_tool, words};
use crate::install::{GOOD, active, folder, mode};
use crate::install_faults::{build, install_it, names, tools};

/// Whether this host allows a mount namespace to this user; a test that needs
/// one is skipped where not, and says so.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub(crate) fn may_mount() -> bool {
    let tried = std::process::Command::new("unshare")
        .args(["-rm", "mount", "-t", "tmpfs", "x", "/mnt"])
        .stderr(Stdio::null())
        .status();
    let allowed = tried.is_ok_and(|status| status.success());
    if !allowed {
        eprintln!("skipped: this host allows no mount namespace");
    }
    allowed
}

/// Runs an install of the real ttyd in a mount namespace of its own, after
/// `mounts`. `None` where this host allows no such thing.
fn in_namespace(place: &Place, mounts: &str) -> Option<std::process::Output> {
    let folder = test_tool("ttyd");
    let folder = folder.parent().unwrap().to_str().unwrap();
    run_in_namespace(place, mounts, &["doctor", "--install", "ttyd", "--offline", folder])
}

fn run_in_namespace(place: &Place, mounts: &str, args: &[&str]) -> Option<std::process::Output> {
    if !may_mount() {
        return None;
    }
    std::fs::create_dir_all(place.path("home/data")).unwrap();
    let script = format!("set -e\n{mounts}\nexec \"$@\"");
    let mut command = std::process::Command::new("unshare");
    command
        .args(["-rm", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_the-loop")])
        .args(args)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("THE_LOOP_HOME", place.path("home"))
        .env("TMPDIR", place.path("tmp"))
        .env("DATA", place.path("home/data"));
    Some(command.output().unwrap())
}

#[test]
fn an_install_that_is_known_to_fail_is_not_advised() {
    let advised = |output: &std::process::Output| {
        let report = json(output);
        let found = finding(&report, "ttyd.found").clone();
        assert_eq!((&found["remedy"]["commands"], &found["fix"]), (&json!([]), &Value::Null));
        found["remedy"]["note"].as_str().unwrap().to_owned()
    };
    let args = ["doctor", "--json", "--for", "web", "--only", "ttyd"];
    for size in ["64k", "300k"] {
        let place = Place::new();
        let mounts = format!("mount -t tmpfs -o size={size} x \"$DATA\"");
        let Some(output) = run_in_namespace(&place, &mounts, &args) else { break };
        let said = advised(&output);
        assert!(said.contains("would install it there is no room: set THE_LOOP_HOME"), "{said}");
    }
    // Who is root can write there, and so can the other user.
    let place = Place::new();
    if std::os::unix::fs::chown(place.path("home"), Some(1), Some(1)).is_ok() {
        let said = advised(&place.run("/usr/bin:/bin", &args, &[]));
        assert!(said.contains("would install it others could change it"), "{said}");
    }
}

#[test]
fn a_target_that_cannot_be_used_is_named_with_the_reason() {
    for (name, mounts, said) in [
        ("noexec", "mount -t tmpfs -o noexec x \"$DATA\"", "noexec"),
        ("read-only", "mount -t tmpfs -o ro x \"$DATA\"", "Read-only file system"),
        ("full", "mount -t tmpfs -o size=200k x \"$DATA\"", "No space left"),
    ] {
        let place = Place::new();
        let Some(output) = in_namespace(&place, mounts) else { return };
        let error = words(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {error}");
        assert!(error.contains(said), "{name}: {error}");
    }
}

#[test]
fn temporary_files_on_another_mount_do_not_matter() {
    let place = Place::new();
    let mounts = "mount -t tmpfs -o noexec,size=16k x \"$TMPDIR\"";
    let Some(output) = in_namespace(&place, mounts) else { return };
    assert!(output.status.success(), "{}", words(&output.stderr));
    assert_eq!(active(&place, "ttyd"), ["1.7.7"]);
}

#[test]
fn a_home_with_spaces_and_other_letters_and_an_open_umask_do() {
    let place = Place::new();
    let home = place.path("hö me 漢");
    std::fs::create_dir(&home).unwrap();
    let folder = test_tool("ttyd");
    let output = std::process::Command::new("/bin/sh")
        .args(["-c", "umask 000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_the-loop")])
        .args(["doctor", "--install", "ttyd", "--offline"])
        .arg(folder.parent().unwrap())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", &home)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", words(&output.stderr));
    let mut todo = vec![home];
    let mut files = 0;
    while let Some(path) = todo.pop() {
        let meta = std::fs::symlink_metadata(&path).unwrap();
        if meta.is_symlink() {
            continue;
        }
        if path.to_str().unwrap().contains("the-loop") {
            assert_eq!(meta.permissions().mode() & 0o022, 0, "{}", path.display());
            files += 1;
        }
        if meta.is_dir() {
            todo.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    assert!(files > 5);
}

#[test]
fn without_home_it_does_not_fall_over() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_the-loop"))
        .args(["doctor", "--list"])
        .env_clear()
        .output()
        .unwrap();
    // The user's entry in the password file may have one.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", words(&output.stderr));
}

#[tokio::test]
async fn a_directory_where_a_file_is_expected_is_cleared_or_named() {
    let (file, pin) = build("3.9");
    for name in ["3.9/tmux", "3.9/receipt.json", ".work-x", ".partial-x"] {
        let place = Place::new();
        let name = name.replace(".partial-x", &format!(".partial-{}", pin.sha256));
        std::fs::create_dir_all(tools(&place).join(&name).join("deep")).unwrap();
        let source = folder(&place, &pin, &file);
        install_it(&place, &pin, &source).await.unwrap();
        assert_eq!(names(&tools(&place)), [".lock", "3.9", "current"], "{name}");
        assert_eq!(mode(&tools(&place).join("current/tmux")), 0o755);
    }
    // Whose it is, is not known.
    let place = Place::new();
    std::fs::create_dir_all(tools(&place).join("current/deep")).unwrap();
    let error = install_it(&place, &pin, &folder(&place, &pin, &file)).await.unwrap_err();
    assert!(chain(&error).contains("tmux/current"), "{}", chain(&error));
    assert!(tools(&place).join("current/deep").is_dir());
    std::fs::remove_dir(tools(&place).join("current/deep")).unwrap();
    install_it(&place, &pin, &folder(&place, &pin, &file)).await.unwrap();
    let place = Place::new();
    std::fs::create_dir_all(tools(&place).join(".lock")).unwrap();
    let error = install_it(&place, &pin, &folder(&place, &pin, &file)).await.unwrap_err();
    assert!(chain(&error).contains(".lock"), "{}", chain(&error));
    let place = Place::new();
    std::fs::create_dir_all(tools(&place).parent().unwrap()).unwrap();
    std::fs::write(tools(&place), GOOD).unwrap();
    let error = install_it(&place, &pin, &folder(&place, &pin, &file)).await.unwrap_err();
    assert!(chain(&error).contains("tools/tmux"), "{}", chain(&error));
    assert_eq!(std::fs::read(tools(&place)).unwrap(), GOOD, "it is not ours to remove");
}

/// Installs the real ttyd, after a line of a shell.
fn install_after(place: &Place, line: &str) -> std::process::Output {
    let folder = test_tool("ttyd").parent().unwrap().to_path_buf();
    let mut command = std::process::Command::new("/bin/sh");
    command
        .args(["-c", &format!("{line}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_the-loop")])
        .args(["doctor", "--install", "ttyd", "--offline"])
        .arg(folder)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("THE_LOOP_HOME", place.path("home"));
    command.output().unwrap()
}

#[test]
fn a_folder_in_the_place_of_the_link_stops_an_install_before_it_begins() {
    let place = Place::new();
    let current = place.path("home/data/tools/ttyd/current");
    std::fs::create_dir_all(current.join("x")).unwrap();
    let output = install_after(&place, "chmod -R 700 \"$THE_LOOP_HOME\"");
    let error = words(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("move it away"), "{error}");
    assert_eq!(active(&place, "ttyd"), [] as [&str; 0]);
    assert!(current.join("x").is_dir());
}

#[test]
fn a_limit_of_a_files_size_is_an_error_that_says_what_helps() {
    let place = Place::new();
    let output = install_after(&place, "ulimit -f 500");
    let error = words(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("ulimit -f unlimited"), "{error}");
    assert_eq!(active(&place, "ttyd"), [] as [&str; 0]);
}
