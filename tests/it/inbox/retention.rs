//! What the inbox keeps, and for how long.

use super::*;

#[tokio::test]
async fn what_is_old_is_forgotten_and_never_what_is_still_under_way() {
    let home = Home::new();
    let day = 86_400_000_i64;
    for (name, days) in [("very-old", 0), ("open", 0), ("old", 25), ("new", 39)] {
        let inbox = Inbox::open(&home.path(), at(days * day)).unwrap();
        inbox.accept(new(name)).await.unwrap();
        if name != "open" {
            inbox.record(vec![step(name, State::Ignored, Reason::NoSession)]).await.unwrap();
        }
        inbox.close();
    }
    let inbox = Inbox::open(&home.path(), at(40 * day)).unwrap();
    inbox.record(vec![queue("open", "o/r#1")]).await.unwrap();
    assert!(inbox.prune(Keep { age: 10 * DAY, size: u64::MAX }).await.unwrap() > 0);
    let has = |name: &str| {
        let known = inbox.history(&id(name)).unwrap().is_some();
        (known, inbox.stored(&id(name)).unwrap().is_some())
    };
    assert_eq!(has("very-old"), (false, false));
    assert_eq!(has("old"), (true, false), "outcomes stay thirty days");
    assert_eq!(has("new"), (true, true));
    assert_eq!(has("open"), (true, true));
    assert_eq!(inbox.replay(id("old")).await.unwrap(), Replayed::NoBody);
    assert_eq!(inbox.replay(id("open")).await.unwrap(), Replayed::UnderWay);
    assert_eq!(inbox.replay(id("new")).await.unwrap(), Replayed::Queued);
    assert_eq!(inbox.to_route(9).unwrap()[0].id, id("new"));
    assert_eq!(inbox.prune(Keep { age: 10 * DAY, size: u64::MAX }).await.unwrap(), 0);
    // Sent again, each that has ended has its body back, and can be decided about anew.
    for (state, reason) in [
        (State::Ignored, Reason::NoSession),
        (State::Delivered, Reason::Accepted),
        (State::Unproven, Reason::NoSignal),
        (State::Done, Reason::ItemClosed),
    ] {
        inbox.record(vec![step("old", state, reason)]).await.unwrap();
        inbox.prune(Keep { age: 10 * DAY, size: u64::MAX }).await.unwrap();
        assert_eq!(has("old"), (true, false));
        assert_eq!(inbox.accept(new("old")).await.unwrap(), Accepted::Repeat);
        assert_eq!(has("old"), (true, true), "{state}");
        assert_eq!(inbox.replay(id("old")).await.unwrap(), Replayed::Queued);
    }
}

#[tokio::test]
async fn for_want_of_room_the_oldest_bodies_go_and_the_outcomes_stay() {
    let home = Home::new();
    let inbox = home.open();
    for number in 0..60 {
        let name = format!("d-{number}");
        let body = noise(64 << 10).into_bytes();
        inbox.accept(NewDelivery { body, ..new(&name) }).await.unwrap();
        if number != 3 {
            inbox.record(vec![step(&name, State::Ignored, Reason::NoSession)]).await.unwrap();
        }
    }
    let keep = Keep { age: 10 * DAY, size: 1 << 20 };
    inbox.prune(keep).await.unwrap();
    assert_eq!(inbox.recent(100).unwrap().len(), 60);
    assert!(inbox.stored(&id("d-0")).unwrap().is_none());
    assert!(inbox.stored(&id("d-3")).unwrap().is_some(), "it was not routed yet");
    assert!(inbox.stored(&id("d-59")).unwrap().is_some(), "there is room for the latest");
}
