//! Every example payload that Octokit publishes, through a real receiver: never
//! a 5xx, and a reason for each. `scripts/fetch-payloads` fetches them; without
//! them there is nothing to do here.

use crate::support::{World, eventually, post};

#[tokio::test]
async fn every_published_payload_is_taken_and_has_a_reason() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let Ok(text) = std::fs::read(root.join(".tools/payloads/index.json")) else {
        eprintln!("skipped: run scripts/fetch-payloads");
        return;
    };
    let events: Vec<serde_json::Value> = serde_json::from_slice(&text).unwrap();
    let mut world = World::new("defaultHarness: demo");
    world.start().await;
    let mut posted = 0;
    for event in &events {
        let name = event["name"].as_str().unwrap();
        for body in event["examples"].as_array().unwrap() {
            let body = serde_json::to_vec(body).unwrap();
            let status = post(world.url(), &format!("p-{posted}"), name, body).await;
            assert_eq!(status, 202, "{name}");
            posted += 1;
        }
    }
    assert!(posted > 100, "{posted}");
    let out = eventually("each was decided", async || {
        let (_, out, _) = world.run(&["events", "--json", "--limit", "10000"]);
        let value: serde_json::Value = serde_json::from_str(&out).ok()?;
        let all = value["deliveries"].as_array()?.clone();
        let done = all.iter().all(|delivery| {
            matches!(delivery["state"].as_str(), Some("ignored" | "done" | "delivered" | "failed"))
        });
        (all.len() == posted && done).then_some(all)
    })
    .await;
    for delivery in out {
        // The one kind that GitHub sends without what it needs is none of ours.
        assert_ne!(delivery["reason"], "unreadable", "{delivery}");
    }
}
