//! What the doctor's probes leave: nothing, whatever ended them.

use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::doctor::{Place, SYSTEM, hold_up_paste, json, text, wait_until, words};
use crate::doctor_host::severity;

#[test]
fn a_child_of_a_probe_that_leaves_its_group_ends_with_the_doctor() {
    let place = Place::new();
    let mark = place.path("x");
    // One that leaves, one that is an orphan besides; the tool itself answers.
    let script = format!(
        "#!/bin/sh\n(setsid sh -c 'sleep 100; : {mark}' &) >/dev/null 2>&1 </dev/null\n\
         setsid sh -c 'sleep 100; : {mark}' >/dev/null 2>&1 </dev/null &\necho git version 2.9\n",
        mark = mark.display()
    );
    place.put("git", 0o755, script.as_bytes());
    let path = format!("BIN:{SYSTEM}");
    let report = json(&place.run(&path, &["doctor", "--json", "--only", "git"], &[]));
    assert_eq!(severity(&report, "git.found"), "ok");
    place.assert_clean();
}

#[test]
fn a_job_of_the_shell_that_became_the_doctor_is_left_alone() {
    let place = Place::new();
    let script = "sleep 60 >/dev/null 2>&1 & echo $!; exec \"$0\" doctor --only locale";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_the-loop")])
        .env("HOME", place.path("home"))
        .output()
        .unwrap();
    let job: i32 = text(&output.stdout).lines().next().unwrap().parse().unwrap();
    let ended = kill_process(Pid::from_raw(job).unwrap(), Signal::KILL);
    assert!(output.status.success() && ended.is_ok(), "{}", words(&output.stderr));
}

#[test]
fn what_a_killed_doctor_left_is_ended_by_the_next() {
    let place = Place::new();
    let mark = hold_up_paste(&place);
    let mut child = place.command("BIN", &["doctor", "--only", "tmux"]).spawn().unwrap();
    // It waits, and starts nothing more.
    let waits = || place.left_behind().iter().any(|left| left.contains(" wait-for x"));
    wait_until("the paste is under way", || mark.exists() && waits());
    // Another one meanwhile takes nothing away from a living one.
    let left = place.left_behind();
    assert!(place.run(SYSTEM, &["doctor", "--only", "tmux"], &[]).status.success());
    assert_eq!(place.left_behind(), left);
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    assert_ne!(place.left_behind(), Vec::<String>::new());
    assert!(place.run(SYSTEM, &["doctor", "--only", "tmux"], &[]).status.success());
    wait_until("nothing is left", || place.left_behind().is_empty());
}
