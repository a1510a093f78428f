//! Inboxes of which a part was destroyed.

use the_loop::core::event::CheckPull;

use super::*;

/// An inbox of 50 deliveries and 50 heads, closed; its bytes.
async fn with_heads(home: &Home) -> Vec<u8> {
    let inbox = home.open();
    for number in 0..50 {
        let name = format!("d-{number}");
        inbox.accept(new(&name)).await.unwrap();
        let pull = CheckPull { item: item("o/r#1"), branch: "b".repeat(200), own_head: true };
        let about = About {
            delivery: id(&name),
            own: None,
            item: Some(item("o/r#1")),
            url: None,
            edits: None,
            head: Some((format!("{number:040}"), pull)),
        };
        let step = step(&name, State::Ignored, Reason::NotArmed);
        inbox.record_about(vec![step], vec![about]).await.unwrap();
    }
    inbox.close();
    std::fs::read(home.path()).unwrap()
}

#[tokio::test]
async fn an_inbox_whose_first_page_was_destroyed_is_kept_aside_and_read_all_the_same() {
    for length in [16, 100, 4096] {
        let home = Home::new();
        let mut bytes = with_heads(&home).await;
        bytes[..length].fill(0);
        std::fs::write(home.path(), &bytes).unwrap();
        assert!(Inbox::trouble(&home.path()).unwrap().contains("no SQLite database"));
        let inbox = home.open();
        let aside = Inbox::damaged_files(&home.path());
        assert_eq!(std::fs::read(&aside[0]).unwrap(), bytes);
        assert_eq!(inbox.recent(100).unwrap().len(), 50, "{length}");
        assert_eq!(inbox.heads(&format!("{:040}", 49)).unwrap().len(), 1);
        assert_eq!(inbox.accept(new("d-0")).await.unwrap(), Accepted::Repeat);
        assert_eq!(inbox.accept(new("later")).await.unwrap(), Accepted::New);
        assert_eq!(Inbox::trouble(&home.path()), None);
        let left: Vec<_> = std::fs::read_dir(home.path().parent().unwrap()).unwrap().collect();
        assert!(left.len() <= 4, "{left:?}");
    }
}

#[tokio::test]
async fn an_inbox_that_was_emptied_is_kept_aside_where_there_were_sessions() {
    let home = Home::new();
    with_heads(&home).await;
    std::fs::write(home.path(), "").unwrap();
    // Made and never filled: nothing was lost.
    home.open().close();
    assert_eq!(Inbox::damaged_files(&home.path()), [] as [PathBuf; 0]);
    std::fs::create_dir_all(home.dir.path().join("turns/o+r+1")).unwrap();
    std::fs::write(home.path(), "").unwrap();
    assert_eq!(home.open().recent(1).unwrap(), []);
    assert_eq!(Inbox::damaged_files(&home.path()).len(), 1);
}

/// What a receiver that was killed leaves: the inbox, and all of it in its log.
async fn killed(home: &Home) -> Vec<u8> {
    let inbox = home.open();
    for number in 0..50 {
        inbox.accept(new(&format!("d-{number}"))).await.unwrap();
    }
    let [file, log] = ["", "-wal"].map(|end| home.dir.path().join(format!("inbox.db{end}")));
    let (main, bytes) = (std::fs::read(&file).unwrap(), std::fs::read(&log).unwrap());
    inbox.close();
    // As they were before it was closed.
    std::fs::write(&file, &main).unwrap();
    std::fs::write(&log, &bytes).unwrap();
    bytes
}

#[tokio::test]
async fn a_log_whose_inbox_is_empty_or_gone_is_kept_and_read() {
    for is_there in [true, false] {
        let home = Home::new();
        let bytes = killed(&home).await;
        std::fs::remove_file(home.path()).unwrap();
        if is_there {
            std::fs::write(home.path(), "").unwrap();
        }
        let log = home.dir.path().join("inbox.db-wal");
        // Who only looks says so, and takes nothing away.
        assert!(Inbox::trouble(&home.path()).unwrap().contains("is damaged"));
        assert!(Inbox::read_only(&home.path()).is_err());
        assert_eq!(std::fs::read(&log).unwrap(), bytes);
        let inbox = home.open();
        assert_eq!(inbox.recent(100).unwrap().len(), 50);
        assert_eq!(inbox.accept(new("d-0")).await.unwrap(), Accepted::Repeat);
        let aside = Inbox::damaged_files(&home.path());
        assert_eq!(aside.len(), 1);
        let kept = format!("{}-wal", aside[0].display());
        assert_eq!(std::fs::read(kept).unwrap(), bytes);
        assert_eq!(Inbox::trouble(&home.path()), None);
    }
}

#[tokio::test]
async fn a_log_of_which_nothing_can_be_read_is_kept() {
    let home = Home::new();
    let mut bytes = killed(&home).await;
    bytes[32..].fill(0xa5);
    std::fs::write(home.path(), "").unwrap();
    std::fs::write(home.dir.path().join("inbox.db-wal"), &bytes).unwrap();
    assert_eq!(home.open().recent(100).unwrap(), []);
    let aside = Inbox::damaged_files(&home.path());
    assert_eq!(std::fs::read(format!("{}-wal", aside[0].display())).unwrap(), bytes);
}

#[tokio::test]
async fn an_inbox_whose_first_page_was_destroyed_is_read_with_its_log() {
    let home = Home::new();
    killed(&home).await;
    let length = std::fs::metadata(home.path()).unwrap().len();
    std::fs::write(home.path(), vec![0; usize::try_from(length).unwrap()]).unwrap();
    assert_eq!(home.open().recent(100).unwrap().len(), 50);
}

#[tokio::test]
async fn damage_in_what_is_known_of_commits_costs_only_that() {
    let home = Home::new();
    let mut bytes = with_heads(&home).await;
    let damaged = bytes
        .chunks(4096)
        // The table's pages are behind those of its index.
        .rposition(|page| page.windows(40).any(|w| w == format!("{:040}", 20).as_bytes()))
        .unwrap();
    bytes[damaged * 4096..][..8].fill(0xa5);
    std::fs::write(home.path(), &bytes).unwrap();
    assert!(Inbox::trouble(&home.path()).unwrap().contains("is damaged"));
    let inbox = home.open();
    assert_eq!(inbox.recent(100).unwrap().len(), 50);
    let known = |number: usize| inbox.heads(&format!("{number:040}")).unwrap().len();
    assert_eq!((known(0), known(49)), (1, 1), "from both ends");
    assert!((0..50).map(known).sum::<usize>() < 50);
}

/// How a delivery of the next tests ends, by its number.
fn end_of(number: usize) -> State {
    match number % 5 {
        0 | 1 => State::Delivered,
        2 => State::Ignored,
        3 => State::Queued,
        _ => State::Received,
    }
}

/// An inbox of 51 deliveries in every state, on many pages; its bytes.
async fn with_many(home: &Home) -> Vec<u8> {
    let inbox = home.open();
    for number in 0..51 {
        let name = format!("72d3162e-cc78-11e3-81ab-{number:012}");
        inbox.accept(NewDelivery { body: noise(400).into_bytes(), ..new(&name) }).await.unwrap();
        let steps = match end_of(number) {
            State::Delivered => vec![
                queue(&name, "o/r#1"),
                step(&name, State::Injecting, Reason::Pasted),
                step(&name, State::Delivered, Reason::Accepted),
            ],
            State::Ignored => vec![step(&name, State::Ignored, Reason::NotArmed)],
            State::Queued => vec![queue(&name, "o/r#1")],
            _ => Vec::new(),
        };
        inbox.record(steps).await.unwrap();
    }
    inbox.close();
    std::fs::read(home.path()).unwrap()
}

fn many(number: usize) -> DeliveryId {
    id(&format!("72d3162e-cc78-11e3-81ab-{number:012}"))
}

#[tokio::test]
async fn whichever_page_is_destroyed_no_delivery_vanishes_and_none_is_taken_as_new() {
    let home = Home::new();
    let whole = with_many(&home).await;
    let pages = whole.len() / 4096;
    assert!(pages > 25, "{pages}");
    for page in 0..pages {
        let home = Home::new();
        let mut bytes = whole.clone();
        bytes[page * 4096..][..4096].fill(0xa5);
        std::fs::write(home.path(), &bytes).unwrap();
        let inbox = home.open();
        assert_eq!(inbox.recent(100).unwrap().len(), 51, "page {page}");
        for number in 0..51 {
            let history = inbox.history(&many(number)).unwrap();
            let history = history.unwrap_or_else(|| panic!("page {page}: {number} vanished"));
            let (state, reason) = (history.delivery.state, history.delivery.reason);
            let end = end_of(number);
            let is_lost = (state, reason) == (State::Failed, Reason::InboxDamaged);
            let may_be_lost = matches!(end, State::Queued | State::Received);
            assert!(state == end || may_be_lost && is_lost, "page {page}: {number} {history:?}");
            let last = history.steps.last();
            // Of one that was given up its last step says so.
            assert!(!is_lost || last.is_some_and(|step| step.reason == Reason::InboxDamaged));
            let again = inbox.accept(NewDelivery { id: many(number), ..new("x") }).await.unwrap();
            let expected = if is_lost { Accepted::Requeued } else { Accepted::Repeat };
            assert_eq!(again, expected, "page {page}: {number}");
        }
        // What GitHub sends again has the name of its event.
        for delivery in inbox.to_route(100).unwrap() {
            assert_eq!(delivery.event, "issues", "page {page}: {delivery:?}");
        }
        for kept in Inbox::damaged_files(&home.path()) {
            assert_eq!(Inbox::missing_of(&kept), 0, "page {page}");
        }
        assert_eq!(Inbox::trouble(&home.path()), None, "page {page}");
    }
}

#[tokio::test]
async fn what_is_known_by_its_place_alone_has_failed_and_what_is_not_is_counted() {
    let home = Home::new();
    let mut bytes = with_many(&home).await;
    let raw = Connection::open(home.path()).unwrap();
    let page = |row: &rusqlite::Row<'_>| row.get::<_, u32>(0).map(|page| page as usize);
    let root = |name: &str| {
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
        raw.query_row(sql, [name], page).unwrap()
    };
    let mut destroyed = vec![root("routes"), root("steps"), root("routes_by_slug")];
    let mut of_deliveries =
        raw.prepare("SELECT rootpage FROM sqlite_schema WHERE tbl_name = 'deliveries'").unwrap();
    destroyed.extend(of_deliveries.query_map([], page).unwrap().map(Result::unwrap));
    // The second page of bodies, which their root names at its second cell.
    let at = (root("bodies") - 1) * 4096;
    let cell = usize::from(u16::from_be_bytes([bytes[at + 14], bytes[at + 15]]));
    let child = u32::from_be_bytes(bytes[at + cell..][..4].try_into().unwrap());
    destroyed.push(child as usize);
    drop(of_deliveries);
    drop(raw);
    for page in destroyed {
        bytes[(page - 1) * 4096..][..4096].fill(0xa5);
    }
    std::fs::write(home.path(), &bytes).unwrap();
    let inbox = home.open();
    let found = inbox.recent(100).unwrap();
    let aside = Inbox::damaged_files(&home.path());
    let missing = usize::try_from(Inbox::missing_of(&aside[0])).unwrap();
    assert!(missing > 3 && found.len() > 30, "{missing} {}", found.len());
    assert_eq!(found.len() + missing, 51);
    for delivery in found {
        assert_eq!((delivery.state, delivery.reason), (State::Failed, Reason::InboxDamaged));
        assert!(delivery.id.as_str().starts_with("lost-"), "{delivery:?}");
    }
}

#[tokio::test]
async fn who_edited_a_text_is_known_after_retention_a_restart_and_damage() {
    use the_loop::core::routing::{TextEdit, TextField};
    let home = Home::new();
    let by = |login: &str, minute: i64, by_author: bool| TextEdit {
        field: TextField::Title,
        login: login.to_owned(),
        at: Timestamp::from_second(minute * 60).unwrap(),
        by_author,
        armed: false,
    };
    let at = home.at("2026-01-01T00:00:00Z");
    let inbox = home.open();
    inbox.accept(new("a")).await.unwrap();
    let about = |number: u64, edits| About {
        delivery: id("a"),
        item: None,
        own: None,
        url: None,
        head: None,
        edits: Some((item(&format!("o/r#{number}")).slug(), edits)),
    };
    let told =
        |inbox: &Inbox, number: u64| inbox.edits(&item(&format!("o/r#{number}")).slug()).unwrap();
    let (eve, alice) = (by("eve", 5, false), by("alice", 6, true));
    // Of each person the latest, in whatever order they come.
    for edits in [vec![eve.clone()], vec![by("eve", 3, false), alice.clone()]] {
        inbox.record_about(Vec::new(), vec![about(1, edits)]).await.unwrap();
    }
    // What an author did to her own text is forgotten where nobody else did anything.
    inbox.record_about(Vec::new(), vec![about(2, vec![alice.clone()])]).await.unwrap();
    inbox.record(vec![step("a", State::Ignored, Reason::SenderNotAuthorized)]).await.unwrap();
    assert_eq!(told(&inbox, 2), std::slice::from_ref(&alice));
    home.clock.set(at + Duration::from_hours(24 * 40));
    inbox.prune(Keep { age: Duration::from_hours(24), size: 1 }).await.unwrap();
    assert_eq!(inbox.recent(9).unwrap(), []);
    assert_eq!(told(&inbox, 2), []);
    let both = [alice, eve];
    assert_eq!(told(&inbox, 1), both);
    inbox.close();
    assert_eq!(told(&home.open(), 1), both);
    let mut bytes = std::fs::read(home.path()).unwrap();
    bytes[4096..8192].fill(0xa5);
    std::fs::write(home.path(), &bytes).unwrap();
    assert_eq!(told(&home.open(), 1), both);
    assert_eq!(Inbox::damaged_files(&home.path()).len(), 1);
}
