//! Files in the place of the inbox that are none, or none that this program reads.

use super::*;

#[test]
fn what_is_not_an_inbox_is_refused_by_name_and_left_alone() {
    let home = Home::new();
    let path = home.path();
    for content in ["not a database", &"not a database ".repeat(1000)] {
        std::fs::write(&path, content).unwrap();
        for error in
            [Inbox::open(&path, Clock::System).unwrap_err(), Inbox::read_only(&path).unwrap_err()]
        {
            assert!(matches!(error, InboxError::NotAnInbox { .. }), "{error:?}");
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), *content);
    }
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    let home = Home::new();
    let other = Connection::open(home.path()).unwrap();
    other.execute_batch("CREATE TABLE theirs (x)").unwrap();
    drop(other);
    let before = std::fs::read(home.path()).unwrap();
    let error = Inbox::open(&home.path(), Clock::System).unwrap_err();
    assert!(error.to_string().contains("another program"), "{error}");
    assert_eq!(std::fs::read(home.path()).unwrap(), before);
}

#[tokio::test]
async fn a_newer_format_is_refused_and_left_alone() {
    let home = Home::new();
    let inbox = home.open();
    inbox.accept(new("a")).await.unwrap();
    inbox.close();
    let raw = Connection::open(home.path()).unwrap();
    raw.execute_batch("PRAGMA user_version = 99").unwrap();
    drop(raw);
    for error in [
        Inbox::open(&home.path(), Clock::System).unwrap_err(),
        Inbox::read_only(&home.path()).unwrap_err(),
    ] {
        assert!(matches!(error, InboxError::Newer { found: 99, .. }), "{error:?}");
        assert!(error.to_string().contains("newer version"), "{error}");
    }
}

#[test]
fn a_file_that_was_made_and_never_filled_is_filled() {
    let home = Home::new();
    std::fs::write(home.path(), "").unwrap();
    assert!(matches!(Inbox::read_only(&home.path()), Err(InboxError::Missing { .. })));
    drop(home.open());
    let raw = Connection::open(home.path()).unwrap();
    let pragma = |name: &str| -> i64 {
        raw.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)).unwrap()
    };
    assert_eq!(pragma("application_id"), 0x6c6f_6f70);
    assert!(pragma("user_version") >= 1);
    let journal: String = raw.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(journal, "wal");
}
