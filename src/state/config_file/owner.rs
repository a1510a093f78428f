//! Whose file it is: a configuration that somebody else could have written is
//! not believed.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::base::env::Env;
use crate::doctor;

const GROUP_WRITE: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// A file or directory that somebody else can write to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("refused `{}`: {why}", path.display())]
pub struct Foreign {
    path: PathBuf,
    why: String,
    remedy: String,
    owner: u32,
}

impl Foreign {
    /// The command that puts it right.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }

    /// With the command as this user gives it: what another owns takes root.
    fn for_here(self, env: &Env) -> Self {
        if self.owner == me() {
            return self;
        }
        Self { remedy: doctor::host::privilege(env).command(&self.remedy), ..self }
    }
}

/// Refuses a configuration file that is not this user's alone.
pub(super) fn check(path: &Path, metadata: &Metadata, env: &Env) -> Result<(), Foreign> {
    judge(path, metadata, &Accounts::read(), me()).map_err(|foreign| foreign.for_here(env))
}

/// Refuses a directory in which others could replace the file. Root may own it,
/// and in one that is sticky nobody replaces what is another's.
pub(super) fn check_dir(path: &Path, metadata: &Metadata, env: &Env) -> Result<(), Foreign> {
    if metadata.mode() & STICKY != 0 {
        return Ok(());
    }
    let me = if metadata.uid() == 0 { 0 } else { me() };
    judge(path, metadata, &Accounts::read(), me).map_err(|foreign| foreign.for_here(env))
}

fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn judge(path: &Path, metadata: &Metadata, accounts: &Accounts, me: u32) -> Result<(), Foreign> {
    let (owner, group, mode) = (metadata.uid(), metadata.gid(), metadata.mode());
    let quoted = quoted(path);
    let foreign =
        |why: String, remedy: String| Err(Foreign { path: path.to_path_buf(), why, remedy, owner });
    if owner != me {
        return foreign(
            format!("it belongs to {}, not to {}", accounts.user(owner), accounts.user(me)),
            format!("chown {} {quoted}", accounts.plain(me)),
        );
    }
    if mode & OTHERS_WRITE != 0 {
        return foreign("everybody can write to it".to_owned(), format!("chmod go-w {quoted}"));
    }
    if mode & GROUP_WRITE != 0 && !accounts.is_private(group, owner) {
        return foreign(
            format!("the group {} can write to it", accounts.group(group)),
            format!("chmod g-w {quoted}"),
        );
    }
    Ok(())
}

/// A path as a shell reads it back.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// The machine's users and groups, as far as its files tell.
#[derive(Debug, Default)]
struct Accounts {
    passwd: String,
    group: String,
}

impl Accounts {
    fn read() -> Self {
        // What cannot be read names nobody, and then no group is private.
        let file = |path| fs::read_to_string(path).unwrap_or_default();
        Self { passwd: file("/etc/passwd"), group: file("/etc/group") }
    }

    /// Name, user id and primary group of every user.
    fn users(&self) -> impl Iterator<Item = (&str, u32, u32)> {
        self.passwd.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let (name, _) = (fields.next()?, fields.next()?);
            Some((name, fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
        })
    }

    /// Name, id and members of every group.
    fn groups(&self) -> impl Iterator<Item = (&str, u32, &str)> {
        self.group.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let (name, _) = (fields.next()?, fields.next()?);
            Some((name, fields.next()?.parse().ok()?, fields.next().unwrap_or_default()))
        })
    }

    /// Whether a group is its owner's primary one and has nobody else in it.
    fn is_private(&self, group: u32, owner: u32) -> bool {
        let mut names = self.users().filter(|(_, id, _)| *id == owner);
        let Some((name, _, primary)) = names.next() else { return false };
        let others = self.users().any(|(_, id, primary)| primary == group && id != owner);
        let mut same = self.groups().filter(|(_, id, _)| *id == group).peekable();
        primary == group
            && !others
            && same.peek().is_some()
            && same.all(|(_, _, members)| {
                members.split(',').all(|member| member.is_empty() || member == name)
            })
    }

    fn user(&self, id: u32) -> String {
        match self.users().find(|(_, user, _)| *user == id) {
            Some((name, ..)) => format!("`{name}`"),
            None => format!("the user {id}"),
        }
    }

    /// The user as `chown` takes it.
    fn plain(&self, id: u32) -> String {
        self.users()
            .find(|(_, user, _)| *user == id)
            .map_or_else(|| id.to_string(), |(name, ..)| name.to_owned())
    }

    fn group(&self, id: u32) -> String {
        match self.groups().find(|(_, group, _)| *group == id) {
            Some((name, ..)) => format!("`{name}`"),
            None => format!("{id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn accounts() -> Accounts {
        Accounts {
            passwd: "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/h:/bin/sh\n\
                     bob:x:1001:100::/h:/bin/sh\neve:x:1002:100::/h:/bin/sh\n\
                     broken line\n"
                .to_owned(),
            group: "root:x:0:\nusers:x:100:\nann:x:1000:\nteam:x:2000:ann,bob\nbob:x:1001:ann\n"
                .to_owned(),
        }
    }

    #[test]
    fn only_a_primary_group_without_others_is_private() {
        let accounts = accounts();
        assert!(accounts.is_private(1000, 1000), "her own");
        assert!(!accounts.is_private(2000, 1000), "a team's");
        assert!(!accounts.is_private(100, 1001), "shared as primary");
        assert!(!accounts.is_private(1001, 1001), "his by name, with a member, not primary");
        assert!(!accounts.is_private(1000, 4242), "nobody knows the owner");
        assert!(!Accounts::default().is_private(1000, 1000), "nothing is known");
    }

    #[test]
    fn a_file_that_others_can_write_is_refused_with_the_command() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let with = |mode: u32| {
            fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            let metadata = fs::metadata(file.path()).unwrap();
            let owner = metadata.uid();
            judge(Path::new("/p/it's"), &metadata, &Accounts::default(), owner)
                .map_err(|foreign| format!("{foreign}\n{}", foreign.remedy()))
        };
        assert_eq!(with(0o600), Ok(()));
        assert_eq!(with(0o644), Ok(()));
        assert_eq!(
            with(0o646).unwrap_err(),
            "refused `/p/it's`: everybody can write to it\nchmod go-w '/p/it'\\''s'"
        );
        let metadata = fs::metadata(file.path()).unwrap();
        let said = with(0o664).unwrap_err().replace(&metadata.gid().to_string(), "GID");
        insta::assert_snapshot!(said, @r"
        refused `/p/it's`: the group GID can write to it
        chmod g-w '/p/it'\''s'
        ");

        let not_me = metadata.uid() + 1;
        let said = judge(Path::new("/p"), &metadata, &Accounts::default(), not_me).unwrap_err();
        let said = format!("{said}\n{}", said.remedy()).replace(&not_me.to_string(), "ME");
        let said = said.replace(&format!("user {}", metadata.uid()), "user OWNER");
        insta::assert_snapshot!(said, @r"
        refused `/p`: it belongs to the user OWNER, not to the user ME
        chown ME '/p'
        ");

        let said = judge(Path::new("/p"), &metadata, &accounts(), 1000_u32.max(metadata.uid() + 1))
            .unwrap_err();
        assert!(said.why.starts_with("it belongs to "), "{said}");
        assert!(said.remedy().starts_with("chown "), "{}", said.remedy());
        // Another's file takes root, where this is not root; one's own never does.
        let env = Env::fixed([("PATH", "")], "/", "/bin/the-loop");
        let prefixed = ["sudo ", "doas ", "su -c "];
        let theirs = Foreign { owner: me() + 1, ..said.clone() }.for_here(&env);
        let has = prefixed.iter().any(|prefix| theirs.remedy().starts_with(prefix));
        assert_eq!(has, me() != 0, "{}", theirs.remedy());
        let ours = Foreign { owner: me(), ..said.clone() }.for_here(&env);
        assert_eq!(ours, Foreign { owner: me(), ..said });
    }
}
