//! What the doctor does about places that somebody else can write to, and about
//! places in which there is no room.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use the_loop::doctor::{github_cli, named};

use crate::doctor::{Place, SYSTEM, finding, json, test_tool, text};
use crate::doctor_host::{DEMO, chmod, configure, doctor, mode, severity};
use crate::install_faults::may_mount;

/// A place with the real ttyd installed by the-loop.
fn with_ttyd() -> Place {
    let place = Place::new();
    let output = install(&place);
    assert!(output.status.success(), "{}", text(&output.stderr));
    place
}

fn install(place: &Place) -> std::process::Output {
    let folder = test_tool("ttyd").parent().unwrap().to_str().unwrap().to_owned();
    place.run(SYSTEM, &["doctor", "--install", "ttyd", "--offline", &folder], &[])
}

const TTYD: &[&str] = &["doctor", "--json", "--for", "web", "--only", "ttyd,tools"];

#[test]
fn what_was_installed_where_others_may_write_is_not_run_and_fix_closes_it() {
    for (open, said) in [
        ("home", "home, on the way to it"),
        ("home/data", "data, on the way to it"),
        ("home/data/tools/ttyd/1.7.7", "1.7.7, on the way to it"),
        ("home/data/tools/ttyd/1.7.7/ttyd", "everybody may write to it"),
    ] {
        let place = with_ttyd();
        let path = place.path(open);
        let before = mode(&path);
        chmod(&path, 0o777);
        let output = place.run("/usr/bin:/bin", TTYD, &[]);
        let report = json(&output);
        assert_eq!(output.status.code(), Some(1), "{open}: {report:#}");
        let found = finding(&report, "ttyd.found");
        let what = found["what"].as_str().unwrap();
        assert!(what.contains("is not to be trusted: ") && what.contains(said), "{open}: {what}");
        let closed = format!("chmod go-w {}", path.display());
        assert_eq!(found["remedy"]["commands"], serde_json::json!([closed]), "{open}");
        let whole = ["home", "home/data"].contains(&open);
        assert_eq!(severity(&report, "tools.private"), if whole { "error" } else { "ok" });
        let fix = [TTYD, &["--fix"]].concat();
        let output = place.run("/usr/bin:/bin", &fix, &[]);
        let report = json(&output);
        assert_eq!(output.status.code(), Some(0), "{open}: {report:#}");
        assert_eq!(severity(&report, "ttyd.found"), "ok");
        assert_eq!(mode(&path), 0o755 & (before | 0o055), "{open}");
    }
}

#[test]
fn nothing_is_installed_where_others_could_change_it() {
    let place = Place::new();
    let (home, open) = (place.path("home"), place.path("open"));
    std::fs::create_dir(&open).unwrap();
    chmod(&open, 0o777);
    std::fs::remove_dir(&home).unwrap();
    // The place itself is private, and leads through a link to one that is not.
    std::os::unix::fs::symlink(&open, &home).unwrap();
    let output = install(&place);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("others could change what is installed in"), "{said}");
    let hint = format!("hint: chmod go-w {}\n", open.display());
    assert!(said.contains(&hint), "{said}");
    assert!(!open.join("data").exists());
    let report = doctor(&place, &["--only", "tools.private"]);
    assert_eq!(severity(&report, "tools.private"), "error");
    // The very command that was given.
    let command = hint.trim().strip_prefix("hint: ").unwrap();
    assert!(Command::new("sh").args(["-c", command]).status().unwrap().success());
    assert!(install(&place).status.success());
    // One that only lost its own privacy is made again.
    let binary = place.path("home/data/tools/ttyd/1.7.7/ttyd");
    chmod(&binary, 0o777);
    assert!(install(&place).status.success());
    assert_eq!(mode(&binary), 0o755);
}

/// A program that says that it was run, and which version it is.
fn program(place: &Place, name: &str, said: &str) -> (PathBuf, PathBuf) {
    let ran = place.path("ran");
    let body = format!("#!/bin/sh\n: > {}\necho {said}\n", ran.display());
    (place.put(name, 0o755, body.as_bytes()), ran)
}

#[test]
fn a_configured_program_that_others_may_write_to_is_never_run() {
    let cases: [(&str, &str, &str); 3] = [
        ("git", "git version 2.9", "git.found"),
        ("claude", "2.1.3", "claude.found"),
        ("cursor", "2026.1.1", "agent.found"),
    ];
    for (name, version, id) in cases {
        let place = Place::new();
        let (path, ran) = program(&place, "program", version);
        let harness = if name == "cursor" { "cursor" } else { "claude" };
        configure(
            &place,
            &format!(
                "routing:\n  runner: process\n  defaultHarness: {harness}\ntools:\n  {name}:\n    \
                 path: {}\n",
                path.display()
            ),
        );
        for open in [&path, &place.path("bin")] {
            chmod(open, 0o777);
            let report = doctor(&place, &["--only", id]);
            let what = finding(&report, id)["what"].as_str().unwrap().to_owned();
            assert_eq!(severity(&report, id), "error", "{name}: {what}");
            assert!(what.contains("everybody may write to"), "{name}: {what}");
            assert!(!ran.exists(), "{name} was run");
            if name == "cursor" {
                chmod(open, 0o755);
            } else {
                let fix = doctor(&place, &["--only", id, "--fix"]);
                assert_eq!(severity(&fix, id), "ok", "{fix:#}");
                assert_eq!(mode(open), 0o755);
                std::fs::remove_file(&ran).unwrap();
            }
        }
    }
}

#[test]
fn a_program_that_is_only_asked_or_told_is_judged_as_any_other() {
    let place = Place::new();
    let (path, _) = program(&place, "gh", "gh version 2.0");
    let env = place.env("BIN");
    let named_by_path = || named(path.to_str().unwrap(), &env).is_ok();
    let found = || (github_cli(&env).is_some(), named("gh", &env).is_ok(), named_by_path());
    assert_eq!(found(), (true, true, true));
    for open in [&path, &place.path("bin"), &place.path("")] {
        let before = mode(open);
        chmod(open, 0o777);
        assert_eq!(found(), (false, false, false), "{}", open.display());
        chmod(open, before);
    }
    assert_eq!(found(), (true, true, true));
}

#[test]
fn state_that_others_could_replace_is_an_error_and_fix_closes_it() {
    let place = Place::new();
    let (base, elsewhere) = (place.path("base"), place.path("elsewhere"));
    for dir in [&base, &elsewhere] {
        std::fs::create_dir(dir).unwrap();
    }
    let link = place.path("link");
    std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
    for (state, open) in [(base.join("own"), &base), (link, &elsewhere)] {
        configure(&place, &format!("{DEMO}state:\n  dir: {}\n", state.display()));
        let _ = std::fs::create_dir(&state);
        chmod(&state, 0o700);
        chmod(open, 0o777);
        let report = doctor(&place, &["--only", "state.modes"]);
        let found = finding(&report, "state.modes");
        assert_eq!(found["severity"], "error", "{report:#}");
        assert!(found["what"].as_str().unwrap().contains("others could replace"), "{found}");
        assert_eq!(found["remedy"]["commands"][0], format!("chmod go-w {}", open.display()));
        let report = doctor(&place, &["--only", "state.modes", "--fix"]);
        assert_eq!(severity(&report, "state.modes"), "ok", "{report:#}");
        // Where nobody but the owner replaces anything, as in /tmp, all is well.
        chmod(open, 0o1777);
        let report = doctor(&place, &["--only", "state.modes"]);
        let expected = if state.starts_with(open) { "ok" } else { "error" };
        assert_eq!(severity(&report, "state.modes"), expected);
    }
}

/// Runs the doctor with a /tmp of its own that is as `options` say and full.
fn with_full_tmp(options: &str, only: &str) -> Value {
    let place = Place::new();
    let script = "set -e
        mount -t tmpfs -o mode=755 x /mnt
        mkdir /mnt/home
        for name in the-loop ttyd; do : > /mnt/$name; done
        mount --bind \"$0\" /mnt/the-loop
        mount --bind \"$1\" /mnt/ttyd
        mount -t tmpfs -o \"$2\" x /tmp
        dd if=/dev/zero of=/tmp/full bs=1k count=400 2>/dev/null || :
        exec /mnt/the-loop doctor --json --for web --only \"$3\"";
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", script, env!("CARGO_BIN_EXE_the-loop")])
        .arg(test_tool("ttyd"))
        .args([options, only])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin:/mnt")
        .env("HOME", "/mnt/home")
        .current_dir(place.path("home"))
        .output()
        .unwrap();
    json(&output)
}

#[test]
fn a_full_directory_for_temporary_files_is_not_the_fault_of_a_tool() {
    if !may_mount() {
        return;
    }
    for (options, why, few) in [
        ("size=200k", "No space left on device", "only 0 MiB are free for temporary files"),
        ("size=4m,nr_inodes=2", "No space left on device", "only 0 more files fit"),
    ] {
        let report = with_full_tmp(options, "tmux,ttyd,disk");
        for (id, tool) in [("tmux.paste", "tmux"), ("ttyd.serves", "ttyd")] {
            let found = finding(&report, id);
            assert_eq!(found["checked"], false, "{options}: {report:#}");
            let what = found["what"].as_str().unwrap();
            let said =
                format!("could not try {tool}: no temporary file can be kept in /tmp: {why}");
            assert_eq!(what, said);
            assert!(!found["remedy"].to_string().contains("install"), "{found}");
        }
        let disk = report["findings"].as_array().unwrap().iter();
        let disk = disk.filter(|found| found["id"] == "disk.space" && found["severity"] == "error");
        let disk: Vec<_> = disk.map(|found| found["what"].as_str().unwrap()).collect();
        assert!(disk.len() == 1 && disk[0].starts_with(few), "{disk:?}");
    }
}

#[test]
fn a_directory_for_temporary_files_of_no_use_is_passed_over_and_said() {
    let place = Place::new();
    std::fs::write(place.path("file"), "").unwrap();
    for dir in ["/nowhere", "relative", place.path("file").to_str().unwrap()] {
        let tmp = [("TMPDIR", dir)];
        let args = ["doctor", "--json", "--for", "tmux", "--only", "tmux,disk"];
        let report = json(&place.run(SYSTEM, &args, &tmp));
        assert_eq!(severity(&report, "tmux.found"), "ok");
        assert!(report["findings"].as_array().unwrap().iter().all(|f| f["checked"] == true));
        let said = format!("TMPDIR is {dir}, which is no directory for temporary files");
        assert!(report.to_string().contains(&said), "{report:#}");
    }
    if !may_mount() {
        return;
    }
    // Only the one that was asked for is full: the other one does.
    let script = "mount -t tmpfs -o size=64k x \"$TMPDIR\"; exec \"$@\"";
    let inner = place.command(SYSTEM, &["doctor", "--json", "--for", "tmux"]);
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", script, "sh"])
        .arg(inner.get_program())
        .args(inner.get_args())
        .env_clear()
        .envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(Path::new("/"))
        .output()
        .unwrap();
    let report = json(&output);
    assert_eq!(severity(&report, "tmux.found"), "ok", "{report:#}");
    assert!(report.to_string().contains("only 0 MiB are free for temporary files"), "{report:#}");
}
