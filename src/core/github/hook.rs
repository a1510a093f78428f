//! A repository's webhook: as its ping and GitHub's list describe it, which one is
//! ours, what it lacks, and whether it says nothing though there is news.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::ids::{GITHUB, Repo};
use crate::base::text::visible;
use crate::core::event::repo_of;

/// How much later than the last delivery something may have happened.
const LATE: SignedDuration = SignedDuration::from_mins(15);

/// A webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hook {
    /// GitHub's number of it.
    pub id: u64,
    /// Where it posts to.
    pub url: String,
    /// The events that it sends.
    pub events: Vec<String>,
    /// How it sends them: `json` or `form`.
    pub content_type: String,
    /// Whether it posts to servers that cannot show who they are.
    pub insecure_ssl: bool,
    /// Whether it is switched on.
    pub active: bool,
}

/// What GitHub says of a webhook.
#[derive(Deserialize)]
struct Raw {
    id: u64,
    #[serde(default)]
    active: bool,
    #[serde(default)]
    events: Vec<String>,
    #[serde(default)]
    config: RawConfig,
}

#[derive(Default, Deserialize)]
struct RawConfig {
    url: Option<String>,
    content_type: Option<String>,
    insecure_ssl: Option<Value>,
}

impl From<Raw> for Hook {
    fn from(raw: Raw) -> Self {
        let RawConfig { url, content_type, insecure_ssl } = raw.config;
        // It is a text in some answers and a number in others.
        let insecure_ssl = matches!(&insecure_ssl, Some(value) if *value == "1" || *value == 1);
        Self {
            id: raw.id,
            url: url.unwrap_or_default(),
            events: raw.events,
            // What GitHub takes when nobody says.
            content_type: content_type.unwrap_or_else(|| "form".to_owned()),
            insecure_ssl,
            active: raw.active,
        }
    }
}

/// The webhook that a ping is of, and its repository. Nothing where it is an
/// organization's, or no ping.
pub fn ping(body: &[u8]) -> Option<(Repo, Hook)> {
    #[derive(Deserialize)]
    struct Ping {
        hook: Raw,
        repository: Repository,
    }
    #[derive(Deserialize)]
    struct Repository {
        html_url: String,
    }
    let Ping { hook, repository } = serde_json::from_slice(body).ok()?;
    Some((repo_of(&repository.html_url).ok()?, hook.into()))
}

/// The webhooks in an answer of GitHub. One that cannot be read is none.
pub fn hooks(body: &[u8]) -> Result<Vec<Hook>, serde_json::Error> {
    let all: Vec<Value> = serde_json::from_slice(body)?;
    let read = |value| serde_json::from_value::<Raw>(value).ok().map(Hook::from);
    Ok(all.into_iter().filter_map(read).collect())
}

/// Why no webhook is taken for ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoHook {
    /// None posts to the receiver's path.
    #[error("no webhook of the repository posts to the receiver's path")]
    None,
    /// More than one does, and none has pinged.
    #[error("{0} webhooks of the repository post to such a path, and none has pinged")]
    Several(usize),
}

/// The webhook that is ours: the one that pinged, else one that posts to the same
/// address, else the only one that posts to the receiver's path.
pub fn choose<'a>(hooks: &'a [Hook], known: Option<&Hook>, path: &str) -> Result<&'a Hook, NoHook> {
    let of = |known: &Hook| {
        let same = hooks.iter().find(|hook| hook.id == known.id);
        // It may have been made anew since.
        same.or_else(|| hooks.iter().filter(|hook| hook.url == known.url).max_by_key(|h| h.id))
    };
    if let Some(hook) = known.and_then(of) {
        return Ok(hook);
    }
    let ours: Vec<_> = hooks.iter().filter(|hook| path_of(&hook.url) == path).collect();
    match ours[..] {
        [] => Err(NoHook::None),
        [hook] => Ok(hook),
        _ => Err(NoHook::Several(ours.len())),
    }
}

/// The path of an address.
fn path_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = rest.find('/').map_or("/", |at| &rest[at..]);
    path.split(['?', '#']).next().unwrap_or(path)
}

/// Something that a webhook lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It does not send these events, which are wanted.
    Events(Vec<String>),
    /// It posts to servers that cannot show who they are.
    InsecureSsl,
    /// It sends forms, not JSON: that is understood, and as large again.
    Form,
    /// It is switched off.
    Inactive,
}

impl Hook {
    /// What it lacks, when these events are wanted.
    pub fn faults(&self, wanted: &[String]) -> Vec<Fault> {
        let sends = |event: &String| self.sends(event);
        let missing: Vec<_> = wanted.iter().filter(|event| !sends(event)).cloned().collect();
        let faults = [
            (!missing.is_empty()).then_some(Fault::Events(missing)),
            self.insecure_ssl.then_some(Fault::InsecureSsl),
            (self.content_type != "json").then_some(Fault::Form),
            (!self.active).then_some(Fault::Inactive),
        ];
        faults.into_iter().flatten().collect()
    }

    fn sends(&self, event: &str) -> bool {
        self.events.iter().any(|sent| sent == "*" || sent == event)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Events(missing) => write!(f, "does not send {}", visible(&missing.join(", "))),
            Self::InsecureSsl => f.write_str("does not check who it posts to (insecure_ssl)"),
            Self::Form => f.write_str("sends forms, not JSON"),
            Self::Inactive => f.write_str("is switched off"),
        }
    }
}

impl Fault {
    /// The call of the GitHub CLI that puts it right. It leaves the secret alone.
    pub fn remedy(&self, repo: &Repo, hook: u64) -> String {
        let host = match repo.host() {
            GITHUB => String::new(),
            host => format!(" --hostname {host}"),
        };
        let at = format!("repos/{}/{}/hooks/{hook}", repo.owner(), repo.name());
        let (at, fields) = match self {
            Self::Events(missing) => {
                let add = missing.iter().map(|event| format!(" -f 'add_events[]={event}'"));
                (at, add.collect())
            }
            Self::InsecureSsl => (at + "/config", " -f insecure_ssl=0".to_owned()),
            Self::Form => (at + "/config", " -f content_type=json".to_owned()),
            Self::Inactive => (at, " -F active=true".to_owned()),
        };
        format!("gh api{host} --method PATCH {at}{fields} --silent")
    }
}

/// When the newest thing happened that a webhook with these events would send, by
/// GitHub's list of what happened in a repository.
pub fn newest_event(body: &[u8], hook: &Hook) -> Result<Option<Timestamp>, serde_json::Error> {
    let all: Vec<Value> = serde_json::from_slice(body)?;
    if !all.is_empty() && all.iter().all(|event| event["type"].as_str().is_none()) {
        return Err(serde::de::Error::custom("no entry of it is an event"));
    }
    let at = |event: &Value| {
        let name = event_name(event["type"].as_str()?);
        let at = event["created_at"].as_str()?.parse::<Timestamp>().ok()?;
        hook.sends(&name).then_some(at)
    };
    Ok(all.iter().filter_map(at).max())
}

/// A webhook's name for what the list calls `IssueCommentEvent`.
fn event_name(kind: &str) -> String {
    let mut name = String::new();
    for c in kind.strip_suffix("Event").unwrap_or(kind).chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

/// What is to be said of a webhook that is off, or that has delivered nothing though
/// something happened. GitHub lists what happened late, and never before it happened.
pub fn silence(
    hook: &Hook,
    delivered: Option<Timestamp>,
    happened: Option<Timestamp>,
) -> Option<String> {
    if !hook.active {
        return Some(format!("the webhook {} is switched off: GitHub sends nothing", hook.id));
    }
    let happened = happened?;
    let is_late = |delivered: Timestamp| happened.duration_since(delivered) > LATE;
    if !delivered.is_none_or(is_late) {
        return None;
    }
    let since = delivered.map_or_else(|| "within 3 days".to_owned(), |at| format!("since {at:.0}"));
    Some(format!(
        "the webhook {} has delivered nothing {since}, though something happened at {happened:.0}",
        hook.id
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(id: u64, url: &str) -> Hook {
        Hook {
            id,
            url: url.to_owned(),
            events: vec!["issues".to_owned(), "issue_comment".to_owned()],
            content_type: "json".to_owned(),
            insecure_ssl: false,
            active: true,
        }
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_ping_tells_which_hook_it_is_of() {
        let body = include_bytes!("../../../tests/fixtures/github/ping.json");
        let (repo, hook) = ping(body).unwrap();
        assert_eq!((repo.to_string().as_str(), hook.id), ("octocoders/hello-world", 109_948_940));
        assert_eq!((hook.content_type.as_str(), hook.insecure_ssl), ("json", false));
        let wanted = ["issues".to_owned()];
        assert!(hook.faults(&wanted).is_empty());
        for other in [&b"{}"[..], b"[]", b"", br#"{"hook":{"id":1},"organization":{}}"#] {
            assert!(ping(other).is_none());
        }
    }

    #[test]
    fn what_a_hook_lacks_is_named_with_the_call_that_mends_it() {
        let list = br#"[{"id": 7, "events": ["issues"], "active": false,
            "config": {"url": "https://a/x", "insecure_ssl": 1}}, {"no": "hook"}, 3]"#;
        let hooks = hooks(list).unwrap();
        assert_eq!(hooks.len(), 1);
        let wanted = ["issues", "status", "check_run"].map(str::to_owned);
        let faults = hooks[0].faults(&wanted);
        let repo: Repo = "o/r".parse().unwrap();
        let said: Vec<_> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "does not send status, check_run",
                "does not check who it posts to (insecure_ssl)",
                "sends forms, not JSON",
                "is switched off",
            ]
        );
        let calls: Vec<_> = faults.iter().map(|fault| fault.remedy(&repo, 7)).collect();
        assert_eq!(
            calls,
            [
                "gh api --method PATCH repos/o/r/hooks/7 -f 'add_events[]=status' \
                 -f 'add_events[]=check_run' --silent",
                "gh api --method PATCH repos/o/r/hooks/7/config -f insecure_ssl=0 --silent",
                "gh api --method PATCH repos/o/r/hooks/7/config -f content_type=json --silent",
                "gh api --method PATCH repos/o/r/hooks/7 -F active=true --silent",
            ]
        );
        let repo: Repo = "ghe.corp/o/r".parse().unwrap();
        assert!(faults[3].remedy(&repo, 7).starts_with("gh api --hostname ghe.corp --method"));
        assert!(super::hooks(b"{\"message\": \"no\"}").is_err());
    }

    #[test]
    fn ours_is_the_one_that_pinged_or_the_only_one_with_our_path() {
        let all = [
            hook(1, "https://a.example/gh-webhook"),
            hook(2, "https://b.example/other?x=/gh-webhook"),
            hook(3, "https://c.example/gh-webhook?x"),
        ];
        let chosen = |hooks: &[Hook], known: Option<&Hook>| {
            choose(hooks, known, "/gh-webhook").map(|hook| hook.id)
        };
        let gone = hook(9, "https://b.example/other?x=/gh-webhook");
        for (hooks, known, expected) in [
            (&all[..], Some(&all[1]), Ok(2)),
            // It was made anew.
            (&all[..], Some(&gone), Ok(2)),
            (&all[..], None, Err(NoHook::Several(2))),
            (&all[..2], None, Ok(1)),
            (&all[2..], None, Ok(3)),
            (&all[1..2], None, Err(NoHook::None)),
            (&[], Some(&gone), Err(NoHook::None)),
        ] {
            assert_eq!(chosen(hooks, known), expected);
        }
        assert_eq!(path_of("https://a.example"), "/");
    }

    #[test]
    fn a_hook_is_silent_when_something_happened_long_after_its_last_delivery() {
        let list = br#"[{"type": "IssueCommentEvent", "created_at": "2026-01-02T00:00:00Z"},
            {"type": "WatchEvent", "created_at": "2026-01-03T00:00:00Z"}, {"type": 3}, null]"#;
        let mut hook = hook(7, "https://a/x");
        let newest = newest_event(list, &hook).unwrap();
        assert_eq!(newest, Some(at("2026-01-02T00:00:00Z")));
        assert!(newest_event(b"garbage", &hook).is_err());
        for (delivered, is_silent) in [
            (None, true),
            (Some("2026-01-01T23:44:59Z"), true),
            (Some("2026-01-01T23:45:00Z"), false),
            (Some("2026-01-02T00:00:01Z"), false),
        ] {
            let said = silence(&hook, delivered.map(at), newest);
            assert_eq!(said.is_some(), is_silent, "{delivered:?}");
        }
        assert_eq!(silence(&hook, None, None), None);
        hook.active = false;
        assert!(silence(&hook, newest, None).unwrap().contains("is switched off"));
        assert_eq!(event_name("PullRequestReviewCommentEvent"), "pull_request_review_comment");
    }
}
