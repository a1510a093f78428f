//! `init`: in every kind of place, with and without a terminal.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use the_loop::core::config::{Config, HarnessName, RunnerKind, SpawnPolicy, parse};

use crate::support::{TmuxServer, eventually, short_dir, unbroken};

/// A folder below a home of its own.
pub struct Place {
    pub home: tempfile::TempDir,
    pub dir: PathBuf,
}

impl Place {
    pub fn new() -> Self {
        let home = short_dir();
        let dir = home.path().join("p");
        std::fs::create_dir(&dir).unwrap();
        let place = Self { home, dir };
        // Before any other: the host's own one would ask GitHub.
        place.gh_says("exit 4");
        place
    }

    /// Puts a GitHub CLI in place that does this.
    pub fn gh_says(&self, script: &str) {
        self.says("gh", script);
    }

    /// Puts a program in place that does this.
    pub fn says(&self, name: &str, script: &str) {
        let bin = self.home.path().join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        let text = format!("#!/bin/sh\n{script}\n");
        // Exchanged, not overwritten: a program that is written to cannot be run.
        std::fs::write(bin.join("new"), text).unwrap();
        std::fs::set_permissions(bin.join("new"), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::rename(bin.join("new"), bin.join(name)).unwrap();
    }

    /// A repository with these remotes.
    pub fn repository(remotes: &[(&str, &str)]) -> Self {
        let place = Self::new();
        place.git(&["init", "-q"]);
        for (name, url) in remotes {
            place.git(&["remote", "add", name, url]);
        }
        place
    }

    pub fn git(&self, args: &[&str]) {
        let status = Command::new("git")
            .args(args)
            .current_dir(&self.dir)
            .env("HOME", self.home.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// What the GitHub CLI would have written after a log-in.
    pub fn gh(&self, hosts: &str) {
        let dir = self.home.path().join(".config/gh");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("hosts.yml"), hosts).unwrap();
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_the-loop"));
        command
            .args(args)
            .env_clear()
            .env("HOME", self.home.path())
            .env("PATH", format!("{}/bin:/usr/local/bin:/usr/bin:/bin", self.home.path().display()))
            .env("COLUMNS", "80")
            .current_dir(&self.dir)
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> (i32, String, String) {
        let output = self.command(args).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), unbroken(&text(output.stderr)))
    }

    pub fn file(&self) -> PathBuf {
        self.dir.join(".the-loop/config.yaml")
    }

    pub fn config(&self) -> Config {
        parse(&std::fs::read_to_string(self.file()).unwrap(), Path::new("x")).unwrap()
    }
}

pub const DEMO: &[&str] = &["init", "--yes", "--harness", "demo"];

#[test]
fn in_an_empty_folder_it_writes_what_is_given_and_invents_nothing() {
    let place = Place::new();
    let (code, out, err) = place.run(DEMO);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("warning: no login is listed"), "{err}");
    assert!(err.contains("`the-loop init --force --user LOGIN` lists one"), "{err}");
    assert_eq!(
        out,
        "the-loop init --github --url https://YOUR-ADDRESS\n\
         the-loop gh-webhook start\n\
         gh issue edit NUMBER --repo OWNER/NAME --add-label 'the-loop: auto-execute'\n"
    );
    assert!(err.contains("no repository is listed, so every one is listened to"), "{err}");
    assert!(err.contains("--repo HOST/OWNER/NAME"), "{err}");
    assert!(err.lines().all(|line| line.chars().count() <= 80), "{err}");
    let config = place.config();
    assert_eq!(config.routing.spawn_on_unmatched, SpawnPolicy::Labeled);
    assert_eq!(config.routing.default_harness, HarnessName::Demo);
    assert_eq!((config.routing.repositories, config.routing.authorized_users), (vec![], vec![]));
    let text = std::fs::read_to_string(place.file()).unwrap();
    assert!(text.starts_with("# yaml-language-server: $schema=https://"), "{text}");
    let (code, _, err) = place.run(&["config", "check"]);
    assert_eq!(code, 0, "{err}");
    assert!(!place.dir.join(".gitignore").exists(), "there is no repository");
}

#[test]
fn no_link_is_replaced_and_none_leads_out_of_the_project() {
    use std::os::unix::fs::symlink;
    let place = Place::repository(&[]);
    let outside = place.home.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    // The folder.
    for target in [outside.clone(), place.home.path().join("nowhere")] {
        symlink(&target, place.dir.join(".the-loop")).unwrap();
        for args in [DEMO, &[DEMO, &["--force"]].concat()] {
            let (code, out, err) = place.run(args);
            assert_eq!((code, out.as_str()), (1, ""));
            assert!(err.contains("is a link that leads out of the project"), "{err}");
            assert!(err.contains("hint: remove the link"), "{err}");
        }
        std::fs::remove_file(place.dir.join(".the-loop")).unwrap();
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    // One within the project is nobody's harm.
    std::fs::create_dir(place.dir.join("conf")).unwrap();
    symlink("conf", place.dir.join(".the-loop")).unwrap();
    assert_eq!(place.run(DEMO).0, 0);
    std::fs::remove_file(place.dir.join(".the-loop")).unwrap();
    // The file: dangling, and one that leads to another.
    std::fs::create_dir(place.dir.join(".the-loop")).unwrap();
    let theirs = outside.join("config.yaml");
    symlink(&theirs, place.file()).unwrap();
    for before in [None, Some("# theirs\n")] {
        if let Some(text) = before {
            std::fs::write(&theirs, text).unwrap();
        }
        let (code, _, err) = place.run(&[DEMO, &["--force"]].concat());
        assert_eq!(code, 1, "{err}");
        assert!(err.contains("is a link, which is not written over"), "{err}");
        assert!(place.file().is_symlink());
        assert_eq!(std::fs::read_to_string(&theirs).ok().as_deref(), before);
    }
}

#[test]
fn what_is_given_in_vain_or_cannot_be_is_said() {
    let place = Place::new();
    let (code, _, err) = place.run(&[DEMO, &["--url", "https://a.example"]].concat());
    assert!(code == 2 && err.contains("--github"), "{err}");
    let (code, _, err) = place.run(&[DEMO, &["--label", "a\nb"]].concat());
    assert!(code == 2 && err.contains("a label is one line of text"), "{err}");
    assert_eq!(std::fs::read_dir(&place.dir).unwrap().count(), 0);
}

#[test]
fn every_answer_can_be_given_on_the_command_line() {
    let place = Place::new();
    let (code, out, err) = place.run(&[
        "init",
        "--yes",
        "--harness",
        "demo",
        "--runner",
        "process",
        "--repo",
        "octo/hello",
        "--user",
        "alice",
        "--user",
        "@bob",
        "--label",
        "go: \"now\"",
        "--spawn",
        "always",
        "--worktrees",
        "--web",
    ]);
    assert_eq!(code, 0, "{err}");
    assert!(out.ends_with("gh issue edit NUMBER --repo octo/hello --add-label 'go: \"now\"'\n"));
    let routing = place.config().routing;
    assert_eq!(routing.runner, RunnerKind::Process);
    assert_eq!(routing.repositories, ["octo/hello".parse().unwrap()]);
    assert_eq!(routing.authorized_users, ["alice", "bob"]);
    assert_eq!(routing.auto_execute_label, "go: \"now\"");
    assert_eq!(routing.spawn_on_unmatched, SpawnPolicy::Always);
    assert!(routing.web_terminal.enabled && routing.workspace.enabled);
    for wrong in [["--repo", "hello"], ["--user", "a b"], ["--spawn", "soon"], ["--label", " "]] {
        let (code, _, err) = place.run(&[&["init", "--yes", "--force"][..], &wrong].concat());
        assert_eq!(code, 2, "{err}");
    }
}

#[test]
fn what_would_stall_the_first_start_is_said() {
    let place = Place::new();
    let init = |harness: &str, runner: &str| {
        let args = ["init", "--yes", "--force", "--harness", harness, "--runner", runner];
        place.run(&args).2
    };
    let err = init("claude", "tmux");
    assert!(err.contains("Claude Code would begin with its first-run questions"), "{err}");
    assert!(err.contains("would ask whether") && err.contains("--only claude.trust"), "{err}");
    place.says("gemini", "echo 0.61.0");
    let err = init("gemini", "tmux");
    assert!(err.contains("gemini would begin by asking"), "{err}");
    assert!(!err.contains("Claude Code would"), "{err}");
    // Without a terminal nothing is asked.
    let err = init("gemini", "process");
    assert!(!err.contains("would begin by asking"), "{err}");
}

#[test]
fn every_agent_whose_program_answers_is_found_and_the_first_is_taken() {
    let place = Place::new();
    // No agent of the host's own.
    let init = |args: &[&str]| {
        let bin = place.home.path().join("bin");
        let args = [&["init", "--yes", "--force"][..], args].concat();
        let output = place.command(&args).env("PATH", &bin).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap(), err)
    };
    let routing = || {
        let routing = place.config().routing;
        (routing.default_harness.to_string(), routing.runner, routing.workspace.enabled)
    };
    let (code, err) = init(&[]);
    assert!(code == 0 && !err.contains("found    "), "{err}");
    assert_eq!(routing(), ("claude".to_owned(), RunnerKind::Tmux, false));
    // One that runs headless only, and one that is too old to be used.
    place.says("opencode", "echo 1.18.33");
    place.says("codex", "echo codex-cli 0.1.0");
    let (code, err) = init(&[]);
    assert!(code == 0 && err.contains("/bin/opencode)\n") && !err.contains("codex ("), "{err}");
    assert_eq!(routing(), ("opencode".to_owned(), RunnerKind::Process, false));
    for (name, says) in [
        ("gemini", "0.61.0"),
        ("copilot", "1.0.102"),
        ("codex", "codex-cli 0.171.0"),
        ("cursor-agent", "2026.09.10-fd3934a"),
    ] {
        place.says(name, &format!("echo {says}"));
    }
    let (_, err) = init(&[]);
    for name in ["opencode", "gemini", "copilot", "codex", "cursor"] {
        assert!(err.contains(&format!("found    {name} (")), "{name}: {err}");
    }
    assert_eq!(routing(), ("codex".to_owned(), RunnerKind::Tmux, false));
    let text = std::fs::read_to_string(place.file()).unwrap();
    assert!(text.contains("# Also found here: copilot, cursor, gemini, opencode.\n"), "{text}");
    let (code, _, err) = place.run(&["config", "check"]);
    assert_eq!(code, 0, "{err}");
    let (code, err) = init(&["--harness", "opencode", "--runner", "tmux"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("`--runner`: opencode cannot be hosted by tmux"), "{err}");
}

#[test]
fn a_repository_without_a_remote_is_a_place_like_any_other() {
    let place = Place::repository(&[("backup", "/srv/backup.git")]);
    place.git(&["config", "github.user", "octocat"]);
    let below = place.dir.join("src");
    std::fs::create_dir(&below).unwrap();
    let output = place.command(DEMO).current_dir(&below).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    assert!(err.contains("found    you are octocat (git's github.user)"), "{err}");
    // At the work tree's root, not where it was called.
    let routing = place.config().routing;
    assert_eq!((routing.repositories, routing.authorized_users), (vec![], vec!["octocat".into()]));
    assert!(!below.join(".the-loop").exists());
}

#[test]
fn with_two_remotes_both_are_listened_to_and_named() {
    let place = Place::repository(&[
        ("origin", "git@github.com:me/hello.git"),
        ("upstream", "https://x:gho_secret@github.com/octo/hello"),
        ("lab", "https://gitlab.com/octo/hello"),
    ]);
    place.gh("github.com:\n    user: octocat\n    oauth_token: gho_secret\n");
    let (code, _, err) = place.run(DEMO);
    assert_eq!(code, 0, "{err}");
    for said in [
        "found    me/hello (remote `origin`)",
        "found    octo/hello (remote `upstream`)",
        "passed   a remote on gitlab.com: not known as a GitHub",
        "found    you are octocat (the GitHub CLI)",
    ] {
        assert!(err.contains(said), "{err}");
    }
    let written = std::fs::read_to_string(place.file()).unwrap();
    assert!(!written.contains("gho_secret") && !err.contains("gho_secret"));
    let repositories = place.config().routing.repositories;
    assert_eq!(repositories, ["me/hello".parse().unwrap(), "octo/hello".parse().unwrap()]);
}

#[test]
fn a_configuration_that_is_there_is_kept_and_nothing_is_done_twice() {
    let place = Place::repository(&[("origin", "git@github.com:octo/hello.git")]);
    std::fs::write(place.dir.join(".gitignore"), "/target").unwrap();
    let given = [DEMO, &["--user", "alice", "--github", "--url", "https://hook.example"]].concat();
    assert_eq!(place.run(&given).0, 0);
    let tree = |place: &Place| {
        let mut seen = Vec::new();
        let mut todo = vec![place.home.path().to_path_buf()];
        while let Some(dir) = todo.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    todo.push(path);
                } else {
                    seen.push((path.clone(), std::fs::read(&path).unwrap()));
                }
            }
        }
        seen.sort();
        seen
    };
    let before = tree(&place);
    let (code, _, err) = place.run(&given);
    assert!(code == 0 && err.contains("kept     "), "{err}");
    assert!(!err.contains("added    "), "{err}");
    assert!(err.contains("so these were not used:\n  --harness, --user\n"), "{err}");
    assert!(err.contains("hint: `--force`"), "{err}");
    let (_, _, err) = place.run(&["init", "--yes"]);
    assert!(!err.contains("not used"), "{err}");
    assert_eq!(tree(&place), before);
    let ignored = std::fs::read_to_string(place.dir.join(".gitignore")).unwrap();
    assert_eq!(ignored, "/target\n# Sessions of the-loop on this machine\n.the-loop/sessions/\n");
    // With --force there is a new one, and the old one is still to be had.
    std::fs::write(place.file(), "routing: {runner: tmux} # mine\n").unwrap();
    assert_eq!(place.run(&[DEMO, &["--force"]].concat()).0, 0);
    let old = std::fs::read_to_string(place.dir.join(".the-loop/config.yaml.old0")).unwrap();
    assert_eq!(old, "routing: {runner: tmux} # mine\n");
    assert_eq!(place.config().routing.default_harness, HarnessName::Demo);
    // A broken one is kept, too, and shown.
    std::fs::write(place.file(), "routing:\n  rnner: tmux\n").unwrap();
    let (code, _, err) = place.run(DEMO);
    assert!(code == 1 && err.contains("did you mean `runner`?"), "{err}");
    assert_eq!(std::fs::read_to_string(place.file()).unwrap(), "routing:\n  rnner: tmux\n");
}

/// The tests may run as root, who can write to every folder: a file stands
/// where the folder belongs.
#[test]
fn where_nothing_can_be_written_it_says_so_and_leaves_nothing() {
    let place = Place::new();
    std::fs::write(place.dir.join(".the-loop"), "in the way").unwrap();
    let (code, out, err) = place.run(DEMO);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("could not write the configuration `"), "{err}");
    assert!(err.contains("hint: `") && err.contains("is no folder: move it away"), "{err}");
    assert_eq!(std::fs::read_dir(&place.dir).unwrap().count(), 1);
    // A folder in which not even root can make anything.
    if Path::new("/proc/self").exists() {
        let output = place.command(DEMO).current_dir("/proc").output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.starts_with("error: could not write the configuration `/proc/"), "{err}");
    }
}

#[test]
fn without_a_terminal_it_asks_nothing_and_writes_nothing() {
    let place = Place::new();
    let (code, out, err) = place.run(&["init"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("there is no terminal to ask on") && err.contains("--yes"), "{err}");
    assert_eq!(std::fs::read_dir(&place.dir).unwrap().count(), 0);
}

#[tokio::test]
async fn on_a_terminal_it_asks_and_enter_takes_what_is_proposed() {
    let place = Place::repository(&[("origin", "git@github.com:octo/hello.git")]);
    let tmux = TmuxServer::new();
    let line = format!(
        "cd {} && env -i HOME={home} PATH={home}/bin:/usr/local/bin:/usr/bin:/bin TERM=screen {} \
         init; echo ended $?; exec cat",
        place.dir.display(),
        env!("CARGO_BIN_EXE_the-loop"),
        home = place.home.path().display(),
    );
    tmux.run(&["new-session", "-d", "-s", "t", "-x", "100", "-y", "50", "/bin/sh", "-c", &line]);
    let screen = || tmux.run(&["capture-pane", "-p", "-t", "t"]);
    for (question, answer) in [
        ("Repositories to listen to [octo/hello]: ", ""),
        ("GitHub logins to listen to [none]: ", "not a/login"),
        ("is no GitHub login", "alice, @bob"),
        ("Agent (claude, codex, copilot, cursor, demo, gemini, opencode) [claude]: ", "demo"),
        ("Hosted in (tmux, process) [tmux]: ", ""),
        ("Start a session (never, labeled, always) [labeled]: ", ""),
        ("The label that arms an issue [the-loop: auto-execute]: ", "go"),
        ("A git work tree for each item (yes, no) [no]: ", "maybe"),
        ("it is `yes` or `no`", "yes"),
    ] {
        eventually(question, async || screen().contains(question.trim_end()).then_some(())).await;
        tmux.run(&["send-keys", "-t", "t", "-l", answer]);
        tmux.run(&["send-keys", "-t", "t", "Enter"]);
    }
    eventually("it ends", async || screen().contains("ended 0").then_some(())).await;
    let routing = place.config().routing;
    assert_eq!(routing.repositories, ["octo/hello".parse().unwrap()]);
    assert_eq!(routing.authorized_users, ["alice", "bob"]);
    assert_eq!(routing.default_harness, HarnessName::Demo);
    assert_eq!(routing.auto_execute_label, "go");
    assert!(routing.workspace.enabled);
}

#[test]
fn of_several_at_once_one_writes_and_the_others_say_that_it_is_there() {
    let place = Place::repository(&[]);
    let children: Vec<_> = (0..6)
        .map(|n| {
            place
                .command(&["init", "--yes", "--user", &format!("user{n}")])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let said: Vec<_> = children
        .into_iter()
        .map(|child| String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap())
        .collect();
    let wrote: Vec<_> = (0..6).filter(|n| said[*n].contains("written  ")).collect();
    assert_eq!(wrote.len(), 1, "{said:?}");
    assert_eq!(said.iter().filter(|said| said.contains("kept     ")).count(), 5, "{said:?}");
    assert_eq!(place.config().routing.authorized_users, [format!("user{}", wrote[0])]);
    let left = std::fs::read_dir(place.dir.join(".the-loop")).unwrap();
    assert_eq!(left.count(), 1, "nothing is left beside it");
}

#[test]
fn what_is_given_twice_is_written_once_and_a_doubtful_address_is_said() {
    let place = Place::repository(&[]);
    let twice = ["--user", "me", "--user", "me", "--repo", "o/r", "--repo", "o/r", "--repo", "o/s"];
    let address = ["--github", "--url", "http://localhost:8080"];
    let args = [&["init", "--yes"], &twice[..], &address[..]].concat();
    let (_, out, err) = place.run(&args);
    let routing = place.config().routing;
    assert_eq!((routing.authorized_users.len(), routing.repositories.len()), (1, 2), "{err}");
    assert!(err.contains("warning: GitHub cannot reach this address"), "{err}");
    assert!(out.contains(" --repo o/r ") && !out.contains("OWNER/NAME"), "{out}");
}

#[test]
fn nothing_is_written_through_a_link_in_the_place_of_the_ignore_file() {
    let line = ".the-loop/sessions/";
    let place = Place::repository(&[]);
    let outside = place.home.path().join("outside");
    std::fs::write(&outside, "mine\n").unwrap();
    let ignore = place.dir.join(".gitignore");
    for target in [outside.clone(), place.home.path().join("nowhere")] {
        std::os::unix::fs::symlink(&target, &ignore).unwrap();
        let (code, _, err) = place.run(DEMO);
        assert_eq!(code, 0, "{err}");
        assert!(err.contains("git does not read it, and it was left as it is"), "{err}");
        assert!(err.contains(&format!("hint: put a file with the line `{line}`")), "{err}");
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "mine\n");
        assert!(!place.home.path().join("nowhere").exists());
        std::fs::remove_file(&ignore).unwrap();
    }
    let (_, _, err) = place.run(DEMO);
    assert!(err.contains(&format!("added    {line} to ")), "{err}");
    assert!(std::fs::read_to_string(&ignore).unwrap().contains(line));
    // Nor through one where the old configuration is kept.
    let kept = place.dir.join(".the-loop/config.yaml.old0");
    std::os::unix::fs::symlink(place.home.path().join("nowhere"), kept).unwrap();
    assert_eq!(place.run(&[DEMO, &["--force"]].concat()).0, 0);
    assert!(!place.home.path().join("nowhere").exists());
    assert!(place.dir.join(".the-loop/config.yaml.old1").is_file());
}

#[test]
fn the_sessions_of_a_configuration_of_another_name_are_ignored_where_they_lie() {
    let place = Place::repository(&[]);
    std::fs::create_dir(place.dir.join("conf")).unwrap();
    let named = [DEMO, &["--config", "conf/own.yaml"]].concat();
    let (code, _, err) = place.run(&named);
    assert!(code == 0 && err.contains("added    /sessions/ to "), "{err}");
    assert!(!place.run(&named).2.contains("added "), "once");
    std::fs::create_dir(place.dir.join("conf/sessions")).unwrap();
    std::fs::write(place.dir.join("conf/sessions/x.json"), "{}").unwrap();
    place.git(&["check-ignore", "-q", "conf/sessions/x.json"]);
    assert!(!place.dir.join(".gitignore").exists());
}

#[test]
fn where_no_label_starts_a_session_it_says_what_does() {
    let place = Place::repository(&[("origin", "git@github.com:octo/hello.git")]);
    let register = "the-loop sessions register octo/hello#NUMBER";
    let never = [DEMO, &["--user", "alice", "--spawn", "never"]].concat();
    let is_told = |args: &[&str], by_comment: bool| {
        let (code, out, err) = place.run(args);
        assert_eq!(code, 0, "{err}");
        assert!(out.ends_with(&format!("{register}\n")) && !out.contains("label"), "{out}");
        let said = err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(&format!("`{register}` does")), "{err}");
        assert_eq!(said.contains("or a comment `the-loop start`"), by_comment, "{err}");
        err
    };
    let err = is_told(&never, true);
    assert!(!err.contains("authorizedUsers"), "{err}");
    // Of a file that is kept, too.
    let mine = "routing:\n  defaultHarness: demo\n  spawnOnUnmatched: never\n  control: false\n";
    std::fs::write(place.file(), format!("{mine}  repositories: [octo/hello]\n")).unwrap();
    let err = is_told(&["init", "--yes"], false);
    assert!(err.contains("warning: `routing.authorizedUsers` is empty"), "{err}");
    std::fs::write(place.file(), "routing: { defaultHarness: demo, enabled: false }\n").unwrap();
    let (_, out, err) = place.run(&["init", "--yes"]);
    assert!(!out.contains("label") && !out.contains("register"), "{out}");
    assert!(err.contains("`routing.enabled` is false: deliveries are only recorded"), "{err}");
}

#[test]
fn what_it_advises_names_the_configuration_that_was_named() {
    let place = Place::new();
    let file = place.dir.join("own.yaml");
    let run = |args: &[&str]| {
        let mut command = place.command(args);
        command.env("PATH", place.home.path()).output().unwrap()
    };
    let args = [DEMO, &["--runner", "tmux", "--config", "own.yaml"]].concat();
    let output = run(&args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{err}");
    let option = format!("--config {}", file.display());
    for said in [
        format!("the-loop init {option} --github --url https://YOUR-ADDRESS\n"),
        format!("the-loop gh-webhook start {option}\n"),
    ] {
        assert!(out.contains(&said), "{said}\n{out}");
    }
    for said in [
        format!("`the-loop init {option} --force --user LOGIN`"),
        format!("the-loop doctor {option} --install tmux\n"),
        format!("`the-loop doctor {option}` looks again"),
    ] {
        assert!(err.contains(&said), "{said}\n{err}");
    }
    // Whose variable may be gone when the command is given.
    let mut named = place.command(&["init", "--yes"]);
    named.env("PATH", place.home.path()).env("THE_LOOP_CONFIG", "own.yaml");
    let out = text(&named.output().unwrap().stdout);
    assert!(out.contains(&format!("the-loop gh-webhook start {option}\n")), "{out}");
    let asked = run(&["init", "--config", "other.yaml"]);
    let err = text(&asked.stderr);
    let hint = format!("`the-loop init --config {} --yes`", place.dir.join("other.yaml").display());
    assert!(err.contains(&hint) && err.contains("`the-loop init --help`"), "{err}");
}
