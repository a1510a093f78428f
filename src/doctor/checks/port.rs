//! Whether the receiver and the web terminal can listen where they are to.

use std::io;
use std::net::{SocketAddr, TcpListener};

use super::Scene;
use crate::base::failure::bare;
use crate::base::files::lock::is_held;
use crate::base::runtime::more;
use crate::core::platform::Remedy;
use crate::doctor::finding::{Finding, Severity};
use crate::doctor::listener::PortHolder;

pub(super) fn port(scene: &Scene) -> Vec<Finding> {
    let held = scene.project.lock.as_deref().is_some_and(is_held);
    let ports = [(&RECEIVER, scene.project.listen), (&WEB, scene.project.web_listen)];
    ports
        .into_iter()
        .filter_map(|(of, address)| {
            let address = address?;
            let error = TcpListener::bind(address).err();
            Some(about_port(of, address, error.as_ref(), held))
        })
        .collect()
}

/// Who is to listen, and the keys that say where.
struct Port {
    id: &'static str,
    who: &'static str,
    keys: &'static str,
}

const RECEIVER: Port = Port { id: "port.free", who: "the receiver", keys: "webhooks.ghWebhook" };
const WEB: Port = Port { id: "port.web", who: "the web terminal", keys: "routing.webTerminal" };

fn about_port(of: &Port, address: SocketAddr, error: Option<&io::Error>, held: bool) -> Finding {
    let Port { id, who, keys } = *of;
    let (ip, port) = (address.ip(), address.port());
    let failed = |what: String, note: &str| {
        Finding::new(id, Severity::Error, what).remedy(Remedy::note(note.replace("KEYS", keys)))
    };
    if let Some((error, helps)) = error.and_then(|error| Some((error, more(error)?))) {
        let what = format!("whether {who} can listen on {address} is unknown: {}", bare(error));
        return Finding::unchecked(id, what).remedy(Remedy::note(helps));
    }
    match error.map(io::Error::kind) {
        None if ip.is_loopback() => {
            Finding::new(id, Severity::Ok, format!("{who} can listen on {address}"))
        }
        None => {
            let what = format!("{who} can listen on {address}, which other hosts may reach");
            Finding::new(id, Severity::Ok, what)
        }
        Some(io::ErrorKind::AddrInUse) if held => {
            Finding::new(id, Severity::Ok, format!("{who} is running on {address}"))
        }
        Some(io::ErrorKind::AddrInUse) => {
            let holder = PortHolder::of(address);
            let what = format!("{who} cannot listen on {address}: {} does", holder.who());
            let note = format!("{}, or set another `KEYS.port`", holder.remedy(port));
            let finding = failed(what, &note);
            match holder.more() {
                Some(more) => finding.shown_by(more),
                None => finding,
            }
        }
        Some(io::ErrorKind::AddrNotAvailable) => failed(
            format!("{who} cannot listen on {address}: {ip} is no address of this host"),
            "set `KEYS.host` to 127.0.0.1, or to an address that this host has; \
             0.0.0.0 stands for all of them",
        ),
        Some(io::ErrorKind::PermissionDenied) => failed(
            format!("this user may not listen on port {port}"),
            "set `KEYS.port` to one from 1024 on",
        ),
        Some(kind) => failed(
            format!(
                "{who} cannot listen on {address}: {}",
                error.map_or_else(|| kind.to_string(), bare)
            ),
            "set another `KEYS.host` or `KEYS.port`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_the_receiver_cannot_listen_is_told_with_what_helps() {
        use io::ErrorKind::{AddrInUse, AddrNotAvailable, PermissionDenied};
        let about = |address: &str, error: Option<io::ErrorKind>, held| {
            let error = error.map(io::Error::from);
            let found = about_port(&RECEIVER, address.parse().unwrap(), error.as_ref(), held);
            let note = found.remedy.and_then(|remedy| remedy.note).unwrap_or_default();
            (found.severity, found.what, note)
        };
        // Nobody has it, so that nobody is named.
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let local = free.to_string();
        let local = local.as_str();
        assert_eq!(about(local, None, false).0, Severity::Ok);
        assert_eq!(about(local, Some(AddrInUse), true).0, Severity::Ok);
        let (severity, what, note) = about(local, Some(AddrInUse), false);
        assert_eq!(severity, Severity::Error);
        assert!(what.ends_with("another program does") && note.contains("ghWebhook.port"));
        assert!(note.contains(&format!("sport = :{}", free.port())), "{note}");
        // Who holds the lock listens elsewhere then.
        let (severity, what, note) = about("192.0.2.1:8787", Some(AddrNotAvailable), true);
        assert_eq!(severity, Severity::Error);
        assert!(what.ends_with("192.0.2.1 is no address of this host"), "{what}");
        assert!(note.contains("ghWebhook.host") && !note.contains("end what"), "{note}");
        let (_, what, note) = about("127.0.0.1:80", Some(PermissionDenied), false);
        assert!(what.contains("port 80") && note.contains("1024"), "{what} {note}");
        let full = io::Error::from_raw_os_error(24);
        let found = about_port(&RECEIVER, free, Some(&full), false);
        assert!(!found.checked && found.what.contains("Too many open files"), "{found:?}");
    }
}
