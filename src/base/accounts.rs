//! The machine's users and groups, as its files tell, and whose groups are
//! nobody else's. What is written for others to change is not believed: the
//! configuration and the doctor ask here who they are.

use fs_err as fs;

/// The machine's users and groups, as far as its files tell.
#[derive(Debug, Default)]
pub struct Accounts {
    passwd: String,
    group: String,
}

impl Accounts {
    /// What `/etc/passwd` and `/etc/group` say.
    pub fn read() -> Self {
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
    pub fn is_private(&self, group: u32, owner: u32) -> bool {
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

    /// The user, for a text.
    pub fn user(&self, id: u32) -> String {
        match self.users().find(|(_, user, _)| *user == id) {
            Some((name, ..)) => format!("`{name}`"),
            None => format!("the user {id}"),
        }
    }

    /// The user as `chown` takes it.
    pub fn plain(&self, id: u32) -> String {
        self.users()
            .find(|(_, user, _)| *user == id)
            .map_or_else(|| id.to_string(), |(name, ..)| name.to_owned())
    }

    /// The group, for a text.
    pub fn group(&self, id: u32) -> String {
        match self.groups().find(|(_, group, _)| *group == id) {
            Some((name, ..)) => format!("`{name}`"),
            None => format!("{id}"),
        }
    }

    /// Whether what this group may write to is as safe as what only this user and
    /// root may: root's group, the user's private one, and one that the system
    /// keeps for those who may administer it, as long as nobody else is in it.
    pub fn is_as_safe(&self, group: u32, user: u32) -> bool {
        group == 0 || self.is_private(group, user) || self.is_administrators(group, user)
    }

    /// macOS gives its programs to `admin`, whose members become root at will.
    /// Debian gave `/usr/local` to `staff`, which is a person's who is in it.
    fn is_administrators(&self, group: u32, user: u32) -> bool {
        if cfg!(target_os = "macos") {
            return group == 80;
        }
        let own = self.users().find(|(_, id, _)| *id == user).map(|(name, ..)| name);
        let is_staff =
            group == 50 && self.groups().any(|(name, id, _)| id == group && name == "staff");
        let is_known = |member: &str| member.is_empty() || member == "root" || Some(member) == own;
        is_staff
            && self.users().all(|(_, id, primary)| primary != group || id == user || id == 0)
            && self
                .groups()
                .filter(|(_, id, _)| *id == group)
                .all(|(_, _, members)| members.split(',').all(is_known))
    }

    /// Accounts that a test makes up, in the form of the two files.
    #[cfg(test)]
    pub(crate) fn of(passwd: &str, group: &str) -> Self {
        Self { passwd: passwd.to_owned(), group: group.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts() -> Accounts {
        Accounts::of(
            "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/h:/bin/sh\n\
                     bob:x:1001:100::/h:/bin/sh\neve:x:1002:100::/h:/bin/sh\n\
                     broken line\n"
                .trim(),
            "root:x:0:\nusers:x:100:\nann:x:1000:\nteam:x:2000:ann,bob\nbob:x:1001:ann\n",
        )
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
    #[cfg(target_os = "linux")]
    fn a_system_group_is_somebody_elses_and_staff_is_when_another_is_in_it() {
        let with = |staff: &str| {
            let groups = format!("root:x:0:eve\nusers:x:100:\nann:x:1000:\nstaff:x:50:{staff}\n");
            Accounts::of("root:x:0:0::/:/s\nann:x:1000:1000::/:/s\nbob:x:1001:50::/:/s\n", &groups)
        };
        let alone = Accounts::of("ann:x:1000:1000::/:/s\n", "ann:x:1000:\nstaff:x:50:root,ann\n");
        assert!(alone.is_as_safe(50, 1000), "nobody but her is in it");
        assert!(!alone.is_as_safe(20, 1000), "no number is safe by being small");
        assert!(!with("").is_as_safe(50, 1000), "it is another's primary group");
        assert!(!with("eve").is_as_safe(50, 1000));
        for (group, user, expected) in
            [(0, 1000, true), (100, 1000, false), (1000, 1000, true), (1000, 0, false)]
        {
            assert_eq!(with("").is_as_safe(group, user), expected, "{group} for {user}");
        }
    }
}
