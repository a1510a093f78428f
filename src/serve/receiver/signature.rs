//! The signature of a delivery: HMAC-SHA-256 over the raw bytes of its body,
//! compared in constant time. A header that is anything else than one plain
//! `sha256=` and 64 hexadecimal digits is a wrong signature, never an error.

use axum::http::HeaderMap;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::{Secret, only};

const HEADER: &str = "x-hub-signature-256";

/// What is claimed about a body that is still arriving.
#[derive(Clone)]
pub(super) enum Signature {
    /// Nobody checks.
    NotNeeded,
    /// No header that could be right.
    Garbage,
    /// A signature, and what was computed so far.
    Claimed {
        /// What the header says.
        claimed: [u8; 32],
        /// Of the bytes seen so far.
        computed: Hmac<Sha256>,
    },
}

impl Signature {
    /// What the headers claim. Digits of either case are the same number.
    pub(super) fn claimed(secret: &Secret, headers: &HeaderMap) -> Self {
        let digits = only(headers, HEADER).and_then(|value| value.strip_prefix("sha256="));
        let mut claimed = [0; 32];
        match digits.map(|digits| hex::decode_to_slice(digits, &mut claimed)) {
            Some(Ok(())) => Self::Claimed {
                claimed,
                computed: Hmac::new_from_slice(secret.bytes()).expect("a key has any length"),
            },
            _ => Self::Garbage,
        }
    }

    /// Whether the body needs to be kept: it can still turn out to be right.
    pub(super) fn can_be_right(&self) -> bool {
        !matches!(self, Self::Garbage)
    }

    /// More of the body.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        if let Self::Claimed { computed, .. } = self {
            computed.update(bytes);
        }
    }

    /// Whether the claim is true, now that the body is whole.
    pub(super) fn verify(self) -> bool {
        match self {
            Self::NotNeeded => true,
            Self::Garbage => false,
            Self::Claimed { claimed, computed } => computed.verify_slice(&claimed).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const RIGHT: &str = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    /// The example of GitHub's documentation.
    fn is_right(headers: &[&[u8]], body: &[u8]) -> bool {
        let secret = Secret::new(*b"It's a Secret to Everybody", "test").unwrap();
        let mut map = HeaderMap::new();
        for value in headers {
            map.append(HEADER, HeaderValue::from_bytes(value).unwrap());
        }
        let mut signature = Signature::claimed(&secret, &map);
        let (one, two) = body.split_at(body.len() / 2);
        signature.update(one);
        signature.update(two);
        signature.verify()
    }

    #[test]
    fn the_example_of_githubs_documentation_is_right() {
        let header = format!("sha256={RIGHT}");
        assert!(is_right(&[header.as_bytes()], b"Hello, World!"));
        assert!(!is_right(&[header.as_bytes()], b"Hello, World?"));
        let upper = format!("sha256={}", RIGHT.to_uppercase());
        assert!(is_right(&[upper.as_bytes()], b"Hello, World!"));
    }

    #[test]
    fn garbage_is_wrong_and_never_a_panic() {
        let right = format!("sha256={RIGHT}");
        let texts = [
            String::new(),
            "sha256=".to_owned(),
            RIGHT.to_owned(),
            format!("SHA256={RIGHT}"),
            format!("sha1={RIGHT}"),
            format!("sha256= {RIGHT}"),
            format!("sha256={RIGHT}00"),
            format!("sha256={}", &RIGHT[..62]),
            format!("sha256={}", &RIGHT[..63]),
            format!("sha256={}é", &RIGHT[..62]),
            format!("{right},{right}"),
            format!("sha256={}", "g".repeat(64)),
        ];
        for text in &texts {
            assert!(!is_right(&[text.as_bytes()], b"Hello, World!"), "{text}");
        }
        assert!(!is_right(&[], b"Hello, World!"));
        assert!(!is_right(&[b"\xff\xfe"], b"Hello, World!"));
        assert!(!is_right(&[right.as_bytes(), right.as_bytes()], b"Hello, World!"));
    }
}
