//! What the doctor does about places that somebody else can write to, and about
//! places in which there is no room.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use the_loop::doctor::{github_cli, named};

use crate::doctor::{Place, SYSTEM, finding, json, test_tool, text, words};
use crate::doctor_host::{DEMO, chmod, configure, doctor, mode, severity};
use crate::install_places::may_mount;

/// A place with the real ttyd installed by the-loop.
fn with_ttyd() -> Place {
    let place = Place::new();
    let output = install(&place);
    assert!(output.status.success(), "{}", words(&output.stderr));
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
        let private = finding(&report, "tools.private");
        assert_eq!(private["severity"], "error", "{open}: {private}");
        assert_eq!(private["remedy"]["commands"], serde_json::json!([closed]), "{open}");
        // The list says the same, and nothing that would fail.
        let listed = place.run("/usr/bin:/bin", &["doctor", "--list"], &[]);
        let listed = words(&listed.stderr);
        assert!(listed.contains(&format!("hint: {closed}")), "{open}: {listed}");
        assert!(!listed.contains("--install"), "{open}: {listed}");
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
    let said = words(&output.stderr);
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

/// A directory whose name could act on a terminal, or be broken.
const AWKWARD: &str = "a home with spaces \u{1b}[31m and\nmore \u{202e}of them";

#[test]
fn an_awkward_home_acts_on_no_terminal_and_stays_in_one_piece() {
    let place = Place::new();
    let home = place.path(AWKWARD);
    std::fs::create_dir(&home).unwrap();
    let folder = test_tool("ttyd").parent().unwrap().to_str().unwrap().to_owned();
    let shown = "a home with spaces \\x1b[31m and\\nmore \\u{202e}of them";
    for (args, is_shown) in [
        (&["doctor", "-v", "--for", "web"][..], false),
        (&["doctor", "--report"], false),
        (&["doctor", "--install", "ttyd", "--offline", &folder], true),
        (&["doctor", "--install", "ttyd", "--offline", &folder], true),
        (&["doctor", "-v", "--for", "web"], true),
        (&["doctor", "--list"], false),
        (&["doctor", "--uninstall", "ttyd"], true),
        (&["doctor", "--install", "ttyd", "--offline", home.to_str().unwrap()], true),
        (&["doctor", "--install", "ttyd", "--offline", "/nowhere"], false),
        (&["doctor", "--fix", "--dry-run", "--for", "web"], false),
    ] {
        let mut command = place.command(SYSTEM, args);
        let output = command.env("THE_LOOP_HOME", &home).env("HOME", &home).output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(!said.contains(['\u{1b}', '\u{202e}', '\r']), "{args:?}: {said:?}");
        assert!(!said.lines().any(|line| line.starts_with("more ")), "{args:?}: {said}");
        assert_eq!(said.contains(shown), is_shown, "{args:?}: {said}");
    }
}

/// Whether a line fits, or is a path, a URL or a command that is never broken.
fn fits(line: &str) -> bool {
    let inner = line.trim_start().trim_start_matches("- ");
    let is_command = ["run: ", "or:  "].iter().any(|label| inner.starts_with(label))
        || (line.starts_with("  ")
            && ["mv ", "rm ", "chmod "].iter().any(|c| inner.starts_with(c)));
    line.chars().count() <= 80 || is_command || !inner.contains(' ') || inner.starts_with('`')
}

#[test]
fn what_an_install_and_a_report_say_fits_eighty_columns() {
    let place = Place::new();
    let long = place.path(&format!("{}/deep", "long-name-".repeat(8)));
    std::fs::create_dir_all(&long).unwrap();
    let folder = test_tool("ttyd").parent().unwrap().to_str().unwrap().to_owned();
    std::fs::create_dir_all(place.path("wrong")).unwrap();
    for pin in &the_loop::doctor::ToolId::Ttyd.data().pins {
        std::fs::write(place.path("wrong").join(pin.file_name()), "no").unwrap();
    }
    let wrong = place.path("wrong").display().to_string();
    let install = |offline: &'static str| vec!["doctor", "--install", "ttyd", "--offline", offline];
    let cases = [
        (vec!["doctor", "--install", "ttyd", "--offline", &folder], ("X", "x")),
        (vec!["doctor", "--install", "ttyd", "--offline", &folder], ("X", "x")),
        (vec!["doctor", "--list"], ("X", "x")),
        (vec!["doctor", "--uninstall", "ttyd"], ("X", "x")),
        (vec!["doctor", "--install", "ttyd", "--offline", &wrong], ("X", "x")),
        (install("/nowhere"), ("X", "x")),
        (install("/tmp"), ("THE_LOOP_HOME", "/dev/null")),
        (vec!["doctor", "--install", "ttyd@9"], ("X", "x")),
        (vec!["doctor", "--install", "ttyd"], ("THE_LOOP_MIRROR", "http://a.b")),
        (vec!["doctor", "--install", "ttyd"], ("THE_LOOP_MIRROR", "junk")),
        (vec!["doctor", "--install", "ttyd"], ("HTTPS_PROXY", "socks5://127.0.0.1:1")),
        (vec!["doctor", "--install", "ttyd"], ("SSL_CERT_FILE", "/nowhere/authorities.pem")),
        (vec!["doctor", "--install", "ttyd"], ("HTTPS_PROXY", "http://127.0.0.1:1")),
        (vec!["doctor", "--report"], ("X", "x")),
        (vec!["doctor", "--fix", "--for", "web", "--offline", "/nowhere"], ("X", "x")),
    ];
    for (args, (name, value)) in &cases {
        let mut command = place.command(SYSTEM, args);
        command.env("THE_LOOP_HOME", &long).env("THE_LOOP_DOWNLOAD_TIMEOUT", "1");
        let output = command.env(name, value).output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        for line in said.lines() {
            assert!(fits(line), "{args:?}: {line}\nin\n{said}");
        }
    }
}

#[test]
fn a_path_with_spaces_is_not_broken() {
    let place = Place::new();
    let bin = place.path("programs of somebody with a long name and many words in it");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("tmux"), "#!/bin/sh\necho tmux 2.9\n").unwrap();
    chmod(&bin.join("tmux"), 0o755);
    std::os::unix::fs::symlink("/usr/bin/git", bin.join("git")).unwrap();
    let said = text(&place.run(bin.to_str().unwrap(), &["doctor", "-v"], &[]).stdout);
    for name in ["tmux", "git"] {
        let whole = format!("`{}`", bin.join(name).display());
        assert!(said.lines().any(|line| line.contains(&whole)), "{said}");
    }
}

#[test]
fn a_list_marks_what_is_not_run_and_says_what_helps() {
    let place = with_ttyd();
    let list = |place: &Place| {
        let shown = place.run(SYSTEM, &["doctor", "--list"], &[]);
        let told = place.run(SYSTEM, &["doctor", "--list", "--json"], &[]);
        assert!(shown.status.success() && told.status.success());
        let told = crate::doctor::result(&told);
        (text(&shown.stdout), words(&shown.stderr), told["installed"][0]["fault"].clone())
    };
    let (shown, said, fault) = list(&place);
    assert!(shown.contains("current\n") && said.is_empty() && fault.is_null(), "{shown}{said}");
    let binary = place.path("home/data/tools/ttyd/1.7.7/ttyd");
    let bytes = std::fs::read(&binary).unwrap();
    chmod(&binary, 0o777);
    let open = list(&place);
    std::fs::write(&binary, [&bytes[..], b"x"].concat()).unwrap();
    chmod(&binary, 0o755);
    let damaged = list(&place);
    let closed = format!("chmod go-w {}", binary.display());
    let again = "the-loop doctor --install ttyd@1.7.7".to_owned();
    for ((shown, said, fault), why, hint) in
        [(open, "is not to be trusted: ", closed), (damaged, "is damaged: its SHA-256 is ", again)]
    {
        assert!(shown.contains("current, not usable"), "{shown}");
        assert!(said.contains(&format!("ttyd 1.7.7 {why}")), "{said}");
        assert!(said.contains(&format!("hint: {hint}\n")), "{said}");
        assert!(fault.as_str().unwrap().starts_with(why), "{fault}");
    }
    assert!(install(&place).status.success());
    assert!(list(&place).2.is_null());
}

#[test]
fn claude_is_not_to_be_run_where_it_is_not_there() {
    let place = Place::new();
    configure(&place, "routing:\n  runner: tmux\n  defaultHarness: claude\n");
    let ask = |path: &str| {
        let args = ["doctor", "--json", "--only", "claude.onboarding,claude.trust"];
        json(&place.run(path, &args, &[]))
    };
    let file = place.path("home/.claude.json");
    for text in ["{}", "broken"] {
        std::fs::write(&file, text).unwrap();
        let report = ask("BIN");
        for id in ["claude.onboarding", "claude.trust"] {
            let remedy = &finding(&report, id)["remedy"];
            let told = remedy.to_string();
            assert!(!told.contains("\"claude\"") && !told.contains("start `claude`"), "{told}");
            assert!(remedy.is_object(), "{told}");
        }
    }
    place.put("claude", 0o755, b"#!/bin/sh\necho 2.1.3\n");
    std::fs::write(&file, "{}").unwrap();
    let report = ask("BIN");
    assert_eq!(finding(&report, "claude.onboarding")["remedy"]["commands"][0], "claude");
}

#[test]
fn a_fix_ends_with_the_exit_code_of_a_second_look() {
    let place = Place::new();
    configure(&place, "routing:\n  runner: process\n  defaultHarness: claude\n");
    place.put("claude", 0o755, b"#!/bin/sh\necho 2.1.3\n");
    let only = ["doctor", "--json", "--only", "claude"];
    let file = place.path("home/.claude.json");
    for text in ["{}", "[]", "{broken", "", "\u{feff}{}", r#"{"projects":3}"#] {
        std::fs::write(&file, text).unwrap();
        let fixed = place.run("BIN", &[&only[..], &["--fix"]].concat(), &[]);
        let again = place.run("BIN", &only, &[]);
        assert_eq!(fixed.status.code(), again.status.code(), "{text}: {}", words(&fixed.stderr));
        let (fixed, again) = (json(&fixed), json(&again));
        assert_eq!(fixed, again, "{text}");
        if text != "{}" && !text.contains("projects") {
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "it is left alone");
        }
    }
}

#[test]
fn a_repair_and_a_command_say_what_helps() {
    let place = Place::new();
    // A folder without the file.
    let args = ["doctor", "--for", "web", "--only", "ttyd", "--fix", "--offline", "/usr/share"];
    let said = words(&place.run("/usr/bin:/bin", &args, &[]).stderr);
    assert!(said.contains("not fixed: could not install ttyd: "), "{said}");
    assert!(said.contains("hint: get it from https://github.com/"), "{said}");
    // The configuration that was named is the one that the doctor is to look at.
    let config = place.path("home/other.yaml");
    let text =
        "routing:\n  runner: tmux\n  defaultHarness: demo\ntools:\n  tmux:\n    path: /nowhere/x\n";
    std::fs::write(&config, text).unwrap();
    let args = ["sessions", "list", "--config", "other.yaml"];
    let output = place.run(SYSTEM, &args, &[]);
    let said = words(&output.stderr);
    if let Some(hint) = said.split("hint: `").nth(1) {
        let command = hint.split('`').next().unwrap();
        assert!(command.contains(&format!("--config {}", config.display())), "{said}");
        let args: Vec<_> = command.split(' ').skip(1).collect();
        let report = place.run(SYSTEM, &args, &[]);
        assert!(words(&report.stdout).contains("/nowhere/x"), "{}", words(&report.stdout));
    }
}

#[test]
fn a_receipt_and_a_lock_that_others_can_change_are_told_and_closed() {
    let place = Place::new();
    assert!(install(&place).status.success());
    let tool = place.path("home/data/tools/ttyd");
    for name in ["1.7.7/receipt.json", ".lock"] {
        let file = tool.join(name);
        chmod(&file, 0o666);
        let report = doctor(&place, &["--only", "tools.private"]);
        assert_eq!(severity(&report, "tools.private"), "error", "{name}");
        let said = finding(&report, "tools.private").to_string();
        assert!(said.contains(name), "{said}");
        let report = doctor(&place, &["--only", "tools.private", "--fix"]);
        assert_eq!(severity(&report, "tools.private"), "ok", "{name}");
        assert_eq!(mode(&file) & 0o022, 0, "{name}");
    }
}

#[test]
fn the_locale_is_put_right_by_the_variable_that_rules() {
    let place = Place::new();
    for (vars, remedy) in [
        (&[("LC_ALL", "C"), ("LANG", "C.UTF-8")][..], "export LC_ALL=C.UTF-8"),
        (&[("LC_CTYPE", "POSIX"), ("LANG", "C.UTF-8")], "export LC_CTYPE=C.UTF-8"),
        (&[("LANG", "C")], "export LANG=C.UTF-8"),
    ] {
        let mut command = place.command(SYSTEM, &["doctor", "--json", "--only", "locale"]);
        command.env_remove("LC_ALL").envs(vars.iter().copied());
        let report = json(&command.output().unwrap());
        let found = finding(&report, "locale.utf8");
        assert_eq!(found["remedy"]["commands"][0], remedy, "{found}");
    }
}
