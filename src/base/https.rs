//! Clients for servers elsewhere, and what of the environment they go by: the
//! proxy, and the authorities that vouch for servers. What cannot be used is
//! named, and never passed over: nobody who set it wants to do without.
//!
//! Downloads and what is asked of GitHub go through here. It knows of neither.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;
use reqwest::{Client, NoProxy, Proxy, Url, redirect};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::env::Env;
use super::failure::{chain, plain};
use super::runtime::can_start;
use super::text::{cap, visible};

/// How long a server may take to be reached.
const CONNECT_DEADLINE: Duration = Duration::from_secs(15);

/// The variables that name a proxy, in the order in which they count.
const PROXIES: &[&str] = &["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
const EXCEPTIONS: &[&str] = &["NO_PROXY", "no_proxy"];

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
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
    /// It cannot be made.
    #[error("no client can be made: {why}")]
    Client {
        /// Why.
        why: String,
    },
}

/// The proxy for a URL.
#[derive(Debug, Clone)]
pub struct Through {
    /// The variable that names it.
    pub variable: &'static str,
    url: Url,
    exceptions: String,
}

impl Through {
    /// The proxy that the environment names for this URL.
    fn find(env: &Env, url: &Url) -> Result<Option<Self>, TrustError> {
        let exceptions = EXCEPTIONS.iter().find_map(|name| env.var(name)).unwrap_or_default();
        if is_loopback(url) || is_excepted(exceptions, url.host_str().unwrap_or_default()) {
            return Ok(None);
        }
        let set = PROXIES.iter().find_map(|name| Some((*name, env.var_os(name)?)));
        let Some((variable, value)) = set else { return Ok(None) };
        let value = value.to_string_lossy();
        let has_scheme = value.contains("://");
        let text = if has_scheme { value.into_owned() } else { format!("http://{value}") };
        let parsed = Url::parse(text.trim()).ok();
        let bad = |why| {
            // It may hold a password that cannot be told from the rest.
            let is = parsed.as_ref().filter(|url| url.has_host()).map(shown);
            let value = is.map(|is| cap(&visible(is.trim_end_matches('/')), 40));
            Err(TrustError::BadProxy { variable, value, why })
        };
        match &parsed {
            Some(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => {
                let (url, exceptions) = (url.clone(), exceptions.to_owned());
                Ok(Some(Self { variable, url, exceptions }))
            }
            Some(url) if url.scheme().starts_with("socks") => {
                bad("a SOCKS proxy, which this program does not speak to")
            }
            _ => bad("no URL of an HTTP proxy"),
        }
    }

    /// Host and port, and nothing else that stands in the variable.
    pub fn place(&self) -> String {
        let host = visible(self.url.host_str().unwrap_or_default());
        format!("{host}:{}", self.url.port_or_known_default().unwrap_or_default())
    }

    /// For a client.
    fn proxy(&self) -> reqwest::Result<Proxy> {
        Ok(Proxy::all(self.url.clone())?.no_proxy(NoProxy::from_string(&self.exceptions)))
    }
}

/// Whether a list of exceptions names this host: itself, or a domain above it.
fn is_excepted(exceptions: &str, host: &str) -> bool {
    exceptions.split(',').map(|entry| entry.trim().trim_start_matches('*')).any(|entry| {
        let domain = entry.trim_start_matches('.');
        match host.strip_suffix(domain) {
            Some(before) if !domain.is_empty() => before.is_empty() || before.ends_with('.'),
            _ => domain.is_empty() && exceptions.trim() == "*",
        }
    })
}

/// Whether the authorities that the environment names can be read.
fn authorities(env: &Env) -> Result<(), TrustError> {
    let named = |variable| Some((variable, PathBuf::from(env.var_os(variable)?)));
    let bad = |variable, path: &Path, why: String| {
        Err(TrustError::BadAuthorities { variable, path: path.to_path_buf(), why })
    };
    if let Some((variable, dir)) = named("SSL_CERT_DIR")
        && !dir.is_dir()
    {
        return bad(variable, &dir, "is no directory".to_owned());
    }
    let Some((variable, file)) = named("SSL_CERT_FILE") else { return Ok(()) };
    match std::fs::metadata(&file) {
        Err(error) => {
            return bad(variable, &file, format!("cannot be read: {}", plain(&error.to_string())));
        }
        // A named pipe would be waited for.
        Ok(meta) if !meta.is_file() => return bad(variable, &file, "is no file".to_owned()),
        Ok(_) => {}
    }
    let Ok(bytes) = fs::read(&file) else {
        return bad(variable, &file, "cannot be read".to_owned());
    };
    let mut found = CertificateDer::pem_slice_iter(&bytes).peekable();
    if found.peek().is_none() {
        return bad(variable, &file, "holds no certificate in PEM form".to_owned());
    }
    if found.any(|certificate| certificate.is_err()) {
        return bad(variable, &file, "holds a certificate that is damaged".to_owned());
    }
    Ok(())
}

/// A client for one URL, and the proxy through which it goes there. It follows no
/// redirect; `silence` is how long a server may send nothing.
pub fn client(
    env: &Env,
    url: &Url,
    silence: Duration,
) -> Result<(Option<Through>, Client), TrustError> {
    let through = Through::find(env, url)?;
    if url.scheme() == "https" {
        authorities(env)?;
    }
    // A name is looked up on one.
    can_start(1).map_err(|error| TrustError::Client { why: chain(&error) })?;
    // Set once for the process; a second time it is there already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .user_agent(concat!("the-loop/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_DEADLINE)
        .read_timeout(silence)
        .redirect(redirect::Policy::none())
        // None but the one that was judged.
        .no_proxy();
    let built = match &through {
        Some(through) => through.proxy().and_then(|proxy| builder.proxy(proxy).build()),
        None => builder.build(),
    };
    let client = built.map_err(|error| TrustError::Client { why: visible(&chain(&error)) })?;
    Ok((through, client))
}

/// The URL for a message: it may hold a password, or a token in its query.
pub fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Only a URL without a host refuses, and that one has no password.
    let _ = url.set_password(None);
    let _ = url.set_username("");
    url.set_fragment(None);
    let query = if url.query().is_some() { "?…" } else { "" };
    url.set_query(None);
    format!("{url}{query}")
}

/// Whether anything may be asked for there: https, or http to this machine itself.
pub fn is_allowed(url: &Url) -> bool {
    match url.scheme() {
        "https" => true,
        "http" => is_loopback(url),
        _ => false,
    }
}

/// Whether the URL's host is this machine, by number or as `localhost`.
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    host == "localhost"
        || host
            .trim_matches(['[', ']'])
            .parse()
            .is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(vars: &[(&str, &str)], url: &str) -> Result<Option<(String, String)>, String> {
        let env = Env::fixed(vars.iter().copied(), "/", "/bin/the-loop");
        let through = Through::find(&env, &Url::parse(url).unwrap());
        through
            .map(|found| found.map(|proxy| (proxy.variable.to_owned(), proxy.place())))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_proxy_is_the_one_that_is_named_or_the_variable_is() {
        let url = "https://github.com/x";
        let is = |variable: &str, place: &str| Ok(Some((variable.to_owned(), place.to_owned())));
        for (vars, expected) in [
            (&[][..], Ok(None)),
            (&[("HTTPS_PROXY", "http://p:3128")], is("HTTPS_PROXY", "p:3128")),
            (&[("https_proxy", "p:3128")], is("https_proxy", "p:3128")),
            (&[("ALL_PROXY", "https://u:s3cret@p")], is("ALL_PROXY", "p:443")),
            (&[("HTTPS_PROXY", ""), ("ALL_PROXY", "p")], is("ALL_PROXY", "p:80")),
            (&[("HTTP_PROXY", "junk://")], Ok(None)),
            (&[("HTTPS_PROXY", "junk://p"), ("NO_PROXY", "*")], Ok(None)),
            (&[("HTTPS_PROXY", "junk://p"), ("NO_PROXY", "a.b, .github.com")], Ok(None)),
            (&[("HTTPS_PROXY", "p"), ("no_proxy", "hub.com")], is("HTTPS_PROXY", "p:80")),
        ] {
            assert_eq!(found(vars, url), expected, "{vars:?}");
        }
        for (value, said) in [
            ("junk://u:s3cret@p:1", "HTTPS_PROXY is `junk://p:1`, no URL of an HTTP proxy"),
            ("socks5://p:1", "HTTPS_PROXY is `socks5://p:1`, a SOCKS proxy, which"),
            ("socks5h://p:1", "a SOCKS proxy, which this program does not speak to"),
            ("http://", "HTTPS_PROXY is no URL of an HTTP proxy"),
            ("u:s3cret@p:port", "HTTPS_PROXY is no URL of an HTTP proxy"),
            ("\u{1b}[31m", "HTTPS_PROXY is no URL of an HTTP proxy"),
        ] {
            let error = found(&[("HTTPS_PROXY", value)], url).unwrap_err();
            assert!(error.contains(said) && !error.contains("s3cret"), "{value}: {error}");
        }
        // What goes to this machine asks no proxy.
        assert_eq!(found(&[("HTTPS_PROXY", "junk://p")], "http://127.0.0.1:1"), Ok(None));
    }

    #[test]
    fn authorities_that_cannot_be_used_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            fs::write(dir.path().join(name), text).unwrap();
            name.to_owned()
        };
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("pipe"), 0o600.into()).unwrap();
        let cut = "-----BEGIN CERTIFICATE-----\nMIIB\n";
        for (name, said) in [
            ("gone".to_owned(), "cannot be read: No such file"),
            (put("empty", ""), "holds no certificate in PEM form"),
            (put("words", "hello"), "holds no certificate in PEM form"),
            (put("cut", cut), "holds a certificate that is damaged"),
            ("pipe".to_owned(), "is no file"),
            (String::new(), "is no file"),
        ] {
            let file = dir.path().join(&name);
            let env = Env::fixed([("SSL_CERT_FILE", file.as_os_str())], "/", "/bin/the-loop");
            let error = authorities(&env).unwrap_err().to_string();
            let named = format!("SSL_CERT_FILE names `{}`, which {said}", file.display());
            assert!(error.starts_with(&named), "{error}");
        }
        let vars = [("SSL_CERT_DIR", dir.path().join("empty"))];
        let error = authorities(&Env::fixed(vars, "/", "/bin/the-loop")).unwrap_err().to_string();
        assert!(error.starts_with("SSL_CERT_DIR names `"), "{error}");
    }
}
