//! The doctor's checks of host and project, and what `--fix` does about them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use the_loop::base::env::Env;
use the_loop::core::config::Tools;
use the_loop::doctor::install::Progress;
use the_loop::doctor::{Needs, Project, Request, ToolId, check_up, examine, offer_installs};

use crate::doctor::{Place, SYSTEM, finding, json, test_tool, text};
use crate::install_faults::may_mount;
use crate::support::{eventually, tmux_path};

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
fn a_busy_port_and_a_missing_secret_are_told_before_the_start() {
    let place = Place::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let secret = place.path("home/secret");
    let config = format!(
        "{DEMO}webhooks:\n  ghWebhook:\n    port: {port}\n    secretFile: {}\n",
        secret.display()
    );
    configure(&place, &config);
    let report = doctor(&place, &["--only", "port,secret"]);
    assert_eq!(severity(&report, "port.free"), "error");
    assert_eq!(severity(&report, "secret.there"), "error");
    drop(listener);
    std::fs::write(&secret, "s3cret").unwrap();
    chmod(&secret, 0o644);
    let report = doctor(&place, &["--only", "port,secret", "--fix", "--dry-run"]);
    assert_eq!(severity(&report, "port.free"), "ok");
    assert_eq!(severity(&report, "secret.there"), "error");
    assert_eq!(mode(&secret), 0o644, "a dry run changes nothing");
    let report = doctor(&place, &["--only", "secret", "--fix"]);
    assert_eq!(severity(&report, "secret.there"), "ok");
    assert_eq!(mode(&secret), 0o600);
    assert!(!report.to_string().contains("s3cret"));
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
    assert_eq!(severity(&report, "state.inbox"), "note");
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
    assert!(!offer_installs(&request, &said, &mut |_| false).await);
    let mut asked = Vec::new();
    let mut yes = |question: &str| {
        asked.push(question.to_owned());
        true
    };
    assert!(offer_installs(&request, &said, &mut yes).await);
    assert_eq!(asked, ["Install ttyd 1.7.7 into a directory of the-loop's own?"]);
    assert!(said.0.lock().unwrap().contains("ttyd was not found"));
    let quiet = Said(std::sync::Mutex::default());
    assert!(offer_installs(&request, &quiet, &mut |_| panic!("nothing to ask")).await);
    assert_eq!(*quiet.0.lock().unwrap(), "");
    // Where nothing is fetched, a mirror that is none is nobody's business.
    let wrong = of("no mirror");
    let request = Request { env: &wrong, ..request };
    assert!(offer_installs(&request, &quiet, &mut |_| panic!("nothing to ask")).await);
    assert_eq!(*quiet.0.lock().unwrap(), "");
    std::fs::remove_dir_all(dirs.data.join("tools")).unwrap();
    assert!(!offer_installs(&request, &quiet, &mut |_| panic!("nothing can be had")).await);
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
fn a_socket_directory_that_tmux_refuses_is_named_and_put_right() {
    let place = Place::new();
    let user = rustix::process::getuid().as_raw();
    let dir = place.path("tmp").join(format!("tmux-{user}"));
    std::fs::create_dir(&dir).unwrap();
    chmod(&dir, 0o755);
    let args = ["--for", "tmux", "--only", "tmux.socketDir"];
    assert_eq!(severity(&doctor(&place, &args), "tmux.socketDir"), "error");
    let fixed = doctor(&place, &[&args[..], &["--fix"]].concat());
    assert_eq!(severity(&fixed, "tmux.socketDir"), "ok");
    assert_eq!(mode(&dir), 0o700);
}

#[tokio::test]
async fn a_running_server_of_another_group_is_attached_to_with_its_own_binary() {
    let place = Place::new();
    let own = std::process::Command::new(tmux_path()).arg("-V").output().unwrap();
    if !text(&own.stdout).starts_with("tmux 3.3") {
        eprintln!("skipped: the tmux of this host is of the same group");
        return;
    }
    let socket = place.path("s");
    let new = test_tool("tmux-3.6a");
    let run = |program: &Path, args: &[&str]| {
        let mut command = std::process::Command::new(program);
        command.args(["-f", "/dev/null", "-S"]).arg(&socket).args(args).output().unwrap()
    };
    assert!(run(&new, &["new-session", "-d", "-s", "x", "cat"]).status.success());
    let project = Project { tmux_socket: Some(socket.clone()), ..Project::default() };
    let (env, dirs) = (place.env(SYSTEM), place.dirs(SYSTEM));
    let (tools, needs) = (Tools::default(), Needs::default());
    let only = ["tmux".to_owned()];
    let report = check_up(&Request {
        env: &env,
        dirs: &dirs,
        tools: &tools,
        needs: &needs,
        project: &project,
        only: &only,
    })
    .await;
    let skew = report.findings().iter().find(|found| found.id == "tmux.skew").unwrap();
    let ours = report.tool(ToolId::Tmux).unwrap().clone();
    let own = place.path("own");
    let places = the_loop::doctor::Places {
        configured: Some(&socket),
        own: &own,
        mark: the_loop::host::tmux::INSTANCE_OPTION,
        instance: "me",
    };
    let chosen = the_loop::doctor::choose(ours.clone(), &env, places).await.unwrap();
    assert_eq!(chosen.socket.as_deref(), Some(socket.as_path()));
    let client = chosen.client;
    let listed = client
        .invocation()
        .arg("-S")
        .arg(&socket)
        .args(["list-sessions", "-F", "#{session_name}"])
        .run_ok()
        .await;
    run(&new, &["kill-server"]);
    assert!(skew.what.contains("does not understand it"), "{skew:?}");
    let command = &skew.remedy.as_ref().unwrap().commands[0];
    assert!(command.contains(new.to_str().unwrap()), "{command}");
    assert_eq!(listed.unwrap().stdout_text(), "x\n");
    // Without a server there is nothing to fit.
    eventually("the server is gone", async || {
        let same = the_loop::doctor::choose(ours.clone(), &env, places).await.unwrap();
        (same.client.path() == ours.path()).then_some(())
    })
    .await;
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

#[test]
fn an_address_that_is_not_of_this_host_is_named_as_such() {
    let place = Place::new();
    // Of the block for documentation: no host has it.
    configure(&place, &format!("{DEMO}webhooks:\n  ghWebhook:\n    host: 192.0.2.7\n"));
    let report = doctor(&place, &["--only", "port.free"]);
    let found = finding(&report, "port.free");
    assert_eq!(found["severity"], "error");
    assert!(found["what"].as_str().unwrap().contains("192.0.2.7 is no address of this host"));
    assert!(found["remedy"]["note"].as_str().unwrap().contains("`webhooks.ghWebhook.host`"));
}

#[test]
fn without_a_ttyd_a_web_terminal_is_refused_before_a_port_is_opened() {
    let place = Place::new();
    configure(&place, DEMO);
    let report = doctor(&place, &["--only", "ttyd"]);
    assert_eq!(severity(&report, "ttyd.found"), "note");
    configure(&place, &format!("{DEMO}  webTerminal:\n    enabled: true\n"));
    let report = doctor(&place, &["--only", "ttyd"]);
    assert_eq!(severity(&report, "ttyd.found"), "error");
    let output = place.run(
        SYSTEM,
        &["gh-webhook", "start"],
        &[("THE_LOOP_GH_WEBHOOK_SECRET", "a secret of the tests")],
    );
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("this host is not ready"), "{said}");
    assert!(said.contains("ttyd was not found"), "{said}");
    assert!(said.contains("the-loop doctor --install ttyd"), "{said}");
    assert!(!said.contains("Receiving on"), "{said}");
}

#[test]
fn the_command_for_a_missing_secret_works_where_its_directory_is_missing_too() {
    let place = Place::new();
    let secret = place.path("home/state of mine/secrets/octo+hello");
    let config = format!("{DEMO}webhooks:\n  ghWebhook:\n    secretFile: {}\n", secret.display());
    configure(&place, &config);
    let report = doctor(&place, &["--only", "secret.there"]);
    let missing = finding(&report, "secret.there");
    let what = missing["what"].as_str().unwrap();
    assert!(what.starts_with("the file of the webhook's secret is not there: "), "{what}");
    let command = missing["remedy"]["commands"][0].as_str().unwrap();
    let start = text(&place.run(SYSTEM, &["gh-webhook", "start"], &[]).stderr);
    assert!(start.contains(command), "{start}");
    let run = std::process::Command::new("sh").args(["-c", command]).status().unwrap();
    assert!(run.success(), "{command}");
    assert_eq!((mode(&secret), mode(secret.parent().unwrap())), (0o600, 0o700));
    assert_eq!(severity(&doctor(&place, &["--only", "secret.there"]), "secret.there"), "ok");
}

#[test]
fn what_listens_on_a_socket_and_is_no_tmux_is_not_believed() {
    let place = Place::new();
    let socket = place.path("tmp/s");
    // This test itself listens: its name is no tmux's.
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    configure(&place, &format!("{DEMO}  tmux:\n    socket: {}\n", socket.display()));
    let report = doctor(&place, &["--only", "tmux.skew"]);
    let skew = finding(&report, "tmux.skew");
    assert_eq!(skew["severity"], "warning", "{skew}");
    assert!(skew["what"].as_str().unwrap().contains("is not a tmux server"), "{skew}");
    drop(listener);
    // A program that tells the version of something else is no tmux either.
    place.put("tmux", 0o755, b"#!/bin/sh\necho other 3.4\n");
    let report = json(&place.run("BIN", &["doctor", "--json", "--for", "tmux"], &[]));
    assert_eq!(severity(&report, "tmux.version"), "error");
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
        (ToolId::Claude, "#!/bin/sh\nexec /gone/node \"$@\"\n", "claude.runs", "exit code 127"),
        (ToolId::Claude, "#!/gone/node\n", "claude.runs", "needs `/gone/node`"),
        (ToolId::Git, "#!/bin/sh\necho 'xcrun: error' >&2; exit 1\n", "git.runs", "exit code 1"),
        (ToolId::Claude, "#!/bin/sh\necho no version\n", "claude.version", "`no version`"),
        (ToolId::Git, "#!/bin/sh\n", "git.version", "told no version, but ``"),
        (ToolId::Git, "\x7fELF\x02\x01\x01", "git.runs", "is not a program"),
        (ToolId::Git, "#!/bin/sh\nexec /bin/sleep 60\n", "git.runs", "did not answer within 5 s"),
        (ToolId::Ttyd, "hello", "ttyd.runs", "is not a program"),
        (ToolId::Ttyd, "#!/gone/sh\n", "ttyd.runs", "needs `/gone/sh`"),
        (ToolId::Ttyd, "#!/bin/sh\nexit 1\n", "ttyd.runs", "exit code 1"),
        (ToolId::Ttyd, "#!/bin/sh\necho what\n", "ttyd.version", "told no version, but `what`"),
        (ToolId::Ttyd, "#!/bin/sh\necho ttyd 1.6.3\n", "ttyd.version", "1.7.4 or newer"),
        (ToolId::Ttyd, "#!/bin/sh\necho ttyd 1.7.7\n", "ttyd.serves", "did not answer"),
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

#[tokio::test]
async fn beside_a_server_of_another_group_sessions_are_on_a_server_of_our_own() {
    let place = Place::new();
    let env = place.env(SYSTEM);
    let report = doctor_on(&place).await;
    let ours = report.tool(ToolId::Tmux).unwrap().clone();
    if !ours.version().unwrap().to_string().starts_with("3.3") {
        eprintln!("skipped: the tmux of this host is of the same group");
        return;
    }
    let new = test_tool("tmux-3.6a");
    let run = |args: &[&str]| {
        let mut command = std::process::Command::new(&new);
        command.env("TMUX_TMPDIR", place.path("tmp")).env_remove("TMUX");
        command.args(["-f", "/dev/null"]).args(args).output().unwrap()
    };
    assert!(run(&["new-session", "-d", "-s", "x", "cat"]).status.success());
    let own = place.path("own");
    let places = the_loop::doctor::Places {
        configured: None,
        own: &own,
        mark: the_loop::host::tmux::INSTANCE_OPTION,
        instance: "me",
    };
    let beside = the_loop::doctor::choose(ours.clone(), &env, places).await;
    let mark = the_loop::host::tmux::INSTANCE_OPTION;
    assert!(run(&["set-option", "-t", "x", mark, "me"]).status.success());
    let with_ours = the_loop::doctor::choose(ours.clone(), &env, places).await;
    run(&["kill-server"]);
    let beside = beside.unwrap();
    assert_eq!(
        (beside.socket.as_deref(), beside.client.path()),
        (Some(own.as_path()), ours.path())
    );
    // What is in there already is reached where it is.
    let with_ours = with_ours.unwrap();
    assert_eq!((with_ours.socket.as_deref(), with_ours.client.path()), (None, new.as_path()));
}

/// Examines the host as `runner: tmux` needs it.
async fn doctor_on(place: &Place) -> the_loop::doctor::Report {
    let (env, dirs) = (place.env(SYSTEM), place.dirs(SYSTEM));
    let (tools, needs) = (Tools::default(), Needs::default());
    let (project, only) = (Project::default(), ["tmux".to_owned()]);
    let request = Request {
        env: &env,
        dirs: &dirs,
        tools: &tools,
        needs: &needs,
        project: &project,
        only: &only,
    };
    check_up(&request).await
}

#[test]
fn a_socket_that_has_no_room_in_its_address_stops_the_start_with_the_doctors_words() {
    let place = Place::new();
    let long = place.path(&"d".repeat(100));
    std::fs::create_dir(&long).unwrap();
    let vars = [("TMUX_TMPDIR", long.to_str().unwrap()), ("THE_LOOP_GH_WEBHOOK_SECRET", "x")];
    let args = ["doctor", "--json", "--for", "tmux", "--only", "tmux.socketDir"];
    let output = place.run(SYSTEM, &args, &vars);
    let report = json(&output);
    let found = finding(&report, "tmux.socketDir");
    assert_eq!((output.status.code(), &found["severity"]), (Some(1), &"error".into()), "{found}");
    assert!(found["what"].as_str().unwrap().contains("a socket's may have 107"), "{found}");
    assert!(found["remedy"]["note"].as_str().unwrap().contains("TMUX_TMPDIR"), "{found}");
    let dir = place.path("home/.the-loop");
    std::fs::create_dir(&dir).unwrap();
    let config = "routing:\n  runner: tmux\n  defaultHarness: demo\nwebhooks:\n  ghWebhook:\n    port: 47999\n";
    std::fs::write(dir.join("config.yaml"), config).unwrap();
    // Others may use the directory: tmux refuses that too.
    let open = place.path("open");
    let sockets = open.join(format!("tmux-{}", rustix::process::getuid().as_raw()));
    std::fs::create_dir_all(&sockets).unwrap();
    chmod(&sockets, 0o755);
    for (parent, said) in [(&long, "a socket's may have"), (&open, "others may use")] {
        let vars = [("TMUX_TMPDIR", parent.to_str().unwrap()), vars[1]];
        let output = place.run(SYSTEM, &["gh-webhook", "start"], &vars);
        let told = text(&output.stderr);
        assert!(!output.status.success() && told.contains("this host is not ready"), "{told}");
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains(said), "{told}");
    }
}
