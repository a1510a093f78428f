//! The registry on a real disk: broken neighbours, unknown fields, two writers,
//! private files.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use the_loop::base::ids::{DeliveryId, HarnessSessionId, Slug};
use the_loop::core::config::{HarnessName, RunnerKind};
use the_loop::state::registry::{
    RecordedItem, Registry, RegistryError, SessionRecord, SessionStatus,
};

fn record(item: &str) -> SessionRecord {
    SessionRecord::new(
        RecordedItem { reference: item.parse().unwrap(), title: None, url: None },
        HarnessName::Demo,
        HarnessSessionId::uuid([1; 16]),
        PathBuf::from("/work"),
        RunnerKind::Tmux,
        "2026-01-02T03:04:05Z".parse().unwrap(),
    )
}

fn slug(text: &str) -> Slug {
    text.parse().unwrap()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn what_is_saved_is_there_for_another_handle() {
    let dir = tempfile::tempdir().unwrap();
    let registry = Registry::open(dir.path().join("sessions"));
    assert_eq!(registry.load(&slug("o+r+1")).unwrap(), None);
    assert!(registry.load_all().records.is_empty());
    registry.save(&record("o/r#1")).unwrap();
    registry.save(&record("o/r#10")).unwrap();

    let other = Registry::open(dir.path().join("sessions"));
    let loaded = other.load_all();
    assert_eq!(loaded.broken, []);
    let slugs: Vec<_> = loaded.records.keys().map(Slug::as_str).collect();
    assert_eq!(slugs, ["o+r+1", "o+r+10"]);
    let one = other.update(&slug("o+r+1"), |record| record.status = SessionStatus::Closed).unwrap();
    assert_eq!(one.status, SessionStatus::Closed);
    assert_eq!(registry.load(&slug("o+r+1")).unwrap(), Some(one));
    assert!(matches!(registry.update(&slug("o+r+2"), |_| ()), Err(RegistryError::Missing { .. })));
}

#[test]
fn a_broken_neighbour_is_reported_and_disturbs_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let registry = Registry::open(dir.path());
    registry.save(&record("o/r#1")).unwrap();
    registry.save(&record("o/r#2")).unwrap();
    let whole = std::fs::read_to_string(dir.path().join("o+r+1.json")).unwrap();
    for (name, content) in [
        ("o+r+3.json", ""),
        ("o+r+4.json", &whole[..whole.len() / 2]),
        ("o+r+5.json", "[1]"),
        ("o+r+6.json", whole.as_str()),
        ("o+r+7.json", &whole.replace("\"starting\"", "\"sleeping\"")),
        ("o+r+8.json", &whole.replace("\"github:o/r#1\"", "\"github:o/r\\u001b[31m#x\"")),
        ("not a slug.json", "{}"),
        ("notes.txt", "not an entry"),
        (".tmp-left-over.json", "{"),
    ] {
        std::fs::write(dir.path().join(name), content).unwrap();
    }
    std::fs::create_dir(dir.path().join("o+r+9.json")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("o+r+11.json")).unwrap();
    std::fs::write(dir.path().join("o+r+12.json"), " ".repeat((1 << 20) + 1)).unwrap();

    let loaded = registry.load_all();
    assert_eq!(loaded.records.keys().map(Slug::as_str).collect::<Vec<_>>(), ["o+r+1", "o+r+2"]);
    let broken: Vec<_> = loaded
        .broken
        .iter()
        .map(|broken| {
            format!("{}: {}", broken.path.file_name().unwrap().to_string_lossy(), broken.why)
        })
        .collect();
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("registry_broken", broken.join("\n"));
    });
    assert_eq!(loaded.known().len(), 11, "a broken entry still bears its name");
}

#[test]
fn a_broken_entry_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let registry = Registry::open(dir.path());
    let path = dir.path().join("o+r+1.json");
    std::fs::write(&path, "{ half").unwrap();
    for error in [
        registry.save(&record("o/r#1")).unwrap_err(),
        registry.update(&slug("o+r+1"), |_| ()).unwrap_err(),
        registry.load(&slug("o+r+1")).unwrap_err(),
    ] {
        let said = error.to_string().replace(&path.display().to_string(), "[PATH]");
        assert_eq!(
            said,
            "the entry `[PATH]` cannot be read (key must be a string at line 1 column 3): \
             put it right, or move it away and its session starts anew"
        );
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{ half");

    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let error = registry.save(&record("o/r#1")).unwrap_err().to_string();
    assert!(error.contains("it is a directory"), "{error}");
}

#[test]
fn an_unknown_field_survives_even_a_save_by_someone_who_never_saw_it() {
    let dir = tempfile::tempdir().unwrap();
    let registry = Registry::open(dir.path());
    registry.save(&record("o/r#1")).unwrap();
    let path = dir.path().join("o+r+1.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen('{', "{\"later\": [1, {\"a\": null}],", 1)).unwrap();

    registry.save(&record("o/r#1")).unwrap();
    registry.update(&slug("o+r+1"), |record| record.conversation_started = true).unwrap();
    let value: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(value["later"], serde_json::json!([1, {"a": null}]));
    assert_eq!(value["conversationStarted"], true);
}

#[test]
fn an_entry_without_a_runner_is_a_process() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"{"workItem": {"ref": "github:o/r#1"}, "harness": "claude",
        "harnessSessionId": "abc", "cwd": "/w", "status": "active",
        "createdAt": "2026-01-02T03:04:05Z"}"#;
    std::fs::write(dir.path().join("o+r+1.json"), text).unwrap();
    let record = Registry::open(dir.path()).load(&slug("o+r+1")).unwrap().unwrap();
    assert_eq!(record.runner, RunnerKind::Process);
    assert_eq!(record.tmux_target, None);
}

#[test]
fn an_update_cannot_turn_an_entry_into_another_items() {
    let dir = tempfile::tempdir().unwrap();
    let registry = Registry::open(dir.path());
    registry.save(&record("o/r#1")).unwrap();
    registry
        .update(&slug("o+r+1"), |record| record.work_item.reference = "o/r#2".parse().unwrap())
        .unwrap();
    assert_eq!(registry.load_all().records.len(), 1);
    assert_eq!(registry.load_all().broken, []);
}

#[test]
fn two_writers_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    Registry::open(dir.path()).save(&record("o/r#1")).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let registry = Registry::open(dir.path());
            scope.spawn(move || {
                for number in 0..25 {
                    let id: DeliveryId = format!("w{writer}-{number}").parse().unwrap();
                    registry
                        .update(&slug("o+r+1"), |record| record.recent_deliveries.push(id))
                        .unwrap();
                }
            });
        }
    });
    let record = Registry::open(dir.path()).load(&slug("o+r+1")).unwrap().unwrap();
    assert_eq!(record.recent_deliveries.len(), 50);
    for writer in 0..2 {
        let own: Vec<_> = record
            .recent_deliveries
            .iter()
            .map(DeliveryId::as_str)
            .filter_map(|id| id.strip_prefix(&format!("w{writer}-")))
            .collect();
        assert_eq!(own, (0..25).map(|number| number.to_string()).collect::<Vec<_>>());
    }
    let names: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 2, "only the entry and the lock: {names:?}");
}

#[test]
fn files_are_private_whatever_the_umask() {
    let before = rustix::process::umask(rustix::fs::Mode::empty());
    let dir = tempfile::tempdir().unwrap();
    let sessions = dir.path().join("deep/sessions");
    let registry = Registry::open(&sessions);
    registry.save(&record("o/r#1")).unwrap();
    registry.update(&slug("o+r+1"), |_| ()).unwrap();
    rustix::process::umask(before);
    assert_eq!(mode(&sessions), 0o700);
    assert_eq!(mode(&dir.path().join("deep")), 0o700);
    assert_eq!(mode(&sessions.join("o+r+1.json")), 0o600);
    assert_eq!(mode(&sessions.join(".lock")), 0o600);
}

#[test]
fn a_file_where_the_directory_belongs_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sessions");
    std::fs::write(&path, "").unwrap();
    let registry = Registry::open(&path);
    let error = the_loop::base::failure::chain(&registry.save(&record("o/r#1")).unwrap_err());
    assert!(error.contains("sessions` failed: "), "{error}");
    let broken = registry.load_all().broken;
    assert_eq!(broken.len(), 1, "not taken for an empty registry");
    assert_eq!(broken[0].path, path);
}

#[test]
fn an_entry_that_a_sweep_took_behind_a_new_lock_file_is_back_and_a_removed_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("sessions");
    let registry = Registry::open(&place).remembering();
    for number in ["o/r#1", "o/r#2"] {
        registry.save(&record(number)).unwrap();
    }
    let (one, two) = (record("o/r#1").slug(), record("o/r#2").slug());
    // The sweep takes the lock first, an entry is asked for, and the sweep goes on.
    std::fs::remove_file(place.join(".lock")).unwrap();
    assert!(registry.load(&one).unwrap().is_some());
    std::fs::remove_file(registry.path(&one)).unwrap();
    assert!(registry.load(&one).unwrap().is_some());
    std::fs::remove_file(registry.path(&two)).unwrap();
    assert_eq!(registry.load_all().records.len(), 2);
    std::fs::remove_file(registry.path(&two)).unwrap();
    registry.update(&two, |record| record.failure = Some("x".into())).unwrap();
    // Without a sweep it is a person who removes one.
    let registry = Registry::open(&place).remembering();
    std::fs::remove_file(registry.path(&one)).unwrap();
    assert!(registry.load(&one).unwrap().is_none());
    assert_eq!(registry.load_all().records.len(), 1);
    // And the sweep that takes the entry first is waited for.
    std::fs::remove_file(registry.path(&two)).unwrap();
    let lock = place.join(".lock");
    let sweep = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::remove_file(lock).unwrap();
    });
    assert!(registry.load(&two).unwrap().is_some());
    sweep.join().unwrap();
}

#[test]
fn one_that_lives_on_sees_whatever_others_do_to_an_entry() {
    let dir = tempfile::tempdir().unwrap();
    let registry = Registry::open(dir.path()).remembering();
    registry.save(&record("o/r#1")).unwrap();
    let path = dir.path().join("o+r+1.json");
    let active = std::fs::read_to_string(&path).unwrap().replace("\"starting\"", "\"active\"");
    let closed = active.replace("\"active\"", "\"closed\"");
    assert_ne!(active, closed);
    let status = || registry.load_all().records.get(&slug("o+r+1")).map(|record| record.status);
    // At once, when the clock of the file system may not have moved; and in place,
    // as an editor or an agent may write it.
    for _ in 0..50 {
        std::fs::write(&path, &closed).unwrap();
        assert_eq!(status(), Some(SessionStatus::Closed));
        std::fs::write(&path, &active).unwrap();
        assert_eq!(status(), Some(SessionStatus::Active));
    }
    // And after it was as it is for a while.
    let rest = || {
        while path.metadata().unwrap().modified().unwrap().elapsed().unwrap().as_millis() < 150 {
            std::thread::yield_now();
        }
    };
    rest();
    assert_eq!(status(), Some(SessionStatus::Active));
    assert_eq!(status(), Some(SessionStatus::Active));
    std::fs::write(&path, &closed).unwrap();
    rest();
    assert_eq!(status(), Some(SessionStatus::Closed));
    std::fs::write(&path, "{").unwrap();
    assert_eq!(status(), None);
    assert_eq!(registry.load_all().broken.len(), 1);
    std::fs::write(&path, &active).unwrap();
    assert_eq!(status(), Some(SessionStatus::Active));
}
