//! Where a build comes from: upstream, a mirror of it, or a folder.

use std::path::PathBuf;

use reqwest::Url;

use super::InstallError;
use super::download::silence;
use crate::base::env::Env;
use crate::base::https::{is_allowed, shown};
use crate::core::platform::Pin;

/// The variable that names a mirror.
pub const MIRROR: &str = "THE_LOOP_MIRROR";

/// Where builds come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The URL of the pin.
    Upstream,
    /// A server that holds upstream's paths below this URL.
    Mirror(String),
    /// A folder with the file, under its name or any other.
    Folder(PathBuf),
}

impl Source {
    /// What was asked for: a folder, else the mirror of the environment, else
    /// upstream.
    pub fn choose(env: &Env, offline: Option<&std::path::Path>) -> Result<Self, InstallError> {
        if let Some(folder) = offline {
            return Ok(Self::Folder(env.cwd().join(folder)));
        }
        silence(env)?;
        let Some(mirror) = env.var(MIRROR) else { return Ok(Self::Upstream) };
        let url = Url::parse(mirror).map_err(|_| InstallError::BadMirror)?;
        match url.scheme() {
            "file" => url.to_file_path().map(Self::Folder).map_err(|()| InstallError::BadMirror),
            "http" | "https" if is_allowed(&url) => Ok(Self::Mirror(mirror.to_owned())),
            "http" => Err(InstallError::InsecureUrl { url: shown(&url) }),
            _ => Err(InstallError::BadMirror),
        }
    }

    /// The URL that a build is downloaded from; `None` for a folder.
    pub(super) fn url(&self, pin: &Pin) -> Result<Option<Url>, InstallError> {
        let upstream =
            Url::parse(&pin.url).map_err(|_| InstallError::InsecureUrl { url: pin.url.clone() })?;
        let url = match self {
            Self::Upstream => upstream,
            Self::Mirror(base) => {
                let mut url = Url::parse(base).map_err(|_| InstallError::BadMirror)?;
                let path = format!("{}{}", url.path().trim_end_matches('/'), upstream.path());
                url.set_path(&path);
                url.set_fragment(None);
                url
            }
            Self::Folder(_) => return Ok(None),
        };
        if is_allowed(&url) {
            Ok(Some(url))
        } else {
            Err(InstallError::InsecureUrl { url: shown(&url) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(mirror: &str) -> Result<Source, InstallError> {
        Source::choose(&Env::fixed([(MIRROR, mirror)], "/here", "/bin/the-loop"), None)
    }

    #[test]
    fn http_goes_to_this_machine_only() {
        for allowed in
            ["http://127.0.0.1:8000", "http://[::1]/x", "http://localhost", "https://a.b"]
        {
            assert_eq!(choose(allowed).unwrap(), Source::Mirror(allowed.to_owned()));
        }
        for refused in ["http://a.b", "http://localhost.evil.example", "http://10.0.0.1"] {
            assert!(matches!(choose(refused), Err(InstallError::InsecureUrl { .. })), "{refused}");
        }
        for bad in ["ftp://a.b", "not a url", "/a/path"] {
            assert!(matches!(choose(bad), Err(InstallError::BadMirror)), "{bad}");
        }
    }

    #[test]
    fn the_password_of_a_mirror_is_never_shown() {
        let error = choose("http://me:s3cret@a.b/c").unwrap_err().to_string();
        assert!(error.contains("http://a.b/c") && !error.contains("s3cret"), "{error}");
        let error = choose("s3cret").unwrap_err().to_string();
        assert!(!error.contains("s3cret"), "{error}");
    }

    #[test]
    fn the_query_of_a_mirror_is_sent_and_never_shown() {
        let pin = crate::core::platform::tool_data("ttyd").unwrap().pins[0].clone();
        let source = choose("https://m.example/a/?token=s3cret#x").unwrap();
        let url = source.url(&pin).unwrap().unwrap();
        let path = Url::parse(&pin.url).unwrap().path().to_owned();
        assert_eq!(url.as_str(), format!("https://m.example/a{path}?token=s3cret"));
        assert_eq!(shown(&url), format!("https://m.example/a{path}?…"));
    }

    #[test]
    fn a_time_that_is_none_is_refused() {
        for value in ["garbage", "0", "3601", "1.5"] {
            let env = Env::fixed([("THE_LOOP_DOWNLOAD_TIMEOUT", value)], "/", "/bin/the-loop");
            let error = Source::choose(&env, None).unwrap_err().to_string();
            assert!(error.contains(&format!("`{value}`, and not a number of seconds")), "{error}");
        }
    }

    #[test]
    fn a_folder_is_named_by_a_url_or_a_path() {
        assert_eq!(choose("file:///a%20b").unwrap(), Source::Folder("/a b".into()));
        let env = Env::fixed([(MIRROR, "https://a.b")], "/here", "/bin/the-loop");
        let offline = std::path::Path::new("d");
        assert_eq!(Source::choose(&env, Some(offline)).unwrap(), Source::Folder("/here/d".into()));
    }
}
