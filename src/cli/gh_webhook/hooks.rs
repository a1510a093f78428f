//! What `gh-webhook status` says of GitHub: each repository's webhook, and what was
//! missed.

use crate::base::text::{push_wrapped, visible};
use crate::serve::github::{GithubStatus, RepoStatus};

/// The lines about GitHub.
pub(super) fn lines(status: &GithubStatus) -> Vec<String> {
    let mut out = String::new();
    for repo in &status.repositories {
        about(&mut out, repo, status.redeliver);
    }
    let telling = &status.telling;
    if telling.reactions || telling.comments {
        let what = match (telling.reactions, telling.comments) {
            (true, true) => "reactions and comments",
            (true, false) => "reactions",
            _ => "comments",
        };
        let waiting = match telling.waiting {
            0 => String::new(),
            n => format!(", {n} waiting"),
        };
        let why = telling.trouble.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        push_wrapped(
            &mut out,
            "said there     ",
            15,
            &visible(&format!("{what}{waiting}{why}")),
            80,
        );
    }
    if let Some(why) = &status.trouble {
        push_wrapped(&mut out, "webhooks       ", 15, &visible(why), 80);
    }
    out.lines().map(str::to_owned).collect()
}

fn about(out: &mut String, repo: &RepoStatus, redeliver: bool) {
    let name = repo.repository.to_string();
    let pinged = match (repo.hook, repo.pinged_at) {
        (Some(hook), Some(at)) if repo.faults.is_empty() => {
            format!("{name}: hook {hook} pinged {at:.0}, sends what is wanted")
        }
        (Some(hook), Some(at)) => format!("{name}: hook {hook} pinged {at:.0}; it"),
        _ => format!("{name}: no ping yet"),
    };
    push_wrapped(out, "webhook        ", 15, &visible(&pinged), 80);
    let mut say = |text: &str| push_wrapped(out, "  ", 4, &visible(text), 80);
    if repo.hook.is_none() {
        say("`the-loop init --github --url https://YOUR-ADDRESS` prints the call that \
             registers it, and GitHub pings at once; a ping that was missed is sent again \
             on the webhook's page there, under Recent Deliveries");
    }
    for fault in &repo.faults {
        say(&format!("{}: `{}`", fault.what, fault.remedy));
    }
    if let (true, Some(at)) = (redeliver, repo.looked_at) {
        let RepoStatus { asked, missed, lost, .. } = repo;
        if asked + missed + lost == 0 {
            say(&format!("nothing was missed, as of {at:.0}"));
        } else {
            say(&format!(
                "missed: {asked} asked for again, {missed} still out, {lost} lost, as of {at:.0}"
            ));
        }
    }
    if let Some(silent) = &repo.silent {
        say(silent);
    }
    if let Some(why) = &repo.trouble {
        say(&format!("GitHub cannot be asked for what was missed: {why}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::github::{FaultStatus, TellingStatus};

    #[test]
    fn a_hook_is_told_with_what_it_lacks_and_what_was_missed() {
        let at = "2026-01-02T03:04:05Z".parse().ok();
        let fault = FaultStatus {
            what: "does not send status".to_owned(),
            remedy: "gh api --method PATCH repos/o/r/hooks/7 -f 'add_events[]=status' --silent"
                .to_owned(),
        };
        let mut repo = RepoStatus {
            repository: "o/r".parse().unwrap(),
            hook: Some(7),
            pinged_at: at,
            faults: vec![fault],
            looked_at: at,
            missed: 1,
            asked: 3,
            lost: 0,
            trouble: Some("no \u{1b}[31mway".to_owned()),
            silent: None,
        };
        let of = |repo: &RepoStatus, redeliver| {
            let repositories = vec![repo.clone()];
            let telling = TellingStatus::default();
            lines(&GithubStatus { redeliver, repositories, telling, trouble: None }).join("\n")
        };
        assert_eq!(
            of(&repo, true),
            "webhook        o/r: hook 7 pinged 2026-01-02T03:04:05Z; it\n  \
               does not send status:\n    \
                 `gh api --method PATCH repos/o/r/hooks/7 -f 'add_events[]=status' --silent`\n  \
               missed: 3 asked for again, 1 still out, 0 lost, as of 2026-01-02T03:04:05Z\n  \
               GitHub cannot be asked for what was missed: no \\x1b[31mway"
        );
        (repo.hook, repo.trouble, repo.faults) = (None, None, Vec::new());
        (repo.missed, repo.asked) = (0, 0);
        let said = of(&repo, true);
        assert!(said.starts_with("webhook        o/r: no ping yet\n  `the-loop init --github"));
        assert!(said.ends_with("nothing was missed, as of 2026-01-02T03:04:05Z"), "{said}");
        assert!(said.lines().all(|line| line.len() <= 80), "{said}");
        let mut telling = TellingStatus { comments: true, waiting: 2, ..TellingStatus::default() };
        let of_telling = |telling: &TellingStatus| {
            let telling = telling.clone();
            lines(&GithubStatus { telling, ..GithubStatus::default() }).join("\n")
        };
        assert_eq!(of_telling(&telling), "said there     comments, 2 waiting");
        (telling.reactions, telling.waiting) = (true, 0);
        telling.trouble = Some("no \u{1b}[31mtoken".to_owned());
        let said = "said there     reactions and comments: no \\x1b[31mtoken";
        assert_eq!(of_telling(&telling), said);
        repo.hook = Some(7);
        let said = of(&repo, false);
        assert_eq!(
            said,
            "webhook        o/r: hook 7 pinged 2026-01-02T03:04:05Z, sends what is wanted"
        );
    }
}
