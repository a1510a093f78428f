//! Reading the configuration again while the receiver runs.

use crate::support::{World, eventually, payload};

const HARNESS: &str = "defaultHarness: demo";

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

async fn decided(world: &World, id: &str, author: &str) -> String {
    let body = payload::labeled("octo/hello", 7, author);
    assert_eq!(world.post(id, "issues", &body).await, 202);
    eventually("it is decided", async || {
        let (_, out, _) = world.run(&["events", id, "--json"]);
        let delivery = json(&out)["deliveries"][0].clone();
        let state = delivery["state"].as_str()?;
        (state != "received").then(|| delivery["reason"].as_str().unwrap_or(state).to_owned())
    })
    .await
}

#[tokio::test]
async fn a_reload_shows_what_is_different_and_the_running_receiver_obeys() {
    let mut world = World::new(HARNESS);
    world.start().await;
    assert_eq!(json(&world.run(&["gh-webhook", "status", "--json"]).1)["changedOnDisk"], false);
    let before = decided(&world, "11111111-0000-0000-0000-000000000001", "bob").await;

    let text = std::fs::read_to_string(world.config()).unwrap();
    let text = text.replace("[alice]", "[carol]").replace("port: 0", "port: 1");
    std::fs::write(world.config(), &text).unwrap();
    let (_, out, _) = world.run(&["gh-webhook", "status"]);
    assert!(out.contains("(changed on disk)"), "{out}");

    let (code, out, err) = world.run(&["gh-webhook", "reload"]);
    assert_eq!(
        (code, out.as_str(), err.as_str()),
        (
            0,
            "routing.authorizedUsers: [alice] → [carol]\n\
             webhooks.ghWebhook.port: 0 → 1 (at the next start)\n",
            ""
        )
    );
    let status = json(&world.run(&["gh-webhook", "status", "--json"]).1);
    assert_eq!((&status["changedOnDisk"], &status["url"]), (&false.into(), &world.url().into()));
    // Alice is not listed any more, no more than bob was.
    let after = decided(&world, "11111111-0000-0000-0000-000000000002", "alice").await;
    assert_eq!(after, before);

    // What waits for the next start is named again; the rest has been taken.
    let (_, out, _) = world.run(&["gh-webhook", "reload"]);
    assert_eq!(out, "webhooks.ghWebhook.port: 0 → 1 (at the next start)\n");
}

#[tokio::test]
async fn a_program_for_notices_that_cannot_be_run_is_told_at_the_reload() {
    let mut world = World::new(HARNESS);
    world.start().await;
    let text = std::fs::read_to_string(world.config()).unwrap();
    for (program, is_there) in [("/nowhere/tell-me", false), ("/bin/sh", true)] {
        let notify = format!("{text}\nnotify:\n  command: [{program}]\n");
        std::fs::write(world.config(), notify).unwrap();
        let (code, out, err) = world.run(&["gh-webhook", "reload"]);
        assert!(code == 0 && out.contains("notify.command"), "{out}{err}");
        let warning = format!("warning: `notify.command` cannot be run: `{program}`: ");
        assert_eq!(err.contains(&warning), !is_there, "{err}");
    }
}

#[tokio::test]
async fn a_broken_file_is_refused_and_the_receiver_goes_on() {
    let mut world = World::new(HARNESS);
    world.start().await;
    let good = std::fs::read_to_string(world.config()).unwrap();
    std::fs::write(world.config(), good.replace("runner: tmux", "rnner: tmux")).unwrap();
    let (code, out, err) = world.run(&["gh-webhook", "reload"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("config.yaml:5:3: unknown key `rnner`"), "{err}");
    assert!(err.contains("did you mean `runner`?"), "{err}");
    assert!(err.contains("the receiver goes on"), "{err}");
    let (code, out, _) = world.run(&["gh-webhook", "reload", "--json"]);
    assert_eq!((code, json(&out)["changes"].as_array().unwrap().len()), (1, 0));
    // A status, too, is told with a broken file; and it still obeys the old one.
    let (code, out, _) = world.run(&["gh-webhook", "status"]);
    assert!(code == 0 && out.contains("(changed on disk)"), "{out}");
    // It tells of the refusal too: who reads it may not be who asked.
    assert!(out.contains("\nreload         refused at 20"), "{out}");
    assert!(out.contains("config.yaml:5:3: unknown key `rnner`\n"), "{out}");
    assert!(out.contains("\n  hint: did you mean `runner`?"), "{out}");
    let status = json(&world.run(&["gh-webhook", "status", "--json"]).1);
    let refused = &status["reloadRefused"];
    assert!(refused["at"].as_str().unwrap().ends_with('Z'), "{status}");
    assert!(refused["why"].as_str().unwrap().contains("unknown key `rnner`"), "{status}");
    std::fs::write(world.config(), &good).unwrap();
    let (code, out, err) = world.run(&["gh-webhook", "reload"]);
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    assert!(err.contains("Nothing in the configuration has changed"), "{err}");
    let status = json(&world.run(&["gh-webhook", "status", "--json"]).1);
    assert_eq!(status["reloadRefused"], serde_json::Value::Null);
}

#[tokio::test]
async fn a_hangup_reads_it_again() {
    let mut world = World::new(HARNESS);
    world.start().await;
    let text = std::fs::read_to_string(world.config()).unwrap();
    std::fs::write(world.config(), text.replace("[alice]", "[alice, carol]")).unwrap();
    let status = json(&world.run(&["gh-webhook", "status", "--json"]).1);
    let pid = i32::try_from(status["pid"].as_i64().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    eventually("it was read again", async || {
        let status = json(&world.run(&["gh-webhook", "status", "--json"]).1);
        (status["changedOnDisk"] == false).then_some(())
    })
    .await;
}

#[test]
fn without_a_receiver_a_reload_says_so() {
    let world = World::new(HARNESS);
    let (code, _, err) = world.run(&["gh-webhook", "reload"]);
    assert!(code == 1 && err.contains("no receiver runs"), "{err}");
}

#[tokio::test]
async fn a_receiver_with_a_directory_of_its_own_is_found_when_the_file_is_broken_since() {
    let mut world = World::new("defaultHarness: demo");
    let good = std::fs::read_to_string(world.config()).unwrap();
    let own = world.home.join("own");
    std::fs::write(world.config(), format!("{good}state: {{dir: {}}}\n", own.display())).unwrap();
    world.start().await;
    let pid = world.pid();
    for broken in ["routing:\n  rnner: tmux\n".to_owned(), good.clone()] {
        std::fs::write(world.config(), &broken).unwrap();
        let (code, out, err) = world.run(&["gh-webhook", "status", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &status["pid"]), (0, &pid.into()), "{err}");
    }
    // The file is whole again, with the usual place: no second one starts.
    let (code, _, err) = world.run(&["gh-webhook", "start"]);
    assert!(code == 1 && err.contains("are in use already"), "{err}");
    assert!(err.contains(&format!("`{}`", own.display())), "{err}");
    std::fs::write(world.config(), "routing:\n  rnner: tmux\n").unwrap();
    let (code, _, err) = world.run(&["gh-webhook", "reload"]);
    assert!(code == 1 && err.contains("unknown key `rnner`"), "{err}");
    let (code, _, err) = world.run(&["gh-webhook", "stop"]);
    assert!(code == 0 && err.contains("The receiver has ended"), "{err}");
    world.wait_for_end();
    // Now nobody runs, and where one would cannot be known.
    let (code, out, err) = world.run(&["gh-webhook", "status"]);
    assert!(code == 1 && out.starts_with("not running"), "{out}");
    assert!(
        err.contains("unknown key `rnner`") && err.contains("`state.dir` is not known"),
        "{err}"
    );
    // One that starts in the usual place forgets the other.
    std::fs::write(world.config(), &good).unwrap();
    world.start().await;
    let notes = std::fs::read_dir(world.home.join(".local/state/the-loop")).unwrap();
    assert!(!notes.flatten().any(|entry| entry.path().extension().is_some_and(|it| it == "json")));
}
