//! The spool: signals of agents, on disk.
//!
//! Each session has a directory; each signal is a file in it that appears whole,
//! by a rename. `the-loop hook` and the demo agent write, the daemon reads. A
//! signal that came while no daemon ran is read by the next one. The names sort
//! in the order in which the files appeared, so that a reader which remembers
//! the last name misses nothing. What a signal means, only the harness knows.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use fs_err as fs;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::base::clock::Clock;
use crate::base::files::atomic;

mod watch;

pub use watch::Watcher;

/// The variable that tells an agent its directory.
pub const DIR_VAR: &str = "THE_LOOP_SPOOL";

/// The most that one signal may take on disk.
pub const MAX_SIGNAL: usize = 256 * 1024;

/// A text inside a signal that is too large keeps this many characters at its
/// start and at its end.
const KEPT: usize = 16 * 1024;

/// How long a writer waits for the others. An agent is never held up: past this
/// it writes, and only the order is at risk.
const PATIENCE: Duration = Duration::from_millis(200);

/// What is kept of a signal that is too large even with its texts cut.
const NEEDED: [&str; 10] = [
    "hook_event_name",
    "session_id",
    "sessionId",
    "conversation_id",
    "stopReason",
    "transcript_path",
    "prompt",
    "reason",
    "tool_name",
    "notification_type",
];

const LOCK: &str = ".order";

/// The lock that holds tools back while a submit key is under way.
const TOOLS: &str = ".tools";
/// Changed whenever a tool was let go: its dialog may open soon.
const TOOL_BEGAN: &str = ".tool-began";

/// How long a tool waits for it at most.
const TOOL_PATIENCE: Duration = Duration::from_secs(2);

/// One signal, as it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The file's name; later signals have greater ones.
    pub name: String,
    /// When it was written.
    pub at: Timestamp,
    /// What the harness said.
    pub raw: Value,
}

#[derive(Serialize, Deserialize)]
struct Stored<S> {
    at: Timestamp,
    signal: S,
}

/// Writes a signal into the session's directory, which is made when it is not
/// there; those above it are not: an agent that outlives its state must not
/// bring it back. Called by short-lived programs: it needs no daemon.
pub fn write(dir: &Path, raw: &Value) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let capped = capped(raw);
    let mut order = Order::take(dir)?;
    let at = order.next(Clock::System.now())?;
    let stored = Stored { at, signal: capped.as_ref().unwrap_or(raw) };
    let content = serde_json::to_vec(&stored)?;
    let name = format!("{:020}-{}.json", at.as_nanosecond(), std::process::id());
    atomic::write_unsynced(&dir.join(name), &content)
}

/// Holds the agent's tools back until the file is dropped. One that another
/// process holds is an error, not a reason to wait.
pub fn hold_tools(dir: &Path) -> io::Result<File> {
    let file = open_tools(dir)?;
    file.try_lock().map_err(io::Error::from)?;
    Ok(file)
}

/// Waits while tools are held back, two seconds at most: an agent is never held
/// up for longer.
pub fn wait_for_tools(dir: &Path) -> io::Result<()> {
    let file = open_tools(dir)?;
    if file.try_lock_shared().is_ok() {
        // While nobody can take the lock: whoever does sees it.
        return tool_begins(dir);
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    // The thread ends with this short-lived program, if not before.
    std::thread::Builder::new().spawn(move || {
        let locked = file.lock_shared();
        let _ = sender.send(locked.map(|()| file));
    })?;
    let _file = receiver.recv_timeout(TOOL_PATIENCE);
    tool_begins(dir)
}

fn tool_begins(dir: &Path) -> io::Result<()> {
    open(&dir.join(TOOL_BEGAN))?.write_all(b"\n")
}

/// How long ago the last tool was let go; `None` when none was, or when the clock
/// was set back since.
pub fn last_tool(dir: &Path) -> Option<Duration> {
    let at = fs::metadata(dir.join(TOOL_BEGAN)).and_then(|metadata| metadata.modified()).ok()?;
    let ago = Clock::System.now().duration_since(Timestamp::try_from(at).ok()?);
    ago.try_into().ok()
}

fn open_tools(dir: &Path) -> io::Result<File> {
    open(&dir.join(TOOLS))
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path)
}

/// The signals after the one named `last`, in order; all of them without one. A
/// file that cannot be read as a signal is passed over: it is not ours.
pub fn read_after(dir: &Path, last: Option<&str>) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for name in names(dir)? {
        if last.is_some_and(|last| name.as_str() <= last) {
            continue;
        }
        let Ok(content) = fs::read(dir.join(&name)) else { continue };
        if let Ok(Stored { at, signal }) = serde_json::from_slice(&content) {
            entries.push(Entry { name, at, raw: signal });
        }
    }
    Ok(entries)
}

/// The name of the newest signal, for a reader that wants only what comes next.
pub fn newest(dir: &Path) -> io::Result<Option<String>> {
    Ok(names(dir)?.pop())
}

/// Removes the signals that were written before `time`, and gives their number.
/// The last one that `stays` takes is kept, however old it is.
pub fn prune(dir: &Path, time: Timestamp, stays: impl Fn(&Value) -> bool) -> io::Result<usize> {
    let limit = format!("{:020}", time.as_nanosecond());
    let (mut removed, mut is_found) = (0, false);
    for name in names(dir)?.into_iter().rev() {
        let path = dir.join(&name);
        if !is_found {
            let content = fs::read(&path).unwrap_or_default();
            let stored: Option<Stored<Value>> = serde_json::from_slice(&content).ok();
            is_found = stored.is_some_and(|stored| stays(&stored.signal));
            if is_found {
                continue;
            }
        }
        if name < limit {
            match fs::remove_file(path) {
                Ok(()) => removed += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(removed)
}

/// The names of the signals in a directory, in order. One that is not there
/// holds none.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let files = match fs::read_dir(dir) {
        Ok(files) => files,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for file in files {
        let name = file?.file_name();
        if let Some(name) = name.to_str().filter(|name| is_signal(name)) {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn is_signal(name: &str) -> bool {
    name.strip_suffix(".json").is_some_and(|stem| {
        stem.split_once('-').is_some_and(|(at, pid)| {
            let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            at.len() == 20 && digits(at) && digits(pid)
        })
    })
}

/// The turn to write. Hooks of one agent may run at the same time and the clock
/// may be set back: with the turn, the next name is greater than every name
/// before it.
struct Order {
    file: Option<File>,
}

impl Order {
    fn take(dir: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(dir.join(LOCK))?;
        let start = Instant::now();
        while file.try_lock().is_err() {
            if start.elapsed() > PATIENCE {
                return Ok(Self { file: None });
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        Ok(Self { file: Some(file) })
    }

    /// The time for the next name.
    fn next(&mut self, now: Timestamp) -> io::Result<Timestamp> {
        let Some(file) = &mut self.file else { return Ok(now) };
        let mut last = String::new();
        // What is no number was never written by us, and decides nothing.
        let _ = file.read_to_string(&mut last);
        let last = last.trim().parse::<i128>().unwrap_or(0);
        let next = now.as_nanosecond().max(last.saturating_add(1));
        let next = Timestamp::from_nanosecond(next).unwrap_or(now);
        file.rewind()?;
        file.write_all(format!("{:020}", next.as_nanosecond()).as_bytes())?;
        Ok(next)
    }
}

/// The signal with its long texts cut in the middle, when it is too large as it
/// is. Both ends of a prompt stay: the marker stands on the first line.
fn capped(raw: &Value) -> Option<Value> {
    if serde_json::to_string(raw).map_or(0, |text| text.len()) <= MAX_SIGNAL {
        return None;
    }
    let shortened = shorten(raw);
    if serde_json::to_string(&shortened).map_or(0, |text| text.len()) <= MAX_SIGNAL {
        return Some(shortened);
    }
    // Too large still: what is needed, and nothing else.
    let needed: Map<String, Value> = NEEDED
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), shortened.get(key)?.clone())))
        .filter(|(_, value)| value.is_string())
        .collect();
    Some(Value::Object(needed))
}

fn shorten(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(middle_cut(text)),
        Value::Array(values) => values.iter().map(shorten).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), shorten(value))).collect()
        }
        other => other.clone(),
    }
}

fn middle_cut(text: &str) -> String {
    let length = text.chars().count();
    if length <= 2 * KEPT {
        return text.to_owned();
    }
    let start: String = text.chars().take(KEPT).collect();
    let end: String = text.chars().skip(length - KEPT).collect();
    format!("{start}… [cut: {} characters] …{end}", length - 2 * KEPT)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;

    fn written(dir: &Path) -> Vec<Value> {
        read_after(dir, None).unwrap().into_iter().map(|entry| entry.raw).collect()
    }

    #[test]
    fn what_was_written_is_read_once_and_in_order() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("o+r+1");
        assert_eq!(read_after(&dir, None).unwrap(), []);
        for n in 0..5 {
            write(&dir, &json!({ "n": n })).unwrap();
        }
        let entries = read_after(&dir, None).unwrap();
        let numbers: Vec<_> =
            entries.iter().map(|entry| entry.raw["n"].as_u64().unwrap()).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
        assert_eq!(read_after(&dir, Some(&entries[2].name)).unwrap(), entries[3..]);
        assert_eq!(newest(&dir).unwrap().as_ref(), Some(&entries[4].name));
        assert!(read_after(&dir, Some(&entries[4].name)).unwrap().is_empty());
    }

    #[test]
    fn everything_is_private() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("x");
        write(&dir, &json!({})).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&dir), 0o700);
        for file in fs::read_dir(&dir).unwrap() {
            assert_eq!(mode(&file.unwrap().path()), 0o600);
        }
    }

    #[test]
    fn a_clock_that_goes_back_does_not_hide_a_signal() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &json!({"n": 1})).unwrap();
        // As if that one had been written an hour from now.
        let later = Clock::System.now() + jiff::Span::new().hours(1);
        Order::take(dir.path()).unwrap().next(later).unwrap();
        let first = newest(dir.path()).unwrap();
        write(dir.path(), &json!({"n": 2})).unwrap();
        let after = read_after(dir.path(), first.as_deref()).unwrap();
        assert_eq!(after[0].raw, json!({"n": 2}));
        assert!(after[0].at > later);
    }

    #[test]
    fn many_writers_at_once_lose_nothing_and_a_reader_never_falls_behind() {
        let dir = tempfile::tempdir().unwrap();
        let mut seen = 0;
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| (0..50).for_each(|_| write(dir.path(), &json!({})).unwrap()))
                })
                .collect();
            let mut last = None;
            loop {
                let done = writers.iter().all(std::thread::ScopedJoinHandle::is_finished);
                let new = read_after(dir.path(), last.as_deref()).unwrap();
                seen += new.len();
                last = new.last().map(|entry| entry.name.clone()).or(last);
                if done {
                    break;
                }
            }
        });
        assert_eq!(seen, 200);
    }

    #[test]
    fn a_huge_prompt_keeps_its_marker_at_both_ends() {
        let dir = tempfile::tempdir().unwrap();
        let prompt = format!("first\n{}\nlast", "ü".repeat(1_000_000));
        write(dir.path(), &json!({"hook_event_name": "UserPromptSubmit", "prompt": prompt}))
            .unwrap();
        let raw = &written(dir.path())[0];
        let kept = raw["prompt"].as_str().unwrap();
        assert!(kept.starts_with("first\n") && kept.ends_with("\nlast"));
        assert!(raw.to_string().len() <= MAX_SIGNAL);
        let many: Vec<_> = (0..100).map(|_| "x".repeat(20_000)).collect();
        write(dir.path(), &json!({"hook_event_name": "Stop", "tool_response": many})).unwrap();
        assert_eq!(written(dir.path())[1], json!({"hook_event_name": "Stop"}));
    }

    #[test]
    fn a_late_signal_does_not_bring_removed_state_back() {
        let root = tempfile::tempdir().unwrap();
        let state = root.path().join("spool");
        write(&state.join("o+r+1"), &json!({})).unwrap_err();
        assert!(!state.exists());
    }

    #[test]
    fn a_tool_waits_while_it_is_held_back_and_never_for_long() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(last_tool(dir.path()), None);
        wait_for_tools(dir.path()).unwrap();
        let held = hold_tools(dir.path()).unwrap();
        hold_tools(dir.path()).unwrap_err();
        assert!(last_tool(dir.path()).unwrap() < TOOL_PATIENCE, "whoever holds them sees it");
        let stamp = OpenOptions::new().write(true).open(dir.path().join(TOOL_BEGAN)).unwrap();
        stamp.set_modified(std::time::UNIX_EPOCH).unwrap();
        assert!(last_tool(dir.path()).unwrap() > TOOL_PATIENCE);
        let begin = Instant::now();
        wait_for_tools(dir.path()).unwrap();
        let waited = begin.elapsed();
        assert!(waited >= TOOL_PATIENCE && waited < TOOL_PATIENCE * 3, "{waited:?}");
        assert!(last_tool(dir.path()).unwrap() < TOOL_PATIENCE, "it went all the same");
        drop(held);
        let begin = Instant::now();
        wait_for_tools(dir.path()).unwrap();
        assert!(begin.elapsed() < TOOL_PATIENCE);
        assert_eq!(written(dir.path()), Vec::<Value>::new());
    }

    #[test]
    fn foreign_files_are_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &json!({"n": 1})).unwrap();
        for name in ["x.json", ".tmp-1", "00000000000000000001-1.json", "notes"] {
            fs::write(dir.path().join(name), "{").unwrap();
        }
        assert_eq!(written(dir.path()), [json!({"n": 1})]);
    }

    #[test]
    fn old_signals_are_removed_and_new_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        for n in 1..=5 {
            write(dir.path(), &json!({ "n": n })).unwrap();
        }
        let fourth = read_after(dir.path(), None).unwrap()[3].at;
        let stays = |raw: &Value| raw["n"].as_u64().is_some_and(|n| n <= 2);
        assert_eq!(prune(dir.path(), fourth, stays).unwrap(), 2);
        assert_eq!(written(dir.path()), [2, 4, 5].map(|n| json!({ "n": n })));
        assert_eq!(prune(dir.path(), fourth, |_| false).unwrap(), 1);
        assert_eq!(prune(&dir.path().join("none"), fourth, |_| true).unwrap(), 0);
    }
}
