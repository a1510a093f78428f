//! Reading the file of one entry, whatever it is.

use std::io::{self, Read as _};
use std::path::Path;

use fs_err as fs;

use crate::base::ids::Slug;
use crate::base::text::{cap, visible};
use crate::core::session::SessionRecord;

/// An entry larger than this is not looked at.
const MAX_BYTES: u64 = 1 << 20;

/// Reads an entry, or says what is wrong with it.
pub(super) fn read(
    path: &Path,
    slug: &Slug,
    parse: impl Fn(&[u8]) -> Result<SessionRecord, String>,
) -> Result<Option<SessionRecord>, String> {
    // What is no plain file is not opened: a pipe would be waited for.
    let length = match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => metadata.len().min(MAX_BYTES),
        Ok(metadata) if metadata.is_dir() => return Err("it is a directory".to_owned()),
        Ok(_) => return Err("it is not a file".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
            return Ok(None);
        }
        Err(error) => return Err(io_reason(&error)),
    };
    // With room for all of it and more, it is read at once.
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default() + 64);
    fs::File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| io_reason(&error))?;
    match bytes.len() as u64 {
        0 => return Err("it is empty".to_owned()),
        1..=MAX_BYTES => {}
        _ => return Err("it is larger than 1 MiB".to_owned()),
    }
    let record = parse(&bytes).map_err(|why| visible(&cap(&why, 200)))?;
    let own = record.slug();
    if own == *slug { Ok(Some(record)) } else { Err(format!("it holds the session `{own}`")) }
}

/// An error's reason without the path, which the message around it names.
pub(super) fn io_reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::NotFound => "it points to nothing".to_owned(),
        _ => error.to_string(),
    }
}
