//! Inboxes that older programs left: a new one reads them and goes on.

use super::*;

/// Opens an inbox that an older program left, and looks whether all in it is still
/// there and goes on.
async fn goes_on_with(version: &str) -> (Home, Inbox) {
    let home = Home::new();
    let old: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "tests/fixtures/inbox", version].iter().collect();
    std::fs::copy(old, home.path()).unwrap();
    assert!(matches!(Inbox::read_only(&home.path()), Err(InboxError::Older { .. })));
    let inbox = home.open();
    let states: Vec<_> =
        inbox.recent(9).unwrap().into_iter().map(|d| (d.id.to_string(), d.state)).collect();
    assert_eq!(
        states,
        [
            ("old-delivered".to_owned(), State::Delivered),
            ("old-ignored".to_owned(), State::Ignored),
            ("old-queued".to_owned(), State::Queued),
            ("old-received".to_owned(), State::Received),
        ]
    );
    assert_eq!(inbox.pending(0, 9).unwrap()[0].prompt, "an old prompt");
    assert_eq!(inbox.accept(new("old-ignored")).await.unwrap(), Accepted::Repeat);
    assert_eq!(inbox.accept(new("another")).await.unwrap(), Accepted::New);
    (home, inbox)
}

#[tokio::test]
async fn an_inbox_of_the_first_version_is_read_and_goes_on() {
    let (_home, inbox) = goes_on_with("version-1.db").await;
    assert_eq!(inbox.to_route(9).unwrap()[0].body, b"{\"n\":4}");
    assert_eq!(inbox.heads("abc").unwrap(), []);
}

#[tokio::test]
async fn an_inbox_whose_bodies_are_not_packed_is_read_and_goes_on() {
    let (home, inbox) = goes_on_with("version-4.db").await;
    assert!(inbox.pending(0, 9).unwrap()[0].now);
    assert_eq!(inbox.heads("abc").unwrap().len(), 1);
    assert_eq!(inbox.of_item(&item("o/r#2"), 9).unwrap()[0].id, id("old-ignored"));
    let old = format!("{{\"n\":4,\"text\":\"{}\"}}", "as it came ".repeat(200)).into_bytes();
    assert_eq!(inbox.to_route(9).unwrap()[0].body, old);
    // Beside it, the next one is packed; each is read as it came.
    inbox.accept(NewDelivery { body: old.clone(), ..new("packed") }).await.unwrap();
    let raw = Connection::open(home.path()).unwrap();
    let stored = |name: &str| -> (u32, Option<u32>) {
        let sql = "SELECT length(body), size FROM bodies b JOIN deliveries d USING (seq)
                   WHERE d.id = ?1";
        raw.query_row(sql, [name], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    };
    let length = u32::try_from(old.len()).unwrap();
    assert_eq!(stored("old-received"), (length, None));
    let (packed, size) = stored("packed");
    assert!(packed * 10 < length && size == Some(length), "{packed}");
    assert_eq!(inbox.stored(&id("packed")).unwrap().unwrap().body, old);
    // What a damaged file says is not believed, and hides nothing else.
    raw.execute_batch("UPDATE bodies SET size = size + 1 WHERE size IS NOT NULL").unwrap();
    let bodies: Vec<_> =
        inbox.to_route(9).unwrap().into_iter().map(|d| (d.id.to_string(), d.body.len())).collect();
    let expected = [("old-received", old.len()), ("another", 19), ("packed", 0)];
    assert_eq!(bodies, expected.map(|(id, length)| (id.to_owned(), length)));
}
