//! Brings the pinned file into the work directory and hashes it on the way. The
//! only maker of HTTP clients.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;
use reqwest::{Client, Url, redirect};
use sha2::{Digest, Sha256};

use super::source::{Source, is_allowed, is_loopback, shown};
use super::{InstallError, Job, Progress, SIZE_LIMIT, digest_of, file_error};
use crate::core::platform::{Format, Pin};

/// How long a server may take to be reached.
const CONNECT_DEADLINE: Duration = Duration::from_secs(15);
/// How long it may be silent.
const READ_DEADLINE: Duration = Duration::from_secs(30);
/// How long a whole download may take.
const DEADLINE: Duration = Duration::from_mins(10);
const REDIRECTS: usize = 5;
/// How many files of a folder are looked at.
const FOLDER_LIMIT: usize = 1000;

/// A file in the work directory that nobody has judged yet.
pub(super) struct Fetched {
    pub(super) file: PathBuf,
    /// The path or URL it came from.
    pub(super) from: String,
    pub(super) sha256: String,
}

/// Fetches the file of a build.
pub(super) async fn fetch(job: &Job<'_>, progress: &dyn Progress) -> Result<Fetched, InstallError> {
    let file = job.work.download();
    match (job.source.url(job.pin)?, job.source) {
        (Some(url), _) => {
            progress.say(&format!("downloading {}", shown(&url)));
            let sha256 = download(&url, &file, job.pin.size.unwrap_or(SIZE_LIMIT)).await?;
            Ok(Fetched { file, from: shown(&url), sha256 })
        }
        (None, Source::Folder(folder)) => {
            let found = locate(folder, job.pin)?;
            progress.say(&format!("taking {}", found.display()));
            let from = found.display().to_string();
            let mut target = Hashing::new(create(&file)?, SIZE_LIMIT);
            let mut original = fs::File::open(&found).map_err(file_error(&found))?;
            io::copy(&mut original, &mut target)
                .map_err(|error| too_large(error, &from, &found))?;
            Ok(Fetched { file, from, sha256: target.finish().1 })
        }
        (None, _) => Err(InstallError::InsecureUrl { url: job.pin.url.clone() }),
    }
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
        .map_err(file_error(folder))?
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

async fn download(url: &Url, file: &Path, limit: u64) -> Result<String, InstallError> {
    let failed = |error: reqwest::Error| InstallError::Download {
        url: shown(url),
        source: error.without_url(),
    };
    let too_long = || InstallError::TooLarge { from: shown(url), limit };
    let mut response =
        client(url).map_err(failed)?.get(url.clone()).send().await.map_err(failed)?;
    if !response.status().is_success() {
        let status = response.status().as_u16();
        return Err(InstallError::Status { url: shown(url), status });
    }
    if response.content_length().is_some_and(|length| length > limit) {
        return Err(too_long());
    }
    let mut target = Hashing::new(create(file)?, limit);
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        target.write_all(&chunk).map_err(|error| too_large(error, &shown(url), file))?;
    }
    Ok(target.finish().1)
}

/// A client for one download. A redirect never leaves https; a download from
/// this machine may be redirected within it.
fn client(url: &Url) -> reqwest::Result<Client> {
    // Set once for the process; a second time it is there already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let started_local = is_loopback(url);
    let policy = redirect::Policy::custom(move |attempt| {
        let allowed = match attempt.url().scheme() {
            "https" => true,
            _ => started_local && is_allowed(attempt.url()),
        };
        if !allowed {
            attempt.error("the server redirects to a URL that is not https")
        } else if attempt.previous().len() > REDIRECTS {
            attempt.error("the server redirects too often")
        } else {
            attempt.follow()
        }
    });
    let builder = Client::builder()
        .user_agent(concat!("the-loop/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_DEADLINE)
        .read_timeout(READ_DEADLINE)
        .timeout(DEADLINE)
        .redirect(policy);
    // A proxy is for what is elsewhere.
    if started_local { builder.no_proxy().build() } else { builder.build() }
}

fn create(file: &Path) -> Result<fs::File, InstallError> {
    fs::File::create(file).map_err(file_error(file))
}

fn too_large(error: io::Error, from: &str, path: &Path) -> InstallError {
    if error.kind() == io::ErrorKind::FileTooLarge {
        InstallError::TooLarge { from: from.to_owned(), limit: SIZE_LIMIT }
    } else {
        InstallError::File { path: path.to_path_buf(), source: error }
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

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len() as u64;
        if length > self.left {
            return Err(io::ErrorKind::FileTooLarge.into());
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
