//! Where the web terminal listens: an address, the address of a network
//! interface, or a socket file; and by which names it may be asked.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use axum::middleware;
use tokio::net::UnixListener;

use super::guard::{self, Names};
use super::{Web, routes};
use crate::base::failure::Failure;
use crate::base::files;
use crate::base::http::{self, Listener};
use crate::core::config::WebTerminal;

/// A listener that is bound, and serves nothing yet.
#[derive(Debug)]
pub struct Bound {
    listener: Listener,
    names: Names,
    url: String,
}

impl Bound {
    /// Binds what the configuration says.
    pub async fn bind(config: &WebTerminal) -> Result<Self, Failure> {
        let listed = config.allowed_hosts.iter().cloned();
        let public = config.public_url.as_deref().and_then(host_of).map(str::to_owned);
        let listed = listed.chain(public);
        if let Some(path) = &config.socket {
            let failed = |error: io::Error| {
                let path = path.display();
                Failure::failed(format!(
                    "could not listen on `{path}` (`routing.webTerminal.socket`)"
                ))
                .because(error)
            };
            let listener = Listener::Unix(bind_socket(path).await.map_err(failed)?);
            let url =
                config.public_url.clone().unwrap_or_else(|| format!("unix:{}", path.display()));
            return Ok(Self { listener, names: Names::new(listed, true), url });
        }
        let host = address_of(&config.host)?;
        let wanted = SocketAddr::new(host, config.port);
        let listener = http::bind(wanted).await.map_err(|error| {
            let in_use = error.kind() == io::ErrorKind::AddrInUse;
            let failure =
                Failure::failed(format!("could not listen on {wanted} (`routing.webTerminal`)"))
                    .because(error);
            if in_use {
                failure.hint(format!(
                    "find who uses it with `ss -ltnp 'sport = :{}'`, or set \
                     `routing.webTerminal.port`",
                    wanted.port()
                ))
            } else {
                failure
            }
        })?;
        let address = listener
            .local_addr()
            .map_err(|error| Failure::failed("could not learn the port").because(error))?;
        let by_loopback = host.is_loopback() || host.is_unspecified();
        let url = config.public_url.clone().unwrap_or_else(|| {
            let named = config.allowed_hosts.first().filter(|_| !by_loopback);
            let name = match named {
                Some(name) => name.clone(),
                None if host.is_unspecified() => "localhost".to_owned(),
                None => match host {
                    IpAddr::V4(host) => host.to_string(),
                    IpAddr::V6(host) => format!("[{host}]"),
                },
            };
            format!("http://{name}:{}/", address.port())
        });
        let names = Names::new(listed, by_loopback);
        Ok(Self { listener: Listener::Tcp(listener), names, url: with_slash(url) })
    }

    /// The address that people are given.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Serves until the stop of `web`.
    pub async fn serve(self, web: Arc<Web>) {
        let stop = web.parts.stop.clone();
        let guard = middleware::from_fn_with_state(Arc::new(self.names), guard::layer);
        let app = routes(&web).layer(guard);
        http::serve(self.listener, app, stop).await;
    }
}

fn with_slash(url: String) -> String {
    if url.ends_with('/') { url } else { url + "/" }
}

/// The name in a web address.
fn host_of(url: &str) -> Option<&str> {
    let rest = url.split_once("://")?.1;
    let authority = rest.split(['/', '?', '#']).next()?;
    match authority.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => Some(name),
        _ => Some(authority),
    }
}

/// The address to listen on.
fn address_of(host: &str) -> Result<IpAddr, Failure> {
    host.parse().map_err(|_| {
        Failure::refused(format!("`{host}` is no address (`routing.webTerminal.host`)"))
    })
}

/// Binds a socket file that only its user can open.
async fn bind_socket(path: &Path) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(path)?;
    files::make_private(path)?;
    Ok(listener)
}
