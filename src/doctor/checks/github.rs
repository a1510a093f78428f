//! What GitHub and the receiver know of each other: whether each repository's webhook
//! has pinged and sends what is wanted, whether what was missed is asked for, and
//! whether people can be told there.

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
    let was_asked = webhooks.repositories.iter().any(|of| of.was_asked || of.trouble.is_some());
    let has_token = webhooks.tokens.iter().any(|name| scene.env.var_os(name).is_some());
    if !was_asked && !has_token {
        let what = "GitHub cannot be asked for what it could not deliver: no token is set here";
        let names = webhooks.tokens.join(", ");
        let note = format!("set one for the receiver ({names}); {by_hand}");
        findings.push(Finding::new(id, Severity::Warning, what).remedy(Remedy::note(note)));
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
            let note = "the receiver's log names them; what they tell is on GitHub";
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
    let has_token = webhooks.tokens.iter().any(|name| scene.env.var_os(name).is_some());
    if !webhooks.can_tell && !has_token {
        let what = format!("nothing can be said on GitHub ({keys}): no token is set here");
        let names = webhooks.tokens.join(", ");
        let note = format!("set one for the receiver ({names}) and restart it; {cost}");
        return vec![Finding::new(id, Severity::Warning, what).remedy(Remedy::note(note))];
    }
    if let Some(why) = &webhooks.untold {
        let what = format!("nothing can be said on GitHub ({keys})");
        let finding = Finding::new(id, Severity::Warning, what).shown_by(visible(why));
        return vec![finding.remedy(Remedy::note(cost))];
    }
    vec![Finding::new(
        id,
        Severity::Ok,
        format!("what becomes of events is said on GitHub ({keys})"),
    )]
}
