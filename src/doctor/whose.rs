//! Who may write to something: its owner must be root or this user, and a group
//! that may write must be one in which nobody else is. A number below a thousand
//! makes nobody trustworthy: services and shared groups have such.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use fs_err as fs;

use crate::base::accounts::Accounts;

/// This user, and what is known of the others.
#[derive(Debug)]
pub(super) struct Whose {
    me: u32,
    accounts: Accounts,
    /// Who stands for everybody that this system has no number for.
    nobody: Option<u32>,
}

impl Whose {
    /// For this process.
    pub(super) fn here() -> Self {
        let me = rustix::process::geteuid().as_raw();
        Self { me, accounts: Accounts::read(), nobody: nobody() }
    }

    /// Who but this user and root may write to what has this metadata.
    pub(super) fn others_may_write(&self, meta: &Metadata) -> Option<String> {
        self.others(meta.uid(), meta.gid(), meta.mode())
    }

    fn others(&self, owner: u32, group: u32, mode: u32) -> Option<String> {
        if mode & 0o002 != 0 {
            return Some("everybody may write to".to_owned());
        }
        let foreign = self.foreign_owner(owner);
        let is_closed = mode & 0o020 == 0
            || Some(group) == self.nobody
            || self.accounts.is_as_safe(group, self.me);
        foreign.or_else(|| {
            (!is_closed).then(|| format!("the group {} may write to", self.accounts.group(group)))
        })
    }

    /// The owner, when it is neither this user nor root.
    pub(super) fn foreign_owner(&self, owner: u32) -> Option<String> {
        let is_foreign = owner != self.me && owner != 0 && Some(owner) != self.nobody;
        is_foreign.then(|| match self.accounts.user(owner) {
            name if name.starts_with('`') => format!("the user {name} owns"),
            number => format!("{number} owns"),
        })
    }
}

/// Who owns what belongs to nobody in a user namespace that knows only some
/// users: there the files of the system itself look like that.
fn nobody() -> Option<u32> {
    let map = fs::read_to_string("/proc/self/uid_map").ok()?;
    if map.split_whitespace().eq(["0", "0", "4294967295"]) {
        return None;
    }
    fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_this_user_and_a_group_without_others_may_write() {
        let whose = |me| Whose {
            me,
            accounts: Accounts::of(
                "root:x:0:0::/:/s\n_apt:x:101:65534::/:/s\nann:x:1000:1000::/:/s\n\
                 bob:x:1001:2000::/:/s\neve:x:1002:2000::/:/s\n",
                "root:x:0:\nusers:x:100:\nann:x:1000:\nteam:x:2000:\nfriends:x:1500:ann\n",
            ),
            nobody: None,
        };
        let team = "the group `team` may write to";
        for (me, owner, group, mode, said) in [
            (1000, 1000, 1000, 0o775, None),
            (1000, 0, 0, 0o775, None),
            (1000, 0, 1000, 0o775, None),
            (1000, 0, 100, 0o775, Some("the group `users` may write to")),
            (1000, 1000, 999, 0o775, Some("the group 999 may write to")),
            (1000, 1000, 1500, 0o775, Some("the group `friends` may write to")),
            // Her primary group, and others' too.
            (1001, 1001, 2000, 0o775, Some(team)),
            (1001, 1001, 2000, 0o755, None),
            (1000, 101, 0, 0o755, Some("the user `_apt` owns")),
            (1000, 999, 0, 0o755, Some("the user 999 owns")),
            (1000, 1002, 2000, 0o775, Some("the user `eve` owns")),
            (1000, 1000, 1000, 0o777, Some("everybody may write to")),
            (0, 0, 0, 0o775, None),
            (0, 0, 2000, 0o775, Some(team)),
            (0, 1000, 1000, 0o755, Some("the user `ann` owns")),
        ] {
            let told = whose(me).others(owner, group, mode);
            assert_eq!(told.as_deref(), said, "{me}: {owner}:{group} {mode:o}");
        }
    }
}
