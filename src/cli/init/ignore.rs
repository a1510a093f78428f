//! The sessions of a configuration in a repository: they are this machine's, so
//! git is told to leave them out.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use fs_err as fs;

use crate::base::failure::Failure;
use crate::base::text::visible;
use crate::cli::Context;
use crate::state::config_file::Read;
use crate::state::paths::StatePaths;

/// Adds the directory of the sessions to the ignore file beside them, and says so.
pub(super) fn sessions(context: &Context, read: &Read, paths: &StatePaths) -> Result<(), Failure> {
    let is_top = |dir: &&Path| fs::symlink_metadata(dir.join(".git")).is_ok();
    let dir = paths.registry.strip_prefix(&read.project).unwrap_or(&paths.registry);
    // Outside a repository there is nobody to ignore them.
    if read.project.ancestors().find(is_top).is_none() {
        return Ok(());
    }
    let dir = dir.to_string_lossy();
    // A name alone would be that of any directory below.
    let line = if dir.contains('/') { format!("{dir}/") } else { format!("/{dir}/") };
    let file = read.project.join(".gitignore");
    let shown = visible(&file.display().to_string());
    match add(&file, &line)? {
        Added::Now => context.printer.note(&format!("added    {line} to {shown}")),
        Added::Before => {}
        Added::Nowhere => context.printer.note(&context.with_config(&format!(
            "warning: `{shown}`\n  is a link, or no file: git does not read it, and it was left as \
             it is\nhint: put a file with the line `{line}` in its place, or\n      \
             `the-loop init` does once it is gone"
        ))),
    }
    Ok(())
}

/// Whether a line is in the ignore file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Added {
    /// It was added.
    Now,
    /// It was there.
    Before,
    /// There is no file that git would read: what a link leads to may be another
    /// project's, or no project's at all.
    Nowhere,
}

fn add(file: &Path, line: &str) -> Result<Added, Failure> {
    let failed = |error: std::io::Error| {
        Failure::failed(format!("could not add `{line}` to `{}`", file.display())).because(error)
    };
    let text = match fs::symlink_metadata(file) {
        Ok(meta) if !meta.is_file() => return Ok(Added::Nowhere),
        Ok(_) => String::from_utf8_lossy(&fs::read(file).map_err(failed)?).into_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(error)),
    };
    let bare = |line: &str| {
        line.trim_end().trim_start_matches('/').trim_end_matches(['*', '/']).to_owned()
    };
    let wanted = bare(line);
    let covers = |one: &str| {
        let one = bare(one);
        one == wanted || wanted.strip_suffix("/sessions").is_some_and(|above| one == above)
    };
    if text.lines().any(covers) {
        return Ok(Added::Before);
    }
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    // A link that came meanwhile is not followed either.
    let flags = rustix::fs::OFlags::NOFOLLOW.bits();
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .custom_flags(flags.cast_signed())
        .open(file)
        .and_then(|mut handle| {
            handle.write_all(
                format!("{gap}# Sessions of the-loop on this machine\n{line}\n").as_bytes(),
            )
        })
        .map_err(failed)?;
    Ok(Added::Now)
}
