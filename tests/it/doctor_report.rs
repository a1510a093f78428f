//! What a doctor tells others, and what it advises: nobody's secrets, and commands
//! that work from where they are given.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::doctor::{Place, SYSTEM, finding, json, test_tool, text, words};
use crate::doctor_host::{DEMO, chmod, configure, doctor};
use crate::install_places::may_mount;

const LEAKS: &[&str] = &[
    "PASSWD9",
    "QUERYTOK",
    "PW77",
    "TOK55",
    "ghp_",
    "github_pat",
    "sk-ant",
    "Bear3r",
    "bob9",
    "example.org",
];

#[test]
fn a_report_hides_what_an_install_command_and_a_broken_tool_say() {
    let place = Place::new();
    configure(
        &place,
        "routing:\n  runner: process\n  defaultHarness: mine\nharnesses:\n  mine:\n    \
         program: no-such-agent-9\n    install: \"curl \
         https://user:PASSWD9@acme.internal/get?token=QUERYTOK | sh\"\n    \
         oneShot: ['{id}']\n    resumeOneShot: ['{id}']\n",
    );
    for said in [
        "https://bob9:PW77@h/x?token=TOK55 refused",
        "with ghp_abcdefgh12345678 and github_pat_11ABCDE_xyz",
        "key sk-ant-api03-abcdefgh",
        "Authorization: Bearer Bear3r.x.y",
        "ask bob9@example.org",
    ] {
        place.put("git", 0o755, format!("#!/bin/sh\necho '{said}' >&2\nexit 3\n").as_bytes());
        let output = place.run("BIN", &["doctor", "--report"], &[]);
        let report = text(&output.stdout);
        assert!(
            report.contains("fails") && report.contains("acme.internal"),
            "{report}{}",
            text(&output.stderr)
        );
        for leak in LEAKS {
            assert!(!report.contains(leak), "{leak}: {report}");
        }
    }
}

#[test]
fn a_report_keeps_its_own_words_whatever_somebody_is_called() {
    let place = Place::new();
    configure(
        &place,
        &format!(
            "{DEMO}  authorizedUsers: [claude, the-loop, runs]\n  repositories: [acme9/config]\n"
        ),
    );
    let plain = text(&place.run(SYSTEM, &["doctor", "--report"], &[]).stdout);
    assert!(plain.contains("the-loop doctor") && !plain.contains("[user] doctor"), "{plain}");
    for user in ["tmux", "nobody", "config"] {
        let said = text(&place.run(SYSTEM, &["doctor", "--report"], &[("USER", user)]).stdout);
        assert_eq!(said.lines().count(), plain.lines().count(), "{said}");
        assert!(!said.contains("bin/[user]") && !said.contains("[user] else"), "{said}");
    }
}

#[test]
fn a_report_on_a_fault_says_its_kind() {
    let place = Place::new();
    let dir = place.path(&format!("home/{}", "deep/".repeat(20)));
    std::fs::create_dir_all(dir.join(".the-loop")).unwrap();
    let config = dir.join(".the-loop/config.yaml");
    std::fs::write(&config, "routing:\n  runner: mallory7\n").unwrap();
    let args = ["doctor", "--report", "--only", "config", "--config", config.to_str().unwrap()];
    let said = words(&place.run(SYSTEM, &args, &[]).stdout);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("config.yaml:2:11: unknown value `…` for `routing.runner`"), "{said}");
    assert!(!said.contains("mallory7"), "{said}");
}

#[test]
fn the_caret_points_at_the_fault_of_a_long_line_and_everything_fits() {
    let place = Place::new();
    let (latin, wide, marked) = ("a, ".repeat(60), "字, ".repeat(60), "e\u{301}, ".repeat(60));
    for (line, fault) in [
        (format!("maxSessions: {}", "x".repeat(150)), "xxx"),
        (format!("{}: 3", "k".repeat(150)), "kkk"),
        (format!("autoExecuteLabel: \"{latin}\", maxSesions: 3"), "maxSesions"),
        (format!("autoExecuteLabel: \"{wide}\", maxSesions: 3"), "maxSesions"),
        (format!("autoExecuteLabel: \"{marked}\", maxSesions: 3"), "maxSesions"),
        (format!("autoExecuteLabel: \"{latin}\", 字字: 3, spawnWorkdir: \"{marked}\""), "字字"),
    ] {
        let filler = "\n".repeat(1000);
        configure(&place, &format!("{filler}routing: {{{line}}}\n"));
        for args in [&["doctor", "--only", "config"][..], &["config", "check"]] {
            let output = place.run(SYSTEM, args, &[]);
            let said = text(&[output.stdout, output.stderr].concat());
            let lines: Vec<&str> = said.lines().collect();
            let at = lines.iter().position(|line| line.trim_end().ends_with('^')).unwrap();
            let shown = &lines[at - 2..=at];
            assert!(shown.iter().all(|line| line.width() <= 80), "{said}");
            let caret = lines[at].find('^').unwrap();
            let mut before = 0;
            let behind = lines[at - 1].char_indices().find(|(_, c)| {
                let is_there = before >= caret;
                before += c.width().unwrap_or(0);
                is_there
            });
            let behind = &lines[at - 1][behind.unwrap().0..];
            assert!(behind.starts_with(fault), "{fault}: {said}");
            let under = &behind[..behind.find([':', '}', '…']).unwrap_or(behind.len())];
            assert_eq!(lines[at].matches('^').count(), under.width(), "{said}");
        }
    }
}

#[test]
fn a_remedy_names_the_configuration_that_was_given() {
    let place = Place::new();
    let file = configure(&place, DEMO);
    let args = ["doctor", "--json", "--config", ".the-loop/config.yaml"];
    let report = json(&place.run(SYSTEM, &args, &[("PATH", "/nowhere")]));
    let mut seen = 0;
    for finding in report["findings"].as_array().unwrap() {
        for command in finding["remedy"]["commands"].as_array().into_iter().flatten() {
            let command = command.as_str().unwrap();
            if command.starts_with("the-loop ") {
                let option = format!(" --config {}", file.display());
                assert!(command.contains(&option), "{command}");
                seen += 1;
            }
        }
    }
    assert!(seen > 0, "{report}");
}

#[test]
fn a_refused_configuration_comes_with_a_command_of_its_own() {
    let place = Place::new();
    let file = configure(&place, DEMO);
    chmod(&file, 0o646);
    let report = doctor(&place, &["--only", "config"]);
    let remedy = &finding(&report, "config.valid")["remedy"];
    assert_eq!(remedy["commands"][0], format!("chmod go-w '{}'", file.display()));
    assert!(!remedy["note"].as_str().unwrap().contains("chmod"), "{remedy}");
}

#[test]
fn a_dry_run_names_the_build_that_a_fix_would_take() {
    let place = Place::new();
    let folder = test_tool("tmux-3.6a").parent().unwrap().to_str().unwrap().to_owned();
    let dry = |folder: &str| {
        let args = ["doctor", "--for", "tmux", "--only", "tmux", "--fix", "--dry-run", "--offline"];
        words(&place.run("BIN", &[&args[..], &[folder]].concat(), &[]).stderr)
    };
    let said = dry(&folder);
    assert!(said.contains("would install tmux 3.6a"), "{said}");
    let said = dry("/nope");
    assert!(said.contains("could not install tmux 3.7c") && said.contains("/nope"), "{said}");
    assert!(!said.contains("would"), "{said}");
}

#[test]
fn a_compiler_of_terminals_that_fails_is_not_advised_again() {
    let place = Place::new();
    place.put("tic", 0o755, b"#!/bin/sh\nexit 4\n");
    let empty = place.path("tmp");
    let more = [("TERMINFO", empty.to_str().unwrap()), ("TERM", "xterm-256color")];
    let args = ["doctor", "--for", "tmux", "--only", "terminal.descriptions", "--fix", "--json"];
    let output = place.run("BIN", &args, &more);
    let report = json(&output);
    let found = finding(&report, "terminal.descriptions");
    if found["severity"] == "ok" {
        eprintln!("skipped: this host describes its terminals");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{found}");
    assert!(found["remedy"]["commands"].as_array().unwrap().is_empty(), "{found}");
    assert!(found["remedy"]["note"].as_str().unwrap().contains("in vain"), "{found}");
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn nothing_is_removed_where_nobody_can_tell_who_uses_it() {
    if !may_mount() {
        return;
    }
    let place = Place::new();
    let folder = test_tool("ttyd").parent().unwrap().to_str().unwrap().to_owned();
    let install = ["doctor", "--install", "ttyd", "--offline", &folder];
    assert!(place.run(SYSTEM, &install, &[]).status.success());
    let inner = place.command(SYSTEM, &["doctor", "--uninstall", "ttyd"]);
    let output = std::process::Command::new("unshare")
        .args(["-rm", "sh", "-c", "mount -t tmpfs x /proc && exec \"$0\" \"$@\""])
        .arg(inner.get_program())
        .args(inner.get_args())
        .env_clear()
        .envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap();
    let said = words(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("/proc is not there"), "{said}");
    assert!(place.path("home/data/tools/ttyd/1.7.7/ttyd").is_file());
}

#[test]
fn what_is_no_folder_or_no_file_is_told_before_init_fails() {
    let place = Place::new();
    let home = place.path("home");
    std::fs::write(home.join(".the-loop"), "").unwrap();
    let report = doctor(&place, &["--only", "config"]);
    let command = finding(&report, "config.valid")["remedy"]["commands"][0].to_string();
    assert!(command.contains("mv ") && command.contains("&& the-loop init"), "{command}");
    std::fs::remove_file(home.join(".the-loop")).unwrap();
    std::fs::create_dir_all(home.join(".the-loop/config.yaml")).unwrap();
    let output = place.run(SYSTEM, &["init", "--yes"], &[]);
    let said = words(&output.stderr);
    assert!(!output.status.success() && said.contains("is a folder"), "{said}");
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn a_folder_in_the_place_of_the_link_is_not_thrown_away() {
    let place = Place::new();
    let theirs = place.path("home/data/tools/ttyd/current/theirs");
    std::fs::create_dir_all(&theirs).unwrap();
    let folder = test_tool("ttyd").parent().unwrap().to_str().unwrap().to_owned();
    let install = ["doctor", "--install", "ttyd", "--offline", &folder];
    let output = place.run(SYSTEM, &install, &[]);
    let said = words(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("move it away: mv ") && theirs.is_dir(), "{said}");
    std::fs::remove_dir(&theirs).unwrap();
    assert!(place.run(SYSTEM, &install, &[]).status.success());
}

#[test]
fn a_report_for_a_bug_holds_no_name_and_no_secret() {
    let place = Place::new();
    // A path that names the repository, and a project that does.
    let secret = "webhooks:\n  ghWebhook:\n    secretFile: /x/octo7+hidden/y\n";
    let project = place.path("home/work9");
    std::fs::create_dir_all(project.join(".the-loop")).unwrap();
    let config = project.join(".the-loop/config.yaml");
    std::fs::write(&config, secret).unwrap();
    let args = ["doctor", "--report", "--config", config.to_str().unwrap()];
    let said = text(&place.run(SYSTEM, &args, &[]).stdout);
    assert!(said.contains("the-loop") && !said.contains("work9"), "{said}");
    configure(
        &place,
        &format!(
            "{secret}routing:\n  authorizedUsers: [mallory7]\n  repositories: [octo7/hidden]\n"
        ),
    );
    let more = [("USER", "alice77"), ("THE_LOOP_GH_WEBHOOK_SECRET", "s3cret-s3cret")];
    let output = place.run(SYSTEM, &["doctor", "--report"], &more);
    let said = text(&output.stdout);
    let home = place.path("home");
    for hidden in
        ["alice77", "s3cret-s3cret", "mallory7", "octo7", "hidden", home.to_str().unwrap()]
    {
        assert!(!said.contains(hidden), "{hidden}: {said}");
    }
    assert!(said.contains("1 user, 1 repository") && said.contains("tmux"), "{said}");
}

#[test]
fn a_report_on_a_broken_configuration_tells_the_place_and_none_of_its_words() {
    let place = Place::new();
    let project = place.path("home/work9");
    std::fs::create_dir_all(project.join(".the-loop")).unwrap();
    let config = project.join(".the-loop/config.yaml");
    let args = ["doctor", "--report", "--config", config.to_str().unwrap()];
    for (text_of, place_of) in [
        ("routing:\n  authorizedUsers: [mallory7, {octo7: hidden}]\n", "config.yaml:2:31"),
        ("routing:\n  runner: mallory7\n", "config.yaml:2:11"),
        ("routing:\n  mallory7: hidden\n", "config.yaml:2:3"),
        ("routing:\n  repositories: [octo7/hidden\n", "config.yaml:"),
        ("routing: {repositories: ['octo7/hidden', 'mallory7']}\n", "config.yaml:1:"),
    ] {
        std::fs::write(&config, text_of).unwrap();
        let more = [("THE_LOOP_GH_WEBHOOK_SECRET", "s3cret-s3cret")];
        let output = place.run(SYSTEM, &args, &more);
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.replace("\n            ", "").contains(place_of), "{said}");
        for hidden in ["mallory7", "octo7", "hidden", "work9", "s3cret"] {
            assert!(!said.contains(hidden), "{hidden}: {said}");
        }
    }
}
