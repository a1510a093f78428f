//! Where the web terminal listens: an address, the address of a network
//! interface, or a socket file; and by which names it may be asked.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::middleware;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use rustix::fs::Mode;
use tokio::net::{UnixListener, UnixStream};

use super::guard::{self, Names, parts};
use super::{Web, routes};
use crate::base::failure::Failure;
use crate::base::http::{self, Listener};
use crate::core::config::WebTerminal;
use crate::serve::port;

/// A listener that is bound, and serves nothing yet.
#[derive(Debug)]
pub struct Bound {
    listener: Listener,
    names: Names,
    url: String,
    /// What goes with the listener.
    socket: Option<PathBuf>,
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
                let hint = match error.kind() {
                    io::ErrorKind::AlreadyExists => "name another file, or remove what is there",
                    io::ErrorKind::AddrInUse => "another program has it: name another file",
                    io::ErrorKind::NotFound => "make its directory, with mode 0700",
                    io::ErrorKind::PermissionDenied => "name a file in a directory of your own",
                    // What the system calls a path that no socket can have.
                    io::ErrorKind::InvalidInput => "name a shorter path: 100 bytes at most",
                    _ => "name another file",
                };
                Failure::failed(format!(
                    "could not listen on `{path}` (`routing.webTerminal.socket`)"
                ))
                .because(error)
                .hint(hint)
            };
            let listener = Listener::Unix(bind_socket(path).await.map_err(failed)?);
            let url = match &config.public_url {
                Some(url) => with_slash(url.clone()),
                None => format!("unix:{}", path.display()),
            };
            return Ok(Self {
                listener,
                names: Names::new(listed, true),
                url,
                socket: Some(path.clone()),
            });
        }
        let host = address_of(&config.host)?;
        if host.is_unspecified() && !config.expose_all {
            return Err(Failure::refused(format!("`{host}` is every address of this machine"))
                .hint("name one address or interface, or set `exposeAll: true` beside it"));
        }
        if !host.is_loopback() && config.allowed_hosts.is_empty() {
            return Err(Failure::refused(format!(
                "others can reach `{}` ({host}), and\n`routing.webTerminal.allowedHosts` is empty",
                config.host
            ))
            .hint("list the names by which a browser may ask for it in `allowedHosts`"));
        }
        let wanted = SocketAddr::new(host, config.port);
        let listener = port::bind(wanted, "routing.webTerminal.port").await?;
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
        Ok(Self { listener: Listener::Tcp(listener), names, url: with_slash(url), socket: None })
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
        if let Some(path) = self.socket {
            let _ = fs_err::remove_file(path);
        }
    }
}

fn with_slash(url: String) -> String {
    if url.ends_with('/') { url } else { url + "/" }
}

/// The name in a web address.
fn host_of(url: &str) -> Option<&str> {
    let rest = url.split_once("://")?.1;
    let authority = rest.split(['/', '?', '#']).next()?;
    Some(parts(authority).0)
}

/// The address to listen on (`routing.webTerminal.host`): as it is, or that of a
/// network interface.
pub fn address_of(host: &str) -> Result<IpAddr, Failure> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(address.to_canonical());
    }
    if host.eq_ignore_ascii_case("localhost") {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    let key = "`routing.webTerminal.host`";
    let all = getifaddrs().map_err(|error| {
        Failure::failed(format!("could not list the network interfaces ({key} is `{host}`)"))
            .because(io::Error::from(error))
    })?;
    let mut names = Vec::new();
    let mut found = Vec::new();
    for one in all {
        if one.interface_name == host {
            found.extend(one.address.as_ref().and_then(address));
        }
        if !names.contains(&one.interface_name) {
            names.push(one.interface_name);
        }
    }
    if !names.iter().any(|name| name == host) {
        let names = names.join("`, `");
        return Err(Failure::refused(format!(
            "this host has no network interface `{host}` ({key})"
        ))
        .hint(format!("it has `{names}`")));
    }
    // One of version 4 is what people type; a link-local one needs a scope.
    found.sort_by_key(|address| (address.is_ipv6(), is_link_local(address)));
    found.into_iter().find(|address| !is_link_local(address)).ok_or_else(|| {
        Failure::refused(format!("the network interface `{host}` has no address now ({key})"))
            .hint(format!("`ip address show dev {host}` shows it"))
    })
}

fn address(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|address| address.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|address| address.ip().into()))
}

fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// Binds a socket file that only its user can open.
async fn bind_socket(path: &Path) -> io::Result<UnixListener> {
    match fs_err::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "something else is there"));
        }
        Ok(_) if UnixStream::connect(path).await.is_ok() => {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "somebody listens on it"));
        }
        // Left by one that was killed.
        Ok(_) => fs_err::remove_file(path)?,
    }
    // Others must not get in before the mode is set; for other threads' files this
    // is a moment in which they are more private.
    let before = rustix::process::umask(Mode::from_raw_mode(0o077));
    let listener = UnixListener::bind(path);
    rustix::process::umask(before);
    let listener = listener?;
    fs_err::set_permissions(path, PermissionsExt::from_mode(0o600))?;
    Ok(listener)
}
