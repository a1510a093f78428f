//! Two state directories over one registry: two configuration files in one
//! directory, or a shell and a service whose variables differ.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::process::{comment, in_a_turn, label, script, world};
use crate::support::{World, unbroken};
use crate::turns::they_end;

/// Runs the program as somebody with another state: other variables, or another
/// file over the same registry.
fn elsewhere(world: &World, by: &str, args: &[&str]) -> (i32, String, String) {
    let other = world.home.join("elsewhere");
    let file = world.config().with_file_name("b.yaml");
    let mut all = args.to_vec();
    let name = file.to_str().unwrap();
    if by == "file" {
        std::fs::copy(world.config(), &file).unwrap();
        all.extend(["--config", name]);
    }
    let mut command = world.command(&all);
    if by != "file" {
        command.env(by, &other);
    }
    let output = command.output().unwrap();
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        unbroken(&String::from_utf8_lossy(&output.stderr)),
    )
}

const WAYS: [&str; 3] = ["XDG_STATE_HOME", "THE_LOOP_HOME", "file"];

#[tokio::test]
async fn a_receiver_over_one_registry_is_found_whatever_state_one_comes_with() {
    let mut world = world("");
    script(&world, json!({}));
    world.start().await;
    label(&world, "d-1").await;
    world.reaches("d-1", "delivered").await;
    let state = world.state_dir();
    for by in WAYS {
        let (code, _, err) = elsewhere(&world, by, &["gh-webhook", "start"]);
        assert!(code == 1 && err.contains("are in use already"), "{by}: {err}");
        assert!(err.contains(&format!("a receiver (pid {}, ", world.pid())), "{by}: {err}");
        assert!(err.contains(&format!("`{}`", state.display())), "{by}: {err}");
        let (code, out, err) = elsewhere(&world, by, &["gh-webhook", "status", "--json"]);
        let status: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{by}: {err}"));
        assert_eq!((code, &status["pid"]), (0, &world.pid().into()), "{by}");
        let (code, out, err) = elsewhere(&world, by, &["events", "d-1", "--json"]);
        assert!(code == 0 && out.contains("d-1"), "{by}: {err}");
        let (code, _, err) = elsewhere(&world, by, &["sessions", "close", "1"]);
        assert!(code == 0 && !err.contains("no receiver runs"), "{by}: {err}");
    }
    let (code, _, err) = world.run(&["sessions", "list"]);
    assert!(code == 0 && !err.contains("note:"), "one's own state is not worth a word: {err}");
    let (_, _, err) = elsewhere(&world, "file", &["gh-webhook", "stop"]);
    assert!(err.contains("The receiver has ended"), "{err}");
    world.wait_for_end();
}

#[tokio::test]
async fn a_sweep_of_the_registry_lets_no_second_receiver_in() {
    let mut world = world("");
    script(&world, json!({}));
    world.start().await;
    label(&world, "d-1").await;
    world.reaches("d-1", "delivered").await;
    std::fs::remove_dir_all(world.project.join(".the-loop/sessions")).unwrap();
    let (code, _, err) = elsewhere(&world, "THE_LOOP_HOME", &["gh-webhook", "start"]);
    assert!(code == 1 && err.contains("are in use already"), "{err}");
    comment(&world, "c-1", "go on.").await;
    world.reaches("c-1", "delivered").await;
    let (code, out, err) = elsewhere(&world, "THE_LOOP_HOME", &["gh-webhook", "status"]);
    assert!(code == 0, "it says again where it is: {out}{err}");
}

#[tokio::test]
async fn a_turn_that_a_killed_receiver_left_keeps_those_with_another_state_away() {
    let mut world = world("");
    in_a_turn(&mut world).await;
    world.end(Signal::KILL);
    for by in WAYS {
        let (code, _, err) = elsewhere(&world, by, &["gh-webhook", "start"]);
        assert!(code == 1 && err.contains("a turn of `o+r+1`"), "{by}: {err}");
    }
    they_end(&world).await;
}
