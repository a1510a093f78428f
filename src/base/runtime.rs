//! Makes the runtimes, and the threads beside them. Where the system gives no more
//! files or threads it is an error here; tokio would panic.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::RwLock;
use std::thread;

use rustix::io::Errno;
use rustix::process::Signal;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// As many pairs of descriptors as a runtime opens.
const PAIRS: usize = 3;
/// Threads beside its workers that a runtime may want at once.
const BESIDE: usize = 6;
/// A thread that only waits needs no more.
const STACK: usize = 64 * 1024;

/// A runtime on this thread.
pub fn one_thread() -> io::Result<Runtime> {
    can_open()?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    survive_full_files(&runtime)?;
    Ok(runtime)
}

/// A runtime on threads of its own.
pub fn with_workers(workers: usize) -> io::Result<Runtime> {
    can_open()?;
    can_start(workers + BESIDE)?;
    let runtime = Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
    survive_full_files(&runtime)?;
    Ok(runtime)
}

/// Sees to it that a write past the limit of a file's size (`ulimit -f`) is an error,
/// as it is on a full disk, and not the end of this process.
fn survive_full_files(runtime: &Runtime) -> io::Result<()> {
    let _in_it = runtime.enter();
    signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop)
}

/// Whether there are descriptors for a runtime.
pub fn can_open() -> io::Result<()> {
    (0..PAIRS).map(|_| UnixStream::pair()).collect::<io::Result<Vec<_>>>().map(drop)
}

/// Whether so many threads can be started.
pub fn can_start(wanted: usize) -> io::Result<()> {
    match startable(wanted) {
        (_, Some(error)) => Err(error),
        (_, None) => Ok(()),
    }
}

/// How many of so many threads can be there at once, and why no more: the system
/// counts processes and threads alike.
pub fn startable(wanted: usize) -> (usize, Option<io::Error>) {
    let gate = RwLock::new(());
    thread::scope(|scope| {
        let _closed = gate.write();
        for started in 0..wanted {
            let waits = thread::Builder::new().stack_size(STACK);
            if let Err(error) = waits.spawn_scoped(scope, || drop(gate.read())) {
                return (started, Some(error));
            }
        }
        (wanted, None)
    })
}

/// Does work that blocks on a thread of its own. It is not waited for by whoever
/// gives it up.
pub fn beside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<impl Future<Output = io::Result<T>>> {
    let (sender, receiver) = oneshot::channel();
    thread::Builder::new().name("beside".to_owned()).spawn(move || {
        let _ = sender.send(work());
    })?;
    Ok(async { receiver.await.map_err(|_| io::Error::other("the work broke off")) })
}

/// What helps where an error says that this process, or its user, may have no more:
/// it says nothing of what was looked at.
pub fn more(error: &io::Error) -> Option<&'static str> {
    let is = |errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    if is(Errno::MFILE) || is(Errno::NFILE) {
        Some("raise the number of files that can be open (ulimit -n 4096)")
    } else if is(Errno::AGAIN) {
        Some("raise the number of processes that this user may have (ulimit -u 4096), or end some")
    } else if is(Errno::NOMEM) {
        Some("this host has no memory for another process: end some")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_counted_and_all_of_them_end() {
        assert!(matches!(startable(8), (8, None)));
        assert!(can_open().is_ok() && can_start(2).is_ok());
    }

    #[test]
    fn work_beside_gives_what_it_did_and_one_that_breaks_off_is_an_error() {
        let runtime = one_thread().unwrap();
        assert_eq!(runtime.block_on(beside(|| 5).unwrap()).unwrap(), 5);
        let broken = beside(|| std::panic::resume_unwind(Box::new("broken"))).unwrap();
        assert!(runtime.block_on(async { broken.await.map(|()| 0) }).is_err());
    }

    #[test]
    fn a_limit_is_told_by_its_error() {
        for (errno, word) in [(24, "ulimit -n"), (23, "ulimit -n"), (11, "ulimit -u")] {
            let helps = more(&io::Error::from_raw_os_error(errno));
            // On macOS 11 is another error.
            assert!(helps.is_some_and(|text| text.contains(word)) || cfg!(target_os = "macos"));
        }
        assert_eq!(more(&io::Error::from_raw_os_error(2)), None);
    }
}
