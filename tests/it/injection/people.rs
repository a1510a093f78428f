//! People at real terminals while events are typed: those who only look delay
//! nothing and change nothing, one who types holds the event, whichever way they
//! came in. And people who send by hand beside the events.

use std::time::{Duration, Instant};

use serde_json::json;

use super::stage::{Client, SESSION, SESSION_PANE, Stage};
use crate::support::payload;
use crate::web_client::{Terminal, Web};

/// A stage with a session that took its first event.
async fn stage() -> Stage {
    begun(Stage::new(&json!({}))).await
}

async fn begun(mut stage: Stage) -> Stage {
    stage.start().await;
    let labeled = payload::labeled("o/r", 1, "alice");
    assert_eq!(stage.world.post("e-0", "issues", &labeled).await, 202);
    stage.world.reaches("e-0", "delivered").await;
    stage
}

async fn comment(stage: &Stage, id: &str) {
    let comment = payload::comment("o/r", 1, "alice", &format!("word of {id}."));
    assert_eq!(stage.world.post(id, "issue_comment", &comment).await, 202);
}

/// Three events, one after the other, none of which waits for a person.
async fn three_without_delay(stage: &Stage) {
    for n in 1..=3 {
        let id = format!("e-{n}");
        let begin = Instant::now();
        comment(stage, &id).await;
        let steps = stage.world.reaches(&id, "delivered").await;
        assert!(!steps.contains("human-"), "{steps}");
        assert!(begin.elapsed() < Duration::from_secs(5), "{steps}");
    }
    let size = ["display-message", "-p", "-t", SESSION_PANE, "#{window_width} #{window_height}"];
    assert_eq!(stage.world.tmux.run(&size).trim(), "160 48");
    assert_eq!(stage.prompts().len(), 4);
}

#[tokio::test]
async fn people_who_look_on_change_nothing() {
    let stage = stage().await;
    let (reader, writer, small) = (Client::new(160, 48), Client::new(200, 60), Client::new(40, 10));
    reader.attach(&stage.world, &["attach", "-r", "-t", SESSION]).await;
    writer.attach(&stage.world, &["attach", "-t", SESSION]).await;
    small.attach(&stage.world, &["attach", "-t", SESSION]).await;
    three_without_delay(&stage).await;
    // They go in the middle of one.
    comment(&stage, "e-4").await;
    small.close();
    writer.close();
    reader.close();
    let steps = stage.world.reaches("e-4", "delivered").await;
    assert!(!steps.contains("human-"), "{steps}");
    assert_eq!(stage.prompts().len(), 5);
}

#[tokio::test]
async fn a_spectator_who_holds_a_key_down_delays_nothing() {
    let stage = stage().await;
    let spectator = Client::new(100, 30);
    spectator.attach(&stage.world, &["attach", "-r", "-t", SESSION]).await;
    let holds = async {
        loop {
            spectator.keys(&["x"]);
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    };
    tokio::select! {
        () = three_without_delay(&stage) => {}
        () = holds => {}
    }
    assert!(!stage.prompts().concat().contains("xx"));
}

/// One who types holds the event until they rest; what they typed is put aside,
/// and back afterwards.
async fn holds_the_event(stage: &Stage, mut types: impl AsyncFnMut(&str)) {
    for n in 0..5 {
        types(&format!("({n})")).await;
        if n == 0 {
            comment(stage, "e-1").await;
        }
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert_eq!(stage.prompts().len(), 1, "typed into what a person types");
    }
    let steps = stage.world.reaches("e-1", "delivered").await;
    assert!(steps.contains("human-typing"), "{steps}");
    assert!(stage.screen().contains("❯ (0)(1)(2)(3)(4)"), "{}", stage.screen());
    assert_eq!(stage.prompts().len(), 2);
    assert!(!stage.prompts()[1].contains("(0)"));
}

#[tokio::test]
async fn one_who_types_holds_the_event() {
    let stage = stage().await;
    let typist = Client::new(100, 30);
    typist.attach(&stage.world, &["attach", "-t", SESSION]).await;
    holds_the_event(&stage, async |text| typist.keys(&["-l", text])).await;
}

#[tokio::test]
async fn one_who_types_through_a_grouped_session_holds_the_event() {
    let stage = stage().await;
    let typist = Client::new(100, 30);
    typist.attach(&stage.world, &["new-session", "-s", "mine", "-t", SESSION]).await;
    holds_the_event(&stage, async |text| typist.keys(&["-l", text])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_types_through_a_browser_holds_the_event() {
    let stage = begun(Stage::with_web(&json!({}))).await;
    let host = Web::host(&stage.world);
    let origin = format!("http://{host}");
    let head = [("Origin", origin.as_str()), ("Sec-WebSocket-Protocol", "tty")];
    let mut browser = Terminal::open(&host, "/s/o+r+1/ws", &head).await.unwrap();
    browser.shows("shortcuts").await;
    holds_the_event(&stage, async |text| browser.types(text.as_bytes()).await).await;
}

#[tokio::test]
async fn what_people_send_by_hand_and_what_comes_in_never_mix() {
    let stage = stage().await;
    let senders: Vec<_> = (0..6)
        .map(|n| {
            let mut send =
                stage.world.command(&["sessions", "send", "#1", &format!("by hand {n}.\nx\ny\nz")]);
            send.stdout(std::process::Stdio::null()).spawn().unwrap()
        })
        .collect();
    for n in 1..=6 {
        comment(&stage, &format!("e-{n}")).await;
    }
    for mut sender in senders {
        assert!(sender.wait().unwrap().success());
    }
    crate::support::eventually("all thirteen", async || (stage.events().len() == 13).then_some(()))
        .await;
    let prompts = stage.events();
    for word in (0..6).map(|n| format!("by hand {n}.")).chain((1..=6).map(|n| format!("of e-{n}.")))
    {
        let with: Vec<_> = prompts.iter().filter(|prompt| prompt.contains(&word)).collect();
        assert_eq!(with.len(), 1, "{word}");
        assert!(with[0].trim_end().ends_with(']'), "{}", with[0]);
    }
}
