//! Any request that anybody can send, in any combination of what can be wrong
//! with it: answered as the order of the checks says, never with a 5xx, and only
//! what is right in all is stored, byte for byte.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tokio::io::AsyncWriteExt;

use crate::receiver::{Request, Server, answer, sign};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signature {
    Right,
    UpperHex,
    Missing,
    Sha1Only,
    Twice,
    NotAscii,
    NotHex,
    Short,
    OfAnother,
    WithoutName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    Right,
    /// In chunks of this many bytes.
    Chunked(usize),
    TooShort,
    TooLong,
    Negative,
    NoNumber,
    Twice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    Right,
    NoId,
    NoEvent,
    IdTwice,
    BadId,
    BadEvent,
}

#[derive(Debug, Clone)]
struct Case {
    body: Vec<u8>,
    signature: Signature,
    length: Length,
    names: Names,
    /// Sent in pieces of this many bytes, with pauses.
    piece: usize,
}

fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let text = |text: &str| Just(text.as_bytes().to_vec()).boxed();
    prop_oneof![
        8 => "[\\PC]{0,200}".prop_map(|text| {
            serde_json::to_vec(&serde_json::json!({ "action": "created", "x": text })).unwrap()
        }),
        1 => Just(Vec::new()),
        1 => text("{}"),
        1 => text("[{}]"),
        1 => text("null"),
        1 => text("{\"a\":1,\"a\":2,\"a\":{\"a\":[]}}"),
        1 => text("{\"a\":\"\\ud83d\\ude00 \\ud83d \\u0000 😀 é\"}"),
        1 => text("\u{feff}{}"),
        1 => text("{\"a\":1}{"),
        1 => text("{'a':1}"),
        1 => Just(b"{\"a\":\"\xff\xfe\"}".to_vec()),
        1 => (1usize..3000).prop_map(|depth| {
            format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth)).into_bytes()
        }),
        1 => (1usize..200_000).prop_map(|length| {
            format!("{{\"a\":\"{}\"}}", "x".repeat(length)).into_bytes()
        }),
        2 => prop::collection::vec(any::<u8>(), 0..100),
    ]
}

fn cases() -> impl Strategy<Value = Case> {
    use Signature::{
        Missing, NotAscii, NotHex, OfAnother, Right, Sha1Only, Short, Twice, UpperHex, WithoutName,
    };
    let signature = prop_oneof![
        6 => Just(Right),
        1 => Just(UpperHex),
        2 => prop::sample::select(vec![
            Missing, Sha1Only, Twice, NotAscii, NotHex, Short, OfAnother, WithoutName,
        ]),
    ];
    let length = prop_oneof![
        6 => Just(Length::Right),
        3 => (1usize..5000).prop_map(Length::Chunked),
        2 => prop::sample::select(vec![
            Length::TooShort, Length::TooLong, Length::Negative, Length::NoNumber, Length::Twice,
        ]),
    ];
    let names = prop_oneof![
        6 => Just(Names::Right),
        1 => prop::sample::select(vec![
            Names::NoId, Names::NoEvent, Names::IdTwice, Names::BadId, Names::BadEvent,
        ]),
    ];
    let piece = prop_oneof![4 => Just(usize::MAX), 1 => 1usize..4000];
    (bodies(), signature, length, names, piece).prop_map(
        |(body, signature, length, names, piece)| Case { body, signature, length, names, piece },
    )
}

impl Case {
    /// The request's bytes; whatever is sent is signed as the case says.
    fn request(&self, id: &str) -> Vec<u8> {
        const SIGNATURE: &str = "x-hub-signature-256";
        let mut request = Request::new(id).body(&self.body);
        let right = sign(&self.body);
        request = match self.signature {
            Signature::Right => request,
            Signature::UpperHex => {
                request.with(SIGNATURE, format!("sha256={}", right[7..].to_uppercase()))
            }
            Signature::Missing => request.without(SIGNATURE),
            Signature::Sha1Only => request
                .without(SIGNATURE)
                .with("x-hub-signature", format!("sha1={}", &right[7..47])),
            Signature::Twice => request.twice(SIGNATURE),
            Signature::NotAscii => request.with(SIGNATURE, b"sha256=\xe9\xff\x80".to_vec()),
            Signature::NotHex => request.with(SIGNATURE, format!("sha256={}", "z".repeat(64))),
            Signature::Short => request.with(SIGNATURE, &right.as_bytes()[..70]),
            Signature::OfAnother => request.with(SIGNATURE, sign(b"another")),
            Signature::WithoutName => request.with(SIGNATURE, &right.as_bytes()[7..]),
        };
        request = match self.names {
            Names::Right => request,
            Names::NoId => request.without("x-github-delivery"),
            Names::NoEvent => request.without("x-github-event"),
            Names::IdTwice => request.twice("x-github-delivery"),
            Names::BadId => request.with("x-github-delivery", "../../x"),
            Names::BadEvent => request.with("x-github-event", b"issu\xe9s; rm".to_vec()),
        };
        let length = self.body.len();
        request = match self.length {
            Length::Right => request,
            Length::Chunked(_) => {
                request.without("content-length").with("transfer-encoding", "chunked")
            }
            Length::TooShort => {
                request.with("content-length", length.saturating_sub(1).to_string())
            }
            Length::TooLong => request.with("content-length", (length + 1).to_string()),
            Length::Negative => request.with("content-length", "-1"),
            Length::NoNumber => request.with("content-length", "1e3"),
            Length::Twice => {
                let mut twice = request.with("content-length", length.to_string());
                twice.headers.push(("content-length", (length + 7).to_string().into_bytes()));
                twice
            }
        };
        let mut bytes = request.head();
        match self.length {
            Length::Chunked(size) => {
                for (n, chunk) in self.body.chunks(size).enumerate() {
                    // Of all extensions together 16 KiB are taken.
                    let extension = if n < 1000 { ";ext=1" } else { "" };
                    bytes.extend(format!("{:x}{extension}\r\n", chunk.len()).into_bytes());
                    bytes.extend_from_slice(chunk);
                    bytes.extend_from_slice(b"\r\n");
                }
                bytes.extend_from_slice(b"0\r\n\r\n");
            }
            _ => bytes.extend_from_slice(&self.body),
        }
        bytes
    }

    /// What must be answered; nothing where the connection may just be closed.
    fn expected(&self) -> Option<u16> {
        match self.length {
            Length::Negative | Length::NoNumber | Length::Twice => return Some(400),
            Length::TooLong => return None,
            Length::TooShort if self.body.is_empty() => {}
            // Signed over more than was read.
            Length::TooShort => return Some(401),
            Length::Right | Length::Chunked(_) => {}
        }
        if !matches!(self.signature, Signature::Right | Signature::UpperHex) {
            return Some(401);
        }
        if self.names != Names::Right {
            return Some(400);
        }
        Some(if self.is_object() { 202 } else { 400 })
    }

    fn is_object(&self) -> bool {
        let Ok(text) = std::str::from_utf8(&self.body) else { return false };
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let is_json = {
            // The depth is no matter of what is right.
            use serde::Deserialize as _;
            serde::de::IgnoredAny::deserialize(&mut deserializer).is_ok()
                && deserializer.end().is_ok()
        };
        is_json && text.trim_start().starts_with('{')
    }
}

#[test]
fn any_request_is_answered_as_the_order_of_the_checks_says() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let server = runtime.block_on(Server::start());
    let mut runner = TestRunner::new(ProptestConfig::with_cases(400));
    let count = std::cell::Cell::new(0);
    let result = runner.run(&cases(), |case| {
        count.set(count.get() + 1);
        let id = format!("case-{}", count.get());
        let bytes = case.request(&id);
        let said = runtime.block_on(async {
            let mut stream = server.connect().await;
            // Some hundred pauses are enough.
            let piece = case.piece.clamp(bytes.len() / 300 + 1, bytes.len());
            for piece in bytes.chunks(piece) {
                // Whoever is refused early may not get to send everything.
                if stream.write_all(piece).await.is_err() {
                    break;
                }
                if case.piece < bytes.len() {
                    tokio::time::sleep(Duration::from_micros(200)).await;
                }
            }
            if case.expected().is_none() {
                let _ = stream.shutdown().await;
            }
            answer(&mut stream).await
        });
        let status: Option<u16> = said.split(' ').nth(1).and_then(|status| status.parse().ok());
        match case.expected() {
            Some(expected) => prop_assert_eq!(status, Some(expected), "{}", said),
            None => prop_assert!(status.is_none_or(|status| status == 400), "{}", said),
        }
        let stored = server.inbox.stored(&id.parse().unwrap()).unwrap();
        if case.expected() == Some(202) {
            prop_assert_eq!(stored.map(|delivery| delivery.body), Some(case.body));
        } else {
            prop_assert!(stored.is_none());
        }
        Ok(())
    });
    runtime.block_on(server.stop());
    assert!(result.is_ok(), "{}", result.unwrap_err());
}
