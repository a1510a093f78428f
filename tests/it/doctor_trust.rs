//! What the doctor believes: which programs it runs, and which it does not.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::doctor::{Place, SYSTEM, finding, json, test_tool, text, words};
use crate::doctor_host::{chmod, doctor, severity};

/// Another user than root, where this is root.
pub const OTHER: u32 = 65534;

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs the doctor as a user who is not root.
pub fn as_person(place: &Place, more: &[(&str, &Path)], args: &[&str]) -> Output {
    let vars: Vec<_> = more.iter().map(|(name, value)| (*name, value.as_os_str())).collect();
    if !is_root() {
        return place.command(SYSTEM, args).envs(vars).output().unwrap();
    }
    let inner = place.command(SYSTEM, args);
    let user = OTHER.to_string();
    Command::new("setpriv")
        .args(["--reuid", &user, "--regid", &user, "--clear-groups"])
        .arg(inner.get_program())
        .args(inner.get_args())
        .env_clear()
        .envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .envs(vars)
        .current_dir("/")
        .output()
        .unwrap()
}

/// Gives a directory to the user that [`as_person`] runs as.
pub fn give(path: &Path) {
    if is_root() {
        std::os::unix::fs::chown(path, Some(OTHER), Some(OTHER)).unwrap();
    }
}

#[test]
fn what_is_named_like_a_tool_and_is_no_program_is_named() {
    let place = Place::new();
    let bin = place.path("bin");
    symlink("/nowhere/tmux", bin.join("tmux")).unwrap();
    symlink("ttyd", bin.join("ttyd")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, bin.join("git"), 0o755.into()).unwrap();
    std::fs::create_dir(bin.join("claude")).unwrap();
    let report = json(&place.run("BIN", &["doctor", "--json"], &[]));
    for (id, said) in [
        ("tmux.runs", "tmux is a link to `/nowhere/tmux`, which is not there"),
        ("ttyd.runs", "ttyd is a link that leads in a circle"),
        ("git.runs", "git is not a file, but a named pipe"),
        ("claude.runs", "claude is not a file, but a directory"),
    ] {
        let what = finding(&report, id)["what"].as_str().unwrap();
        assert!(what.ends_with(said), "{id}: {what}");
    }
    // A command that only looks for one is not held up by it either.
    let path = format!("BIN:{SYSTEM}");
    let report = json(&place.run(&path, &["doctor", "--json", "--only", "tmux,git"], &[]));
    assert_eq!((severity(&report, "tmux.found"), severity(&report, "git.found")), ("ok", "ok"));
}

#[test]
fn a_program_that_is_being_written_is_named_as_such() {
    let place = Place::new();
    let program = place.path("bin/tmux");
    std::fs::copy(test_tool("tmux-3.6a"), &program).unwrap();
    let writer = std::fs::OpenOptions::new().append(true).open(&program).unwrap();
    // Some kernels let it run.
    let refused = Command::new(&program).arg("-V").output().is_err();
    let args = ["doctor", "--json", "--only", "tmux.found"];
    let report = json(&place.run("BIN", &args, &[]));
    drop(writer);
    if refused {
        let what = finding(&report, "tmux.runs")["what"].as_str().unwrap();
        assert!(what.ends_with("is being written to by another process"), "{what}");
    }
    let report = json(&place.run("BIN", &args, &[]));
    assert_eq!(severity(&report, "tmux.found"), "ok");
}

#[test]
fn a_program_that_others_can_change_is_never_run() {
    let place = Place::new();
    let ran = place.path("ran");
    let body = format!("#!/bin/sh\n: > {}\necho tmux 3.9\n", ran.display());
    let args = ["doctor", "--json", "--for", "tmux", "--only", "tmux.found,path"];
    let refused = |path: &str, said: &str| {
        let report = json(&place.run(path, &args, &[]));
        let told = finding(&report, "path.entries");
        assert_eq!(told["severity"], "warning", "{report:#}");
        assert!(told["evidence"].to_string().contains(said), "{said}: {told}");
        let found = finding(&report, "tmux.found");
        assert_eq!(found["severity"], "error");
        let what = found["what"].as_str().unwrap();
        assert!(what.contains("is not to be trusted: ") && what.contains(said), "{what}");
        assert!(!ran.exists(), "{said}: it was run");
    };
    // Its own mode.
    let program = place.put("tmux", 0o777, body.as_bytes());
    refused("BIN", "everybody may write to it");
    let report = json(&place.run("BIN", &args, &[]));
    let first = &finding(&report, "tmux.found")["remedy"]["commands"][0];
    assert_eq!(*first, format!("chmod go-w {}", program.display()));
    chmod(&program, 0o755);
    // A service's, and a shared group's: no number is safe by being small.
    if is_root() {
        let chown = |path: &Path, user: u32, group: u32| {
            std::os::unix::fs::chown(path, Some(user), Some(group)).unwrap();
        };
        let bin = place.path("bin");
        for user in [101, 999, 1500] {
            chown(&program, user, 0);
            refused("BIN", "owns it");
            chown(&program, 0, 0);
            chown(&bin, user, 0);
            refused("BIN", "owns it");
            chown(&bin, 0, 0);
        }
        for group in [100, 999, 1500] {
            for path in [&program, &bin] {
                chown(path, 0, group);
                chmod(path, 0o775);
                refused("BIN", "may write to it");
                chown(path, 0, 0);
                chmod(path, 0o755);
            }
        }
    }
    // A directory above.
    let open = place.path("open");
    std::fs::create_dir_all(open.join("bin")).unwrap();
    std::fs::copy(&program, open.join("bin/tmux")).unwrap();
    chmod(&open, 0o777);
    refused(open.join("bin").to_str().unwrap(), "on the way to it");
    // The work tree in which agents write, behind a link.
    std::fs::create_dir(place.path("home/.git")).unwrap();
    std::fs::rename(&program, place.path("home/tmux")).unwrap();
    symlink(place.path("home/tmux"), &program).unwrap();
    let elsewhere = place.path("tmp");
    let output = place.command("BIN", &args).env("HOME", &elsewhere).output().unwrap();
    let report = json(&output);
    let what = finding(&report, "tmux.found")["what"].as_str().unwrap();
    assert!(what.contains("it is in the work tree"), "{what}");
    assert!(!ran.exists(), "the link into the work tree was followed");
}

#[test]
fn a_managed_program_that_was_changed_is_not_run_although_it_answers() {
    let place = Place::new();
    let folder = test_tool("ttyd").parent().unwrap().to_str().unwrap().to_owned();
    let install = ["doctor", "--install", "ttyd", "--offline", &folder];
    assert!(place.run(SYSTEM, &install, &[]).status.success());
    let path = "/usr/bin:/bin";
    let check = ["doctor", "--json", "--for", "web", "--only", "ttyd"];
    assert_eq!(severity(&json(&place.run(path, &check, &[])), "ttyd.found"), "ok");
    let binary = place.path("home/data/tools/ttyd/1.7.7/ttyd");
    let mut bytes = std::fs::read(&binary).unwrap();
    bytes.push(0);
    std::fs::write(&binary, &bytes).unwrap();
    let answers = Command::new(&binary).arg("--version").output().unwrap();
    assert!(answers.status.success());
    let report = json(&place.run(path, &check, &[]));
    let found = finding(&report, "ttyd.runs");
    let what = found["what"].as_str().unwrap();
    assert!(what.contains("is damaged: its SHA-256 is "), "{what}");
    assert!(what.contains("8a217c968aba172e0dbf3f34447218dc015bc4d5e59bf51db2f2cd12b7be4f55"));
    assert_eq!(found["remedy"]["commands"][0], "the-loop doctor --install ttyd");
    let fix = [&check[..], &["--fix", "--offline", &folder]].concat();
    assert_eq!(severity(&json(&place.run(path, &fix, &[])), "ttyd.found"), "ok");
    // What is seen only when its mode is put right is put right too.
    std::fs::write(&binary, &bytes).unwrap();
    chmod(&binary, 0o777);
    assert_eq!(severity(&json(&place.run(path, &fix, &[])), "ttyd.found"), "ok");
    // A receipt that fits the changed program is not that of the pin.
    let receipt = binary.with_file_name("receipt.json");
    let mut told: Value = serde_json::from_slice(&std::fs::read(&receipt).unwrap()).unwrap();
    told["binarySha256"] = crate::install::sha256(&bytes).into();
    std::fs::write(&receipt, told.to_string()).unwrap();
    std::fs::write(&binary, &bytes).unwrap();
    assert_eq!(severity(&json(&place.run(path, &check, &[])), "ttyd.runs"), "error");
}

#[test]
fn the_second_choice_is_taken_where_only_its_file_is_and_is_mended_as_itself() {
    let place = Place::new();
    let folder = test_tool("tmux-3.6a").parent().unwrap().to_str().unwrap().to_owned();
    let offline = ["--offline", folder.as_str()];
    let output = place.run(SYSTEM, &[&["doctor", "--install", "tmux"], &offline[..]].concat(), &[]);
    let said = words(&output.stderr);
    assert!(said.contains("has no file of tmux 3.7c, but one of tmux 3.6a: taking that"), "{said}");
    assert!(text(&output.stdout).starts_with("tmux 3.6a installed"), "{said}");
    // A version that was asked for is no other.
    let asked = [&["doctor", "--install", "tmux@3.7c"], &offline[..]].concat();
    assert!(!place.run(SYSTEM, &asked, &[]).status.success());
    let binary = place.path("home/data/tools/tmux/3.6a/tmux");
    std::fs::write(&binary, "#!/bin/sh\necho tmux 3.6a\n").unwrap();
    let args = ["doctor", "--json", "--for", "tmux", "--only", "tmux.found"];
    let report = json(&place.run("BIN", &args, &[]));
    let remedy = &finding(&report, "tmux.runs")["remedy"]["commands"][0];
    assert_eq!(remedy, "the-loop doctor --install tmux@3.6a");
    // The private server of the probe needs a shell and no more.
    for name in ["sh", "stty", "cat"] {
        place.link(name, &std::fs::canonicalize(format!("/bin/{name}")).unwrap());
    }
    let report = json(&place.run("BIN", &[&args[..], &["--fix"], &offline].concat(), &[]));
    let found = finding(&report, "tmux.found")["what"].to_string();
    assert!(found.contains("tmux 3.6a, managed"), "{found}");
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn a_file_that_ends_too_early_is_told_as_that() {
    let place = Place::new();
    let whole = std::fs::read(test_tool("ttyd")).unwrap();
    std::fs::write(place.path("bin/ttyd.x86_64"), &whole[..1000]).unwrap();
    let folder = place.path("bin").display().to_string();
    let install = ["doctor", "--install", "ttyd", "--offline", &folder];
    let said = words(&place.run(SYSTEM, &install, &[]).stderr);
    assert!(said.contains(&format!("it ends after 1000 of {} bytes", whole.len())), "{said}");
}

#[test]
fn a_build_that_is_not_pinned_is_not_run_whatever_its_receipt_says() {
    let place = Place::new();
    let folder = test_tool("tmux-3.6a").parent().unwrap().to_str().unwrap().to_owned();
    let install = ["doctor", "--install", "tmux@3.6a", "--offline", &folder];
    assert!(place.run(SYSTEM, &install, &[]).status.success());
    let tools = place.path("home/data/tools/tmux");
    std::fs::rename(tools.join("3.6a"), tools.join("3.9")).unwrap();
    let args = ["doctor", "--json", "--for", "tmux", "--only", "tmux.found"];
    let why = || finding(&json(&place.run("BIN", &args, &[])), "tmux.runs")["what"].to_string();
    // The right build in a folder of another name.
    assert!(why().contains("its receipt.json is that of version 3.6a"), "{}", why());
    let ran = place.path("ran");
    let script = format!("#!/bin/sh\n: > {}\necho tmux 3.9\n", ran.display());
    std::fs::write(tools.join("3.9/tmux"), &script).unwrap();
    let receipt = serde_json::json!({
        "tool": "tmux", "version": "3.9", "url": "https://x", "sha256": "0",
        "binarySha256": crate::install::sha256(script.as_bytes()),
    });
    std::fs::write(tools.join("3.9/receipt.json"), receipt.to_string()).unwrap();
    assert!(why().contains("its receipt.json is not of a pinned build"), "{}", why());
    assert!(!ran.exists(), "it was run");
    let list = place.run(SYSTEM, &["doctor", "--list"], &[]);
    let said = words(&list.stderr);
    assert!(said.contains("hint: the-loop doctor --uninstall tmux@3.9"), "{said}");
}

#[test]
fn a_folder_of_tools_that_may_not_be_looked_into_is_no_empty_one() {
    let place = Place::new();
    chmod(&place.path(""), 0o755);
    let home = place.path("home");
    std::fs::create_dir_all(home.join("data/tools/tmux")).unwrap();
    for dir in ["", "data", "data/tools"] {
        give(&home.join(dir));
    }
    for shut in ["data/tools/tmux", "data/tools"] {
        give(&home.join(shut));
        chmod(&home.join(shut), 0o000);
        let args = ["doctor", "--json", "--only", "tools,disk"];
        let output = as_person(&place, &[], &args);
        chmod(&home.join(shut), 0o300);
        let list = as_person(&place, &[], &["doctor", "--list"]);
        let only = as_person(&place, &[], &["doctor", "--only", "tools"]);
        chmod(&home.join(shut), 0o700);
        let report = json(&output);
        for id in ["tools.private", "tools.litter"] {
            let found = finding(&report, id);
            assert_eq!(found["checked"], false, "{shut}: {found}");
            assert!(found["remedy"]["commands"][0].as_str().unwrap().starts_with("chmod u+rwx"));
        }
        let findings = report["findings"].as_array().unwrap();
        let is_told = |f: &Value| f["id"] == "disk.space" && f["severity"] == "error";
        assert!(findings.iter().any(is_told), "{shut}: {report:#}");
        let codes = [output.status.code(), list.status.code(), only.status.code()];
        assert_eq!(codes, [Some(1), Some(3), Some(3)], "{}", words(&list.stderr));
        assert!(words(&list.stderr).contains("this user may not look into"));
    }
}

#[test]
fn a_terminal_that_is_not_described_is_said() {
    let place = Place::new();
    for (term, said) in [
        ("nosuch", "TERM is nosuch, which is not described"),
        ("../../etc/passwd", "which is not described"),
        ("dumb", "TERM names no terminal"),
    ] {
        let args = ["doctor", "--json", "--only", "terminal.term"];
        let report = json(&place.run(SYSTEM, &args, &[("TERM", term)]));
        let found = finding(&report, "terminal.term");
        assert_eq!(found["severity"], "note", "{found}");
        assert!(found["what"].as_str().unwrap().contains(said), "{found}");
        assert_eq!(found["remedy"]["commands"][0], "export TERM=xterm-256color");
    }
    let known = [("TERM", "xterm-256color")];
    let report = json(&place.run(SYSTEM, &["doctor", "--json", "--only", "terminal.term"], &known));
    assert_eq!(severity(&report, "terminal.term"), "ok");
}

#[test]
fn a_lock_that_is_a_link_is_refused_and_its_target_stays() {
    let place = Place::new();
    let dir = place.path("home/data/tools/ttyd");
    std::fs::create_dir_all(&dir).unwrap();
    let precious = place.path("precious");
    std::fs::write(&precious, "text").unwrap();
    symlink(&precious, dir.join(".lock")).unwrap();
    let folder = test_tool("ttyd").parent().unwrap().to_str().unwrap().to_owned();
    let install = ["doctor", "--install", "ttyd", "--offline", &folder];
    let output = place.run(SYSTEM, &install, &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = words(&output.stderr);
    assert!(said.contains("it is a symbolic link, and none is followed"), "{said}");
    assert!(said.contains(&format!("hint: remove it: rm {}/.lock", dir.display())), "{said}");
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "text");
    assert_eq!(severity(&doctor(&place, &["--only", "tools"]), "tools.litter"), "ok");
}
