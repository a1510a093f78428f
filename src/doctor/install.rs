//! Installs a pinned build: fetched, verified, unpacked, probed, active. Each
//! step is a type that only the step before it can make, so that nothing
//! unverified is unpacked and nothing untried becomes active.
//!
//! Called by `the-loop doctor --install`. It knows nothing of package managers
//! and never needs root: everything happens below the user's data directory.

mod advice;
mod checkpoint;
mod download;
mod error;
mod fetch;
mod follow;
mod pace;
pub mod source;
pub mod store;
mod unpack;
pub mod versions;

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fs_err as fs;

pub use self::advice::{advice, removal_advice};
pub use self::error::InstallError;
use self::error::file_error;
use self::fetch::Fetched;
pub use self::fetch::{is_missing, pick, said_of};
use self::source::Source;
use self::store::{Installed, Receipt, Store, WorkDir};
use super::path::{self, Judge};
use super::probe;
use super::resolve::by_others;
use super::tool::{Origin, Tool, ToolId};
use super::trouble::Trouble;
use crate::base::dirs::MissingHome;
use crate::base::env::Env;
use crate::core::platform::{Pin, Version};

/// The largest file that is fetched or unpacked when its size is not known.
const SIZE_LIMIT: u64 = 64 * 1024 * 1024;

/// Somebody who is told what is going on.
pub trait Progress: Sync {
    /// A step begins, or is waited for.
    fn say(&self, text: &str);

    /// So many bytes of a download are here, out of how many where that is known.
    fn bytes(&self, _here: u64, _of: Option<u64>) {}

    /// The download is over, or is tried again.
    fn done(&self) {}
}

/// What an install came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The build.
    pub installed: Installed,
    /// Whether it was there, intact, before.
    pub was_there: bool,
}

/// One install.
struct Job<'a> {
    env: &'a Env,
    id: ToolId,
    pin: &'a Pin,
    store: &'a Store,
    source: &'a Source,
    work: WorkDir,
}

/// Installs a build, or finds that it is there already.
pub async fn install(
    env: &Env,
    id: ToolId,
    pin: &Pin,
    store: &Store,
    source: &Source,
    progress: &dyn Progress,
) -> Result<Done, InstallError> {
    if let Some(installed) = store.intact(id, pin)
        && store.current(id).as_ref() == Some(&pin.version)
        && store.litter(id).is_empty()
        && works(env, id, pin, &installed).await
    {
        return Ok(Done { installed, was_there: true });
    }
    let open = Judge::of_places().open(&store.tool_dir(id));
    if let Some(first) = open.first() {
        let (folder, why) = (store.tool_dir(id), first.why.clone());
        return Err(InstallError::Open { folder, why, remedy: path::remedy(&open) });
    }
    let lock = store.lock(id, progress).await.map_err(|error| {
        match (error, MissingHome::of(env, store.root())) {
            (InstallError::File { cause, .. }, Some(home)) => {
                InstallError::Homeless { home, cause }
            }
            (error, _) => error,
        }
    })?;
    checkpoint::reach(env, "locked").await;
    let work = store.work_dir(id, pin, lock)?;
    // Another process may have done it while this one waited.
    if let Some(installed) = store.intact(id, pin) {
        let mended = make_executable(&installed.path)?;
        if works(env, id, pin, &installed).await {
            store.switch(id, &pin.version, &work)?;
            let _ = fs::remove_file(store.partial(id, pin));
            return Ok(Done { installed, was_there: !mended });
        }
    }
    let before = store.current(id);
    let job = Job { env, id, pin, store, source, work };
    checkpoint::reach(env, "prepared").await;
    let result = steps(&job, progress).await;
    // What was cut off is kept, for the next try goes on there; nothing else is.
    let was_cut = matches!(
        result,
        Err(InstallError::Download { .. }
            | InstallError::Certificate { .. }
            | InstallError::Proxy { .. }
            | InstallError::BadProxy { .. }
            | InstallError::BadAuthorities { .. }
            | InstallError::Redirect { .. }
            | InstallError::Status { .. }
            | InstallError::TooManyTries { .. })
    );
    let partial = store.partial(id, pin);
    if !was_cut || fs::metadata(&partial).is_ok_and(|partial| partial.len() == 0) {
        let _ = fs::remove_file(partial);
    }
    let installed = result?;
    store.prune(id, &[Some(pin.version.clone()), before], &job.work);
    Ok(Done { installed, was_there: false })
}

/// Whether an install whose bytes are right may be run, and can be.
async fn works(env: &Env, id: ToolId, pin: &Pin, installed: &Installed) -> bool {
    if by_others(&installed.path, Origin::Managed).is_some() {
        return false;
    }
    let tool = Tool::candidate(id.as_str(), &installed.path, Origin::Managed, env);
    let told = probe::version(id, &tool).await.ok();
    told.is_some() && told == Version::parse(&pin.version)
}

/// Gives the right to run a program back. Says whether it was gone.
fn make_executable(path: &Path) -> Result<bool, InstallError> {
    let mode = fs::metadata(path).map_err(file_error(path))?.permissions().mode();
    if mode & 0o100 != 0 {
        return Ok(false);
    }
    fs::set_permissions(path, PermissionsExt::from_mode(0o755)).map_err(file_error(path))?;
    Ok(true)
}

async fn steps(job: &Job<'_>, progress: &dyn Progress) -> Result<Installed, InstallError> {
    let fetched = fetch::fetch(job, progress).await?;
    checkpoint::reach(job.env, "fetched").await;
    let unpacked = fetched.verify(job.pin)?.unpack(job)?;
    checkpoint::reach(job.env, "unpacked").await;
    let probed = unpacked.probe(job).await?;
    checkpoint::reach(job.env, "probed").await;
    probed.activate(job).await
}

/// A file whose digest is a pinned one.
struct Verified {
    file: PathBuf,
    from: String,
    /// Whether it is the program itself although an archive is pinned.
    is_bare: bool,
}

/// The program in its place in the work directory, not yet tried.
struct Unpacked {
    from: String,
    binary_sha256: String,
}

/// The program after it told its version.
struct Probed {
    binary_sha256: String,
}

impl Fetched {
    /// Compares digests. The program itself is as good as the archive.
    fn verify(self, pin: &Pin) -> Result<Verified, InstallError> {
        let is_bare = pin.binary_sha256.as_ref() == Some(&self.sha256);
        if is_bare || self.sha256 == pin.sha256 {
            return Ok(Verified { file: self.file, from: self.from, is_bare });
        }
        let expected = pin.sha256.clone();
        let is_web_page = fetch::is_web_page(&self.file);
        let has = fs::metadata(&self.file).map(|file| file.len()).ok();
        let length = has.zip(pin.size);
        Err(InstallError::WrongDigest {
            length,
            from: self.from,
            found: self.sha256,
            expected,
            is_web_page,
        })
    }
}

impl Verified {
    fn unpack(self, job: &Job<'_>) -> Result<Unpacked, InstallError> {
        job.work.prepare(&job.pin.version)?;
        let target = job.work.binary(job.id, &job.pin.version);
        let binary_sha256 = match (&job.pin.member, self.is_bare) {
            (Some(member), false) => unpack::one_member(&self.file, member, &target, &self.from)?,
            _ => unpack::bare(&self.file, &target)?,
        };
        if let Some(expected) = job.pin.binary_sha256.as_ref().filter(|e| **e != binary_sha256) {
            let from = format!("the program in {}", self.from);
            let expected = expected.clone();
            return Err(InstallError::WrongDigest {
                from,
                found: binary_sha256,
                expected,
                is_web_page: false,
                length: None,
            });
        }
        Ok(Unpacked { from: self.from, binary_sha256 })
    }
}

impl Unpacked {
    async fn probe(self, job: &Job<'_>) -> Result<Probed, InstallError> {
        let path = job.work.binary(job.id, &job.pin.version);
        let tool = Tool::candidate(job.id.as_str(), &path, Origin::Managed, job.env);
        let why = match probe::version(job.id, &tool).await {
            Ok(found) if Version::parse(&job.pin.version).as_ref() == Some(&found) => {
                return Ok(Probed { binary_sha256: self.binary_sha256 });
            }
            Ok(found) => Trouble::Misbehaved {
                probe: "version",
                what: format!("says that it is version {found}"),
            },
            Err(why) => why,
        };
        let version = job.pin.version.clone();
        let (tool, why) = (job.id.as_str(), Box::new(why));
        Err(InstallError::DoesNotRun { tool, version, from: self.from, why })
    }
}

impl Probed {
    async fn activate(self, job: &Job<'_>) -> Result<Installed, InstallError> {
        let receipt = Receipt {
            tool: job.id.as_str().to_owned(),
            version: job.pin.version.clone(),
            url: job.pin.url.clone(),
            sha256: job.pin.sha256.clone(),
            binary_sha256: self.binary_sha256,
        };
        job.store.activate(job.env, job.id, &receipt, &job.work).await
    }
}

/// The digest of a file, at most `limit` bytes long.
fn digest_of(path: &Path, limit: u64) -> io::Result<Option<String>> {
    let mut sink = fetch::Hashing::new(io::sink(), limit);
    match fetch::copy(&mut fs::File::open(path)?, &mut sink) {
        Ok(()) => Ok(Some(sink.finish().1)),
        Err(error) if fetch::is_over_limit(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Verifies an archive on disk and takes the one program out of it: what an
/// install does between download and probe. Gives the program's digest.
/// `benches/doctor.rs` measures it.
pub fn take_out(
    archive: &Path,
    sha256: &str,
    member: &str,
    target: &Path,
) -> Result<String, InstallError> {
    let from = archive.display().to_string();
    let found = digest_of(archive, SIZE_LIMIT).map_err(file_error(archive))?;
    match found {
        None => {
            let expected = sha256.to_owned();
            Err(InstallError::TooLarge { from, limit: SIZE_LIMIT, expected })
        }
        Some(found) if found != sha256 => {
            let (expected, is_web_page) = (sha256.to_owned(), fetch::is_web_page(archive));
            Err(InstallError::WrongDigest { from, found, expected, is_web_page, length: None })
        }
        Some(_) => unpack::one_member(archive, member, target, &from),
    }
}
