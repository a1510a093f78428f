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
