//! The body of a delivery: read within bounds of size and memory, checked
//! against its signature while it arrives, and reduced to its JSON.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use serde::de::IgnoredAny;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::signature::Signature;
use super::{Reply, only};

/// The largest body that is taken.
pub const MAX_BODY: usize = 25 << 20;

/// This much of each body is free: an ordinary delivery never waits.
const FREE: usize = 64 << 10;

/// How much of all bodies together is kept beyond that, in units of [`UNIT`].
const BUDGET: usize = (256 << 20) / UNIT;
const UNIT: usize = 64 << 10;

const BROKEN: Reply =
    Reply(StatusCode::BAD_REQUEST, "the body broke off, or its chunks cannot be read");
const TOO_LARGE: Reply = Reply(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large");

/// The memory that bodies may take up together. Anyone can send large ones, and
/// a thousand connections of 25 MiB are more than a machine has.
#[derive(Debug, Clone)]
pub(super) struct Budget(Arc<Semaphore>);

impl Default for Budget {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(BUDGET)))
    }
}

/// A whole body whose signature is right.
pub(super) struct Verified {
    bytes: Vec<u8>,
    // Given back when the value is dropped: once the delivery is stored.
    _permit: Option<OwnedSemaphorePermit>,
}

/// Reads a body to its end and checks its size and its signature.
pub(super) async fn read(
    mut body: Body,
    headers: &HeaderMap,
    mut signature: Signature,
    budget: &Budget,
) -> Result<Verified, Reply> {
    let declared = only(headers, header::CONTENT_LENGTH.as_str())
        .and_then(|length| length.parse::<u64>().ok())
        .unwrap_or(0);
    // One that is a little too large is read to its end below, because a client
    // that is still sending does not see the answer.
    if declared > 2 * MAX_BODY as u64 {
        return Err(TOO_LARGE);
    }
    let mut bytes = Vec::new();
    let mut seen = 0_usize;
    let mut permit: Option<OwnedSemaphorePermit> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| BROKEN)?;
        let Ok(chunk) = frame.into_data() else { continue };
        seen = seen.saturating_add(chunk.len());
        if seen > 2 * MAX_BODY {
            return Err(TOO_LARGE);
        }
        if seen > MAX_BODY || !signature.can_be_right() {
            (bytes, permit) = (Vec::new(), None);
            continue;
        }
        let needed = seen.saturating_sub(FREE).div_ceil(UNIT);
        let held = permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if needed > held {
            let more = budget.take(needed - held).await;
            match &mut permit {
                Some(permit) => permit.merge(more),
                None => permit = Some(more),
            }
        }
        signature.update(&chunk);
        bytes.extend_from_slice(&chunk);
    }
    if seen > MAX_BODY {
        return Err(TOO_LARGE);
    }
    if !signature.verify() {
        return Err(Reply(StatusCode::UNAUTHORIZED, "wrong signature"));
    }
    Ok(Verified { bytes, _permit: permit })
}

impl Budget {
    async fn take(&self, units: usize) -> OwnedSemaphorePermit {
        let units = u32::try_from(units).expect("a chunk is at most a body");
        Arc::clone(&self.0).acquire_many_owned(units).await.expect("it is never closed")
    }
}

impl Verified {
    /// The JSON in it, byte for byte as GitHub wrote it.
    pub(super) fn take_json(&mut self, headers: &HeaderMap) -> Result<Vec<u8>, Reply> {
        let bad = |text| Err(Reply(StatusCode::BAD_REQUEST, text));
        let content_type = only(headers, header::CONTENT_TYPE.as_str()).unwrap_or_default();
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        let json = if essence.eq_ignore_ascii_case("application/json") {
            std::mem::take(&mut self.bytes)
        } else if essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            match form_value(&self.bytes, "payload") {
                Some(json) => json,
                None => return bad("the form has no `payload`"),
            }
        } else {
            return bad("the content is neither JSON nor a form");
        };
        if is_json_object(&json) { Ok(json) } else { bad("the content is not a JSON object") }
    }
}

/// Whether it is one JSON object in UTF-8. Looks at every byte, keeps none, and
/// needs no stack for deep nesting.
fn is_json_object(json: &[u8]) -> bool {
    json.trim_ascii_start().first() == Some(&b'{')
        && std::str::from_utf8(json)
            .is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// The first value of a field of a URL-encoded form.
fn form_value(form: &[u8], name: &str) -> Option<Vec<u8>> {
    form.split(|&b| b == b'&').find_map(|field| {
        let at = field.iter().position(|&b| b == b'=')?;
        let (key, value) = (&field[..at], &field[at + 1..]);
        (decoded(key) == name.as_bytes()).then(|| decoded(value))
    })
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = tail;
        let mut byte = [0];
        match first {
            b'+' => out.push(b' '),
            b'%' if tail.len() >= 2 && hex::decode_to_slice(&tail[..2], &mut byte).is_ok() => {
                out.push(byte[0]);
                rest = &tail[2..];
            }
            &other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_holds_its_payload_byte_for_byte() {
        let form = b"x=1&payload=%7B%22a%22%3A%22%2B+%C3%A9%25%0A%22%7D&payload=no";
        assert_eq!(form_value(form, "payload").unwrap(), "{\"a\":\"+ é%\n\"}".as_bytes());
        assert_eq!(form_value(b"payload=%zz%4", "payload").unwrap(), b"%zz%4");
        assert_eq!(form_value(b"payload", "payload"), None);
        assert_eq!(form_value(b"", "payload"), None);
    }

    /// A body that arrives in one piece, read within a budget of two units.
    async fn read_within(
        budget: &Budget,
        length: usize,
        signature: Signature,
    ) -> Result<Verified, Reply> {
        let body = Body::from(vec![b' '; length]);
        read(body, &HeaderMap::new(), signature, budget).await
    }

    #[tokio::test]
    async fn bodies_share_the_memory_and_wait_for_it() {
        let budget = Budget(Arc::new(Semaphore::new(2)));
        let large = FREE + UNIT + 1;
        let first = read_within(&budget, large, Signature::NotNeeded).await.unwrap();
        // The next large one waits; a small one and one that is no delivery do not.
        let mut second = Box::pin(read_within(&budget, large, Signature::NotNeeded));
        assert!(poll_once(&mut second).await.is_none());
        read_within(&budget, FREE, Signature::NotNeeded).await.unwrap();
        let garbage = read_within(&budget, large, Signature::Garbage).await;
        assert_eq!(garbage.err().unwrap().0, StatusCode::UNAUTHORIZED);
        drop(first);
        assert_eq!(second.await.unwrap().bytes.len(), large);
        assert_eq!(budget.0.available_permits(), 2);
    }

    /// What a future has to say now, if anything.
    async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = std::future::ready(()) => None,
        }
    }

    #[test]
    fn only_one_json_object_is_json() {
        for json in [r#" {"a":1}"#, "{}", r#"{"a":"\ud83d"}"#, r#"{"a":1,"a":2}"#] {
            assert!(is_json_object(json.as_bytes()), "{json}");
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(is_json_object(deep.as_bytes()));
        for json in ["", "[]", "[{}]", "1", "null", "{", "{}{}", "{'a':1}", "\u{feff}{}", "{,}"] {
            assert!(!is_json_object(json.as_bytes()), "{json}");
        }
        assert!(!is_json_object(b"{\"a\":\"\xff\"}"));
    }
}
