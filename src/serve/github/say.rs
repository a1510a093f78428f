//! Says one thing on GitHub: a reaction, which GitHub itself makes once, or a
//! comment, which is looked for first where it may have been posted before.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::client::{Api, AskError};
use crate::base::checkpoint::Checkpoint;
use crate::base::clock::Clock;
use crate::core::github::{Comment, Saying, Target, Words};

/// How many comments GitHub gives at a time.
const PER_PAGE: usize = 100;
/// How many pages are looked at for a comment of some minutes ago.
const PAGES: usize = 10;
/// How far the clocks of GitHub and of this machine may differ.
const APART: SignedDuration = SignedDuration::from_mins(10);

/// Something was said.
#[derive(Debug)]
pub(super) struct Sent {
    /// Nothing more may be asked before.
    pub(super) rest_until: Option<Timestamp>,
}

/// Says it, unless it was said before.
pub(super) async fn say(
    api: &Api,
    saying: &Saying,
    comment: Option<&Comment>,
    clock: &Clock,
) -> Result<Sent, AskError> {
    let at = format!("repos/{}/{}", saying.repo.owner(), saying.repo.name());
    let (path, body) = match (&saying.words, comment) {
        (Words::React { on, with }, _) => {
            let on = match on {
                Target::Item(number) => format!("issues/{number}"),
                Target::Comment(id) => format!("issues/comments/{id}"),
                Target::ReviewComment(id) => format!("pulls/comments/{id}"),
            };
            (format!("{at}/{on}/reactions"), json!({ "content": with.as_str() }))
        }
        (_, Some(comment)) => {
            let path = format!("{at}/issues/{}/comments", comment.on.number);
            if let Some(tried) = saying.tried
                && is_there(api, &path, &comment.key, tried, clock).await?
            {
                return Ok(Sent { rest_until: None });
            }
            (path, json!({ "body": comment.text }))
        }
        (_, None) => return Ok(Sent { rest_until: None }),
    };
    let answer = api.post(&path, Some(&body), clock.now()).await?;
    Checkpoint::Said.reached();
    // What somebody in between answers is no proof.
    let made: Value = read(&path, &answer.body)?;
    if made["id"].as_u64().is_none() {
        return Err(garbage(&path, "it names nothing that was made"));
    }
    Ok(Sent { rest_until: answer.rest_until })
}

/// Whether a comment with the key was posted since it was tried.
async fn is_there(
    api: &Api,
    path: &str,
    key: &str,
    tried: Timestamp,
    clock: &Clock,
) -> Result<bool, AskError> {
    let since = format!("{:.0}", tried.checked_sub(APART).unwrap_or(tried));
    for page in 1..=PAGES {
        let page = page.to_string();
        let query = [("since", since.as_str()), ("per_page", "100"), ("page", &page)];
        let answer = api.get(path, &query, clock.now()).await?;
        let all: Vec<Value> = read(path, &answer.body)?;
        if all.iter().any(|one| one["body"].as_str().is_some_and(|body| body.contains(key))) {
            return Ok(true);
        }
        if all.len() < PER_PAGE {
            return Ok(false);
        }
        if let Some(until) = answer.rest_until.filter(|until| *until > clock.now()) {
            return Err(AskError::Limited { until });
        }
    }
    // Among so many it is rather not said than said twice.
    Ok(true)
}

fn read<T: serde::de::DeserializeOwned>(path: &str, body: &[u8]) -> Result<T, AskError> {
    serde_json::from_slice(body).map_err(|error| garbage(path, &error.to_string()))
}

fn garbage(path: &str, why: &str) -> AskError {
    AskError::Garbage { asked: path.to_owned(), why: why.to_owned() }
}
