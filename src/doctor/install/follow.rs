//! Asks a server for a file and goes where it sends us, as far as that is to be
//! trusted. It says what a failure was, and whose.

use std::time::Duration;

use reqwest::header::{self, HeaderMap};
use reqwest::{Client, Response, Url};

use super::InstallError;
use crate::base::env::Env;
use crate::base::failure::plain;
use crate::base::https::{self, Through, TrustError, is_allowed, is_loopback, shown};
use crate::base::text::{cap, visible};

const REDIRECTS: usize = 5;
/// A certificate that signed itself says of itself, as a rule, that it is an
/// authority's.
pub(super) const SELF_SIGNED: &str = "it is an authority's own, and a server needs one of its own";

/// How a server is asked.
pub(super) struct Asking<'a> {
    env: &'a Env,
    /// Where the download began, which is what people are told.
    url: &'a Url,
    silence: Duration,
    through: Option<Through>,
    client: Client,
}

impl<'a> Asking<'a> {
    pub(super) fn new(env: &'a Env, url: &'a Url, silence: Duration) -> Result<Self, InstallError> {
        let (through, client) = client(env, url, silence)?;
        Ok(Self { env, url, silence, through, client })
    }

    /// The answer to a request for all bytes from `start` on, and where it came
    /// from in the end.
    pub(super) async fn ask(&self, start: u64) -> Result<(Response, Url), Refused> {
        let mut passed = vec![self.url.clone()];
        let (mut client, mut through) = (self.client.clone(), self.through.clone());
        loop {
            let url = passed.last().unwrap_or(self.url).clone();
            let mut request = client.get(url.clone());
            if start > 0 {
                request = request.header(header::RANGE, format!("bytes={start}-"));
            }
            let response = request
                .send()
                .await
                .map_err(|error| self.failed(&error, &url, through.as_ref()))?;
            // 304 and the like lead nowhere.
            let leads_on = response.headers().contains_key(header::LOCATION);
            if !(response.status().is_redirection() && leads_on) {
                return Ok((response, url));
            }
            let next = self.next(&passed, &url, response.headers())?;
            // A proxy is for what is elsewhere.
            if is_loopback(&url) != is_loopback(&next) {
                (through, client) = self::client(self.env, &next, self.silence)?;
            }
            passed.push(next);
        }
    }

    /// Where a redirect leads.
    fn next(&self, passed: &[Url], at: &Url, headers: &HeaderMap) -> Result<Url, InstallError> {
        let bytes = headers.get(header::LOCATION).map(header::HeaderValue::as_bytes);
        let text = String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        let next = at.join(text.trim()).ok().filter(|_| !text.trim().is_empty());
        let refused = |to: String, why| {
            Err(InstallError::Redirect { url: shown(self.url), to: cap(&visible(&to), 60), why })
        };
        match next {
            None => refused(text, "is no URL"),
            Some(next) if !may_follow(passed, &next) => {
                refused(shown(&next), "is a URL that is not https")
            }
            Some(next) if passed.len() > REDIRECTS => {
                refused(shown(&next), "is one redirect too many")
            }
            Some(next) => Ok(next),
        }
    }

    /// What a failure of a request, or on the way through its answer, was.
    pub(super) fn failed(
        &self,
        error: &reqwest::Error,
        at: &Url,
        through: Option<&Through>,
    ) -> Refused {
        let mut bottom: &dyn std::error::Error = error;
        let mut is_io = false;
        while let Some(cause) = bottom.source() {
            bottom = cause;
            is_io = bottom.downcast_ref::<std::io::Error>().is_some();
        }
        let cause = visible(plain(&bottom.to_string()));
        let host = at.host_str().unwrap_or_default();
        let url = shown(self.url);
        if let Some((_, why)) = cause.split_once("invalid peer certificate: ") {
            let (host, why) = (host.to_owned(), about_certificate(why));
            let authorities = ["SSL_CERT_FILE", "SSL_CERT_DIR"];
            let only = authorities.into_iter().find(|name| self.env.var_os(name).is_some());
            return Refused::Final(InstallError::Certificate { url, host, why, only });
        }
        let port = at.port_or_known_default().unwrap_or_default();
        if let Some(through) = through.filter(|_| error.is_connect()) {
            let why = if error.is_timeout() {
                "it did not answer in time (timed out)".to_owned()
            } else {
                cause.clone()
            };
            let (variable, proxy) = (through.variable, through.place());
            let error = InstallError::Proxy { url, variable, proxy, why };
            // It was understood, and is not wanted.
            let is_answer = ["authorization required", "unsuccessful"];
            let is_final = is_answer.iter().any(|answer| cause.contains(answer));
            return if is_final { Refused::Final(error) } else { Refused::Again(error) };
        }
        let is_cut = is_io
            || ["closed", "end of file", "reset", "canceled"].iter().any(|w| cause.contains(w));
        let why = match () {
            () if error.is_connect() && error.is_timeout() => {
                format!("{host}:{port} could not be reached in time (timed out)")
            }
            () if error.is_connect() => format!("no connection to {host}:{port}: {cause}"),
            () if error.is_timeout() => format!("{host} did not go on in time (timed out)"),
            () if is_cut => format!("{host} cut the connection: {cause}"),
            () => format!("{host} gave an answer that is not HTTP: {cause}"),
        };
        let error_is_ours = error.is_builder();
        let error = InstallError::Download { url, why };
        if error_is_ours { Refused::Final(error) } else { Refused::Again(error) }
    }
}

/// What is wrong with a certificate, where the library has only a name for it.
fn about_certificate(why: &str) -> String {
    match why {
        _ if why.contains("CaUsedAsEndEntity") => SELF_SIGNED.to_owned(),
        _ if why.starts_with("Other(") => "it is of a kind that cannot be checked".to_owned(),
        _ => why.to_owned(),
    }
}

/// Why there is no answer.
pub(super) enum Refused {
    /// Another try would bring none either.
    Final(InstallError),
    /// Another try may.
    Again(InstallError),
}

impl From<InstallError> for Refused {
    fn from(error: InstallError) -> Self {
        Self::Final(error)
    }
}

/// Whether a download may go on there. What began with https stays with it; http
/// is for what began on this machine with http, and has not left it yet.
fn may_follow(previous: &[Url], next: &Url) -> bool {
    next.scheme() == "https"
        || (is_allowed(next)
            && previous.iter().all(|url| url.scheme() == "http" && is_loopback(url)))
}

/// A client for one URL, and the proxy through which it goes there.
fn client(
    env: &Env,
    url: &Url,
    silence: Duration,
) -> Result<(Option<Through>, Client), InstallError> {
    https::client(env, url, silence).map_err(|error| match error {
        TrustError::BadProxy { variable, value, why } => {
            InstallError::BadProxy { variable, value, why }
        }
        TrustError::BadAuthorities { variable, path, why } => {
            InstallError::BadAuthorities { variable, path, why }
        }
        TrustError::Client { why } => InstallError::Download { url: shown(url), why },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_never_leaves_https() {
        let url = |text: &str| Url::parse(text).unwrap();
        let may = |previous: &[&str], next: &str| {
            let previous: Vec<_> = previous.iter().map(|text| url(text)).collect();
            may_follow(&previous, &url(next))
        };
        assert!(may(&["https://a.b"], "https://c.d"));
        assert!(may(&["http://127.0.0.1:1"], "http://localhost:2"));
        assert!(may(&["http://127.0.0.1:1"], "https://a.b"));
        assert!(!may(&["https://a.b"], "http://127.0.0.1:1"));
        assert!(!may(&["https://127.0.0.1:1"], "http://127.0.0.1:1"));
        assert!(!may(&["http://127.0.0.1:1", "https://a.b"], "http://127.0.0.1:1"));
        assert!(!may(&["http://127.0.0.1:1"], "http://a.b"));
        assert!(!may(&["http://127.0.0.1:1"], "file:///etc"));
    }
}
