//! Who listens on a socket in the file system.

use std::path::Path;

use fs_err as fs;

/// The process that listens on a socket. Only Linux tells.
pub(super) fn listener(socket: &Path) -> Option<u32> {
    // tmux resolves the links of the directory first.
    let real = fs::canonicalize(socket).unwrap_or_else(|_| socket.to_path_buf());
    let table = fs::read_to_string("/proc/net/unix").ok()?;
    let inodes: Vec<String> = table
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            // __SO_ACCEPTCON: the socket that is listened on.
            let listens = *fields.get(3)? == "00010000";
            let path = fields.get(7)?;
            (listens && [socket, &real].contains(&Path::new(path)))
                .then(|| format!("socket:[{}]", fields[6]))
        })
        .collect();
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let open = fs::read_dir(entry.path().join("fd")).ok()?.flatten();
        let holds = |link: &Path| inodes.iter().any(|inode| Path::new(inode) == link);
        open.filter_map(|fd| std::fs::read_link(fd.path()).ok())
            .any(|link| holds(&link))
            .then_some(pid)
    })
}
