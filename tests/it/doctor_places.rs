//! The places that the doctor looks at: what is written there, and what helps where
//! nothing can be.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::doctor::{Place, SYSTEM, finding, json, test_tool, words};
use crate::doctor_host::chmod;
use crate::install_places::may_mount;

use crate::doctor_trust::*;

fn of_disk(output: &Output) -> (Vec<String>, Value) {
    let report = json(output);
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|found| found["severity"] == "error");
    assert!(found.is_some_and(|found| found["id"] == "disk.space"), "{report:#}");
    assert_eq!(output.status.code(), Some(1));
    let what = findings.iter().map(|found| found["what"].to_string());
    (what.collect(), found.unwrap()["remedy"].clone())
}

const DISK: &[&str] = &["doctor", "--json", "--only", "disk"];

#[test]
fn a_place_that_cannot_be_written_to_is_an_error_and_says_what_helps() {
    let place = Place::new();
    chmod(&place.path(""), 0o755);
    let own = place.path("own");
    std::fs::create_dir(&own).unwrap();
    std::fs::write(place.path("file"), "").unwrap();
    symlink("/nowhere/x", place.path("dangling")).unwrap();
    for (home, said) in [
        (Path::new("/dev/null"), "/dev/null is no directory"),
        (&place.path("file/x"), "file is no directory"),
        (&place.path("dangling"), "dangling is a link that leads nowhere"),
        (Path::new("/"), "this user may not write to /:"),
    ] {
        let (what, remedy) = of_disk(&as_person(&place, &[("THE_LOOP_HOME", home)], DISK));
        assert!(what[0].contains(said), "{}: {what:?}", home.display());
        assert!(remedy["note"].as_str().unwrap().contains("THE_LOOP_HOME"), "{remedy}");
    }
    // One's own, with no right left.
    give(&own);
    chmod(&own, 0o500);
    let (what, remedy) = of_disk(&as_person(&place, &[("THE_LOOP_HOME", &own)], DISK));
    assert!(what[0].contains("may not write to"), "{what:?}");
    assert_eq!(remedy["commands"][0], format!("chmod u+rwx {}", own.display()));
    chmod(&own, 0o700);
}

#[test]
fn a_home_that_does_not_exist_and_cannot_be_made_is_named() {
    let place = Place::new();
    chmod(&place.path(""), 0o755);
    let shut = place.path("shut");
    std::fs::create_dir(&shut).unwrap();
    chmod(&shut, 0o555);
    let home = shut.join("nobody");
    // Without a place of its own it is the home that counts.
    let vars = [("HOME", home.as_path()), ("THE_LOOP_HOME", Path::new(""))];
    let named = format!("HOME is {}, which does not exist and cannot be made", home.display());

    let output = as_person(&place, &vars, DISK);
    let (what, remedy) = of_disk(&output);
    assert_eq!(what.iter().filter(|what| what.contains(&named)).count(), 1, "{what:?}");
    assert!(remedy["note"].as_str().unwrap().starts_with("set HOME, or THE_LOOP_HOME"), "{remedy}");
    let report = json(&output);
    let evidence = report["findings"][0]["evidence"].as_array().unwrap();
    let made = |dir: &str| format!("{}/{dir} is to be made in it", home.display());
    assert!(evidence[0].as_str().unwrap().starts_with(&shut.display().to_string()));
    assert_eq!(
        evidence[1..],
        [made(".local/state/the-loop"), made(".local/share/the-loop/tools")].map(Value::from)
    );

    let folder = test_tool("ttyd").parent().unwrap().to_str().unwrap().to_owned();
    let install = ["doctor", "--install", "ttyd", "--offline", &folder];
    let output = as_person(&place, &vars, &install);
    let said = words(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("{named}: Permission denied")), "{said}");
    assert!(said.contains("hint: set HOME, or THE_LOOP_HOME, to a directory of yours"), "{said}");

    let config = place.path("config.yaml");
    std::fs::write(&config, "routing:\n  runner: process\n  defaultHarness: demo\n").unwrap();
    chmod(&config, 0o600);
    give(&config);
    let config = config.to_str().unwrap();
    let start = ["gh-webhook", "start", "--insecure-no-secret", "--config", config];
    let output = as_person(&place, &vars, &start);
    let said = words(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("error: this host is not ready"), "{said}");
    assert!(said.contains(&named) && said.contains("set HOME, or THE_LOOP_HOME"), "{said}");
    // Nor is it another text in the background.
    let detached = [&start[..], &["--detach"]].concat();
    let output = as_person(&place, &vars, &detached);
    let same = words(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!((output.status.code(), same), (Some(1), said));
}

#[test]
fn a_place_is_named_by_what_is_kept_there_and_by_nothing_else() {
    let place = Place::new();
    let report = json(&place.run(SYSTEM, DISK, &[("THE_LOOP_HOME", "/dev/null")]));
    let evidence = report["findings"][0]["evidence"].clone();
    assert_eq!(evidence, serde_json::json!(["/dev/null/state", "/dev/null/data/tools"]));
    // One that is there, of a tool that can be installed, is looked at by itself.
    std::fs::create_dir_all(place.path("home/data/tools")).unwrap();
    for name in ["git", "ttyd"] {
        std::fs::write(place.path("home/data/tools").join(name), "").unwrap();
    }
    let report = json(&place.run(SYSTEM, DISK, &[]));
    assert!(report.to_string().contains("data/tools/ttyd is no directory"), "{report:#}");
    assert!(!report.to_string().contains("tools/git"), "{report:#}");
}

#[test]
fn what_root_left_in_a_home_is_given_back_by_root() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    chmod(&place.path(""), 0o755);
    let home = place.path("home");
    give(&home);
    std::fs::create_dir(home.join("data")).unwrap();
    let output = as_person(&place, &[], DISK);
    let (_, remedy) = of_disk(&output);
    let command = remedy["commands"][0].as_str().unwrap();
    let chown = format!("chown -R {OTHER} {}", home.join("data").display());
    let prefixed = [format!("sudo {chown}"), format!("doas {chown}"), format!("su -c '{chown}'")];
    assert!(prefixed.contains(&command.to_owned()), "{command}");
}

#[test]
fn a_read_only_place_says_what_helps() {
    if !may_mount() {
        return;
    }
    let place = Place::new();
    let script = "mount -t tmpfs -o ro x \"$0\" && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", script])
        .arg(place.path("home"))
        .arg(env!("CARGO_BIN_EXE_the-loop"))
        .args(DISK)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("THE_LOOP_HOME", place.path("home"))
        .output()
        .unwrap();
    let (what, remedy) = of_disk(&output);
    assert!(what[0].contains("read-only file system"), "{what:?}");
    assert!(remedy["note"].as_str().unwrap().contains("make it writable"), "{remedy}");
}

#[test]
fn an_install_that_could_not_be_written_is_not_offered() {
    let place = Place::new();
    chmod(&place.path(""), 0o755);
    let args = ["doctor", "--json", "--for", "web", "--only", "ttyd"];
    let report = json(&as_person(&place, &[("THE_LOOP_HOME", Path::new("/"))], &args));
    let found = finding(&report, "ttyd.found");
    assert!(!found["remedy"]["commands"].to_string().contains("--install"), "{found}");
    let note = found["remedy"]["note"].as_str().unwrap();
    assert!(note.contains("nothing can be written: set THE_LOOP_HOME"), "{found}");
    assert!(note.ends_with("then `the-loop doctor --install ttyd`"), "{found}");
    assert!(found["fix"].is_null(), "{found}");
}

#[test]
fn an_install_that_could_not_be_run_is_not_offered() {
    if !may_mount() {
        return;
    }
    let place = Place::new();
    let script = "mount -t tmpfs -o noexec,mode=755 x \"$HOME\" && cp \"$0\" \"$HOME/ttyd\" && \
                  exec \"$@\"";
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", script])
        .arg(test_tool("ttyd"))
        .arg(env!("CARGO_BIN_EXE_the-loop"))
        .args(["doctor", "--json", "--for", "web", "--only", "ttyd"])
        .env_clear()
        .env("PATH", format!("/usr/sbin:/usr/bin:/sbin:/bin:{}", place.path("home").display()))
        .env("HOME", place.path("home"))
        .env("THE_LOOP_HOME", place.path("home"))
        .output()
        .unwrap();
    let report = json(&output);
    let found = finding(&report, "ttyd.runs");
    assert!(found["what"].as_str().unwrap().contains("noexec"), "{found}");
    assert!(!found["remedy"]["commands"].to_string().contains("--install"), "{found}");
    assert!(found["remedy"]["note"].as_str().unwrap().contains("THE_LOOP_HOME"), "{found}");
    assert!(found["fix"].is_null(), "{found}");
}

#[test]
fn what_is_behind_a_directory_that_is_shut_is_not_to_be_given_away() {
    let place = Place::new();
    chmod(&place.path(""), 0o755);
    let data = place.path("home/data");
    std::fs::create_dir_all(data.join("tools")).unwrap();
    give(&place.path("home"));
    give(&data);
    chmod(&data, 0o000);
    let output = as_person(&place, &[], &["doctor", "--json", "--only", "tools"]);
    chmod(&data, 0o700);
    let report = json(&output);
    for id in ["tools.private", "tools.litter"] {
        let found = finding(&report, id);
        let command = format!("chmod u+rwx {}", data.display());
        assert_eq!(found["remedy"]["commands"][0], command, "{found}");
    }
}

#[test]
fn a_relative_home_is_refused_and_a_relative_place_of_ours_too() {
    let place = Place::new();
    for (args, code) in [(&["doctor"][..], 3), (&["sessions", "list"], 1)] {
        let output = place.run(SYSTEM, args, &[("HOME", "~")]);
        assert_eq!(output.status.code(), Some(code));
        let said = words(&output.stderr);
        assert!(said.starts_with("error: HOME is `~`, which is not an absolute path"), "{said}");
        assert!(said.contains("hint: set HOME to the absolute path"), "{said}");
    }
    for home in ["own", "~/x"] {
        let output = place.run(SYSTEM, &["doctor", "--list"], &[("THE_LOOP_HOME", home)]);
        assert_eq!(output.status.code(), Some(1));
        let said = words(&output.stderr);
        let told = format!("error: THE_LOOP_HOME is `{home}`, which is not an absolute path");
        assert!(said.starts_with(&told), "{said}");
    }
    assert!(!place.path("home/own").exists());
}
