//! What a session has shown so far: the panes that ended, and headless turns.
//! What a living pane shows is tmux's to tell.

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use fs_err as fs;

use crate::base::ids::Slug;
use crate::base::text::visible;
use crate::core::harness::rendered;
use crate::state::paths::StatePaths;
use crate::state::turns::{Turn, Turns};

/// What stands above the output of a turn.
pub fn heading(turn: &Turn) -> Vec<String> {
    let about = turn.about();
    let text = about.map_or_else(String::new, |about| {
        format!("{:.0}  {}", about.began, visible(about.delivery.as_str()))
    });
    vec![String::new(), format!("── {text} ──")]
}

/// What the turns of a headless session printed, for people: of each at most the
/// last `limit` bytes.
pub fn of_turns(paths: &StatePaths, slug: &Slug, limit: u64) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    for turn in Turns::of(paths, slug).list()? {
        lines.extend(heading(&turn));
        for path in [turn.stdout(), turn.stderr()] {
            let bytes = match end_of(&path, limit) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            lines.extend(String::from_utf8_lossy(&bytes).lines().flat_map(rendered));
        }
    }
    Ok(lines)
}

/// The last `limit` bytes of a file, from the beginning of a line.
fn end_of(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?;
    let surplus = file.metadata()?.len().saturating_sub(limit);
    file.seek(SeekFrom::Start(surplus))?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    if surplus > 0 {
        let line = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        bytes.drain(..line);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_file_the_end_is_read_from_a_whole_line_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        fs::write(&path, "first line\nsecond line\nthird\n").unwrap();
        assert_eq!(end_of(&path, 1000).unwrap(), b"first line\nsecond line\nthird\n");
        assert_eq!(end_of(&path, 12).unwrap(), b"third\n");
        assert_eq!(end_of(&path, 3).unwrap(), b"");
    }
}
