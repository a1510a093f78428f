//! One client for GitHub's REST API: small answers, a deadline for each, no
//! redirect, and the token in no message.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Client, Method, Response, StatusCode, Url};
use serde_json::Value;

use crate::base::env::Env;
use crate::base::failure::plain;
use crate::base::https::{self, TrustError, is_allowed, shown};
use crate::base::ids::{GITHUB, Repo};
use crate::base::text::{cap, visible};

/// The variable that names another address of GitHub's API.
pub const API: &str = "THE_LOOP_GITHUB_API";
/// The variables that hold a token, as the GitHub CLI has them.
pub const TOKENS: &[&str] =
    &["GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"];

/// How long a request may take, with its whole answer.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);
/// The largest answer that is read.
const MAX_ANSWER: usize = 4 << 20;
/// How long a pause is at most that GitHub may ask for.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_hours(1);
/// The pause where GitHub asks for one and does not say how long.
const PAUSE: SignedDuration = SignedDuration::from_mins(1);

/// Why GitHub gave no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    /// There is no token.
    #[error("no token: neither {} nor {} is set for the receiver", .0[0], .0[1])]
    NoToken([&'static str; 2]),
    /// The token cannot be one.
    #[error("{0} holds what can be no token")]
    BadToken(&'static str),
    /// The variable names no address.
    #[error("{API} is no https address, and no http address of this machine")]
    BadApi,
    /// The surroundings forbid it.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The way there, or the answer, failed.
    #[error("`{url}`: {why}")]
    Failed {
        /// What was asked for.
        url: String,
        /// Why.
        why: String,
    },
    /// GitHub wants fewer requests.
    #[error("GitHub's rate limit is reached: it is asked again after {until:.0}")]
    Limited {
        /// Nothing is asked before.
        until: Timestamp,
    },
    /// GitHub refused.
    #[error("GitHub answered {status} to {asked}{said}")]
    Refused {
        /// The status.
        status: u16,
        /// What was asked.
        asked: String,
        /// What GitHub said, after a colon.
        said: String,
    },
    /// The answer is not what was asked for.
    #[error("the answer of GitHub to {asked} cannot be understood: {why}")]
    Garbage {
        /// What was asked.
        asked: String,
        /// Why.
        why: String,
    },
}

/// An answer of success.
#[derive(Debug)]
pub(super) struct Answer {
    /// The body.
    pub(super) body: Vec<u8>,
    /// Where the next page begins.
    pub(super) cursor: Option<String>,
    /// Nothing more may be asked before.
    pub(super) rest_until: Option<Timestamp>,
}

/// The API of one host.
pub(super) struct Api {
    base: Url,
    client: Client,
    token: HeaderValue,
    deadline: Duration,
}

impl Api {
    /// That of a repository's host, by what the environment says.
    pub(super) fn of(env: &Env, repo: &Repo, deadline: Duration) -> Result<Self, AskError> {
        let token = token(env, repo.host())?;
        let base = base(env, repo.host())?;
        // The deadline is for the whole of it, and comes first.
        let (_, client) = https::client(env, &base, deadline * 2)?;
        Ok(Self { base, client, token, deadline })
    }

    /// Asks for something below the API's address.
    pub(super) async fn get(
        &self,
        path: &str,
        query: &[(&str, &str)],
        now: Timestamp,
    ) -> Result<Answer, AskError> {
        self.ask(Method::GET, path, query, None, now).await
    }

    /// Asks for something to be done there.
    pub(super) async fn post(
        &self,
        path: &str,
        body: Option<&Value>,
        now: Timestamp,
    ) -> Result<Answer, AskError> {
        self.ask(Method::POST, path, &[], body, now).await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<&Value>,
        now: Timestamp,
    ) -> Result<Answer, AskError> {
        let mut url = self.base.clone();
        url.set_path(&format!("{}/{path}", self.base.path().trim_end_matches('/')));
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let asked = format!("{method} {path}");
        let failed = |why: String| AskError::Failed { url: shown(&url), why };
        let mut request = self
            .client
            .request(method, url.clone())
            .header(header::AUTHORIZATION, self.token.clone())
            .header(header::ACCEPT, "application/vnd.github+json")
            .header("X-GitHub-Api-Version", "2022-11-28");
        if let Some(body) = body {
            request =
                request.header(header::CONTENT_TYPE, "application/json").body(body.to_string());
        }
        let work = async {
            let response = request.send().await.map_err(|error| failed(why(&error)))?;
            let (status, headers) = (response.status(), response.headers().clone());
            let body = whole(response).await.map_err(failed)?;
            Ok::<_, AskError>((status, headers, body))
        };
        let Ok(answer) = tokio::time::timeout(self.deadline, work).await else {
            let limit = self.deadline.as_secs();
            return Err(failed(format!("it did not answer within {limit} s")));
        };
        let (status, headers, body) = answer?;
        judge(status, &headers, body, asked, now)
    }
}

/// What an answer is worth.
fn judge(
    status: StatusCode,
    headers: &HeaderMap,
    body: Vec<u8>,
    asked: String,
    now: Timestamp,
) -> Result<Answer, AskError> {
    let rest_until = rest_until(status, headers, now);
    if status.is_success() {
        return Ok(Answer { body, cursor: cursor(headers), rest_until });
    }
    if let (403 | 429, Some(until)) = (status.as_u16(), rest_until) {
        return Err(AskError::Limited { until });
    }
    let said = serde_json::from_slice::<Value>(&body).ok();
    let said = said.as_ref().and_then(|said| said["message"].as_str()).unwrap_or_default();
    // GitHub's limit on what is made at a time need not come with a header.
    if status == StatusCode::FORBIDDEN && said.contains("secondary rate limit") {
        return Err(AskError::Limited { until: now.checked_add(PAUSE).unwrap_or(now) });
    }
    let said = match (status.as_u16(), said) {
        (301 | 302 | 307 | 308, _) => {
            ": the repository has another name now (`routing.repositories`)".to_owned()
        }
        (401, said) => format!("{}; the token is unknown there or expired", after_colon(said)),
        (403, said) => {
            let needed = permission(&asked);
            format!("{}; the token may lack the permission \"{needed}\"", after_colon(said))
        }
        (404, _) => ": the token may not see it, or it is not there".to_owned(),
        (_, said) => after_colon(said),
    };
    Err(AskError::Refused { status: status.as_u16(), asked, said })
}

/// What GitHub said, behind what it said it to.
fn after_colon(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {}", cap(&visible(said), 120)) }
}

/// What a token must be allowed for a request, by GitHub's documentation.
fn permission(asked: &str) -> &'static str {
    match asked.split('/').nth(3) {
        Some("hooks") => "Webhooks: read and write",
        Some("events") => "Contents: read",
        Some("pulls") => "Pull requests: read and write",
        _ => "Issues: read and write",
    }
}

/// Until when nothing may be asked, by what the answer says.
fn rest_until(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Option<Timestamp> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<i64>().ok();
    let longest = now.checked_add(LONGEST_PAUSE).ok()?;
    let is_used_up = number("x-ratelimit-remaining") == Some(0);
    let until = match (number("retry-after"), number("x-ratelimit-reset")) {
        (Some(seconds), _) => {
            now.checked_add(SignedDuration::from_secs(seconds.max(0))).unwrap_or(longest)
        }
        (None, Some(at)) if is_used_up => Timestamp::from_second(at).unwrap_or(longest),
        (None, _) if is_used_up || status == StatusCode::TOO_MANY_REQUESTS => {
            now.checked_add(PAUSE).ok()?
        }
        _ => return None,
    };
    Some(until.clamp(now, longest))
}

/// Where the next page begins. Only this is taken of the address that GitHub names:
/// the token goes nowhere else.
fn cursor(headers: &HeaderMap) -> Option<String> {
    let link = headers.get(header::LINK)?.to_str().ok()?;
    let next = link.split(',').find(|part| part.contains("rel=\"next\""))?;
    let url = next.trim().strip_prefix('<')?.split('>').next()?;
    let url = Url::parse(url).ok()?;
    let found = url.query_pairs().find(|(name, _)| name == "cursor");
    found.map(|(_, cursor)| cursor.into_owned()).filter(|cursor| cursor.len() <= 500)
}

/// The whole body, when it is not too large.
async fn whole(mut response: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| why(&error))? {
        if body.len() + chunk.len() > MAX_ANSWER {
            return Err(format!("the answer is larger than {} MB", MAX_ANSWER >> 20));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Why a request failed, in a few words.
fn why(error: &reqwest::Error) -> String {
    let mut bottom: &dyn std::error::Error = error;
    while let Some(cause) = bottom.source() {
        bottom = cause;
    }
    let cause = cap(visible(plain(&bottom.to_string())).as_str(), 200);
    if error.is_timeout() {
        "it did not answer in time".to_owned()
    } else if error.is_connect() {
        format!("it could not be reached: {cause}")
    } else {
        format!("the connection broke: {cause}")
    }
}

/// Whether a host belongs to github.com, or is one of its own below `ghe.com`.
fn is_githubs(host: &str) -> bool {
    host == GITHUB || host.ends_with(".ghe.com")
}

/// The token for a host, as the GitHub CLI chooses it.
fn token(env: &Env, host: &str) -> Result<HeaderValue, AskError> {
    let names = tokens_of(host);
    let set = names.iter().find_map(|name| Some((*name, env.var(name)?)));
    let (name, token) = set.ok_or(AskError::NoToken(names))?;
    let bad = AskError::BadToken(name);
    let token = token.trim();
    if token.is_empty() || !token.chars().all(|c| c.is_ascii_graphic()) {
        return Err(bad);
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| bad)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The variables that hold the token for a host.
pub fn tokens_of(host: &str) -> [&'static str; 2] {
    if is_githubs(host) { [TOKENS[0], TOKENS[1]] } else { [TOKENS[2], TOKENS[3]] }
}

/// The address of a host's API.
fn base(env: &Env, host: &str) -> Result<Url, AskError> {
    let text = match env.var(API) {
        Some(given) => given.to_owned(),
        None if host == GITHUB => "https://api.github.com".to_owned(),
        None if is_githubs(host) => format!("https://api.{host}"),
        None => format!("https://{host}/api/v3"),
    };
    let url = Url::parse(&text).ok().filter(|url| is_allowed(url) && url.query().is_none());
    url.filter(|url| url.username().is_empty() && url.password().is_none()).ok_or(AskError::BadApi)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(vars: &[(&str, &str)]) -> Env {
        Env::fixed(vars.iter().copied(), "/", "/bin/the-loop")
    }

    #[test]
    fn each_host_has_its_own_address_and_its_own_token() {
        let all = env(&[
            ("GITHUB_TOKEN", "second"),
            ("GH_ENTERPRISE_TOKEN", " theirs\n"),
            ("GITHUB_ENTERPRISE_TOKEN", "no"),
        ]);
        for (host, url, held) in [
            ("github.com", "https://api.github.com/", "Bearer second"),
            ("corp.ghe.com", "https://api.corp.ghe.com/", "Bearer second"),
            ("ghe.corp:8443", "https://ghe.corp:8443/api/v3", "Bearer theirs"),
        ] {
            assert_eq!(base(&all, host).unwrap().as_str(), url);
            let token = token(&all, host).unwrap();
            assert_eq!(token.to_str().unwrap(), held);
            assert!(!format!("{token:?}").contains("theirs"));
        }
        let error = token(&env(&[("GH_ENTERPRISE_TOKEN", "t")]), GITHUB).unwrap_err().to_string();
        assert_eq!(error, "no token: neither GH_TOKEN nor GITHUB_TOKEN is set for the receiver");
        for bad in ["a b", "s3cret\u{1b}", "é", " "] {
            let error = token(&env(&[("GH_TOKEN", bad)]), GITHUB).unwrap_err().to_string();
            assert_eq!(error, "GH_TOKEN holds what can be no token");
        }
    }

    #[test]
    fn another_address_is_https_or_this_machines() {
        let at = |given: &str| base(&env(&[(API, given)]), GITHUB);
        for fine in
            ["https://a.example/x", "http://127.0.0.1:1", "http://[::1]:1/", "http://localhost:1"]
        {
            assert!(at(fine).is_ok(), "{fine}");
        }
        for bad in ["http://a.example", "ftp://a", "a", "https://u:s3cret@a", "https://a/?q"] {
            assert!(matches!(at(bad), Err(AskError::BadApi)), "{bad}");
        }
    }

    #[test]
    fn an_answer_says_how_long_to_rest_and_that_has_an_end() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let after = |pairs: &[(&'static str, &str)], code: u16| {
            let headers = pairs
                .iter()
                .map(|(name, value)| {
                    (header::HeaderName::from_static(name), value.parse().unwrap())
                })
                .collect();
            let until = rest_until(StatusCode::from_u16(code).unwrap(), &headers, now);
            until.map(|until| until.duration_since(now).as_secs())
        };
        let used_up = ("x-ratelimit-remaining", "0");
        for (pairs, code, expected) in [
            (&[][..], 200, None),
            (&[][..], 403, None),
            (&[("x-ratelimit-remaining", "7"), ("x-ratelimit-reset", "1800000060")], 403, None),
            (&[used_up, ("x-ratelimit-reset", "1800000060")], 403, Some(60)),
            (&[used_up, ("x-ratelimit-reset", "1800000060")], 200, Some(60)),
            (&[used_up, ("x-ratelimit-reset", "1700000000")], 200, Some(0)),
            (&[used_up, ("x-ratelimit-reset", "9999999999999")], 403, Some(3600)),
            (&[used_up], 403, Some(60)),
            (&[("retry-after", "5")], 403, Some(5)),
            (&[("retry-after", "-5")], 429, Some(0)),
            (&[("retry-after", "99999")], 429, Some(3600)),
            (&[("retry-after", "9223372036854775807")], 429, Some(3600)),
            (&[("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")], 429, Some(60)),
        ] {
            assert_eq!(after(pairs, code), expected, "{pairs:?} {code}");
        }
    }

    #[test]
    fn of_the_next_pages_address_only_the_cursor_is_taken() {
        let of =
            |link: &str| cursor(&HeaderMap::from_iter([(header::LINK, link.parse().unwrap())]));
        let next = "<https://evil.example/x?per_page=100&cursor=v1_1%3D>; rel=\"next\"";
        assert_eq!(of(next).as_deref(), Some("v1_1="));
        assert_eq!(of("<https://a/?cursor=1>; rel=\"prev\""), None);
        assert_eq!(of(&format!("<https://a/?cursor=1>; rel=\"prev\", {next}")).unwrap(), "v1_1=");
        for no in ["", "<", "<no url>; rel=\"next\"", "<https://a/>; rel=\"next\""] {
            assert_eq!(of(no), None, "{no}");
        }
    }

    #[test]
    fn a_refusal_is_told_with_githubs_words_made_visible() {
        let now = Timestamp::UNIX_EPOCH;
        let refused = |status: StatusCode, body: &str| {
            let asked = "GET repos/o/r/hooks".to_owned();
            judge(status, &HeaderMap::new(), body.into(), asked, now).unwrap_err().to_string()
        };
        assert_eq!(
            refused(StatusCode::FORBIDDEN, "{\"message\": \"Not \\u001b[31maccessible\"}"),
            "GitHub answered 403 to GET repos/o/r/hooks: Not \\x1b[31maccessible; the token may \
             lack the permission \"Webhooks: read and write\""
        );
        let text = refused(StatusCode::UNAUTHORIZED, "{\"message\": \"Bad credentials\"}");
        assert!(text.ends_with(": Bad credentials; the token is unknown there or expired"));
        for (asked, needed) in [
            ("GET repos/o/r/events", "Contents: read"),
            ("POST repos/o/r/hooks/7/deliveries/1/attempts", "Webhooks: read and write"),
            ("POST repos/o/r/issues/1/comments", "Issues: read and write"),
            ("repos/o/r/pulls/comments/1/reactions", "Pull requests: read and write"),
        ] {
            assert_eq!(permission(asked), needed);
        }
        let text = refused(StatusCode::NOT_FOUND, "<html>");
        assert!(text.ends_with(": the token may not see it, or it is not there"), "{text}");
        let text = refused(StatusCode::MOVED_PERMANENTLY, "");
        assert!(text.contains("another name now"), "{text}");
        let text = refused(
            StatusCode::FORBIDDEN,
            "{\"message\": \"You have exceeded a secondary rate limit. Please wait\"}",
        );
        assert!(text.ends_with("it is asked again after 1970-01-01T00:01:00Z"), "{text}");
        assert!(refused(StatusCode::BAD_GATEWAY, "").ends_with("502 to GET repos/o/r/hooks"));
    }
}
