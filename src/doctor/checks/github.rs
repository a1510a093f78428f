//! What GitHub and the receiver know of each other: whether each repository's webhook
//! has pinged and sends what is wanted, whether what was missed is asked for, and
//! whether people can be told there.

use std::collections::{BTreeMap, BTreeSet};

use super::Scene;
use crate::base::ids::Repo;
use crate::base::text::visible;
use crate::core::github::Hook;
use crate::core::platform::Remedy;
use crate::doctor::finding::{Finding, Severity};

/// What is known of a project's webhooks.
#[derive(Debug, Clone, Default)]
pub struct Webhooks {
    /// Each repository.
    pub repositories: Vec<Webhook>,
    /// The events that are wanted.
    pub wanted: Vec<String>,
    /// Whether GitHub is to be asked for what was missed.
    pub redeliver: bool,
    /// The keys that say that something is said on GitHub.
    pub tells: Vec<&'static str>,
    /// Whether the receiver had a token when something was to be said.
    pub can_tell: bool,
    /// Why nothing could be said.
    pub untold: Option<String>,
    /// The variables of which one must hold a token for that.
    pub tokens: &'static [&'static str],
}

/// What is known of one repository's.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// The repository.
    pub repository: Repo,
    /// The webhook, once it has pinged.
    pub hook: Option<Hook>,
    /// Whether GitHub was ever asked what was missed, and answered.
    pub was_asked: bool,
    /// Why it could not be asked.
    pub trouble: Option<String>,
    /// That the webhook says nothing though something happened.
    pub silent: Option<String>,
    /// How many missed deliveries will not come.
    pub lost: usize,
    /// The variables of which one must hold a token for its host.
    pub tokens: [&'static str; 2],
    /// Whether the receiver has none for it.
    pub is_mute: bool,
}

impl Webhooks {
    /// Which token is not set, for each host of the repositories that may lack one, and
    /// the variables. The host is named where there are several.
    fn without_token(
        &self,
        scene: &Scene,
        lacks: impl Fn(&Webhook) -> bool,
    ) -> Vec<(String, String)> {
        let has_one = |names: &[&str]| names.iter().any(|name| scene.env.var_os(name).is_some());
        if self.repositories.is_empty() {
            let none = ("no token is set here".to_owned(), self.tokens.join(", "));
            return (!self.can_tell && !has_one(self.tokens)).then_some(none).into_iter().collect();
        }
        let all: BTreeSet<_> = self.repositories.iter().map(|of| of.repository.host()).collect();
        let mut found = BTreeMap::new();
        // Without a receiver the token that it would be given is the one here.
        let lacking = |of: &&Webhook| lacks(of) && (of.is_mute || !has_one(&of.tokens));
        for of in self.repositories.iter().filter(lacking) {
            let host = of.repository.host();
            let named = if all.len() > 1 { format!(" for {host}") } else { String::new() };
            let whose = if of.is_mute { "for the receiver" } else { "here" };
            let lack = format!("no token{named} is set {whose}");
            found.insert(lack, of.tokens.join(", "));
        }
        found.into_iter().collect()
    }
}

pub(super) fn hook(scene: &Scene) -> Vec<Finding> {
    let Some(webhooks) = &scene.project.webhooks else { return Vec::new() };
    webhooks.repositories.iter().flat_map(|of| about_hook(of, &webhooks.wanted)).collect()
}

fn about_hook(of: &Webhook, wanted: &[String]) -> Vec<Finding> {
    let (id, repo) = ("github.hook", &of.repository);
    let Some(hook) = &of.hook else {
        let what = format!("no ping of a webhook of {repo} has come in yet");
        let remedy = Remedy {
            commands: vec!["the-loop init --github --url https://YOUR-ADDRESS".to_owned()],
            note: Some(
                "it prints the call that registers one, and GitHub pings at once; a ping that was \
                 missed is sent again on the webhook's page there, under Recent Deliveries"
                    .to_owned(),
            ),
        };
        return vec![Finding::new(id, Severity::Note, what).remedy(remedy)];
    };
    let faults = hook.faults(wanted);
    if faults.is_empty() {
        let what = format!("the webhook of {repo} has pinged and sends what is wanted");
        return vec![Finding::new(id, Severity::Ok, what)];
    }
    let of_fault = |fault: &crate::core::github::Fault| {
        let what = format!("the webhook of {repo} {fault}");
        Finding::new(id, Severity::Warning, what)
            .remedy(Remedy::command(fault.remedy(repo, hook.id)))
    };
    faults.iter().map(of_fault).collect()
}

pub(super) fn deliveries(scene: &Scene) -> Vec<Finding> {
    let id = "github.deliveries";
    let Some(webhooks) = &scene.project.webhooks else { return Vec::new() };
    if !webhooks.redeliver {
        let what = "GitHub is not asked for what it could not deliver (`github.redeliver`)";
        return vec![Finding::new(id, Severity::Ok, what)];
    }
    let mut findings = Vec::new();
    let by_hand = "until then what was missed stays missed, but for the button Redeliver of the \
                   webhook's page on GitHub, under Recent Deliveries";
    // Whether the receiver has one shows by what it could ask.
    let was_asked = |of: &Webhook| of.was_asked || of.trouble.is_some();
    for (lack, names) in webhooks.without_token(scene, |of| !was_asked(of)) {
        let what = format!("GitHub cannot be asked for what it could not deliver: {lack}");
        let note = format!("set one for the receiver ({names}); {by_hand}");
        findings.push(Finding::new(id, Severity::Warning, what).remedy(Remedy::note(note)));
    }
    if webhooks.repositories.is_empty() && findings.is_empty() {
        let what = "GitHub is asked for nothing that it could not deliver: no repository is known";
        let note = "set `routing.repositories`; a webhook's first ping names one, too";
        return vec![Finding::new(id, Severity::Note, what).remedy(Remedy::note(note))];
    }
    for of in &webhooks.repositories {
        let repo = &of.repository;
        let warning = |what: String| Finding::new(id, Severity::Warning, what);
        if let Some(why) = &of.trouble {
            let what = format!("GitHub cannot be asked for what {repo} missed");
            findings.push(warning(what).shown_by(visible(why)).remedy(Remedy::note(by_hand)));
        }
        if let Some(silent) = &of.silent {
            let note = "look at its page on GitHub, under Settings, Webhooks";
            findings.push(warning(format!("{repo}: {silent}")).remedy(Remedy::note(note)));
        }
        if of.lost > 0 {
            let what = format!("{} of what {repo} missed will not come", of.lost);
            let note = "the receiver's log names them; for three days the button Redeliver of the \
                        webhook's page on GitHub, under Recent Deliveries, sends them again";
            findings.push(warning(what).remedy(Remedy::note(note)));
        }
    }
    if findings.is_empty() {
        let what = "GitHub is asked for what it could not deliver";
        findings.push(Finding::new(id, Severity::Ok, what));
    }
    findings
}

pub(super) fn telling(scene: &Scene) -> Vec<Finding> {
    let id = "github.telling";
    let Some(webhooks) = &scene.project.webhooks else { return Vec::new() };
    if webhooks.tells.is_empty() {
        let what = "nothing is said on GitHub (`github.reactions`, `github.comments`)";
        return vec![Finding::new(id, Severity::Ok, what)];
    }
    let keys = webhooks.tells.join(" and ");
    let cost = "until then nobody learns on GitHub that an event was taken, failed, or started \
                a session; `the-loop events` knows it here";
    // Whether the receiver has one it wrote down.
    let lacks = |of: &Webhook| !webhooks.can_tell || of.is_mute;
    let mut findings = Vec::new();
    for (lack, names) in webhooks.without_token(scene, lacks) {
        let what = format!("nothing can be said on GitHub ({keys}): {lack}");
        let note = format!("set one for the receiver ({names}) and restart it; {cost}");
        findings.push(Finding::new(id, Severity::Warning, what).remedy(Remedy::note(note)));
    }
    if let (Some(why), true) = (&webhooks.untold, findings.is_empty()) {
        let what = format!("nothing can be said on GitHub ({keys})");
        let finding = Finding::new(id, Severity::Warning, what).shown_by(visible(why));
        findings.push(finding.remedy(Remedy::note(cost)));
    }
    if findings.is_empty() {
        let what = format!("what becomes of events is said on GitHub ({keys})");
        findings.push(Finding::new(id, Severity::Ok, what));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::dirs::Dirs;
    use crate::base::env::Env;
    use crate::core::platform::{Facts, Host};
    use crate::doctor::Needs;

    const OURS: [&str; 2] = ["GH_TOKEN", "GITHUB_TOKEN"];
    const THEIRS: [&str; 2] = ["GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"];

    fn scene(vars: &[(&str, &str)], repositories: Vec<Webhook>, can_tell: bool) -> Scene {
        let vars = vars.iter().copied().chain([("HOME", "/h")]);
        let env = Env::fixed(vars, "/", "/bin/the-loop");
        let webhooks = Webhooks {
            repositories,
            redeliver: true,
            tells: vec!["`github.comments`"],
            can_tell,
            tokens: &["GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"],
            ..Webhooks::default()
        };
        Scene {
            dirs: Dirs::new(&env).unwrap(),
            env,
            needs: Needs::default(),
            project: super::super::Project { webhooks: Some(webhooks), ..Default::default() },
            host: Host::from_facts(&Facts::default()),
        }
    }

    fn of(repository: &str, tokens: [&'static str; 2]) -> Webhook {
        Webhook {
            repository: repository.parse().unwrap(),
            hook: None,
            was_asked: false,
            trouble: None,
            silent: None,
            lost: 0,
            tokens,
            is_mute: false,
        }
    }

    fn said(findings: &[Finding]) -> String {
        let of = |finding: &Finding| {
            let note = finding.remedy.clone().and_then(|remedy| remedy.note).unwrap_or_default();
            format!("{:?}: {} ({note})\n", finding.severity, finding.what)
        };
        findings.iter().map(of).collect()
    }

    #[test]
    fn each_host_needs_a_token_of_its_own() {
        let both = || vec![of("o/r", OURS), of("ghe.example.com/o/r", THEIRS)];
        for (vars, repositories, lacks) in [
            (&[][..], vec![of("o/r", OURS)], "no token is set here (set"),
            (&[("GH_ENTERPRISE_TOKEN", "t")], vec![of("o/r", OURS)], "no token is set here"),
            (&[("GH_TOKEN", "t")], vec![of("o/r", OURS)], ""),
            (&[("GH_TOKEN", "t")], both(), "no token for ghe.example.com is set here"),
            (&[("GH_TOKEN", "t"), ("GH_ENTERPRISE_TOKEN", "t")], both(), ""),
        ] {
            let scene = scene(vars, repositories, false);
            for found in [deliveries(&scene), telling(&scene)] {
                let said = said(&found);
                assert_eq!(found.len(), 1, "{said}");
                if lacks.is_empty() {
                    assert_eq!(found[0].severity, Severity::Ok, "{said}");
                } else {
                    assert_eq!(found[0].severity, Severity::Warning, "{said}");
                    assert!(said.contains(lacks), "{lacks} in {said}");
                }
            }
        }
        // A receiver runs: what it has counts, and not what is set here.
        let mut repositories = both();
        repositories[1].is_mute = true;
        repositories[0].was_asked = true;
        repositories[1].trouble = Some("no token".to_owned());
        let scene = scene(&[], repositories, true);
        let said = said(&telling(&scene));
        assert!(said.contains("no token for ghe.example.com is set for the receiver"), "{said}");
        assert!(!said.contains(" for github.com"), "{said}");
        assert_eq!(deliveries(&scene).len(), 1);
    }

    #[test]
    fn without_a_repository_nothing_is_asked_and_that_is_no_good_news() {
        let scene = scene(&[("GH_TOKEN", "t")], Vec::new(), false);
        let found = deliveries(&scene);
        assert_eq!(found[0].severity, Severity::Note);
        assert!(said(&found).contains("no repository is known (set `routing.repositories`"));
    }
}
