//! The files that the pages load: compiled in, compressed when first asked for,
//! kept by browsers for ever under an address that changes with any of them.

use std::borrow::Cow;
use std::io::Write as _;
use std::sync::OnceLock;

use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use super::colours;

/// A year: as good as for ever.
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

macro_rules! file {
    ($name:literal, $kind:expr) => {
        Asset::new($name, $kind, Cow::Borrowed(include_bytes!(concat!("../assets/", $name))))
    };
}

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// Every file.
#[derive(Debug)]
pub(super) struct Assets {
    files: Vec<Asset>,
    /// What their addresses begin with, without the slashes around it.
    version: String,
}

#[derive(Debug)]
struct Asset {
    name: &'static str,
    kind: &'static str,
    bytes: Cow<'static, [u8]>,
    compressed: OnceLock<Bytes>,
}

impl Asset {
    fn new(name: &'static str, kind: &'static str, bytes: Cow<'static, [u8]>) -> Self {
        Self { name, kind, bytes, compressed: OnceLock::new() }
    }

    fn plain(&self) -> Bytes {
        match &self.bytes {
            Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            Cow::Owned(bytes) => Bytes::copy_from_slice(bytes),
        }
    }

    fn compressed(&self) -> Bytes {
        let make = || {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            // Into memory, it does not fail.
            let written = encoder.write_all(&self.bytes).and_then(|()| encoder.finish());
            written.map_or_else(|_| self.plain(), Bytes::from)
        };
        self.compressed.get_or_init(make).clone()
    }
}

impl Assets {
    pub(super) fn new() -> Self {
        let files = vec![
            file!("style.css", STYLE),
            file!("live.mjs", SCRIPT),
            file!("list.mjs", SCRIPT),
            file!("terminal.mjs", SCRIPT),
            file!("socket.mjs", SCRIPT),
            file!("keys.mjs", SCRIPT),
            file!("fit.mjs", SCRIPT),
            file!("styles.mjs", SCRIPT),
            file!("history.mjs", SCRIPT),
            file!("icon.svg", "image/svg+xml"),
            file!("vendor/xterm.mjs", SCRIPT),
            file!("vendor/xterm.css", STYLE),
            file!("vendor/xterm.LICENSE", TEXT),
            file!("vendor/addon-unicode11.mjs", SCRIPT),
            file!("vendor/addon-unicode11.LICENSE", TEXT),
            Asset::new("colours.css", STYLE, Cow::Owned(colours::style_sheet().into_bytes())),
        ];
        let mut digest = Sha256::new();
        digest.update(env!("CARGO_PKG_VERSION"));
        for file in &files {
            digest.update(file.name);
            digest.update(file.bytes.len().to_le_bytes());
            digest.update(&file.bytes);
        }
        Self { files, version: hex::encode(&digest.finalize()[..8]) }
    }

    /// A name for all of them together.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Answers a request for `path`, the part of it behind `/assets/`.
    pub(super) fn answer(&self, path: &str, headers: &HeaderMap) -> Response {
        let name = path.strip_prefix(&self.version).and_then(|rest| rest.strip_prefix('/'));
        let Some(file) = self.files.iter().find(|file| Some(file.name) == name) else {
            return (StatusCode::NOT_FOUND, "there is no such file\n").into_response();
        };
        let takes_gzip = headers
            .get_all(header::ACCEPT_ENCODING)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|coding| coding.trim() == "gzip");
        let body = if takes_gzip { file.compressed() } else { file.plain() };
        let mut response = body.into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.kind));
        headers.insert(header::CACHE_CONTROL, FOR_EVER);
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        if takes_gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_compressed_file_is_the_file_and_much_smaller() {
        let assets = Assets::new();
        let xterm = assets.files.iter().find(|file| file.name == "vendor/xterm.mjs").unwrap();
        let compressed = xterm.compressed();
        assert!(compressed.len() * 3 < xterm.bytes.len(), "{}", compressed.len());
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&compressed[..]).read_to_end(&mut plain).unwrap();
        assert_eq!(plain, *xterm.bytes);
    }

    #[test]
    fn only_the_present_version_of_a_file_is_there_and_it_may_be_kept() {
        let assets = Assets::new();
        let none = HeaderMap::new();
        let path = format!("{}/list.mjs", assets.version());
        let answer = assets.answer(&path, &none);
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()[header::CACHE_CONTROL], FOR_EVER);
        assert!(!answer.headers().contains_key(header::CONTENT_ENCODING));
        let gzip = [(header::ACCEPT_ENCODING, HeaderValue::from_static("br, gzip"))];
        let answer = assets.answer(&path, &gzip.into_iter().collect());
        assert_eq!(answer.headers()[header::CONTENT_ENCODING], "gzip");
        let version = assets.version();
        for path in [
            "list.mjs".to_owned(),
            "0123456789abcdef/list.mjs".to_owned(),
            format!("{version}/../list.mjs"),
            format!("{version}/"),
            String::new(),
        ] {
            assert_eq!(assets.answer(&path, &none).status(), StatusCode::NOT_FOUND, "{path}");
        }
    }
}
