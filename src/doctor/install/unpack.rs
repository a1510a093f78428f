//! Takes the one program out of an archive. Nothing else in an archive is ever
//! written: no path of it is used, no link followed, no second member accepted.

use std::io::{self, ErrorKind, Read};
use std::path::Path;

use flate2::read::GzDecoder;
use fs_err as fs;
use fs_err::os::unix::fs::OpenOptionsExt;
use tar::{Archive, EntryType};

use super::fetch::{Hashing, copy, is_over_limit};
use super::{InstallError, SIZE_LIMIT, file_error};

/// What an archive may hold beside its member: headers, remarks on times.
const SLACK: u64 = 64 * 1024;

/// Writes the only member of a `.tar.gz`, which must be a regular file of that
/// name, to `target`. Gives its digest.
pub(super) fn one_member(
    archive: &Path,
    member: &str,
    target: &Path,
    from: &str,
) -> Result<String, InstallError> {
    let wrong = |why: String| InstallError::Archive { from: from.to_owned(), why };
    let unreadable = |error: io::Error| wrong(format!("cannot be read: {error}"));
    let file = fs::File::open(archive).map_err(file_error(archive))?;
    // Bounded before anything is looked at: a few bytes can unpack to gigabytes.
    let unpacked =
        GzDecoder::new(io::BufReader::with_capacity(128 * 1024, file)).take(SIZE_LIMIT + SLACK);
    let mut archive = Archive::new(unpacked);
    let mut digest = None;
    // Raw: an extension could name another path, and would be read into memory.
    for entry in archive.entries().map_err(unreadable)?.raw(true) {
        let entry = entry.map_err(unreadable)?;
        let is_remark =
            matches!(entry.header().entry_type(), EntryType::XHeader | EntryType::XGlobalHeader);
        if is_remark && entry.size() <= SLACK {
            continue;
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let name = crate::base::text::visible(&name);
        if digest.is_some() {
            return Err(wrong(format!("has a second member, `{name}`")));
        }
        if entry.header().entry_type() != EntryType::Regular {
            return Err(wrong(format!("has a member `{name}` that is not a regular file")));
        }
        if name != member {
            return Err(wrong(format!("holds `{name}` and not `{member}`")));
        }
        if entry.size() > SIZE_LIMIT {
            return Err(wrong(format!("holds a file larger than {SIZE_LIMIT} bytes")));
        }
        digest = Some(place(entry, target).map_err(|error| match error.kind() {
            // It is not the archive that has no room.
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => file_error(target)(error),
            ErrorKind::FileTooLarge if !is_over_limit(&error) => file_error(target)(error),
            _ => unreadable(error),
        })?);
    }
    digest.ok_or_else(|| wrong("is empty".to_owned()))
}

/// Puts a program that came without an archive into its place. Gives its digest.
pub(super) fn bare(file: &Path, target: &Path) -> Result<String, InstallError> {
    let original = fs::File::open(file).map_err(file_error(file))?;
    place(original, target).map_err(file_error(target))
}

/// Copies to a new executable file, whole and on disk.
fn place(mut from: impl Read, target: &Path) -> io::Result<String> {
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(target)?;
    let mut sink = Hashing::new(file, SIZE_LIMIT);
    copy(&mut from, &mut sink)?;
    let (file, digest) = sink.finish();
    // The umask may have taken bits away.
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    file.sync_all()?;
    Ok(digest)
}
