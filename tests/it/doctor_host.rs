//! The doctor's checks of host and project, and what `--fix` does about them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use the_loop::base::env::Env;
use the_loop::core::config::Tools;
use the_loop::doctor::install::Progress;
use the_loop::doctor::{Needs, Project, Request, ToolId, examine, offer_installs};

use crate::doctor::{Place, SYSTEM, finding, json, test_tool, text};
use crate::install_places::may_mount;

/// Writes a configuration for the place's home. Gives its path.
pub(crate) fn configure(place: &Place, content: &str) -> PathBuf {
    let dir = place.path("home/.the-loop");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("config.yaml"), content).unwrap();
    dir.join("config.yaml")
}

pub(crate) fn doctor(place: &Place, args: &[&str]) -> Value {
    let args = [&["doctor", "--json"], args].concat();
    json(&place.run(SYSTEM, &args, &[]))
}

pub(crate) fn severity<'a>(report: &'a Value, id: &str) -> &'a str {
    finding(report, id)["severity"].as_str().unwrap()
}

pub(crate) fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

pub(crate) fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

pub(crate) const DEMO: &str = "routing:\n  runner: tmux\n  defaultHarness: demo\n";

#[test]
fn a_broken_configuration_is_a_finding_and_everything_else_is_still_checked() {
    let place = Place::new();
    configure(&place, "routing:\n  runer: tmux\n");
    let output = place.run(SYSTEM, &["doctor", "--json"], &[]);
    let report = json(&output);
    assert_eq!(output.status.code(), Some(1));
    let fault = finding(&report, "config.valid");
    assert_eq!(fault["severity"], "error");
    let told = fault.to_string();
    assert!(told.contains("runer") && told.contains("runner") && told.contains('^'), "{told}");
    finding(&report, "tmux.found");
    let shown = text(&place.run(SYSTEM, &["doctor"], &[]).stdout);
    assert!(shown.contains("runer: tmux"), "{shown}");
}

#[test]
fn the_configuration_says_what_is_needed_and_which_binary_is_meant() {
    let place = Place::new();
    configure(&place, &format!("{DEMO}tools:\n  tmux:\n    path: /nowhere/tmux\n"));
    let report = doctor(&place, &[]);
    assert_eq!(severity(&report, "config.valid"), "ok");
    let missing = finding(&report, "tmux.found");
    assert_eq!(missing["severity"], "error");
    assert!(missing["what"].as_str().unwrap().contains("/nowhere/tmux"), "{missing}");
    assert_eq!(report["exitCode"], 1);
}

#[test]
fn a_program_out_of_the_work_tree_is_refused_and_never_run() {
    let place = Place::new();
    let ran = place.path("ran");
    let evil = place.path("home/tmux");
    std::fs::write(&evil, format!("#!/bin/sh\n: > {}\necho tmux 3.3a\n", ran.display())).unwrap();
    chmod(&evil, 0o755);
    configure(&place, &format!("{DEMO}tools:\n  tmux:\n    path: ./tmux\n"));
    let report = doctor(&place, &[]);
    assert_eq!(severity(&report, "config.valid"), "error");
    for args in [&["config", "check"][..], &["gh-webhook", "start", "--insecure-no-secret"]] {
        let output = place.run(SYSTEM, args, &[]);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = text(&output.stderr);
        assert!(said.contains("config.yaml:6:11:\n  `tools.tmux.path`"), "{said}");
    }
    assert!(!ran.exists());
    configure(&place, &format!("{DEMO}tools:\n  tmux:\n    path: ~/tmux\n"));
    assert!(place.run(SYSTEM, &["config", "check"], &[]).status.success());
}

#[test]
fn a_check_can_be_made_alone_and_an_unknown_one_is_a_usage_error() {
    let place = Place::new();
    let report = doctor(&place, &["--only", "git,locale.utf8"]);
    let ids: Vec<_> = report["findings"].as_array().unwrap().iter().map(|f| &f["id"]).collect();
    assert_eq!(ids, ["git.found", "locale.utf8"]);
    for args in [
        &["doctor", "--only", "nothing"][..],
        &["doctor", "--dry-run"],
        &["doctor", "--list", "--fix"],
        &["doctor", "--only", "tmu"],
        &["doctor", "--install", "ttyd@"],
        &["doctor", "--install", "ttyd", "--for", "web"],
    ] {
        let output = place.run(SYSTEM, args, &[]);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
    }
    let list = text(&place.run(SYSTEM, &["doctor", "--list-checks"], &[]).stdout);
    assert!(list.contains("tmux.paste") && list.lines().all(|line| line.len() <= 80), "{list}");
}

#[test]
fn a_check_that_was_asked_for_is_always_answered() {
    let place = Place::new();
    let only = |path: &str, check: &str| {
        let output = place.run(path, &["doctor", "--json", "--only", check], &[]);
        (output.status.code(), json(&output))
    };
    // It passed.
    let (code, report) = only(SYSTEM, "tmux.runs");
    assert_eq!((code, severity(&report, "tmux.runs")), (Some(0), "ok"));
    // It could not be made.
    for check in ["port.free", "secret.there", "state.locks", "claude.trust"] {
        let (code, report) = only(SYSTEM, check);
        assert_eq!((code, &finding(&report, check)["checked"]), (Some(3), &Value::Bool(false)));
    }
    // Something stands in its way.
    let missing = only("BIN", "tmux.paste");
    assert_eq!((missing.0, severity(&missing.1, "tmux.found")), (Some(1), "error"));
    place.put("tmux", 0o755, b"#!/bin/sh\nexit 3\n");
    let (code, report) = only("BIN", "tmux.paste");
    assert_eq!((code, severity(&report, "tmux.runs")), (Some(1), "error"));
    let shown = text(&place.run("BIN", &["doctor", "--only", "tmux.paste"], &[]).stdout);
    assert!(!shown.contains("nothing stands in the way"), "{shown}");
}

#[test]
fn state_that_others_may_use_is_put_right() {
    let place = Place::new();
    let state = place.path("home/own");
    configure(&place, &format!("{DEMO}state:\n  dir: {}\n", state.display()));
    std::fs::create_dir(&state).unwrap();
    chmod(&state, 0o755);
    let key = state.join("own-voice.key");
    std::fs::write(&key, "k").unwrap();
    chmod(&key, 0o644);
    let socket = state.join("control.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let work = place.path("home/data/tools/tmux/.work-dead");
    std::fs::create_dir_all(&work).unwrap();
    let report = doctor(&place, &["--only", "state,tools"]);
    assert_eq!(severity(&report, "state.modes"), "warning");
    assert_eq!(severity(&report, "state.locks"), "note");
    assert_eq!(severity(&report, "tools.litter"), "note");
    let output = place.run(SYSTEM, &["doctor", "--only", "state,tools", "--fix", "--json"], &[]);
    let said = text(&output.stderr);
    assert!(said.contains("fixing: take the permissions of others from "), "{said}");
    let report = json(&output);
    for id in ["state.modes", "state.locks", "tools.litter"] {
        assert_eq!(severity(&report, id), "ok", "{report:#}");
    }
    assert_eq!((mode(&state), mode(&key)), (0o700, 0o600));
    assert!(!socket.exists() && !work.exists());
}

#[test]
fn a_damaged_inbox_is_an_error_and_one_that_was_kept_is_told() {
    use the_loop::base::clock::Clock;
    use the_loop::state::inbox::Inbox;

    let place = Place::new();
    let state = place.path("home/own");
    configure(&place, &format!("{DEMO}state:\n  dir: {}\n", state.display()));
    std::fs::create_dir(&state).unwrap();
    chmod(&state, 0o700);
    let only = ["--only", "state.inbox"];
    assert_eq!(severity(&doctor(&place, &only), "state.inbox"), "ok");
    let file = state.join("inbox.db");
    let inbox = Inbox::open(&file, Clock::System).unwrap();
    assert_eq!(severity(&doctor(&place, &only), "state.inbox"), "ok", "while it is used");
    drop(inbox);
    let mut bytes = std::fs::read(&file).unwrap();
    let last = bytes.len() - 4096;
    bytes[last..].fill(0xa5);
    std::fs::write(&file, &bytes).unwrap();
    let report = doctor(&place, &only);
    assert_eq!(severity(&report, "state.inbox"), "error");
    assert!(report.to_string().contains("is damaged"), "{report:#}");
    drop(Inbox::open(&file, Clock::System).unwrap());
    let report = doctor(&place, &only);
    assert_eq!(severity(&report, "state.inbox"), "warning");
    assert!(report.to_string().contains("inbox.db.damaged-"), "{report:#}");
}

#[test]
fn what_would_stop_an_unattended_agent_is_shown_and_then_put_right() {
    let place = Place::new();
    configure(&place, "routing:\n  runner: process\n");
    let file = place.path("home/.claude.json");
    std::fs::write(&file, "{\"theme\": \"dark\"}").unwrap();
    let only = ["--only", "claude.onboarding,claude.trust"];
    let report = doctor(&place, &only);
    assert_eq!(severity(&report, "claude.onboarding"), "warning");
    assert_eq!(severity(&report, "claude.trust"), "warning");
    let args = [&["doctor", "--fix"], &only[..]].concat();
    let output = place.run(SYSTEM, &args, &[]);
    assert!(text(&output.stderr).contains("set hasCompletedOnboarding: true in "));
    let report = doctor(&place, &only);
    assert_eq!(severity(&report, "claude.onboarding"), "ok");
    assert_eq!(severity(&report, "claude.trust"), "ok");
    let merged: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(merged["theme"], "dark");

    std::fs::write(&file, "{broken").unwrap();
    place.run(SYSTEM, &args, &[]);
    assert_eq!(std::fs::read(&file).unwrap(), b"{broken");
}

#[test]
fn a_needed_tool_is_installed_by_fix() {
    let place = Place::new();
    let folder = test_tool("ttyd");
    let folder = folder.parent().unwrap().to_str().unwrap();
    let args = ["doctor", "--for", "web", "--fix", "--offline", folder, "--only", "ttyd", "--json"];
    let report = json(&place.run("/usr/bin:/bin", &args, &[]));
    assert_eq!(report["tools"][0]["origin"], "managed", "{report:#}");
    assert_eq!(report["exitCode"], 0);
}

struct Said(std::sync::Mutex<String>);

impl Progress for Said {
    fn say(&self, text: &str) {
        self.0.lock().unwrap().push_str(text);
    }
}

#[tokio::test]
async fn a_set_up_is_offered_the_installs_and_is_silent_when_all_is_well() {
    let place = Place::new();
    let folder = test_tool("ttyd").parent().unwrap().display().to_string();
    let of = |mirror: &str| {
        let mut vars = place.vars("/usr/bin:/bin");
        vars.push(("THE_LOOP_MIRROR", mirror.into()));
        Env::fixed(vars, place.path("home"), env!("CARGO_BIN_EXE_the-loop"))
    };
    let (env, dirs) = (of(&format!("file://{folder}")), place.dirs("/usr/bin:/bin"));
    let needs = Needs { web: true, ..Needs::default() };
    let (tools, project) = (Tools::default(), Project::default());
    let request = Request {
        env: &env,
        dirs: &dirs,
        tools: &tools,
        needs: &needs,
        project: &project,
        only: &[],
    };
    let said = Said(std::sync::Mutex::default());
    assert!(!offer_installs(&request, &said, &str::to_owned, &mut |_| false).await);
    let mut asked = Vec::new();
    let mut yes = |question: &str| {
        asked.push(question.to_owned());
        true
    };
    assert!(offer_installs(&request, &said, &str::to_owned, &mut yes).await);
    assert_eq!(asked, ["Install ttyd 1.7.7 for the-loop alone (the web terminal needs it)?"]);
    assert!(said.0.lock().unwrap().contains("ttyd was not found"));
    let quiet = Said(std::sync::Mutex::default());
    assert!(
        offer_installs(&request, &quiet, &str::to_owned, &mut |_| panic!("nothing to ask")).await
    );
    assert_eq!(*quiet.0.lock().unwrap(), "");
    // Where nothing is fetched, a mirror that is none is nobody's business.
    let wrong = of("no mirror");
    let request = Request { env: &wrong, ..request };
    assert!(
        offer_installs(&request, &quiet, &str::to_owned, &mut |_| panic!("nothing to ask")).await
    );
    assert_eq!(*quiet.0.lock().unwrap(), "");
    std::fs::remove_dir_all(dirs.data.join("tools")).unwrap();
    assert!(
        !offer_installs(&request, &quiet, &str::to_owned, &mut |_| panic!("nothing can be had"))
            .await
    );
    let said = quiet.0.lock().unwrap().clone();
    assert!(said.contains("nothing can be installed so: THE_LOOP_MIRROR is not a URL"), "{said}");
}

#[test]
fn an_entry_of_path_that_everybody_may_write_to_is_ignored_and_said() {
    let place = Place::new();
    place.put("tmux", 0o755, b"#!/bin/sh\necho tmux 3.9\n");
    chmod(&place.path("bin"), 0o777);
    let report = json(&place.run("BIN:rel", &["doctor", "--for", "tmux", "--json"], &[]));
    let told = finding(&report, "path.entries");
    assert_eq!(told["severity"], "warning");
    assert_eq!(told["evidence"].as_array().unwrap().len(), 2, "{told}");
    assert_eq!(severity(&report, "tmux.found"), "error");
}

#[test]
fn a_host_without_terminal_descriptions_gets_private_ones() {
    let script = "set -e
        for dir in /etc/terminfo /lib/terminfo /usr/share/terminfo /usr/lib/terminfo; do
          if [ -d $dir ]; then mount -t tmpfs x $dir; fi
        done
        exec \"$@\"";
    let place = Place::new();
    let run = |args: &[&str]| {
        std::process::Command::new("unshare")
            .args(["-rm", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_the-loop"), "doctor"])
            .args(args)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", place.path("home"))
            .env("THE_LOOP_HOME", place.path("home"))
            .current_dir(place.path("home"))
            .output()
            .unwrap()
    };
    if !may_mount() || !Path::new("/usr/bin/tic").exists() {
        return;
    }
    let only = ["--only", "terminal.descriptions", "--for", "tmux", "--json"];
    assert_eq!(severity(&json(&run(&only)), "terminal.descriptions"), "warning");
    let fixed = json(&run(&[&only[..], &["--fix"]].concat()));
    assert_eq!(severity(&fixed, "terminal.descriptions"), "ok", "{fixed:#}");
    assert!(place.path("home/data/terminfo/x/xterm-256color").is_file());
}

/// A tool that is there and does not work, for each tool: its own finding.
#[tokio::test]
async fn a_shim_with_nothing_behind_it_and_a_broken_ttyd_are_told_apart() {
    for (tool, body, id, said) in [
        (
            ToolId::Claude,
            "#!/bin/sh\nexec /gone/node \"$@\"\n",
            "claude.runs",
            "what it runs is not there",
        ),
        (ToolId::Claude, "#!/gone/node\n", "claude.runs", "needs `/gone/node`"),
        (ToolId::Git, "#!/bin/sh\necho 'xcrun: error' >&2; exit 1\n", "git.runs", "exit code 1"),
        (ToolId::Claude, "#!/bin/sh\necho no version\n", "claude.version", "`no version`"),
        (ToolId::Git, "#!/bin/sh\n", "git.version", "told no version, nor anything else"),
        (ToolId::Git, "\x7fELF\x02\x01\x01", "git.runs", "is not a program"),
        (ToolId::Git, "#!/bin/sh\nexec /bin/sleep 60\n", "git.runs", "did not answer within 5 s"),
        (ToolId::Ttyd, "hello", "ttyd.runs", "is not a program"),
        (ToolId::Ttyd, "#!/gone/sh\n", "ttyd.runs", "needs `/gone/sh`"),
        (ToolId::Ttyd, "#!/bin/sh\r\nexit 1\r\n", "ttyd.runs", "has the line ends of Windows"),
        (ToolId::Ttyd, "#!/bin/sh\nexit 1\n", "ttyd.runs", "exit code 1"),
        (ToolId::Ttyd, "#!/bin/sh\necho what\n", "ttyd.version", "told no version, but `what`"),
        (ToolId::Ttyd, "#!/bin/sh\necho ttyd 1.6.3\n", "ttyd.version", "1.7.4 or newer"),
        (ToolId::Ttyd, "#!/bin/sh\necho ttyd 1.7.7\n", "ttyd.serves", "ended with exit code 0"),
    ] {
        let place = Place::new();
        place.put(tool.as_str(), 0o755, body.as_bytes());
        let (env, dirs) = (place.env("BIN"), place.dirs("BIN"));
        let report = examine(&env, &dirs, &Tools::default(), &Needs::default()).await;
        let found = report.findings().iter().find(|found| found.id == id);
        assert!(found.is_some_and(|found| found.what.contains(said)), "{id}: {found:?}");
        assert!(found.unwrap().remedy.is_some(), "{id}");
        place.assert_clean();
    }
}
