//! A disk that is really full: state on a file system of 2 MB, which grows later.
//! It is mounted in namespaces of the test's own, where the system allows that.

use std::io::Write as _;
use std::process::Command;

use serde_json::json;
use the_loop::core::outcome::State;
use the_loop::state::inbox::Inbox;

use crate::process;
use crate::support::{World, eventually, noise, payload};

const CHILD: &str = "THE_LOOP_TEST_DISK";

/// What a test runs in namespaces of its own, with a file system of 2 MB where
/// state is kept.
fn in_namespaces(name: &str) {
    let unshare = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["-Urm", "--"]).args(args);
        command
    };
    if !unshare(&["true"]).output().is_ok_and(|output| output.status.success()) {
        let said = "skipped: this system gives no namespace for mounts (`unshare -Urm`)";
        let _ = writeln!(std::io::stderr(), "{said}");
        return;
    }
    let test = std::env::current_exe().unwrap();
    let output = unshare(&[test.to_str().unwrap(), "--exact", "--nocapture", name])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

fn mount(world: &World, options: &str) {
    let place = world.home.join(".local/state/the-loop");
    std::fs::create_dir_all(&place).unwrap();
    let status = Command::new("mount")
        .args(["-t", "tmpfs", "-o", options, "tmpfs"])
        .arg(&place)
        .status()
        .unwrap();
    assert!(status.success());
}

/// Takes the file system away, once nobody uses it.
struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", "--"]).arg(&self.0).status();
    }
}

async fn a_disk_fills_and_grows(runner: &str) {
    let mut world = World::new("");
    // None starts where there is little room.
    mount(&world, "size=64m");
    let _mounted = Mounted(world.home.join(".local/state/the-loop"));
    process::configure(&world, runner, "defaultHarness: claude\nrateLimit: 0");
    process::script(&world, json!({}));
    world.start().await;
    mount(&world, "remount,size=2m");
    process::label(&world, "start").await;
    world.reaches("start", "delivered").await;

    let body = |n: usize| {
        let text = format!("word-{n}. {}", noise(200_000));
        payload::comment("o/r", 1, "alice", &text)
    };
    let mut stored = Vec::new();
    let mut refused = Vec::new();
    for n in 0..14 {
        match world.post(&format!("c-{n}"), "issue_comment", &body(n)).await {
            202 => stored.push(n),
            status if (500..600).contains(&status) => refused.push(n),
            status => panic!("{status} for {n}"),
        }
    }
    assert!(!stored.is_empty() && !refused.is_empty(), "{stored:?} {refused:?}");
    // It lives, and says that it cannot take more.
    let reader = Inbox::read_only(&world.state_dir().join("inbox.db")).unwrap();
    let is_waiting = || {
        let counts = reader.counts().unwrap();
        !counts.contains_key(&State::Failed) && !counts.contains_key(&State::Unproven)
    };
    assert!(is_waiting());

    mount(&world, "remount,size=64m");
    // What was refused GitHub does not send again by itself; a person does.
    for n in &refused {
        let again = eventually("it is taken again", async || {
            let status = world.post(&format!("c-{n}"), "issue_comment", &body(*n)).await;
            (status == 202).then_some(status)
        });
        again.await;
    }
    for n in 0..14 {
        world.reaches(&format!("c-{n}"), "delivered").await;
    }
    assert!(is_waiting(), "nothing was given up for want of room");
    let taken = process::prompts(&world);
    assert_eq!(taken.len(), 15, "each exactly once");
    let order = [stored, refused].concat();
    for (n, text) in order.iter().zip(&taken[1..]) {
        assert!(text.contains(&format!("word-{n}.")), "{n} is not next");
    }
}

async fn status_tells_of_a_full_disk() {
    let mut world = World::new("defaultHarness: demo");
    mount(&world, "size=64m");
    let place = world.home.join(".local/state/the-loop");
    let _mounted = Mounted(place.clone());
    world.start().await;
    mount(&world, "remount,size=2m");
    let (code, text, _) = world.run(&["gh-webhook", "status"]);
    assert!(code == 0 && !text.contains("stores"), "{text}");

    // To the last byte.
    let mut ballast = std::fs::File::create(place.join("ballast")).unwrap();
    while ballast.write_all(&[0; 1024]).is_ok() {}
    let (code, text, err) = world.run(&["gh-webhook", "status"]);
    assert_eq!((code, err.as_str()), (1, ""), "{text}");
    assert!(text.contains("stores         nothing now; GitHub is answered 503:\n"), "{text}");
    assert!(text.contains("\n  no room for the inbox"), "{text}");
    let comment = payload::comment("o/r", 1, "mallory", "hello");
    assert_eq!(world.post("c-1", "issue_comment", &comment).await, 503);

    // An open file would keep its room.
    drop(ballast);
    std::fs::remove_file(place.join("ballast")).unwrap();
    let (code, text, _) = world.run(&["gh-webhook", "status"]);
    assert!(code == 0 && !text.contains("stores"), "{text}");
    assert_eq!(world.post("c-1", "issue_comment", &comment).await, 202);
}

#[tokio::test]
async fn child_status() {
    if std::env::var_os(CHILD).is_some() {
        status_tells_of_a_full_disk().await;
    }
}

#[test]
fn a_full_disk_is_said_by_status_and_passes() {
    in_namespaces("disk_full::child_status");
}

#[tokio::test]
async fn child_in_tmux() {
    if std::env::var_os(CHILD).is_some() {
        a_disk_fills_and_grows("tmux").await;
    }
}

#[tokio::test]
async fn child_headless() {
    if std::env::var_os(CHILD).is_some() {
        a_disk_fills_and_grows("process").await;
    }
}

#[test]
fn what_was_taken_before_the_disk_was_full_arrives_in_tmux_when_it_grows() {
    in_namespaces("disk_full::child_in_tmux");
}

#[test]
fn what_was_taken_before_the_disk_was_full_arrives_headless_when_it_grows() {
    in_namespaces("disk_full::child_headless");
}
