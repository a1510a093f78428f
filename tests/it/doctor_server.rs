//! What the doctor says of tmux's sockets, and of a server that runs already.

use std::path::Path;

use the_loop::core::config::Tools;
use the_loop::doctor::{Needs, Project, Request, ToolId, check_up};

use crate::doctor::{Place, SYSTEM, finding, json, test_tool, text};
use crate::doctor_host::{DEMO, chmod, configure, doctor, mode, severity};
use crate::support::{eventually, tmux_path};

/// Examines the host as `runner: tmux` needs it.
async fn doctor_on(place: &Place, project: &Project) -> the_loop::doctor::Report {
    let (env, dirs) = (place.env(SYSTEM), place.dirs(SYSTEM));
    let (tools, needs) = (Tools::default(), Needs::default());
    let only = ["tmux".to_owned()];
    let request =
        Request { env: &env, dirs: &dirs, tools: &tools, needs: &needs, project, only: &only };
    check_up(&request).await
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
    assert!(found["what"].as_str().unwrap().contains("a socket's may have 100"), "{found}");
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
    let env = place.env(SYSTEM);
    let report = doctor_on(&place, &project).await;
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

#[tokio::test]
async fn beside_a_server_of_another_group_sessions_are_on_a_server_of_our_own() {
    let place = Place::new();
    let env = place.env(SYSTEM);
    let report = doctor_on(&place, &Project::default()).await;
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

#[tokio::test]
async fn a_server_that_does_not_answer_is_no_server_that_fits() {
    let place = Place::new();
    let socket = place.path("s");
    let run = |args: &[&str]| {
        let mut command = std::process::Command::new(tmux_path());
        command.args(["-f", "/dev/null", "-S"]).arg(&socket).args(args).output().unwrap()
    };
    let made = run(&["new-session", "-d", "-P", "-F", "#{pid}", "cat"]);
    let pid = text(&made.stdout).trim().to_owned();
    let signal = |signal| {
        let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    };
    let project = Project { tmux_socket: Some(socket.clone()), ..Project::default() };
    signal(rustix::process::Signal::STOP);
    let report = doctor_on(&place, &project).await;
    signal(rustix::process::Signal::CONT);
    let skew = |report: &the_loop::doctor::Report| {
        report.findings().iter().find(|found| found.id == "tmux.skew").cloned().unwrap()
    };
    let awake = skew(&doctor_on(&place, &project).await);
    run(&["kill-server"]);
    let found = skew(&report);
    assert!(found.what.contains("does not answer within 5 s"), "{found:?}");
    assert_eq!(found.severity, the_loop::doctor::Severity::Warning);
    assert_eq!(found.remedy.unwrap().commands, [format!("kill -CONT {pid}")]);
    assert!(awake.what.ends_with(", which fits"), "{awake:?}");
}

/// What is told to be typed works with the server that sessions are in.
#[tokio::test]
async fn the_command_that_start_and_status_and_list_print_is_that_of_the_servers_own_client() {
    let mut world = crate::support::World::new("defaultHarness: demo");
    let new = test_tool("tmux-3.6a");
    let config = std::fs::read_to_string(world.config()).unwrap();
    let config = config.replace(tmux_path().to_str().unwrap(), new.to_str().unwrap());
    std::fs::write(world.config(), config).unwrap();
    world.start().await;
    let issue = crate::support::payload::labeled("o/r", 1, "alice");
    world.post("a", "issues", &issue).await;
    world.reaches("a", "delivered").await;
    let command = format!("{} -S {}", new.display(), world.tmux.socket.display());
    let place = format!("Sessions are in tmux ({command})");
    let started = world.receiver_log();
    let (_, status, _) = world.run(&["gh-webhook", "status"]);
    let (_, _, listed) = world.run(&["sessions", "list"]);
    let typed = format!("{command} list-sessions -F '#{{session_name}}'");
    let mut shell = std::process::Command::new("/bin/sh");
    let output = shell.args(["-c", &typed]).env_remove("TMUX").output().unwrap();
    let mut end = std::process::Command::new("/bin/sh");
    let ended = end.args(["-c", &format!("{command} kill-server")]).output().unwrap();
    assert!(started.contains(&place), "{started}");
    assert!(status.contains(&format!("tmux server    {command}\n")), "{status}");
    assert!(listed.contains(&place), "{listed}");
    assert_eq!(text(&output.stdout), "loop/o+r+1\n", "{}", text(&output.stderr));
    assert!(ended.status.success());
}
