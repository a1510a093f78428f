//! Who listens on a socket in the file system, or on a port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::base::accounts::Accounts;
use crate::base::process::process_text;
use crate::base::text::path_text;

/// The process that listens on a socket. Only Linux tells.
pub(super) fn listener(socket: &Path) -> Option<u32> {
    // tmux resolves the links of the directory first.
    let real = fs::canonicalize(socket).unwrap_or_else(|_| socket.to_path_buf());
    let table = fs::read_to_string("/proc/net/unix").ok()?;
    let inodes: Vec<&str> = table
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            // __SO_ACCEPTCON: the socket that is listened on.
            let listens = *fields.get(3)? == "00010000";
            let path = fields.get(7)?;
            (listens && [socket, &real].contains(&Path::new(path))).then(|| fields[6])
        })
        .collect();
    holder(&inodes)
}

/// A process that has one of these sockets open, among those that this user may look
/// into.
fn holder(inodes: &[&str]) -> Option<u32> {
    let links: Vec<PathBuf> =
        inodes.iter().map(|inode| format!("socket:[{inode}]").into()).collect();
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let open = fs::read_dir(entry.path().join("fd")).ok()?.flatten();
        open.filter_map(|fd| std::fs::read_link(fd.path()).ok())
            .any(|link| links.contains(&link))
            .then_some(pid)
    })
}

/// Who has the port that somebody else wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortHolder {
    /// A process that this user may look into.
    Process(u32),
    /// One of the user with this id, which may not be looked into.
    User(u32),
    /// The system does not tell.
    Unknown,
}

impl PortHolder {
    /// Who listens where this address is in use. Only Linux tells.
    pub fn of(address: SocketAddr) -> Self {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
        let tables = tables.map(|table| fs::read_to_string(table).unwrap_or_default());
        let found: Vec<_> = tables
            .iter()
            .flat_map(|table| table.lines())
            .filter_map(listening)
            .filter(|one| is_in_the_way(one.address, address))
            .collect();
        let inodes: Vec<&str> = found.iter().map(|one| one.inode).collect();
        match (holder(&inodes), found.first()) {
            (Some(pid), _) => Self::Process(pid),
            (None, Some(one)) => Self::User(one.user),
            (None, None) => Self::Unknown,
        }
    }

    /// Who it is: `process 42 (nginx)`.
    pub fn who(&self) -> String {
        match self {
            Self::Process(pid) => process_text(*pid),
            Self::User(_) | Self::Unknown => "another program".to_owned(),
        }
    }

    /// What is known of it besides, or why that is all.
    pub fn more(&self) -> Option<String> {
        match self {
            Self::Process(pid) => {
                let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
                Some(format!("it runs {}", path_text(&program)))
            }
            Self::User(id) => {
                let user = Accounts::read().user(*id);
                Some(format!("which one cannot be told: {user} runs it, who alone may look"))
            }
            Self::Unknown => Some("which one cannot be told: the system does not show it".into()),
        }
    }

    /// What frees the port, or names its holder.
    pub fn remedy(&self, port: u16) -> String {
        match self {
            Self::Process(pid) => format!("end it when it is not needed (`kill {pid}`)"),
            Self::User(_) | Self::Unknown => format!("as root, `{}` names it", asking(port)),
        }
    }

    /// All of it, for whoever is stopped by it; `key` says where the port is set.
    pub fn hint(&self, port: u16, key: &str) -> String {
        let more = self.more().map(|more| format!(" ({more})")).unwrap_or_default();
        format!("{} listens there{more}: {}, or set `{key}`", self.who(), self.remedy(port))
    }
}

/// The command that tells who listens on a port.
fn asking(port: u16) -> String {
    if cfg!(target_os = "linux") {
        format!("ss -ltnp 'sport = :{port}'")
    } else {
        format!("lsof -nP -iTCP:{port} -sTCP:LISTEN")
    }
}

/// A socket that is listened on.
struct Listening<'a> {
    address: SocketAddr,
    user: u32,
    inode: &'a str,
}

/// Reads a line of the kernel's table of TCP sockets.
fn listening(line: &str) -> Option<Listening<'_>> {
    /// The state of a socket that is listened on (`TCP_LISTEN`).
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (ip, port) = fields.get(1)?.split_once(':')?;
    if *fields.get(3)? != LISTEN {
        return None;
    }
    // Each word of four bytes is written as a number of this machine's.
    let words =
        (0..ip.len()).step_by(8).map(|at| u32::from_str_radix(ip.get(at..at + 8)?, 16).ok());
    let words: Option<Vec<u32>> = words.collect();
    let bytes: Vec<u8> = words?.into_iter().flat_map(u32::to_ne_bytes).collect();
    let ip = match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(four) => IpAddr::V4(Ipv4Addr::from(four)),
        Err(_) => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
    };
    Some(Listening {
        address: SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?),
        user: fields.get(7)?.parse().ok()?,
        inode: fields.get(9)?,
    })
}

/// Whether one that listens there keeps another from this address.
fn is_in_the_way(there: SocketAddr, wanted: SocketAddr) -> bool {
    let (one, other) = (there.ip().to_canonical(), wanted.ip().to_canonical());
    let is_any = one.is_unspecified() || other.is_unspecified();
    there.port() == wanted.port() && (one == other || is_any)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn who_listens_is_told_with_its_program_and_what_ends_it() {
        let own = std::process::id();
        for at in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0"] {
            // Not every host has the newer addresses.
            let Ok(taken) = TcpListener::bind(at) else { continue };
            let port = taken.local_addr().unwrap().port();
            let wanted = if at.starts_with('[') { "[::1]" } else { "127.0.0.1" };
            let holder = PortHolder::of(format!("{wanted}:{port}").parse().unwrap());
            assert_eq!(holder, PortHolder::Process(own), "{at}");
            let program = std::fs::read_link("/proc/self/exe").unwrap();
            let hint = holder.hint(port, "a.port");
            assert!(hint.starts_with(&format!("process {own} (")), "{hint}");
            assert!(hint.contains(&format!("(it runs {})", program.display())), "{hint}");
            assert!(hint.ends_with(&format!("(`kill {own}`), or set `a.port`")), "{hint}");
            drop(taken);
            let wanted = format!("127.0.0.1:{port}").parse().unwrap();
            assert_eq!(PortHolder::of(wanted), PortHolder::Unknown);
        }
    }

    #[test]
    fn who_cannot_be_told_is_said_with_what_tells() {
        let root = PortHolder::User(0).hint(80, "a.port");
        let said = "another program listens there (which one cannot be told: `root` runs it, who \
                    alone may look): as root, `ss -ltnp 'sport = :80'` names it, or set `a.port`";
        assert_eq!(root, said);
        let unknown = PortHolder::Unknown.hint(80, "a.port");
        assert!(unknown.contains("cannot be told: the system does not show it"), "{unknown}");
    }

    #[test]
    fn the_kernels_table_is_read_and_what_does_not_listen_is_passed() {
        let line = "   0: 0100007F:2253 00000000:0000 0A 00000000:00000000 00:00000000 00000000 \
                    1000        0 4242 1 0000000000000000 100 0 0 10 0";
        let found = listening(line).unwrap();
        assert_eq!((found.user, found.inode), (1000, "4242"));
        #[cfg(target_endian = "little")]
        assert_eq!(found.address, "127.0.0.1:8787".parse().unwrap());
        assert!(listening(&line.replace(" 0A ", " 01 ")).is_none());
        assert!(listening("  sl  local_address rem_address   st tx_queue").is_none());
        let way = |there: &str, wanted: &str| {
            is_in_the_way(there.parse().unwrap(), wanted.parse().unwrap())
        };
        assert!(way("[::]:80", "127.0.0.1:80") && way("127.0.0.1:80", "0.0.0.0:80"));
        assert!(way("[::ffff:127.0.0.1]:80", "127.0.0.1:80"));
        assert!(!way("127.0.0.2:80", "127.0.0.1:80") && !way("0.0.0.0:81", "127.0.0.1:80"));
    }
}
