//! `the-loop service`: files that the real readers of both managers take, and what
//! a manager is told. No manager of a user's services runs in a test: `systemctl`
//! is a script here that writes down its arguments.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{World, unbroken};

/// A project whose secret is in a file, as a service needs it.
fn world() -> World {
    let world = World::new("defaultHarness: demo");
    let secret = world.home.join("secret");
    std::fs::write(&secret, "a secret in a file").unwrap();
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
    let config = std::fs::read_to_string(world.config()).unwrap();
    let webhooks = format!("webhooks:\n  ghWebhook:\n    secretFile: {}\n    ", secret.display());
    let config = config.replacen("webhooks:\n  ghWebhook:\n    ", &webhooks, 1);
    assert!(config.contains("secretFile"), "{config}");
    std::fs::write(world.config(), config).unwrap();
    world
}

/// A `systemctl` that knows nothing but what it was told, in `DIR/told`.
fn stand_in(world: &World, script: &str) -> PathBuf {
    let dir = world.home.join("stand-in");
    std::fs::create_dir_all(&dir).unwrap();
    let told = dir.join("told");
    let text = format!("#!/bin/sh\necho \"$*\" >>'{}'\n{script}\n", told.display());
    std::fs::write(dir.join("systemctl"), text).unwrap();
    std::fs::set_permissions(dir.join("systemctl"), PermissionsExt::from_mode(0o755)).unwrap();
    told
}

fn run(world: &World, args: &[&str]) -> (i32, String, String) {
    let mut command = world.command(&["service"]);
    let path = format!("{}:{}", world.home.join("stand-in").display(), world.path);
    if !world.project.exists() {
        command.current_dir(&world.home);
    }
    let output = command.args(args).env("PATH", path).env("USER", "nobody-here").output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code().unwrap(), out, unbroken(&err))
}

fn units(world: &World) -> Vec<PathBuf> {
    let dir = world.home.join(".config/systemd/user");
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Projects whose names mean something to somebody.
const NAMES: &[&str] =
    &["plain", "two words", "100%h", "$HOME", "a\"quote", "back\\slash", "ümläut-漢", "a'b;c&<d>"];

#[test]
fn systemd_takes_the_unit_of_every_project() {
    let has = Command::new("systemd-analyze").arg("--version").output();
    if !has.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no systemd-analyze");
        return;
    }
    for name in NAMES {
        let world = world();
        let project = world.home.join(name);
        std::fs::rename(&world.project, &project).unwrap();
        let config = project.join(".the-loop/config.yaml");
        let config = config.to_str().unwrap();
        let (code, _, err) = run(&world, &["install", "--no-start", "--config", config]);
        assert_eq!(code, 0, "{err}");
        let [unit] = &units(&world)[..] else { panic!("one unit") };
        let output = Command::new("systemd-analyze")
            .args(["--user", "verify"])
            .arg(unit)
            .env("XDG_RUNTIME_DIR", &world.home)
            .env("HOME", &world.home)
            .output()
            .unwrap();
        // It exits with 0 whatever it complains about.
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said, "", "{name}: {}", std::fs::read_to_string(unit).unwrap());
        assert!(output.status.success());
    }
}

#[test]
fn launchd_is_given_what_was_meant() {
    for name in NAMES {
        let world = world();
        let project = world.home.join(name);
        std::fs::rename(&world.project, &project).unwrap();
        let config = project.join(".the-loop/config.yaml");
        let args = ["install", "--print", "--manager", "launchd", "--config"];
        let (code, plist, err) = run(&world, &[&args[..], &[config.to_str().unwrap()]].concat());
        assert_eq!(code, 0, "{err}");
        let file = world.home.join("plist");
        std::fs::write(&file, plist).unwrap();
        let parse = "import json, plistlib, sys\n\
                     print(json.dumps(plistlib.load(open(sys.argv[1], 'rb'))))";
        let output = Command::new("python3").args(["-c", parse]).arg(&file).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let read: Value = serde_json::from_slice(&output.stdout).unwrap();
        let program = env!("CARGO_BIN_EXE_the-loop");
        let config = std::fs::canonicalize(config).unwrap();
        let arguments = json!([program, "gh-webhook", "start", "--config", config]);
        assert_eq!(read["ProgramArguments"], arguments);
        assert_eq!(read["AbandonProcessGroup"], true, "agents live on");
        assert_eq!(read["WorkingDirectory"], json!(std::fs::canonicalize(&project).unwrap()));
        assert_eq!(read["Umask"], 0o077);
        let variables = read["EnvironmentVariables"].as_object().unwrap();
        assert!(variables.contains_key("PATH"));
        assert!(!variables.keys().any(|name| name.contains("SECRET")), "{variables:?}");
    }
}

#[test]
fn it_is_installed_told_of_and_taken_away() {
    let world = world();
    let told = stand_in(&world, "case $2 in is-*) echo \"${2#is-}\" ;; esac");
    let (code, _, err) = run(&world, &["install"]);
    assert_eq!(code, 0, "{err}");
    let [unit] = &units(&world)[..] else { panic!("one unit") };
    let name = unit.file_stem().unwrap().to_str().unwrap().to_owned();
    assert!(err.contains("written  ") && err.contains(&format!("started  {name}")), "{err}");
    assert!(err.contains("loginctl enable-linger"), "{err}");
    let calls = || std::mem::take(&mut std::fs::read_to_string(&told).unwrap_or_default());
    let expected = format!(
        "--user show-environment\n--user daemon-reload\n--user enable {name}\n\
         --user restart {name}\n"
    );
    assert_eq!(calls(), expected);
    let text = std::fs::read_to_string(unit).unwrap();
    assert!(!text.contains(crate::support::SECRET), "{text}");
    assert!(text.contains("\nKillMode=process\n"), "{text}");

    // Again: the file is kept.
    let (code, _, err) = run(&world, &["install"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("kept     "), "{err}");

    let (code, out, err) = run(&world, &["status", "--json"]);
    assert_eq!((code, err.as_str()), (1, ""), "it is there, and does not run: {out}");
    let status: Value = serde_json::from_str(&out).unwrap();
    let said = json!({
        "schema": 1, "name": name, "path": unit, "file": "current",
        "enabled": "enabled", "active": "active", "receiverRuns": false,
    });
    assert_eq!(status, said);
    let (_, out, _) = run(&world, &["status"]);
    assert!(out.lines().all(|line| line.len() <= 80 || line.contains("/h/")), "{out}");

    std::fs::remove_file(&told).unwrap();
    let (code, _, err) = run(&world, &["uninstall"]);
    assert_eq!(code, 0, "{err}");
    assert!(units(&world).is_empty());
    assert!(calls().contains(&format!("--user disable --now {name}\n")), "{}", calls());
    let (code, _, err) = run(&world, &["uninstall"]);
    assert_eq!(code, 0);
    assert!(err.contains("is not installed"), "{err}");
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let world = world();
    stand_in(&world, "");
    assert_eq!(run(&world, &["install", "--no-start"]).0, 0);
    let [unit] = &units(&world)[..] else { panic!("one unit") };
    std::fs::write(unit, "[Service]\nExecStart=/bin/true\n").unwrap();
    for args in [&["install", "--no-start"][..], &["uninstall"]] {
        let (code, _, err) = run(&world, args);
        assert_eq!(code, 1);
        assert!(err.contains("is not of our making"), "{err}");
        assert!(std::fs::read_to_string(unit).unwrap().contains("/bin/true"));
    }
    assert_eq!(run(&world, &["install", "--no-start", "--force"]).0, 0);
    assert!(!std::fs::read_to_string(unit).unwrap().contains("/bin/true"));
}

#[test]
fn what_was_changed_is_neither_overwritten_nor_removed_without_a_word() {
    let world = world();
    stand_in(&world, "");
    assert_eq!(run(&world, &["install", "--no-start"]).0, 0);
    let [unit] = &units(&world)[..] else { panic!("one unit") };
    let written = std::fs::read_to_string(unit).unwrap();
    let edited = written.replace("RestartSec=5", "RestartSec=99");
    std::fs::write(unit, &edited).unwrap();
    for (args, help) in [
        (&["install", "--no-start"][..], "the-loop service install --force"),
        (&["uninstall"], "the-loop service uninstall --force"),
    ] {
        let (code, _, err) = run(&world, args);
        assert_eq!(code, 1);
        assert!(err.contains("was changed since it was written"), "{err}");
        assert!(err.contains("systemctl --user edit the-loop-") && err.contains(help), "{err}");
        assert_eq!(std::fs::read_to_string(unit).unwrap(), edited);
    }
    assert_eq!(run(&world, &["install", "--no-start", "--force"]).0, 0);
    assert_eq!(std::fs::read_to_string(unit).unwrap(), written);
    // One of ours for other settings is written anew.
    let mut other = world.command(&["service", "install", "--no-start"]);
    assert!(other.env("LC_ALL", "C.UTF-8").status().unwrap().success());
    assert!(std::fs::read_to_string(unit).unwrap().contains("LC_ALL=C.UTF-8"));
    assert_eq!(run(&world, &["install", "--no-start"]).0, 0);
    std::fs::write(unit, &edited).unwrap();
    assert_eq!(run(&world, &["uninstall", "--force"]).0, 0);
    assert!(units(&world).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_manager_answers_an_uninstall_says_what_it_could_not_do() {
    let mut world = world();
    stand_in(&world, "echo 'Failed to connect to bus: No medium found' >&2; exit 1");
    let install = |world: &World| {
        assert_eq!(run(world, &["install", "--no-start"]).0, 0);
        let unit = units(world).into_iter().find(|path| path.is_file()).unwrap();
        let wants = unit.with_file_name("default.target.wants");
        std::fs::create_dir_all(&wants).unwrap();
        let link = wants.join(unit.file_name().unwrap());
        std::os::unix::fs::symlink(&unit, &link).unwrap();
        (unit, link)
    };
    for runs in [false, true] {
        let (unit, link) = install(&world);
        if runs {
            world.start().await;
        }
        let (code, _, err) = run(&world, &["uninstall"]);
        assert_eq!(code, i32::from(runs), "{err}");
        assert!(err.contains("It was stopped by nobody: systemd runs no services for"), "{err}");
        assert_eq!(err.contains("A receiver runs on: `the-loop gh-webhook stop`"), runs, "{err}");
        assert!(!unit.exists() && !link.is_symlink());
    }
}

#[test]
fn without_a_manager_or_a_secret_in_a_file_it_says_what_to_do() {
    let world = world();
    stand_in(&world, "echo 'Failed to connect to bus: No medium found' >&2; exit 1");
    let (code, _, err) = run(&world, &["install"]);
    assert_eq!(code, 1);
    for words in ["runs no services for this user", "No medium found", "--detach", "--no-start"] {
        assert!(err.contains(words), "{err}");
    }
    assert!(units(&world).is_empty(), "nothing was written");
    let (_, out, _) = run(&world, &["status", "--json"]);
    let status: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&status["file"], &status["active"]), (&json!("absent"), &Value::Null));

    let world = World::new("");
    let (code, _, err) = run(&world, &["install", "--no-start"]);
    assert_eq!(code, 1);
    assert!(err.contains("secretFile") && err.contains("init --github --url "), "{err}");
    assert!(units(&world).is_empty());
    assert!(!Path::new(&world.home).join("Library").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_runs_already_is_not_doubled() {
    let mut world = world();
    stand_in(&world, "case $2 in is-active) echo inactive ;; esac");
    world.start().await;
    let (code, _, err) = run(&world, &["install"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("runs already") && err.contains("gh-webhook stop"), "{err}");
    assert!(units(&world).is_empty());
}
