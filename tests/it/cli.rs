//! The command line from outside: help texts, exit codes, what is said when the
//! configuration is missing, broken or somebody else's, and the commands that
//! only look.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::unbroken;

/// A project below a home of its own.
struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("home")).unwrap();
        std::fs::create_dir_all(root.path().join("project/src")).unwrap();
        Self { root }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::set_permissions(path.parent().unwrap(), PermissionsExt::from_mode(0o700)).unwrap();
        path
    }

    fn with_config(text: &str) -> Self {
        let place = Self::new();
        place.write("project/.the-loop/config.yaml", text);
        place
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_the-loop"));
        command
            .args(args)
            .env_clear()
            .env("HOME", self.path("home"))
            .env("PATH", "/usr/bin:/bin")
            .env("COLUMNS", "80")
            .current_dir(self.path("project/src"));
        command
    }

    fn run(&self, args: &[&str]) -> String {
        self.shown(&self.command(args).output().unwrap())
    }

    /// Exit code and both streams, without what differs between two runs.
    fn shown(&self, output: &Output) -> String {
        let text = |bytes: &[u8]| {
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            let canonical = self.root.path().canonicalize().unwrap();
            text.replace(canonical.to_str().unwrap(), "[ROOT]")
                .replace(self.root.path().to_str().unwrap(), "[ROOT]")
        };
        format!(
            "exit {}\n--- stdout\n{}--- stderr\n{}",
            output.status.code().unwrap(),
            text(&output.stdout),
            unbroken(&text(&output.stderr))
        )
    }

    fn session(&self, number: u64, more: &str) {
        let text = format!(
            r#"{{"workItem": {{"ref": "github:octo/hello#{number}", "title": "Fix \u001b[31mit\u202e",
            "url": "https://github.com/octo/hello/issues/{number}"}}, "harness": "claude",
            "harnessSessionId": "5e55-{number}", "cwd": "/srv/hello", "status": "active",
            "createdAt": "2026-01-02T03:04:0{}Z"{more}}}"#,
            number % 10
        );
        self.write(&format!("project/.the-loop/sessions/octo+hello+{number}.json"), &text);
    }
}

fn snapshot(name: &str, text: &str) {
    let filters = vec![
        (r"\b\d+[smhd] ago\b", "[AGO] ago"),
        (r"os error \d+", "os error [NUMBER]"),
        (r"(process|tmux   )  \d+[smhd] +", "$1  [AGO]  "),
    ];
    insta::with_settings!(
        { omit_expression => true, prepend_module_to_snapshot => false, filters => filters },
        { insta::assert_snapshot!(name, text); }
    );
}

#[test]
fn every_help_is_as_written_and_fits_the_terminal() {
    let place = Place::new();
    let mut todo: Vec<Vec<String>> = vec![Vec::new()];
    let mut seen = 0;
    while let Some(path) = todo.pop() {
        let mut args: Vec<&str> = path.iter().map(String::as_str).collect();
        args.push("--help");
        let output = place.command(&args).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{args:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{args:?}: {line}");
        }
        let commands = text.split("Commands:\n").nth(1).unwrap_or_default();
        for line in commands.lines().take_while(|line| line.starts_with("  ")) {
            // A name stands two columns in, the rest of its description further.
            if let Some(name) = line.strip_prefix("  ").filter(|line| !line.starts_with(' ')) {
                let name = name.split_whitespace().next().unwrap().to_owned();
                todo.push([path.clone(), vec![name]].concat());
            }
        }
        let name = [vec!["help".to_owned()], path].concat().join("_").replace('-', "_");
        snapshot(&name, text.trim_end());
        seen += 1;
    }
    assert!(seen >= 10, "the commands were not found");
}

#[test]
fn a_wrong_command_line_is_exit_2_and_names_the_nearest() {
    let place = Place::new();
    let mut out = String::new();
    for args in [
        &[][..],
        &["sesions"],
        &["sessions"],
        &["sessions", "lst"],
        &["sessions", "list", "--jsn"],
        &["sessions", "show"],
        &["sessions", "send", "1"],
        &["sessions", "send", "1", "text", "--file", "f"],
    ] {
        let output = place.command(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty());
        // The whole help stands in its own snapshot.
        let said = String::from_utf8(output.stderr).unwrap();
        let said = said.split("\n\nUsage:").next().unwrap().trim_end();
        writeln!(out, "{args:?}\n{said}\n").unwrap();
    }
    snapshot("cli_usage", &out);
    // A value and its reason may be of any length; the lines are not.
    let long = "no/such/place".repeat(9);
    for args in [
        &["doctor", "--uninstall", "nosuch"][..],
        &["init", "--repo", &format!("octo cat/{}", "wide ".repeat(30))],
        &["init", "--github", "--yes", "--harness", "demo", "--runner", &long],
        &["gh-webhook", "start", "--runner", "neither one nor the other, but something else"],
    ] {
        let output = place.command(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        for line in said.lines().filter(|line| !line.contains(&long)) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}

#[test]
fn the_version_is_printed() {
    let said = Place::new().run(&["--version"]);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(said, format!("exit 0\n--- stdout\nthe-loop {version}\n--- stderr\n"));
}

#[test]
fn a_missing_configuration_is_said_with_one_to_begin_with() {
    let place = Place::new();
    let mut out = place.run(&["sessions", "list"]);
    out.push_str(&place.run(&["sessions", "list", "--config", "no.yaml"]));
    out.push_str(&place.run(&["sessions", "list", "--config", "."]));
    let output =
        place.command(&["sessions", "list"]).env("THE_LOOP_CONFIG", "/nowhere/x.yaml").output();
    out.push_str(&place.shown(&output.unwrap()));
    // What stands in its place, and what leads nowhere, is no reason to look on.
    let below = place.path("project/src/.the-loop/config.yaml");
    std::fs::create_dir_all(&below).unwrap();
    out.push_str(&place.run(&["sessions", "list"]));
    std::fs::remove_dir(&below).unwrap();
    std::os::unix::fs::symlink(&below, &below).unwrap();
    out.push_str(&place.run(&["sessions", "list"]));
    std::fs::remove_file(&below).unwrap();
    std::fs::create_dir_all(place.path("home/.config/the-loop/config.yaml")).unwrap();
    out.push_str(&place.run(&["sessions", "list"]));
    snapshot("cli_no_configuration", &out);
}

#[test]
fn a_broken_configuration_is_shown_with_its_spot() {
    let place = Place::with_config("routing:\n  runner: tmx\n");
    snapshot("cli_broken_configuration", &place.run(&["sessions", "list"]));
}

#[test]
fn the_nearest_configuration_upward_wins_and_an_option_beats_it() {
    let place = Place::with_config("routing: {}\n");
    place.session(1, "");
    assert!(place.run(&["sessions", "list"]).contains("octo/hello#1 "));

    // The nearer one has no sessions.
    place.write("project/src/.the-loop/config.yaml", "");
    assert!(place.run(&["sessions", "list"]).contains("there are no sessions"));

    let far = place.path("project/.the-loop/config.yaml");
    let far = far.to_str().unwrap();
    assert!(place.run(&["--config", far, "sessions", "list"]).contains("octo/hello#1 "));
    let output = place.command(&["sessions", "list"]).env("THE_LOOP_CONFIG", far).output();
    assert!(place.shown(&output.unwrap()).contains("octo/hello#1 "));
    let output = place.command(&["sessions", "list"]).env("THE_LOOP_CONFIG", "").output();
    assert!(place.shown(&output.unwrap()).contains("there are no sessions"), "empty is unset");
}

#[test]
fn the_users_own_configuration_is_the_last_resort() {
    let place = Place::new();
    place.write("own/config/config.yaml", "");
    let output = place
        .command(&["sessions", "list"])
        .env("THE_LOOP_HOME", place.path("own"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", place.shown(&output));
}

#[test]
fn a_configuration_that_others_can_write_is_refused() {
    let place = Place::with_config("");
    let file = place.path("project/.the-loop/config.yaml");
    let chmod = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    chmod(&file, 0o666);
    let mut out = place.run(&["sessions", "list"]);
    chmod(&file, 0o600);
    chmod(file.parent().unwrap(), 0o777);
    out.push_str(&place.run(&["sessions", "list"]));
    chmod(file.parent().unwrap(), 0o700);
    assert!(place.run(&["sessions", "list"]).starts_with("exit 0"));
    snapshot("cli_foreign_configuration", &out);
}

#[test]
fn sessions_are_listed_for_people_and_for_programs() {
    let place = Place::with_config("");
    let mut out = place.run(&["sessions", "list"]);
    place.session(1, "");
    place.session(
        12,
        r#", "runner": "tmux", "tmuxTarget": "loop/octo+hello+12", "status": "failed",
        "failure": "no\u001b[2J such\nmodel", "pullRequests": ["github:octo/hello#13"],
        "lastEventAt": "2026-01-03T00:00:00Z""#,
    );
    place.write("project/.the-loop/sessions/octo+hello+9.json", "{");
    for args in [&["sessions", "list"][..], &["sessions", "list", "--json"]] {
        out.push_str(&place.run(args));
    }
    assert!(!out.contains(['\u{1b}', '\u{202e}']), "{out}");
    for line in out.lines().filter(|line| !line.starts_with("warning") && !line.contains('"')) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    snapshot("cli_sessions_list", &out);
}

#[test]
fn one_session_is_shown_by_every_form_of_its_name() {
    let place = Place::with_config("");
    place.session(1, "");
    place.session(
        12,
        r#", "runner": "tmux", "tmuxTarget": "loop/octo+hello+12", "status": "failed",
        "failure": "no\u001b[2J such\nmodel", "pullRequests": ["github:octo/hello#13"],
        "lastEventAt": "2026-01-03T00:00:00Z""#,
    );
    place.write("project/.the-loop/sessions/octo+hello+9.json", "{");
    let shown = place.run(&["sessions", "show", "12"]);
    for form in [
        "#12",
        "Octo/Hello#12",
        "octo+hello+12",
        "https://github.com/octo/hello/issues/12",
        "loop/octo+hello+12",
        "13",
    ] {
        assert_eq!(place.run(&["sessions", "show", form]), shown, "{form}");
    }
    let mut out = shown;
    for args in [&["12", "--json"][..], &["1"], &["2"], &["octo/helo#1"], &["no item"], &["9"]] {
        out.push_str(&place.run(&[&["sessions", "show"], args].concat()));
    }
    assert!(!out.contains(['\u{1b}', '\u{202e}']), "{out}");
    snapshot("cli_sessions_show", &out);
}

#[test]
fn verbose_shows_the_chain_of_causes() {
    let place = Place::with_config("");
    let file = place.path("project/.the-loop/config.yaml");
    std::fs::remove_file(&file).unwrap();
    // A name longer than any file system takes cannot be looked for.
    let long = "x".repeat(300);
    let brief = place.run(&["sessions", "list", "--config", &long]);
    let chain = place.run(&["-v", "sessions", "list", "--config", &long]);
    assert!(brief.contains("`: ") && !brief.contains("caused by"), "{brief}");
    assert!(chain.contains("\n  caused by: "), "{chain}");
}

#[test]
fn colour_is_only_for_a_terminal() {
    let place = Place::new();
    for args in [&["--help"][..], &["nonsense"]] {
        let output = place.command(args).env("TERM", "xterm-256color").output().unwrap();
        assert!(![output.stdout, output.stderr].concat().contains(&0x1b), "{args:?}");
        let output =
            place.command(args).env("NO_COLOR", "1").env("CLICOLOR_FORCE", "1").output().unwrap();
        assert!(![output.stdout, output.stderr].concat().contains(&0x1b), "NO_COLOR {args:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Place::with_config("");
    place.session(1, "");
    for args in [&["--help"][..], &["sessions", "list", "--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = place.command(args).stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", place.shown(&output));
        assert_eq!(output.stderr, b"");
    }
}

#[test]
fn a_failure_of_any_command_fits_a_terminal() {
    let place = Place::with_config("routing:\n  authorizedUsers: [alice]\n");
    let deep = "a/long/way/to/nowhere/at/all";
    for args in [
        &["sessions", "show", "o/r#15"][..],
        &["sessions", "register", "o/r#15", "--cwd", deep],
        &["sessions", "register", "o/r#15", "--session-id", "not-the-id-of-any-conversation"],
        &["sessions", "register", "https://example.net/no/issue/at/all/of/any/repository"],
        &["sessions", "send", "15", "--file", deep],
        &["sessions", "link-pr", "o/r#15", "o/r#16"],
        &["--config", deep, "config", "check"],
        &["--config", deep, "sessions", "list"],
        &["gh-webhook", "start"],
        &["gh-webhook", "stop"],
        &["gh-webhook", "replay", "72d3162e-cc78-11e3-81ab-4c9367dc0958"],
        &["events", "72d3162e-cc78-11e3-81ab-4c9367dc0958"],
        &["web", "o/r#15", "--open"],
        &["service", "install"],
        &["init", "--harness", "an-agent-that-nobody-has-declared-anywhere", "--yes"],
    ] {
        for more in [&[][..], &["--verbose"]] {
            let output = place.command(&[args, more].concat()).output().unwrap();
            let err = String::from_utf8_lossy(&output.stderr);
            for line in err.lines() {
                // What is not broken: a path, or a command that is pasted.
                let is_one = !line.trim().contains(' ')
                    || line.trim().starts_with('`')
                    || line.contains(" && ")
                    || line.contains("$(");
                assert!(line.chars().count() <= 80 || is_one, "{args:?}: {line}");
            }
        }
    }
}

/// How often a program reads, and how many bytes, until it ends: those whom it waited
/// for included.
#[cfg(target_os = "linux")]
fn reads_of(mut command: Command) -> (u64, u64) {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pid = Pid::from_child(&child);
    // It stays to be asked until it is waited for.
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    let text = std::fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap();
    assert!(child.wait().unwrap().success(), "{command:?}");
    let number = |key: &str| -> u64 {
        let value = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        value.trim().parse().unwrap()
    };
    (number("syscr:"), number("rchar:"))
}

#[cfg(target_os = "linux")]
#[test]
fn a_look_reads_each_session_once_and_the_version_nothing() {
    const SESSIONS: u64 = 1000;
    let place = Place::with_config("routing:\n  authorizedUsers: [alice]\n");
    let (few, bytes) = reads_of(place.command(&["--version"]));
    assert!(few <= 40 && bytes <= 64 << 10, "--version reads {few} times, {bytes} bytes");
    let (none, empty) = reads_of(place.command(&["sessions", "list"]));
    assert!(none <= 120 && empty <= 256 << 10, "an empty list: {none} times, {empty} bytes");
    let mut size = 0;
    for number in 1..=SESSIONS {
        let entry = serde_json::json!({
            "workItem": { "ref": format!("github:o/r#{number}"), "title": "x".repeat(100) },
            "harness": "claude", "cwd": "/tmp", "status": "active", "runner": "process",
            "harnessSessionId": format!("00000000-0000-4000-8000-{number:012}"),
            "createdAt": "2026-01-01T00:00:00Z",
        });
        let entry = entry.to_string();
        size += entry.len() as u64;
        place.write(&format!("project/.the-loop/sessions/o+r+{number}.json"), &entry);
    }
    let (reads, bytes) = reads_of(place.command(&["sessions", "list"]));
    // An entry takes one read, and one that finds its end.
    assert!(reads - none <= 2 * SESSIONS + 50, "{reads} reads, {none} without sessions");
    assert!(bytes - empty <= size + size / 10, "{bytes} bytes read of {size}");
}
