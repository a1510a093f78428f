//! Texts of every size and of every byte, and many sessions at once.

use std::fmt::Write as _;

use serde_json::json;

use super::stage::Stage;
use crate::support::{payload, post};

/// What is typed at most, with all that is ours.
const CAP: usize = 16 * 1024;

async fn stage() -> Stage {
    let mut stage = Stage::new(&json!({}));
    stage.start().await;
    let labeled = payload::labeled("o/r", 1, "alice");
    assert_eq!(stage.world.post("e-0", "issues", &labeled).await, 202);
    stage.world.reaches("e-0", "delivered").await;
    stage
}

/// The prompt that a comment became.
async fn typed(stage: &Stage, id: &str, text: &str) -> String {
    let before = stage.prompts().len();
    let comment = payload::comment("o/r", 1, "alice", text);
    assert_eq!(stage.world.post(id, "issue_comment", &comment).await, 202);
    stage.world.reaches(id, "delivered").await;
    let prompts = stage.prompts();
    assert_eq!(prompts.len(), before + 1, "{id}");
    prompts[before].clone()
}

#[tokio::test]
async fn every_size_from_one_byte_to_a_megabyte_is_typed_or_cut_and_says_so() {
    let stage = stage().await;
    for (n, size) in [1, 10, 800, 5_000, 10_000].into_iter().enumerate() {
        let text = "y".repeat(size);
        let prompt = typed(&stage, &format!("whole-{n}"), &text).await;
        assert!(prompt.contains(&format!("\n{text}\n")), "{size}: {prompt:.400}");
    }
    for (n, size) in [16_384, 100_000, 1_000_000].into_iter().enumerate() {
        let prompt = typed(&stage, &format!("cut-{n}"), &"word ".repeat(size / 5)).await;
        assert!(prompt.len() <= CAP && prompt.contains("[cut"), "{size}: {}", prompt.len());
        assert!(prompt.trim_end().ends_with(']') && prompt.contains("[end of event "));
    }
}

#[tokio::test]
async fn every_byte_value_and_a_backslash_at_the_end_arrive_without_harm() {
    let stage = stage().await;
    let mut all = String::new();
    for byte in 0..=255_u8 {
        let _ = write!(all, "{byte:02x}:{} ", char::from(byte));
    }
    let prompt = typed(&stage, "all", &all).await;
    for byte in 0..=255_u8 {
        assert!(prompt.contains(&format!("{byte:02x}:")), "{byte:02x} is not in {prompt}");
    }
    let harmful = |c: char| c.is_control() && c != '\n';
    assert!(!prompt.contains(harmful), "{prompt:?}");
    for (n, text) in
        ["end \\", "\\", "a\\\\\\", "/exit", "!touch x", "#x", "@x", "?"].iter().enumerate()
    {
        let prompt = typed(&stage, &format!("end-{n}"), text).await;
        assert!(prompt.contains(&format!("\n{text}\n")), "{text} in {prompt}");
    }
    stage.check_notes(super::Person::Away);
}

#[tokio::test]
async fn comments_for_many_sessions_at_once_arrive_once_each_and_in_order() {
    // 20 sessions and 400 comments where as much is asked for.
    let (sessions, comments) = if super::each() > 50 { (20_u64, 20) } else { (4, 6) };
    let mut stage = Stage::new(&json!({}));
    stage.start().await;
    for item in 1..=sessions {
        let labeled = payload::labeled("o/r", item, "alice");
        assert_eq!(stage.world.post(&format!("s-{item}"), "issues", &labeled).await, 202);
    }
    for n in 0..comments {
        for item in 1..=sessions {
            let text = format!("word-{item}-{n}.");
            let body = serde_json::to_vec(&payload::comment("o/r", item, "alice", &text)).unwrap();
            let id = format!("c-{item}-{n}");
            assert_eq!(post(stage.world.url(), &id, "issue_comment", body).await, 202);
        }
    }
    let all = usize::try_from(sessions).unwrap() * (comments + 1);
    let begin = std::time::Instant::now();
    while stage.events().len() < all {
        assert!(begin.elapsed().as_secs() < 300, "{} of {all}", stage.events().len());
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    let prompts = stage.events();
    assert_eq!(prompts.len(), all);
    for item in 1..=sessions {
        let place = |n| {
            let word = format!("word-{item}-{n}.");
            let mut with = prompts.iter().enumerate().filter(|(_, prompt)| prompt.contains(&word));
            let (place, prompt) = with.next().unwrap();
            assert!(with.next().is_none(), "{word} arrived twice");
            assert!(prompt.lines().next().unwrap().ends_with(&format!(" on o/r#{item}")));
            place
        };
        assert!((0..comments).map(place).is_sorted(), "the order of {item}");
    }
    stage.check_notes(super::Person::Away);
}
