//! Whose file it is: a configuration that somebody else could have written is
//! not believed.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::base::accounts::Accounts;
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
/// and in one that is sticky only its owner replaces what is another's.
pub(super) fn check_dir(path: &Path, metadata: &Metadata, env: &Env) -> Result<(), Foreign> {
    let me = if metadata.uid() == 0 { 0 } else { me() };
    if metadata.mode() & STICKY != 0 && metadata.uid() == me {
        return Ok(());
    }
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use fs_err as fs;

    use super::*;

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
        // A sticky directory's owner replaces what is in it, whosever that is.
        if me() == 0 {
            let dir = tempfile::tempdir().unwrap();
            let sticky = |owner: u32| {
                std::os::unix::fs::chown(dir.path(), Some(owner), None).unwrap();
                fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
                let env = Env::fixed([("PATH", "")], "/", "/bin/the-loop");
                check_dir(dir.path(), &fs::metadata(dir.path()).unwrap(), &env)
            };
            assert_eq!(sticky(0), Ok(()));
            assert!(sticky(4242).unwrap_err().to_string().contains("it belongs to the user 4242"));
        }
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

        let said = judge(
            Path::new("/p"),
            &metadata,
            &Accounts::default(),
            1000_u32.max(metadata.uid() + 1),
        )
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
