//! Headless turns on disk: one directory for each, with what the agent reads
//! and writes. A turn outlives the receiver, and its result is read from here.
//!
//! `host::runner::process` makes and reads them, `the-loop launch` claims one
//! before it becomes the agent, `the-loop view` and `sessions logs` show them.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use fs_err as fs;
use jiff::Timestamp;
use rustix::process::{Pid, getpgid, test_kill_process};
use serde::{Deserialize, Serialize};

use crate::base::files::{atomic, private_dir};
use crate::base::ids::{DeliveryId, Marker, Slug};
use crate::base::process::Process;
use crate::core::config::RecordRule;

use super::paths::StatePaths;

pub mod output;

/// How many turns of a session are kept.
const KEPT: usize = 20;

/// The time of the last read of a file that nobody has read, in seconds.
const NEVER: i64 = 0;

/// The turns of one session.
#[derive(Debug, Clone)]
pub struct Turns {
    dir: PathBuf,
}

/// One turn's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    dir: PathBuf,
}

/// What is known of a turn before it begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct About {
    /// The delivery that it is for.
    pub delivery: DeliveryId,
    /// The marker of its prompt: a delivery that is replayed has another. Turns of
    /// earlier versions have none.
    #[serde(default)]
    pub marker: Option<Marker>,
    /// What happened, for those who look: the prompt's first line without its marker.
    #[serde(default)]
    pub what: String,
    /// When it was begun.
    pub began: Timestamp,
    /// What its records show to people, where its harness is a declared one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shows: Option<Vec<RecordRule>>,
}

/// How a turn ended that has no result of its own to show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    /// The reason in the inbox: `turn-timed-out`.
    pub reason: String,
    /// What is known of it.
    pub detail: String,
    /// Nobody had read its prompt, and nobody can any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub taken_back: bool,
}

/// A process, told from a later one of the same number by its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    /// Its number; 0 for a claim that no process stands behind.
    pub pid: i32,
    /// When it was started, in the kernel's ticks; nothing where that cannot be
    /// learnt.
    pub start: Option<u64>,
}

impl About {
    /// Whether the turn's prompt has this marker. What an earlier version wrote down
    /// says it in the prompt alone.
    fn is_of(&self, turn: &Turn, marker: &Marker) -> bool {
        match &self.marker {
            Some(its) => its == marker,
            None => fs::read_to_string(turn.prompt())
                .is_ok_and(|prompt| prompt.contains(marker.as_str())),
        }
    }
}

impl Turns {
    /// The turns of a session.
    pub fn of(paths: &StatePaths, slug: &Slug) -> Self {
        Self { dir: paths.turns().join(slug.as_str()) }
    }

    /// The sessions that have a directory of turns: no other one has a turn.
    pub fn named(paths: &StatePaths) -> io::Result<HashSet<OsString>> {
        match fs::read_dir(paths.turns()) {
            Ok(entries) => entries.map(|entry| Ok(entry?.file_name())).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(HashSet::new()),
            Err(error) => Err(error),
        }
    }

    /// The turns in a directory.
    pub fn in_dir(dir: &Path) -> Self {
        Self { dir: dir.to_path_buf() }
    }

    /// Their directory, which need not be there yet.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Every turn that is kept, in order.
    pub fn list(&self) -> io::Result<Vec<Turn>> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut turns = Vec::new();
        for entry in entries {
            let turn = Turn { dir: entry?.path() };
            if turn.number().is_some() {
                turns.push(turn);
            }
        }
        turns.sort_by(|a, b| a.dir.cmp(&b.dir));
        Ok(turns)
    }

    /// The last turn that was begun for a delivery with this marker.
    pub fn last_of(&self, delivery: &DeliveryId, marker: &Marker) -> io::Result<Option<Turn>> {
        let mut turns = self.list()?;
        turns.retain(|turn| {
            turn.about()
                .is_some_and(|about| about.delivery == *delivery && about.is_of(turn, marker))
        });
        Ok(turns.pop())
    }

    /// The turn whose agent lives.
    pub fn live(&self) -> io::Result<Option<Turn>> {
        Ok(self.list()?.into_iter().rev().find(|turn| turn.mark().is_some_and(|m| m.is_alive())))
    }

    /// Makes a turn's directory with its prompt in it. The oldest ones go.
    pub fn begin(&self, about: &About, prompt: &str) -> io::Result<Turn> {
        private_dir(&self.dir)?;
        let turns = self.list()?;
        let surplus = (turns.len() + 1).saturating_sub(KEPT);
        for old in turns.iter().take(surplus) {
            if !old.mark().is_some_and(|mark| mark.is_alive()) {
                fs::remove_dir_all(&old.dir)?;
            }
        }
        let last = turns.last().and_then(Turn::number).unwrap_or(0);
        let turn = Turn { dir: self.dir.join(format!("{:010}", last + 1)) };
        // Whole or not there: a turn without its prompt was never begun.
        let new = tempfile::Builder::new().prefix(".new-").tempdir_in(&self.dir)?;
        atomic::write(&new.path().join("prompt"), prompt.as_bytes())?;
        let about = serde_json::to_vec(about).map_err(io::Error::other)?;
        atomic::write(&new.path().join("about.json"), &about)?;
        for name in ["prompt", "about.json"] {
            never_read(&new.path().join(name));
        }
        fs::rename(new.keep(), &turn.dir)?;
        fs::File::open(&self.dir)?.sync_all()?;
        Ok(turn)
    }
}

impl Turn {
    fn number(&self) -> Option<u64> {
        self.dir.file_name()?.to_str()?.parse().ok()
    }

    /// Its directory; later ones have greater names.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What the agent reads.
    pub fn prompt(&self) -> PathBuf {
        self.dir.join("prompt")
    }

    /// What the agent wrote to its standard output.
    pub fn stdout(&self) -> PathBuf {
        self.dir.join("stdout")
    }

    /// What the agent wrote to its standard error.
    pub fn stderr(&self) -> PathBuf {
        self.dir.join("stderr")
    }

    /// The command line that `the-loop launch` becomes.
    pub fn launch(&self) -> PathBuf {
        self.dir.join("launch.json")
    }

    /// The claim: who became the agent.
    pub fn claim(&self) -> PathBuf {
        self.dir.join("claim.json")
    }

    /// What was known of it before it began.
    pub fn about(&self) -> Option<About> {
        serde_json::from_slice(&fs::read(self.dir.join("about.json")).ok()?).ok()
    }

    /// Notes how it ended, for those who look.
    pub fn note_end(&self, end: &End) -> io::Result<()> {
        let end = serde_json::to_vec(end).map_err(io::Error::other)?;
        atomic::write_unsynced(&self.dir.join("end.json"), &end)
    }

    /// How it ended, when that was noted.
    pub fn end(&self) -> Option<End> {
        serde_json::from_slice(&fs::read(self.dir.join("end.json")).ok()?).ok()
    }

    /// The process that claimed it.
    pub fn mark(&self) -> Option<Mark> {
        serde_json::from_slice(&fs::read(self.claim()).ok()?).ok()
    }

    /// Whether the process that claimed it could not become the agent.
    pub fn was_not_started(&self) -> bool {
        not_started(&self.claim()).exists()
    }

    /// Whether its prompt is known to have been read by nobody: the time of the last
    /// read is the one that it was made with. Where reads leave no trace (`noatime`)
    /// that says nothing.
    pub fn is_unread(&self) -> bool {
        let read_at = |path| fs::metadata(path).map(|metadata| metadata.atime());
        let leaves_trace = self.about().is_some()
            && read_at(self.dir.join("about.json")).is_ok_and(|at| at > NEVER);
        leaves_trace && read_at(self.prompt()).is_ok_and(|at| at == NEVER)
    }

    /// Takes its prompt back from whoever may still hold it open; `true` when nobody
    /// had read it, and so nobody ever will. `text` is what it was, for those who look.
    pub fn take_back(&self, text: &str) -> io::Result<bool> {
        // The look comes after the text is gone: what was not read by then cannot be.
        fs::OpenOptions::new().write(true).open(self.prompt())?.set_len(0)?;
        let is_unread = self.is_unread();
        atomic::write(&self.prompt(), text.as_bytes())?;
        Ok(is_unread)
    }

    /// Whether its prompt was taken back before anybody read it.
    pub fn was_taken_back(&self) -> bool {
        self.end().is_some_and(|end| end.taken_back)
    }

    /// Opens a file that the agent writes to; what is cut from it stays cut.
    pub fn open_output(path: &Path) -> io::Result<std::fs::File> {
        std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)
    }
}

impl Mark {
    /// This process.
    pub fn own() -> Self {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Self { pid, start: start_of(pid) }
    }

    /// A claim that keeps everybody from becoming the agent.
    pub fn nobody() -> Self {
        Self { pid: 0, start: None }
    }

    /// Whether the process lives. Where the start of a process cannot be learnt,
    /// one of this number that leads a group of its own is believed to be it.
    pub fn is_alive(&self) -> bool {
        let Some(pid) = Pid::from_raw(self.pid) else { return false };
        match (self.start, start_of(self.pid)) {
            (Some(then), Some(now)) => then == now,
            (Some(_), None) => false,
            (None, _) => test_kill_process(pid).is_ok() && getpgid(Some(pid)) == Ok(pid),
        }
    }
}

/// When a process was started, in ticks since boot; nothing for one that has
/// ended or where there is no `/proc`.
fn start_of(pid: i32) -> Option<u64> {
    Process::read(pid).filter(|process| !process.has_ended).map(|process| process.start)
}

/// Makes a file look as if nobody had ever read it. Where that fails it counts as
/// read.
fn never_read(path: &Path) {
    let times = std::fs::FileTimes::new().set_accessed(std::time::UNIX_EPOCH);
    let _ = fs::File::open(path).and_then(|file| file.file().set_times(times));
}

/// Claims a turn for a process; `false` when it was claimed before. Of several
/// that try only one succeeds, and what is there is whole.
pub fn claim(path: &Path, mark: &Mark) -> io::Result<bool> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".claim-").tempfile_in(dir)?;
    file.write_all(&serde_json::to_vec(mark).map_err(io::Error::other)?)?;
    file.as_file().sync_all()?;
    match fs::hard_link(file.path(), path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Notes that who claimed a turn could not become the agent.
pub fn note_not_started(claim: &Path) {
    // Nobody could be told: then the outcome is unproven.
    let _ = fs::write(not_started(claim), "");
}

fn not_started(claim: &Path) -> PathBuf {
    claim.with_extension("not-started")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_claimed_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("claim.json");
        assert!(claim(&path, &Mark::own()).unwrap());
        assert!(!claim(&path, &Mark::nobody()).unwrap());
        let turn = Turn { dir: dir.path().to_path_buf() };
        assert_eq!(turn.mark(), Some(Mark::own()));
        assert!(turn.mark().unwrap().is_alive());
    }

    #[test]
    fn another_process_of_the_same_number_is_not_it() {
        let own = Mark::own();
        let Some(start) = own.start else { return };
        assert!(!Mark { pid: own.pid, start: Some(start + 1) }.is_alive());
        assert!(!Mark::nobody().is_alive());
    }

    fn about() -> About {
        About {
            delivery: "d-1".parse().unwrap(),
            marker: None,
            what: String::new(),
            began: Timestamp::UNIX_EPOCH,
            shows: None,
        }
    }

    #[test]
    fn a_prompt_counts_as_unread_until_somebody_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let turns = Turns { dir: dir.path().join("o+r+1") };
        let turn = turns.begin(&about(), "text").unwrap();
        // Where reads leave no trace nothing is said to be unread.
        let trace = fs::metadata(turn.dir().join("about.json")).unwrap().atime();
        assert_eq!(trace, NEVER);
        assert!(turn.about().is_some());
        let leaves_trace = fs::metadata(turn.dir().join("about.json")).unwrap().atime() > NEVER;
        assert_eq!(turn.is_unread(), leaves_trace);
        // That it is opened is not a read.
        drop(fs::File::open(turn.prompt()).unwrap());
        assert_eq!(turn.is_unread(), leaves_trace);
        fs::read(turn.prompt()).unwrap();
        assert!(!turn.is_unread());
    }

    #[test]
    fn a_prompt_that_is_taken_back_is_read_by_nobody_who_holds_it_open() {
        use std::io::Read as _;

        let dir = tempfile::tempdir().unwrap();
        let turns = Turns { dir: dir.path().join("o+r+1") };
        for has_read in [false, true] {
            let turn = turns.begin(&about(), "text").unwrap();
            let mut held = fs::File::open(turn.prompt()).unwrap();
            if has_read {
                held.read_exact(&mut [0; 1]).unwrap();
            }
            fs::read(turn.dir().join("about.json")).unwrap();
            let leaves_trace = fs::metadata(turn.dir().join("about.json")).unwrap().atime() > NEVER;
            assert_eq!(turn.take_back("text").unwrap(), leaves_trace && !has_read);
            let mut late = String::new();
            held.read_to_string(&mut late).unwrap();
            assert_eq!(late, "");
            assert_eq!(fs::read_to_string(turn.prompt()).unwrap(), "text");
        }
    }

    #[test]
    fn turns_keep_their_order_and_the_oldest_go() {
        let dir = tempfile::tempdir().unwrap();
        let turns = Turns { dir: dir.path().join("o+r+1") };
        for number in 0..KEPT + 5 {
            let delivery: DeliveryId = format!("d-{number}").parse().unwrap();
            let marker = Some(Marker::new([7; 16]));
            let about = About { delivery: delivery.clone(), marker, ..about() };
            turns.begin(&about, "text").unwrap();
            let found = |marker| turns.last_of(&delivery, &Marker::new(marker)).unwrap();
            assert_eq!(found([7; 16]), turns.list().unwrap().pop());
            // The same delivery was routed again since.
            assert_eq!(found([8; 16]), None);
        }
        assert_eq!(turns.list().unwrap().len(), KEPT);
        let last = turns.list().unwrap().pop().unwrap();
        assert_eq!(fs::read_to_string(last.prompt()).unwrap(), "text");
    }
}
