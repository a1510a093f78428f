//! Bodies as the file holds them: packed, where that makes them smaller. What is
//! written to a disk costs more than what is computed, and GitHub's JSON says most
//! things several times.
//!
//! Packing is done by whoever brings a delivery, so that the one thread that
//! writes only writes.

/// What is shorter than this is kept as it is.
const WORTH_IT: usize = 256;

/// No body is longer: what a damaged file says about its size is not believed.
const LONGEST: usize = 64 << 20;

/// A body that goes into the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredBody {
    /// What is written.
    pub(super) bytes: Vec<u8>,
    /// How long it is when it is unpacked; nothing where it is not packed.
    pub(super) size: Option<i64>,
}

/// A body in the file is not what was put there.
#[derive(Debug, thiserror::Error)]
#[error("a stored body cannot be unpacked")]
pub(super) struct BrokenBody;

impl StoredBody {
    /// Packs a body, where that makes it smaller.
    pub(super) fn pack(body: Vec<u8>) -> Self {
        if (WORTH_IT..=LONGEST).contains(&body.len()) {
            let bytes = lz4_flex::block::compress(&body);
            if bytes.len() < body.len() {
                let size = i64::try_from(body.len()).expect("it is at most `LONGEST`");
                return Self { bytes, size: Some(size) };
            }
        }
        Self { bytes: body, size: None }
    }

    /// The body, byte for byte.
    pub(super) fn unpack(self) -> Result<Vec<u8>, BrokenBody> {
        let Some(size) = self.size else { return Ok(self.bytes) };
        let size = usize::try_from(size).ok().filter(|size| *size <= LONGEST).ok_or(BrokenBody)?;
        let body = lz4_flex::block::decompress(&self.bytes, size).map_err(|_| BrokenBody)?;
        if body.len() == size { Ok(body) } else { Err(BrokenBody) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_payload_of_github_gets_much_smaller_and_comes_back() {
        let payload = include_bytes!("../../../tests/fixtures/github/issue_comment.created.json");
        let value: serde_json::Value = serde_json::from_slice(payload).unwrap();
        let body = value.to_string().into_bytes();
        let packed = StoredBody::pack(body.clone());
        assert!(packed.bytes.len() * 3 < body.len(), "{} of {}", packed.bytes.len(), body.len());
        assert_eq!(packed.unpack().unwrap(), body);
    }

    #[test]
    fn a_damaged_body_is_an_error_and_takes_no_memory() {
        let packed = StoredBody::pack(vec![b'x'; 1000]);
        for size in [-1, 0, 999, 1001, i64::MAX] {
            let damaged = StoredBody { size: Some(size), ..packed.clone() };
            assert!(damaged.unpack().is_err(), "{size}");
        }
        for at in 0..packed.bytes.len() {
            let cut = StoredBody { bytes: packed.bytes[..at].to_vec(), ..packed.clone() };
            assert!(cut.unpack().is_err(), "{at}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_packed_comes_back(
            body in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..2000),
                "(ab|cd){0,900}".prop_map(String::into_bytes),
            ],
        ) {
            let packed = StoredBody::pack(body.clone());
            prop_assert!(packed.bytes.len() <= body.len());
            prop_assert_eq!(packed.unpack().unwrap(), body);
        }

        #[test]
        fn garbage_never_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            size in 0_i64..100_000,
        ) {
            let _ = StoredBody { bytes, size: Some(size) }.unpack();
        }
    }
}
