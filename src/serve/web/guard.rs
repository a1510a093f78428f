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

use crate::base::text::{cap, visible};

/// The names by which a browser may ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names(Vec<String>);

impl Names {
    /// Those in `listed`, each for every port unless it names one, and those of
    /// this machine itself where it is reached by a loopback address.
    pub fn new(listed: impl IntoIterator<Item = String>, by_loopback: bool) -> Self {
        let own = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned);
        let own = own.into_iter().filter(|_| by_loopback);
        Self(listed.into_iter().map(|name| as_host(&name)).chain(own).collect())
    }

    /// Whether one of the names is that in the value of a `Host` header.
    fn allow(&self, host: &str) -> bool {
        let (name, port) = parts(host);
        let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        port.is_none_or(|port| !port.is_empty() && is_port(port))
            && self.0.iter().any(|allowed| match parts(allowed) {
                (_, Some(_)) => allowed.eq_ignore_ascii_case(host),
                (allowed, None) => allowed.eq_ignore_ascii_case(name),
            })
    }
}

/// The name and the port of a host. The last colon of an IPv6 address stands
/// inside its brackets.
pub(super) fn parts(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    }
}

/// A name as it stands in `Host`: an IPv6 address in brackets.
fn as_host(name: &str) -> String {
    match name.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => format!("[{address}]"),
        _ => name.to_owned(),
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
            (Some("s" | "v"), Some("") | None, None) | (Some("v"), Some("history"), None) => {
                Self::Page
            }
            (Some("s" | "v"), Some("ws"), None) => Self::Socket,
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
    #[error("the name is none of those by which this is served")]
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
    let asked = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let asked = visible(&cap(asked.unwrap_or_default(), 100));
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
            let text = match why {
                Refused::Name => format!(
                    "`{asked}` is none of the names by which this is served.\n\
                     hint: list it in `routing.webTerminal.allowedHosts`, and start the\n\
                     receiver again\n"
                ),
                Refused::Host | Refused::Origin | Refused::NoOrigin | Refused::Site => {
                    format!("{why}\n")
                }
            };
            (status, text).into_response()
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
    // The stream of events comes with a weaker word of its own.
    let is_kept = |value: &HeaderValue| value.as_bytes() != b"no-cache";
    if !headers.get(header::CACHE_CONTROL).is_some_and(is_kept) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::new(["box.example.net".to_owned(), "fd00::2".into(), "odd:8443".into()], true)
    }

    fn ask(method: &Method, path: &str, head: &[(&str, &str)]) -> Result<(), Refused> {
        let mut headers = HeaderMap::new();
        for (name, value) in head {
            headers.append(HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        decide(&names(), method, Kind::of(path), &headers)
    }

    #[test]
    fn nothing_is_stored_but_what_is_served_to_be_kept() {
        for (served, told) in [
            (None, "no-store"),
            // What the stream of events is served with.
            (Some("no-cache"), "no-store"),
            (Some("public, max-age=1"), "public, max-age=1"),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(value) = served {
                headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(value));
            }
            harden(&mut headers);
            assert_eq!(headers[header::CACHE_CONTROL], told);
        }
    }

    const OWN: (&str, &str) = ("host", "localhost:7681");

    #[test]
    fn a_path_is_a_page_a_terminal_or_a_part_of_one() {
        for (path, kind) in [
            ("/", Kind::Page),
            ("/s/o+r+1/", Kind::Page),
            ("/v/o+r+1/", Kind::Page),
            ("/v/o+r+1/history", Kind::Page),
            ("/s/o+r+1/ws", Kind::Socket),
            ("/v/o+r+1/ws", Kind::Socket),
            ("/events", Kind::Part),
            ("/assets/x.js", Kind::Part),
            ("/s/o+r+1/leave-mode", Kind::Part),
            ("/s/o+r+1", Kind::Page),
            ("/x/o+r+1/", Kind::Part),
            ("//", Kind::Part),
            ("", Kind::Part),
        ] {
            assert_eq!(Kind::of(path), kind, "{path}");
        }
    }

    #[test]
    fn only_an_allowed_name_is_answered_whatever_its_port() {
        let with = |host| ask(&Method::GET, "/", &[("host", host)]);
        for host in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:7681",
            "[::1]:7681",
            "[::1]",
            "box.example.net",
            "Box.Example.Net:443",
            "[fd00::2]:7681",
            "odd:8443",
        ] {
            assert_eq!(with(host), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:7681",
            "localhost.evil.example",
            "localhost.",
            "localhost:",
            "localhost:7681x",
            "localhost:7681:7681",
            "xlocalhost",
            "0.0.0.0:7681",
            "127.0.0.2",
            "[::1",
            "::1",
            "odd",
            "odd:8444",
            "",
            "box.example.net@evil.example",
        ] {
            assert_eq!(with(host), Err(Refused::Name), "{host}");
        }
        assert_eq!(ask(&Method::GET, "/", &[]), Err(Refused::Host));
        let twice = [OWN, ("host", "localhost")];
        assert_eq!(ask(&Method::GET, "/", &twice), Err(Refused::Host));
        // Without a loopback address its names are strangers'.
        let mut headers = HeaderMap::new();
        headers.insert("host", "localhost".parse().unwrap());
        let wide = Names::new(["box.example.net".to_owned()], false);
        assert_eq!(decide(&wide, &Method::GET, Kind::Page, &headers), Err(Refused::Name));
    }

    #[test]
    fn an_origin_is_our_own_with_its_port_and_must_be_there_for_more_than_reading() {
        let read = |origin| ask(&Method::GET, "/events", &[OWN, ("origin", origin)]);
        assert_eq!(read("http://localhost:7681"), Ok(()));
        assert_eq!(read("https://localhost:7681"), Ok(()));
        for origin in [
            "null",
            "",
            "http://localhost:7682",
            "http://localhost",
            "http://evil.example",
            "http://localhost:7681.evil.example",
            "http://127.0.0.1:7681",
            "file://",
            "chrome-extension://localhost:7681",
            "ftp://localhost:7681",
            "localhost:7681",
            "http://localhost:7681/",
            "http://x@localhost:7681",
        ] {
            assert_eq!(read(origin), Err(Refused::Origin), "{origin}");
            for path in ["/", "/s/o+r+1/", "/s/o+r+1/ws", "/v/o+r+1/ws"] {
                let head = [OWN, ("origin", origin)];
                assert_eq!(ask(&Method::GET, path, &head), Err(Refused::Origin), "{origin} {path}");
            }
        }
        let twice = [OWN, ("origin", "http://localhost:7681"), ("origin", "http://evil.example")];
        assert_eq!(ask(&Method::GET, "/", &twice), Err(Refused::Origin));

        assert_eq!(ask(&Method::GET, "/s/o+r+1/ws", &[OWN]), Err(Refused::NoOrigin));
        assert_eq!(ask(&Method::POST, "/s/o+r+1/leave-mode", &[OWN]), Err(Refused::NoOrigin));
        for method in [Method::PUT, Method::DELETE, Method::OPTIONS, Method::PATCH] {
            assert_eq!(ask(&method, "/", &[OWN]), Err(Refused::NoOrigin), "{method}");
        }
        let own = [OWN, ("origin", "http://localhost:7681")];
        assert_eq!(ask(&Method::GET, "/s/o+r+1/ws", &own), Ok(()));
        assert_eq!(ask(&Method::POST, "/s/o+r+1/leave-mode", &own), Ok(()));
        // The same host under another of its names is another origin.
        let other = [("host", "127.0.0.1:7681"), ("origin", "http://localhost:7681")];
        assert_eq!(ask(&Method::GET, "/s/o+r+1/ws", &other), Err(Refused::Origin));
    }

    #[test]
    fn another_site_may_lead_a_person_to_a_page_and_to_nothing_else() {
        let origin = ("origin", "http://localhost:7681");
        for site in ["same-site", "cross-site", "", "SAME-ORIGIN"] {
            let site = ("sec-fetch-site", site);
            let goes = [OWN, site, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
            for path in ["/", "/s/o+r+1/", "/v/o+r+1/", "/v/o+r+1/history"] {
                assert_eq!(ask(&Method::GET, path, &goes), Ok(()), "{path}");
                let framed =
                    [OWN, site, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
                assert_eq!(ask(&Method::GET, path, &framed), Err(Refused::Site), "{path}");
                let fetched =
                    [OWN, site, ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "script")];
                assert_eq!(ask(&Method::GET, path, &fetched), Err(Refused::Site), "{path}");
                assert_eq!(ask(&Method::GET, path, &[OWN, site]), Err(Refused::Site), "{path}");
            }
            for path in ["/events", "/assets/x.js", "/s/o+r+1/leave-mode"] {
                assert_eq!(ask(&Method::GET, path, &goes), Err(Refused::Site), "{path}");
            }
            let socket = [OWN, site, origin, ("sec-fetch-mode", "websocket")];
            assert_eq!(ask(&Method::GET, "/s/o+r+1/ws", &socket), Err(Refused::Site));
            let posted = [goes.as_slice(), &[origin]].concat();
            assert_eq!(ask(&Method::POST, "/", &posted), Err(Refused::Site));
        }
        for site in ["same-origin", "none"] {
            let site = ("sec-fetch-site", site);
            assert_eq!(ask(&Method::GET, "/events", &[OWN, site]), Ok(()));
            assert_eq!(ask(&Method::GET, "/s/o+r+1/ws", &[OWN, site, origin]), Ok(()));
        }
    }
}
