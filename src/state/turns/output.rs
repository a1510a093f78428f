//! What a turn's agent has printed: of much the newest, for its result is last.
//!
//! The agent appends to a file that it holds open, so the file cannot be exchanged
//! while it is written. Where the file system can, what is old is made a hole: the
//! length stays, the disk is free, and no byte of the agent's is lost.

use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use fs_err as fs;

/// The most of one output that is kept on disk and read.
pub const MAX_OUTPUT: u64 = 16 << 20;
/// Bytes of a block, as `st_blocks` counts them.
const BLOCK: u64 = 512;
/// Holes begin and end where pages do.
const PAGE: u64 = 64 << 10;

/// The newest `limit` bytes of an output that begin a line, without what was cut.
pub fn newest(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(limit);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    // A hole reads as zeros, and no agent prints those.
    let hole = bytes.iter().take_while(|byte| **byte == 0).count();
    if from == 0 && hole == 0 {
        return Ok(bytes);
    }
    let line =
        bytes[hole..].iter().position(|byte| *byte == b'\n').map_or(hole, |at| hole + at + 1);
    bytes.drain(..line);
    Ok(bytes)
}

/// Frees what is older than the newest `limit` bytes; gives how many bytes that
/// were.
pub(crate) fn keep_newest(path: &Path, limit: u64) -> io::Result<u64> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    // What is a hole takes no blocks.
    let on_disk = (metadata.blocks() * BLOCK).min(metadata.len());
    if on_disk <= limit {
        return Ok(0);
    }
    match punch(path, (metadata.len() - limit) / PAGE * PAGE) {
        Ok(()) => {
            let after = fs::metadata(path)?;
            Ok(on_disk.saturating_sub((after.blocks() * BLOCK).min(limit + PAGE)))
        }
        Err(_) => rewrite(path, limit),
    }
}

#[cfg(target_os = "linux")]
fn punch(path: &Path, length: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};

    let file = fs::OpenOptions::new().write(true).open(path)?;
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(fallocate(&file, flags, 0, length)?)
}

#[cfg(not(target_os = "linux"))]
fn punch(_path: &Path, _length: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The same where there are no holes: the newest is copied to the front of the same
/// file. Only what the agent writes between the last look and the cut is lost, and
/// it is looked until nothing has come since.
fn rewrite(path: &Path, limit: u64) -> io::Result<u64> {
    let mut file = fs::OpenOptions::new().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(limit / 2);
    file.seek(SeekFrom::Start(from))?;
    let mut kept = Vec::new();
    while file.read_to_end(&mut kept)? > 0 {}
    // A line that lost its beginning would be read as one.
    if from > 0
        && let Some(end) = kept.iter().position(|byte| *byte == b'\n')
    {
        kept.drain(..=end);
    }
    file.set_len(0)?;
    // As the agent does: behind what it has written meanwhile.
    let mut end = fs::OpenOptions::new().append(true).open(path)?;
    end.write_all(&kept)?;
    Ok(length - kept.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 1 << 20;

    fn line(number: usize) -> String {
        format!("{number:06} {}\n", "x".repeat(92))
    }

    /// An agent that holds its output open and writes three times as much as is
    /// kept, the result last.
    fn written(cut: fn(&Path, u64) -> io::Result<u64>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout");
        let mut agent = fs::OpenOptions::new().append(true).create(true).open(&path).unwrap();
        let mut gone = 0;
        for number in 0..30_000 {
            agent.write_all(line(number).as_bytes()).unwrap();
            if number % 5000 == 0 {
                gone += cut(&path, LIMIT).unwrap();
            }
        }
        gone += cut(&path, LIMIT).unwrap();
        agent.write_all(b"the result\n").unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert!(metadata.blocks() * BLOCK <= LIMIT + 2 * PAGE, "{}", metadata.blocks() * BLOCK);
        assert!(gone >= 3_000_000 - LIMIT - 2 * PAGE, "{gone}");
        let kept = String::from_utf8(newest(&path, LIMIT).unwrap()).unwrap();
        let lines: Vec<_> = kept.lines().collect();
        let (last, before) = lines.split_last().unwrap();
        assert_eq!(*last, "the result");
        assert!(before.len() > 5000, "{}", before.len());
        // Whole lines, none missing.
        for (line_of, number) in before.iter().rev().zip((0..30_000).rev()) {
            assert_eq!(**line_of, *line(number).trim_end());
        }
    }

    #[test]
    fn of_much_output_the_newest_is_kept_and_the_result_with_it() {
        written(keep_newest);
    }

    #[test]
    fn without_holes_the_newest_is_kept_too() {
        written(
            |path, limit| {
                if fs::metadata(path)?.len() <= limit { Ok(0) } else { rewrite(path, limit) }
            },
        );
    }

    #[test]
    fn what_is_short_is_read_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout");
        fs::write(&path, "one\ntwo").unwrap();
        assert_eq!(keep_newest(&path, LIMIT).unwrap(), 0);
        assert_eq!(newest(&path, LIMIT).unwrap(), b"one\ntwo");
        assert_eq!(newest(&path, 6).unwrap(), b"two");
    }
}
