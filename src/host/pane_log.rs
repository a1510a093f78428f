//! What a pane has shown, kept when it ends: appended to one bounded file for
//! each session. `sessions logs` prints it.

use std::io;

use fs_err as fs;

use crate::base::files::{atomic, private_dir};
use crate::base::ids::Slug;
use crate::base::text::visible;
use crate::host::tmux::{Pane, Tmux};
use crate::state::paths::StatePaths;

/// The most lines that are taken from one pane.
pub const LINES: usize = 5_000;
/// The most bytes that are kept for one session; the oldest go.
const MAX: usize = 4 << 20;

/// Keeps what a pane shows. A failure changes nothing that matters: it is logged.
pub async fn keep(paths: &StatePaths, slug: &Slug, tmux: &Tmux, pane: &Pane) {
    let lines = match tmux.last_lines(pane, LINES).await {
        Ok(lines) if !lines.is_empty() => lines,
        Ok(_) => return,
        Err(error) => return tracing::debug!(%slug, %error, "the pane's history is gone"),
    };
    if let Err(error) = append(paths, slug, &lines) {
        tracing::warn!(%slug, %error, "could not keep the pane's history");
    }
}

fn append(paths: &StatePaths, slug: &Slug, lines: &[String]) -> io::Result<()> {
    private_dir(&paths.logs())?;
    let path = paths.logs().join(format!("{slug}.log"));
    let mut text = fs::read(&path).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(Vec::new()),
        _ => Err(error),
    })?;
    for line in lines {
        text.extend_from_slice(visible(line).as_bytes());
        text.push(b'\n');
    }
    let surplus = text.len().saturating_sub(MAX);
    if surplus > 0 {
        let line = text[surplus..].iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        text.drain(..surplus + line);
    }
    atomic::write_unsynced(&path, &text)
}

/// The lines that were kept.
pub fn read(paths: &StatePaths, slug: &Slug) -> io::Result<Vec<String>> {
    match fs::read(paths.logs().join(format!("{slug}.log"))) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
