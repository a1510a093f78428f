//! Brings the pinned file here and hashes it on the way: out of a folder, or by a
//! download.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use fs_err as fs;
use sha2::{Digest, Sha256};

use super::download::{Download, make_way};
use super::source::Source;
use super::{InstallError, Job, Progress, SIZE_LIMIT, digest_of, file_error};
use crate::base::https::shown;
use crate::base::text::path_text;
use crate::core::platform::{Format, Host, NoPin, Pin};
use crate::doctor::tool::ToolId;

/// How many files of a folder are looked at.
const FOLDER_LIMIT: usize = 1000;

/// A file that nobody has judged yet.
pub(super) struct Fetched {
    pub(super) file: PathBuf,
    /// The path or URL it came from.
    pub(super) from: String,
    pub(super) sha256: String,
}

/// Fetches the file of a build.
pub(super) async fn fetch(job: &Job<'_>, progress: &dyn Progress) -> Result<Fetched, InstallError> {
    let file = job.store.partial(job.id, job.pin);
    match (job.source.url(job.pin)?, job.source) {
        (Some(url), _) => {
            progress.say(&format!("downloading {}", shown(&url)));
            let download = Download {
                env: job.env,
                url: &url,
                file: &file,
                limit: job.pin.size.unwrap_or(SIZE_LIMIT),
                pinned: [&job.pin.sha256]
                    .into_iter()
                    .chain(&job.pin.binary_sha256)
                    .map(String::as_str)
                    .collect(),
                progress,
            };
            let sha256 = download.run().await?;
            Ok(Fetched { file, from: shown(&url), sha256 })
        }
        (None, Source::Folder(folder)) => {
            let found = locate(folder, job.pin)?;
            progress.say(&format!("taking {}", path_text(&found)));
            let from = found.display().to_string();
            make_way(&file)?;
            let mut target = Hashing::new(create(&file)?, SIZE_LIMIT);
            let mut original = fs::File::open(&found)
                .map_err(|cause| InstallError::Unreadable { path: found.clone(), cause })?;
            copy(&mut original, &mut target).map_err(|error| match error {
                error if is_over_limit(&error) => InstallError::TooLarge {
                    from: from.clone(),
                    limit: job.pin.size.unwrap_or(SIZE_LIMIT),
                    expected: job.pin.sha256.clone(),
                },
                cause => InstallError::File { path: file.clone(), cause },
            })?;
            Ok(Fetched { file, from, sha256: target.finish().1 })
        }
        (None, _) => Err(InstallError::InsecureUrl { url: job.pin.url.clone() }),
    }
}

/// The build to install: of the wanted version, or the one of choice. Where the
/// folder that builds are taken from has no file for it, and has one for another
/// pinned version, it is that one: [`said_of`] tells.
pub fn pick(
    id: ToolId,
    host: &Host,
    wanted: Option<&str>,
    source: &Source,
) -> Result<&'static Pin, NoPin> {
    let first = id.data().pin_for(host, wanted)?;
    let Source::Folder(folder) = source else { return Ok(first) };
    // What has the right name is meant, also when it is another file.
    let has = |pin: &Pin| folder.join(pin.file_name()).is_file() || locate(folder, pin).is_ok();
    if has(first) {
        return Ok(first);
    }
    Ok(id.data().pins_for(host).into_iter().find(|pin| has(pin)).unwrap_or(first))
}

/// What to say when another build is taken than the one that was wanted.
pub fn said_of(id: ToolId, wanted: &str, taken: &str, source: &Source) -> Option<String> {
    let Source::Folder(folder) = source else { return None };
    let (name, folder) = (id.as_str(), path_text(folder));
    (wanted != taken).then(|| {
        format!("{folder} has no file of {name} {wanted}, but one of {name} {taken}: taking that")
    })
}

/// Why a build cannot be taken out of the folder that builds come from.
pub fn is_missing(source: &Source, pin: &Pin) -> Option<InstallError> {
    let Source::Folder(folder) = source else { return None };
    locate(folder, pin).err()
}

/// Finds the file in a folder: any whose digest is pinned, the one with the
/// right name first. When only the name fits, that one, so that the message
/// can show both digests.
fn locate(folder: &Path, pin: &Pin) -> Result<PathBuf, InstallError> {
    let named = folder.join(pin.file_name());
    // A folder of downloads can hold anything: only what may be the file is read.
    let size = pin.size.filter(|_| pin.format == Format::Binary);
    let is_pinned = |path: &Path| {
        let length = fs::metadata(path).map_or(u64::MAX, |metadata| metadata.len());
        if length > SIZE_LIMIT || size.is_some_and(|size| size != length) {
            return false;
        }
        digest_of(path, SIZE_LIMIT).ok().flatten().is_some_and(|digest| {
            digest == pin.sha256 || pin.binary_sha256.as_ref() == Some(&digest)
        })
    };
    if named.is_file() && is_pinned(&named) {
        return Ok(named);
    }
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .map_err(|cause| InstallError::Folder { folder: folder.to_path_buf(), cause })?
        .take(FOLDER_LIMIT)
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    if let Some(found) = files.into_iter().find(|path| is_pinned(path)) {
        return Ok(found);
    }
    if named.is_file() {
        return Ok(named);
    }
    let name = pin.file_name().to_owned();
    Err(InstallError::NotInFolder { folder: folder.to_path_buf(), name })
}

/// Whether a file looks like what a browser shows: a sign-in page, as a rule.
pub(super) fn is_web_page(file: &Path) -> bool {
    let mut head = [0; 512];
    let read = fs::File::open(file).and_then(|mut file| file.read(&mut head)).unwrap_or(0);
    let text = String::from_utf8_lossy(&head[..read]).trim_start().to_ascii_lowercase();
    ["<!doctype html", "<html", "<head", "<?xml"].iter().any(|start| text.starts_with(start))
}

fn create(file: &Path) -> Result<fs::File, InstallError> {
    fs::File::create(file).map_err(file_error(file))
}

/// Copies to the end, in pieces large enough that their number costs nothing.
pub(super) fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 128 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// A writer that hashes what passes, and lets no more than `limit` bytes pass.
pub(super) struct Hashing<W> {
    inner: W,
    hasher: Sha256,
    left: u64,
}

impl<W: Write> Hashing<W> {
    pub(super) fn new(inner: W, limit: u64) -> Self {
        Self { inner, hasher: Sha256::new(), left: limit }
    }

    /// The writer, and the digest of what passed.
    pub(super) fn finish(self) -> (W, String) {
        (self.inner, hex::encode(self.hasher.finalize()))
    }
}

/// [`Hashing`]'s own limit. The system says something else of the same kind, of a file
/// that is larger than this process may write.
#[derive(Debug, thiserror::Error)]
#[error("it is larger than it can be")]
struct OverLimit;

pub(super) fn is_over_limit(error: &io::Error) -> bool {
    error.get_ref().and_then(|inner| inner.downcast_ref::<OverLimit>()).is_some()
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len() as u64;
        if length > self.left {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, OverLimit));
        }
        self.inner.write_all(bytes)?;
        self.hasher.update(bytes);
        self.left -= length;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
