//! The processes of this machine, as Linux shows them below `/proc`. Elsewhere there
//! are none to be seen.

use std::path::PathBuf;

use fs_err as fs;

use crate::base::text::visible;

/// A process as the kernel shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its parent's.
    pub parent: i32,
    /// That of its group's leader.
    pub group: i32,
    /// That of its session's leader.
    pub session: i32,
    /// When it was started, in the kernel's ticks since boot.
    pub start: u64,
    /// Whether it has ended and only its entry is left.
    pub has_ended: bool,
    /// Whether it was stopped and waits for somebody to let it go on.
    pub is_stopped: bool,
}

impl Process {
    /// The process of this number; nothing where it cannot be seen.
    pub fn read(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may hold blanks and brackets: what follows its last bracket counts.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(Self {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
            has_ended: matches!(*fields.first()?, "Z" | "X"),
            is_stopped: *fields.first()? == "T",
        })
    }

    /// Every process; nothing where none can be seen.
    pub fn all() -> Option<Vec<Self>> {
        let entries = fs::read_dir("/proc").ok()?;
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let all: Vec<_> = pids.filter_map(Self::read).collect();
        // This one is there at least.
        (!all.is_empty()).then_some(all)
    }

    /// What it reads from, where that can be seen.
    pub fn reads_from(pid: i32) -> Option<PathBuf> {
        fs::read_link(format!("/proc/{pid}/fd/0")).ok()
    }

    /// Whether it was started with this variable in its environment.
    pub fn was_given(&self, variable: &str, value: &[u8]) -> bool {
        let wanted = [variable.as_bytes(), b"=", value].concat();
        fs::read(format!("/proc/{}/environ", self.pid))
            .is_ok_and(|all| all.split(|byte| *byte == 0).any(|entry| entry == wanted))
    }
}

/// A process as a person is told of it: its number, and the name of what it runs
/// where the system tells that. Never its arguments, which may hold a secret.
pub fn process_text(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    match name.trim() {
        "" => format!("process {pid}"),
        name => format!("process {pid} ({})", visible(name)),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any process will do")]
    fn a_process_is_seen_with_its_parent_its_environment_and_its_end() {
        let own = i32::try_from(std::process::id()).unwrap();
        let mut child =
            Command::new("/bin/cat").env("MARK", "a=b").stdin(std::process::Stdio::piped()).spawn();
        let child = child.as_mut().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let seen = Process::read(pid).unwrap();
        assert_eq!((seen.parent, seen.has_ended), (own, false));
        assert_eq!(seen.session, Process::read(own).unwrap().session);
        assert!(Process::all().unwrap().contains(&seen));
        assert!(seen.was_given("MARK", b"a=b") && !seen.was_given("MARK", b"a"));
        assert_eq!(process_text(child.id()), format!("process {pid} (cat)"));
        drop(child.stdin.take());
        while !Process::read(pid).unwrap().has_ended {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert_eq!(process_text(child.id()), format!("process {pid}"));
        assert_eq!(Process::read(pid), None);
    }
}
