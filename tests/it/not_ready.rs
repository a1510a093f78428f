//! What keeps the receiver from starting: said before a port is opened, in the
//! doctor's words, and with a command that helps when it is run.

use std::process::{Command, Output};

use crate::doctor::{Place, SYSTEM, finding, json, text};
use crate::doctor_host::{DEMO, chmod, configure, doctor, mode, severity};
use crate::install_places::may_mount;

const SECRET: (&str, &str) = ("THE_LOOP_GH_WEBHOOK_SECRET", "a secret of the tests");

fn start(place: &Place) -> Output {
    place.run(SYSTEM, &["gh-webhook", "start"], &[SECRET])
}

/// That both the doctor and a start say this, and the command that helps.
fn both_say(place: &Place, check: &str, what: &str) -> Option<String> {
    let report = doctor(place, &["--only", check]);
    let found = finding(&report, check);
    assert_eq!(found["severity"], "error", "{found}");
    assert!(found["what"].as_str().unwrap().contains(what), "{found}");
    let command = found["remedy"]["commands"][0].as_str().map(str::to_owned);
    let output = start(place);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    assert!(told.starts_with("error: this host is not ready\n"), "{told}");
    let flat = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(what), "{told}");
    if let Some(command) = &command {
        assert!(told.contains(&format!("run: {command}\n")), "{told}");
    }
    command
}

fn obey(command: &str) {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(output.status.success(), "{command}: {}", text(&output.stderr));
}

#[test]
fn the_web_terminals_port_is_looked_at_too() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let web = format!("{DEMO}  webTerminal:\n    enabled: true\n    port: {port}\n");
    configure(&place, &format!("{web}webhooks:\n  ghWebhook:\n    port: 0\n"));
    let own = std::process::id();
    let what = format!("the web terminal cannot listen on 127.0.0.1:{port}: process {own} (");
    assert_eq!(both_say(&place, "port.web", &what), None);
    let report = doctor(&place, &["--only", "port.web"]);
    let found = finding(&report, "port.web");
    let note = found["remedy"]["note"].as_str().unwrap();
    assert!(note.contains("`routing.webTerminal.port`"), "{note}");
    assert!(note.contains(&format!("`kill {own}`")), "{note}");
    let program = std::fs::read_link("/proc/self/exe").unwrap();
    assert_eq!(found["evidence"][0], format!("it runs {}", program.display()));
    drop(taken);
    assert_eq!(severity(&doctor(&place, &["--only", "port.web"]), "port.web"), "ok");
}

#[test]
fn a_shared_directory_that_is_not_there_starts_no_receiver() {
    let place = Place::new();
    let gone = place.path("home/gone");
    configure(&place, &format!("{DEMO}  spawnWorkdir: {}\n", gone.display()));
    both_say(&place, "workdir.there", "it is no directory");
    std::fs::create_dir(&gone).unwrap();
    assert_eq!(severity(&doctor(&place, &["--only", "workdir"]), "workdir.there"), "ok");
}

#[test]
fn state_that_others_may_write_to_is_an_error_of_both() {
    let place = Place::new();
    let parent = place.path("home/kept");
    let state = parent.join("state");
    std::fs::create_dir_all(&state).unwrap();
    let dir = state.display();
    configure(&place, &format!("{DEMO}state:\n  dir: {dir}\n"));
    chmod(&state, 0o777);
    obey(&both_say(&place, "state.modes", "others may use").unwrap());
    assert_eq!(mode(&state), 0o700);
    chmod(&parent, 0o777);
    obey(&both_say(&place, "state.modes", "others could replace").unwrap());
    assert_eq!(severity(&doctor(&place, &["--only", "state.modes"]), "state.modes"), "ok");
}

#[test]
fn the_remedy_for_a_secret_keeps_it_or_makes_a_whole_one() {
    let place = Place::new();
    let secret = place.path("home/secret");
    let file = format!("webhooks:\n  ghWebhook:\n    secretFile: {}\n", secret.display());
    configure(&place, &format!("{DEMO}{file}"));
    let start = || text(&place.run(SYSTEM, &["gh-webhook", "start"], &[]).stderr);
    std::fs::write(&secret, "s3cret").unwrap();
    chmod(&secret, 0o644);
    let said = start();
    assert!(said.contains(&format!("run: chmod 600 {}\n", secret.display())), "{said}");
    assert!(!said.contains("/dev/urandom"), "the one that is there stays: {said}");
    // What an interrupted command left.
    std::fs::write(&secret, "").unwrap();
    chmod(&secret, 0o600);
    let report = doctor(&place, &["--only", "secret.there"]);
    let empty = finding(&report, "secret.there");
    assert!(empty["what"].as_str().unwrap().ends_with("is empty"), "{empty}");
    let command = empty["remedy"]["commands"][0].as_str().unwrap();
    assert!(start().contains(&format!("run: {command}\n")));
    obey(command);
    let made = std::fs::read_to_string(&secret).unwrap();
    assert!(made.len() == 64 && made.bytes().all(|b| b.is_ascii_hexdigit()), "{made}");
}

#[test]
fn a_directory_that_was_removed_is_no_root_of_the_file_system() {
    let place = Place::new();
    let gone = place.path("home/gone");
    for command in [
        "\"$PROGRAM\" init --yes --repo o/r --user me",
        "\"$PROGRAM\" sessions list",
        "\"$PROGRAM\" config check --config x.yaml",
    ] {
        std::fs::create_dir(&gone).unwrap();
        let script = format!("cd \"$GONE\" && rmdir \"$GONE\" && {command}");
        let output = Command::new("sh")
            .args(["-c", &script])
            .env_clear()
            .envs(place.vars(SYSTEM))
            .env("GONE", &gone)
            .env("PROGRAM", env!("CARGO_BIN_EXE_the-loop"))
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{command}: {said}");
        assert!(said.contains("error: the current directory was removed\n"), "{command}: {said}");
        assert!(said.contains("hint: `cd` into one that is there"), "{said}");
    }
}

#[test]
fn where_there_is_no_directory_for_temporary_files_it_is_not_said_to_have_room() {
    if !may_mount() {
        return;
    }
    let script = "set -e
        mount -t tmpfs x /mnt
        for dir in usr bin lib lib64 etc proc dev; do
            [ -e /$dir ] || continue
            mkdir /mnt/$dir
            mount --rbind /$dir /mnt/$dir
        done
        : > /mnt/the-loop
        mount --bind \"$0\" /mnt/the-loop
        mkdir /mnt/home
        exec chroot /mnt /the-loop doctor --json --for tmux --only disk,tmux.socketDir";
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", script, env!("CARGO_BIN_EXE_the-loop")])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", "/home")
        .output()
        .unwrap();
    let report = json(&output);
    let findings = report["findings"].as_array().unwrap().iter();
    let whats: Vec<_> = findings
        .filter(|found| found["severity"] == "error")
        .map(|found| found["what"].as_str().unwrap())
        .collect();
    let said = [
        "/tmp is no directory: no temporary file can be kept",
        "tmux's sockets belong into /tmp, which is no directory",
    ];
    assert!(said.iter().all(|said| whats.contains(said)), "{report:#}");
    assert!(!report.to_string().contains("free for temporary files"), "{report:#}");
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
    let run = Command::new("sh").args(["-c", command]).status().unwrap();
    assert!(run.success(), "{command}");
    assert_eq!((mode(&secret), mode(secret.parent().unwrap())), (0o600, 0o700));
    assert_eq!(severity(&doctor(&place, &["--only", "secret.there"]), "secret.there"), "ok");
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
fn what_a_start_advises_looks_at_the_configuration_that_was_named() {
    let place = Place::new();
    let config = place.path("home/own name.yaml");
    let text = "routing:\n  runner: process\n  workspace:\n    enabled: true\n";
    std::fs::write(&config, format!("{text}  defaultHarness: demo\n")).unwrap();
    chmod(&config, 0o600);
    let args = ["gh-webhook", "start", "--config", "own name.yaml"];
    let told = text_of(&place.run("BIN", &args, &[SECRET]));
    let option = format!("--config '{}'", config.display());
    assert!(told.contains("git was not found"), "{told}");
    assert!(told.contains(&format!("`the-loop doctor {option}` shows every check")), "{told}");

    // What is found from here needs no name, in the background neither.
    configure(&place, &format!("{text}  defaultHarness: demo\n"));
    for more in [&[][..], &["--detach"]] {
        let args = [&["gh-webhook", "start"], more].concat();
        let told = text_of(&place.run("BIN", &args, &[SECRET]));
        assert!(told.contains("`the-loop doctor` shows every check"), "{told}");
        assert!(!told.contains("--config"), "{told}");
    }
}

#[test]
fn an_install_that_a_start_advises_carries_the_configuration() {
    let place = Place::new();
    let config = place.path("home/own.yaml");
    std::fs::write(&config, DEMO).unwrap();
    chmod(&config, 0o600);
    let args = ["gh-webhook", "start", "--config", "own.yaml"];
    let told = text_of(&place.run("BIN", &args, &[SECRET]));
    let command = format!("the-loop doctor --config {} --install tmux", config.display());
    assert!(told.contains(&command), "{told}");
}

#[test]
fn what_keeps_a_receiver_from_starting_is_told_alike_in_the_background() {
    let place = Place::new();
    let alike = |args: &[&str]| {
        let start = |more: &[&str]| {
            let args = [&["gh-webhook", "start"], args, more].concat();
            let output = place.run(SYSTEM, &args, &[]);
            assert_eq!(output.status.code(), Some(1));
            text(&output.stderr)
        };
        let told = start(&[]);
        assert_eq!(start(&["--detach"]), told);
        told
    };
    // A command that is longer than a line stays one that can be pasted.
    configure(&place, DEMO);
    let told = alike(&[]);
    let export = told.lines().find(|line| line.contains("export THE_LOOP_GH_WEBHOOK_SECRET="));
    let export = export.unwrap_or_else(|| panic!("{told}"));
    assert!(export.ends_with(")\""), "{told}");
    let (_, export) = export.split_once("export ").unwrap();
    let script = format!("export {export}; printf %s \"$THE_LOOP_GH_WEBHOOK_SECRET\"");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(output.stdout.len(), 64, "{told}");
    // Also of a configuration that was named, or is broken in another way.
    let config = place.path("home/own.yaml");
    let missing = place.path("home/a directory of mine/and one more below it/the secret");
    let text = format!("{DEMO}webhooks:\n  ghWebhook:\n    secretFile: {}\n", missing.display());
    std::fs::write(&config, text).unwrap();
    chmod(&config, 0o600);
    let told = alike(&["--config", config.to_str().unwrap()]);
    assert!(told.contains("run: mkdir -p -m 700 "), "{told}");
    // Before there is a directory for the log.
    let state = place.path("home/elsewhere");
    std::fs::write(&state, "").unwrap();
    configure(&place, &format!("{DEMO}state: {{dir: {}}}\n", state.join("state").display()));
    let told = alike(&["--insecure-no-secret"]);
    let flat = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("is no directory: nothing can be kept below it"), "{told}");
    std::fs::remove_file(&state).unwrap();
    std::fs::create_dir_all(state.join("state")).unwrap();
    chmod(&state.join("state"), 0o777);
    let told = alike(&["--insecure-no-secret"]);
    assert!(told.contains(&format!("run: chmod 700 {}", state.join("state").display())), "{told}");
    assert_eq!(std::fs::read_dir(state.join("state")).unwrap().count(), 0, "nothing is made");
}

/// What it said, on one line.
fn text_of(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    text(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ")
}
