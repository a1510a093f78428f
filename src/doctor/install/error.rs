//! Why an install came to nothing, in words.

use std::io;
use std::path::{Path, PathBuf};

use super::download;
use crate::base::dirs::MissingHome;
use crate::base::failure::{bare, plain};
use crate::base::files::lock::LockError;
use crate::core::platform::Remedy;
use crate::doctor::trouble::Trouble;

/// Why nothing was installed. What was installed before is untouched.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The folder has no file with the pinned digest.
    #[error("`{}` has no `{name}`, and no other file with its digest", folder.display())]
    NotInFolder {
        /// The folder.
        folder: PathBuf,
        /// The name that the build has upstream.
        name: String,
    },
    /// What was fetched is not what is pinned.
    #[error(
        "`{from}` is not the pinned file{}: its SHA-256 is {found}, and {expected} is pinned",
        match length {
            _ if *is_web_page => ", but a web page".to_owned(),
            Some((has, of)) if has < of => format!(" (it ends after {has} of {of} bytes)"),
            _ => String::new(),
        }
    )]
    WrongDigest {
        /// The path or URL.
        from: String,
        /// The digest of what came.
        found: String,
        /// The digest of what should have come.
        expected: String,
        /// Whether it looks like what a browser shows.
        is_web_page: bool,
        /// How long it is and how long it should be, where that is known.
        length: Option<(u64, u64)>,
    },
    /// What was fetched is larger than it can be.
    #[error(
        "`{from}` is not the pinned file: it is larger than {limit} bytes, and {expected} is the \
         SHA-256 that is pinned"
    )]
    TooLarge {
        /// The path or URL.
        from: String,
        /// The limit.
        limit: u64,
        /// The digest of what should have come.
        expected: String,
    },
    /// Somebody else could change what is installed.
    #[error("others could change what is installed in `{}`: {why}", folder.display())]
    Open {
        /// The folder of the tool.
        folder: PathBuf,
        /// Who, and by what.
        why: String,
        /// What to do about it.
        remedy: Remedy,
    },
    /// The mirror or a redirect is not to be trusted with a download.
    #[error("`{url}` is refused: downloads are https only, and http to this machine itself")]
    InsecureUrl {
        /// The URL.
        url: String,
    },
    /// The server sends us elsewhere, and nobody goes there.
    #[error("`{url}` redirects to `{to}`, which {why}")]
    Redirect {
        /// The URL.
        url: String,
        /// Where to.
        to: String,
        /// Why not.
        why: &'static str,
    },
    /// A variable names a proxy that cannot be used.
    #[error("{variable} is {}{why}", value.as_ref().map(|is| format!("`{is}`, ")).unwrap_or_default())]
    BadProxy {
        /// The variable.
        variable: &'static str,
        /// Its value, where it holds nothing secret.
        value: Option<String>,
        /// What it is.
        why: &'static str,
    },
    /// The proxy does not lead there.
    #[error("could not download `{url}` through the proxy {proxy} ({variable}): {why}")]
    Proxy {
        /// The URL.
        url: String,
        /// The variable that names the proxy.
        variable: &'static str,
        /// Its host and port.
        proxy: String,
        /// Why.
        why: String,
    },
    /// A variable names authorities that cannot be used.
    #[error("{variable} names `{}`, which {why}", path.display())]
    BadAuthorities {
        /// The variable.
        variable: &'static str,
        /// The path.
        path: PathBuf,
        /// What is the matter with it.
        why: String,
    },
    /// The folder that was named cannot be looked into.
    #[error("no file can be taken from `{}`: {}", folder.display(), bare(cause))]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The file that is to be taken cannot be read.
    #[error("`{}` cannot be taken: {}", path.display(), bare(cause))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The value of `THE_LOOP_MIRROR` is no URL.
    #[error(
        "THE_LOOP_MIRROR is not a URL of a mirror (https://…, file:///…, or http://… of this machine)"
    )]
    BadMirror,
    /// The value of `THE_LOOP_DOWNLOAD_TIMEOUT` is no time.
    #[error("THE_LOOP_DOWNLOAD_TIMEOUT is `{value}`, and not a number of seconds from 1 to 3600")]
    BadTimeout {
        /// The value.
        value: String,
    },
    /// The download failed.
    #[error("could not download `{url}`: {why}")]
    Download {
        /// The URL.
        url: String,
        /// Why.
        why: String,
    },
    /// The server cannot show that it is the one that was meant.
    #[error("could not download `{url}`: the certificate of {host} is not trusted: {why}")]
    Certificate {
        /// The URL.
        url: String,
        /// Whose certificate it is.
        host: String,
        /// Why.
        why: String,
        /// The variable by which only some authorities are trusted.
        only: Option<&'static str>,
    },
    /// The server gave a little at each try, and never all.
    #[error("`{url}` was cut off too often")]
    TooManyTries {
        /// The URL.
        url: String,
    },
    /// What is to be replaced or taken away is being used.
    #[error("{tool} {version} is in use by {holder}")]
    InUse {
        /// The tool.
        tool: &'static str,
        /// The version.
        version: String,
        /// Who uses it.
        holder: String,
    },
    /// Nobody can tell whether something that is to be taken away is being used.
    #[error("whether {tool} is in use cannot be known: /proc is not there")]
    UseUnknown {
        /// The tool.
        tool: &'static str,
    },
    /// There is no such managed version.
    #[error("{} is not installed by the-loop", format!("{tool} {version}").trim_end())]
    NotInstalled {
        /// The tool.
        tool: &'static str,
        /// The version, or nothing.
        version: String,
    },
    /// The server answered with something else than the file.
    #[error("`{url}` was answered with status {}", download::status(*status))]
    Status {
        /// The URL.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// The archive is not what an archive of this tool is.
    #[error("the archive `{from}` {why}")]
    Archive {
        /// The path or URL.
        from: String,
        /// What is wrong with it.
        why: String,
    },
    /// The program was installed and does not work, so it was taken away again.
    #[error("{tool} {version} from `{from}` {why}")]
    DoesNotRun {
        /// The tool.
        tool: &'static str,
        /// The version.
        version: String,
        /// The path or URL.
        from: String,
        /// What it does.
        why: Box<Trouble>,
    },
    /// There is no home to install in.
    #[error("{home}: {}", bare(cause))]
    Homeless {
        /// The home.
        home: MissingHome,
        /// Why none is made.
        cause: io::Error,
    },
    /// A file could not be read or written.
    #[error("{}", of_file(path, cause))]
    File {
        /// The path.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The lock of the tool's folder could not be taken.
    #[error("could not lock the folder of {tool}")]
    Lock {
        /// The tool.
        tool: &'static str,
        /// Why.
        source: LockError,
    },
}

impl InstallError {
    /// What to do where builds cannot come from what was named.
    pub fn of_source(&self) -> Option<&'static str> {
        match self {
            Self::BadMirror | Self::InsecureUrl { .. } => {
                Some("set it to https://HOST/PATH, or unset THE_LOOP_MIRROR")
            }
            Self::BadTimeout { .. } => Some("unset THE_LOOP_DOWNLOAD_TIMEOUT, or give it a number"),
            _ => None,
        }
    }
}

/// Wraps the error of a file operation.
pub(super) fn file_error(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> InstallError {
    let path = path.into();
    move |cause| InstallError::File { path, cause }
}

/// Most causes name the path themselves.
fn of_file(path: &Path, cause: &io::Error) -> String {
    let (path, cause) = (path.display().to_string(), cause.to_string());
    let plain = plain(&cause);
    if plain.contains(&path) { plain.to_owned() } else { format!("`{path}`: {plain}") }
}
