//! Every check by its id: for `--list-checks`, for `--only`, and so that an id
//! never changes unseen.

/// A check's id, and what is tried.
pub const CHECKS: &[(&str, &str)] = &[
    ("tmux.found", "a tmux is there"),
    ("tmux.runs", "it can be run and answers"),
    ("tmux.version", "it is new enough"),
    ("tmux.server", "it starts a private server"),
    ("tmux.pane", "a pane of that server shows text"),
    ("tmux.paste", "a bracketed paste arrives byte for byte"),
    ("tmux.defects", "its version is not known to do something wrong"),
    ("tmux.socketDir", "the directory of its sockets is private"),
    ("tmux.skew", "the running server and this client understand each other"),
    ("ttyd.found", "a ttyd is there"),
    ("ttyd.runs", "it can be run and answers"),
    ("ttyd.version", "it is new enough"),
    ("ttyd.serves", "it answers HTTP on a private socket"),
    ("ttyd.defects", "its version is not known to do something wrong"),
    ("git.found", "a git is there"),
    ("git.runs", "it can be run and answers"),
    ("git.version", "it tells its version"),
    ("claude.found", "Claude Code is there"),
    ("claude.runs", "it can be run and answers"),
    ("claude.version", "it tells its version"),
    ("claude.onboarding", "its first-run questions are answered"),
    ("claude.trust", "it trusts the directory that sessions start in"),
    ("agent.found", "an agent that is none of these is there and answers"),
    ("agent.runner", "it can be hosted as `routing.runner` says"),
    ("agent.files", "the files that it needs hold what it needs"),
    ("agent.first-run", "it asks nothing that its files do not answer"),
    ("path.entries", "nobody else can put a program into PATH"),
    ("locale.utf8", "the locale is UTF-8"),
    ("terminal.term", "TERM names a terminal that tmux can use"),
    ("terminal.descriptions", "the terminals that tmux needs are described"),
    ("service.linger", "processes survive the last logout"),
    ("service.killMode", "a restart of the service ends no agent"),
    ("config.valid", "the configuration can be read and has no fault"),
    ("secret.there", "the webhook has a secret that is private"),
    ("port.free", "the receiver can listen"),
    ("port.web", "the web terminal can listen"),
    ("workdir.there", "the directory that sessions start in is there"),
    ("github.hook", "each webhook has pinged and sends what is wanted"),
    ("github.deliveries", "GitHub can be asked for what it could not deliver"),
    ("github.telling", "people can be told on GitHub what becomes of events"),
    ("disk.space", "there is room for state, tools and temporary files"),
    ("state.modes", "state belongs to this user alone"),
    ("state.inbox", "every delivery that was stored can be read"),
    ("state.locks", "nothing is left of a receiver that died"),
    ("tools.litter", "nothing is left of an install that died"),
    ("tools.private", "nobody else can change what the-loop installs"),
    ("limits.descriptors", "enough files can be open at once"),
    ("limits.processes", "enough processes can be started"),
];

/// Whether the id was asked for: by itself or by its first part. Asking for
/// nothing asks for all.
pub fn is_asked(only: &[String], id: &str) -> bool {
    only.is_empty()
        || only.iter().any(|asked| {
            id.strip_prefix(asked.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
}

/// Whether there is a check of this id, or whose id begins so.
pub fn is_known(asked: &str) -> bool {
    let asked = [asked.to_owned()];
    CHECKS.iter().any(|(id, _)| is_asked(&asked, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_asked_for_by_its_id_or_its_first_part() {
        let only = |text: &str| vec![text.to_owned()];
        assert!(is_asked(&only("tmux"), "tmux.found"));
        assert!(is_asked(&only("tmux.found"), "tmux.found"));
        assert!(!is_asked(&only("tm"), "tmux.found"));
        assert!(is_asked(&[], "git.runs"));
        assert!(is_known("state") && !is_known("stat") && !is_known(""));
    }
}
