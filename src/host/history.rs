//! What a session has shown so far: the panes that ended, and headless turns.
//! What a living pane shows is tmux's to tell.

use std::io;

use crate::base::ids::Slug;
use crate::base::text::{visible, wrapped};
use crate::core::harness::Rendering;
use crate::state::paths::StatePaths;
use crate::state::turns::{Turn, Turns, output};

/// How a turn is announced: when, and for what.
pub fn heading(turn: &Turn) -> Vec<String> {
    let about = turn.about();
    let lines = about.map_or_else(Vec::new, |about| {
        let what = visible(&about.what);
        let began = format!("{:.0}", about.began);
        let for_what = if what.is_empty() { visible(about.delivery.as_str()) } else { what };
        // Its id leads on: `the-loop events ID`.
        let id = (for_what != about.delivery.as_str())
            .then(|| format!("   {}", visible(about.delivery.as_str())));
        std::iter::once(format!("── {began}  {for_what} ──")).chain(id).collect()
    });
    std::iter::once(String::new()).chain(lines).collect()
}

/// How a turn ended that has no result to show.
pub fn ending(turn: &Turn) -> Vec<String> {
    let Some(end) = turn.end() else { return Vec::new() };
    let text = format!("✗ {}: {}", visible(&end.reason), visible(&end.detail));
    let lines = wrapped(text.trim_end_matches(": "), 78, "  ");
    lines.trim_start().lines().map(str::to_owned).collect()
}

/// What the turns of a headless session printed, for people: of each at most the
/// last `limit` bytes.
pub fn of_turns(paths: &StatePaths, slug: &Slug, limit: u64) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    for turn in Turns::of(paths, slug).list()? {
        lines.extend(heading(&turn));
        let mut rendering = Rendering::new(turn.about().and_then(|about| about.shows));
        for path in [turn.stdout(), turn.stderr()] {
            let bytes = match output::newest(&path, limit) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let text = String::from_utf8_lossy(&bytes);
            lines.extend(text.lines().flat_map(|line| rendering.line(line)));
            lines.extend(rendering.end());
        }
        lines.extend(ending(&turn));
    }
    Ok(lines)
}
