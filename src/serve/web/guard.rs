//! Who may ask: the decision about a request from its head alone, and the
//! layer that makes it before anything else sees the request.
//!
//! There is no log-in here; whoever can reach the listener may look and type.
//! What is refused are the pages of others in this person's browser: those of
//! another origin, of another port of this host, and of a name that was bound
//! to this address after it was looked up.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

/// The names by which a browser may ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names(Vec<String>);

impl Names {
    /// Those in `listed`, and those of this machine itself where it is reached by
    /// a loopback address.
    pub fn new(listed: impl IntoIterator<Item = String>, by_loopback: bool) -> Self {
        let own = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned);
        let own = own.into_iter().filter(|_| by_loopback);
        Self(listed.into_iter().map(|name| bare(&name)).chain(own).collect())
    }

    /// Whether the value of a `Host` header has one of the names, whatever port.
    fn allow(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            // The last colon of an IPv6 address stands inside its brackets.
            Some((name, port)) if !port.contains(']') => {
                if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
                    return false;
                }
                name
            }
            _ => host,
        };
        self.0.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
    }
}

/// A name as it stands in `Host`: an IPv6 address in brackets.
fn bare(name: &str) -> String {
    match name.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => format!("[{address}]"),
        _ => name.to_ascii_lowercase(),
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A page that a person goes to.
    Page,
    /// What a page loads: data, scripts, styles.
    Part,
    /// A terminal.
    Socket,
}

impl Kind {
    /// The kind of what is behind a path.
    pub fn of(path: &str) -> Self {
        if path == "/" {
            return Self::Page;
        }
        let mut segments = path.split('/').skip(1);
        let mode = segments.next();
        let (_, last, end) = (segments.next(), segments.next(), segments.next());
        match (mode, last, end) {
            (Some("s" | "v"), Some(""), None) => Self::Page,
            (Some("s" | "v"), Some("ws"), None) => Self::Socket,
            (Some("v"), Some("history"), None) => Self::Page,
            _ => Self::Part,
        }
    }
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No `Host`, more than one, or an address in the request line.
    #[error("a request names one host")]
    Host,
    /// The host is none of the allowed.
    #[error("this name is not in `routing.webTerminal.allowedHosts`")]
    Name,
    /// The origin is another one, or there are two.
    #[error("the request comes from another origin")]
    Origin,
    /// There is no origin where there must be one.
    #[error("the request does not say where it comes from")]
    NoOrigin,
    /// The browser says that another site asks.
    #[error("the request comes from another site")]
    Site,
}

/// Decides about a request.
pub fn decide(
    names: &Names,
    method: &Method,
    kind: Kind,
    headers: &HeaderMap,
) -> Result<(), Refused> {
    let host = only(headers, header::HOST).ok().flatten().ok_or(Refused::Host)?;
    if !names.allow(host) {
        return Err(Refused::Name);
    }
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    match only(headers, header::ORIGIN).map_err(|()| Refused::Origin)? {
        Some(origin) if is_own(origin, host) => {}
        Some(_) => return Err(Refused::Origin),
        None if kind == Kind::Socket || !is_read => return Err(Refused::NoOrigin),
        None => {}
    }
    match only(headers, SITE).map_err(|()| Refused::Site)? {
        None | Some("same-origin" | "none") => Ok(()),
        Some(_) if is_read && kind == Kind::Page && is_navigation(headers) => Ok(()),
        Some(_) => Err(Refused::Site),
    }
}

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The value of a header that is there at most once and is plain text.
fn only(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, ()> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    if values.next().is_some() { Err(()) } else { first.to_str().map(Some).map_err(drop) }
}

fn is_own(origin: &str, host: &str) -> bool {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host))
}

/// Whether a person goes to a page, in a tab of its own.
fn is_navigation(headers: &HeaderMap) -> bool {
    only(headers, MODE) == Ok(Some("navigate")) && only(headers, DEST) == Ok(Some("document"))
}

/// Decides about every request, and puts on every answer what a browser must
/// hold to.
pub(super) async fn layer(
    State(names): State<Arc<Names>>,
    request: Request,
    next: Next,
) -> Response {
    let kind = Kind::of(request.uri().path());
    let has_authority = request.uri().authority().is_some();
    let decision = if has_authority {
        Err(Refused::Host)
    } else {
        decide(&names, request.method(), kind, request.headers())
    };
    let mut response = match decision {
        Ok(()) => next.run(request).await,
        Err(why) => {
            let status = match why {
                Refused::Host => StatusCode::BAD_REQUEST,
                Refused::Name => StatusCode::MISDIRECTED_REQUEST,
                Refused::Origin | Refused::NoOrigin | Refused::Site => StatusCode::FORBIDDEN,
            };
            tracing::debug!(%why, ?kind, "a request to the web terminal was refused");
            (status, format!("{why}\n")).into_response()
        }
    };
    harden(response.headers_mut());
    response
}

/// What a page may do: load what is served here, and nothing else. Scripts and
/// styles are files.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; \
     frame-ancestors 'none'";

fn harden(headers: &mut HeaderMap) {
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        // Not `no-referrer`: a form's origin would be `null` then.
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let no_store = HeaderValue::from_static("no-store");
    headers.entry(header::CACHE_CONTROL).or_insert(no_store);
}
