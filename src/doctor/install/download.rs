//! Downloads one file into a partial whose name carries the pinned digest, so
//! that a later try, of this process or of another, may go on where an earlier
//! one was cut off.

use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use fs_err as fs;
use reqwest::header::{self, HeaderMap};
use reqwest::{Response, StatusCode, Url};
use sha2::{Digest, Sha256};

use super::follow::{Asking, Refused};
use super::pace::{Pace, least};
use super::{InstallError, Progress, checkpoint, file_error};
use crate::base::env::Env;
use crate::base::failure::chain;
use crate::base::https::shown;
use crate::base::text::{cap, count, visible};

/// How long a server may be silent, unless [`SILENCE`] says otherwise.
const READ_DEADLINE: Duration = Duration::from_secs(30);
/// How many times as long all tries together may take.
const WHOLE: u32 = 20;
/// The variable that says how many seconds a server may be silent.
const SILENCE: &str = "THE_LOOP_DOWNLOAD_TIMEOUT";
/// How many tries in a row may bring nothing new, after the first.
const RETRIES: u32 = 3;
/// How many tries there are at all.
const TRIES: u32 = 30;
/// The first pause; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(250);
/// The longest pause that a server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// What is downloaded, and where to.
pub(super) struct Download<'a> {
    pub(super) env: &'a Env,
    pub(super) url: &'a Url,
    /// The partial.
    pub(super) file: &'a Path,
    /// The largest file that is taken.
    pub(super) limit: u64,
    /// The digests that end the download.
    pub(super) pinned: Vec<&'a str>,
    pub(super) progress: &'a dyn Progress,
}

/// Why a try did not end the download.
enum Stop {
    /// Another try would not either.
    Final(InstallError),
    /// Another try may: after the pause that the server asked for.
    Again(InstallError, Option<Duration>),
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Final(error) => Self::Final(error),
            Refused::Again(error) => Self::Again(error, None),
        }
    }
}

impl From<InstallError> for Stop {
    fn from(error: InstallError) -> Self {
        Self::Final(error)
    }
}

impl Download<'_> {
    /// Downloads, with as many tries as make sense. Gives the digest of the
    /// file, which may be another than the pinned one.
    pub(super) async fn run(&self) -> Result<String, InstallError> {
        let silence = silence(self.env)?;
        let limit = silence * WHOLE;
        if let Ok(result) = tokio::time::timeout(limit, self.tries(silence)).await {
            return result;
        }
        self.progress.done();
        let why = format!("it was not over within {} s", limit.as_secs());
        Err(InstallError::Download { url: shown(self.url), why })
    }

    async fn tries(&self, silence: Duration) -> Result<String, InstallError> {
        let asking = Asking::new(self.env, self.url, silence)?;
        let mut part = Part::open(self.file, self.limit)?;
        let mut resumed = part.length > 0;
        if self.is_pinned(&part.digest()) {
            return Ok(part.digest());
        }
        let (mut furthest, mut in_vain) = (part.length, 0_u32);
        for _ in 0..TRIES {
            let stop = match self.attempt(&asking, silence, &mut part).await {
                Ok(()) if resumed && !self.is_pinned(&part.digest()) => {
                    // The older part was of another file: once more from the start.
                    self.progress.say("what was left of an earlier download does not fit");
                    part.restart()?;
                    (resumed, furthest) = (false, 0);
                    continue;
                }
                Ok(()) => {
                    self.progress.done();
                    return Ok(part.digest());
                }
                Err(stop) => stop,
            };
            self.progress.done();
            let (error, asked) = match stop {
                Stop::Final(error) => return Err(error),
                Stop::Again(error, asked) => (error, asked),
            };
            // A few bytes more are no way forward either.
            let forward = part.length >= furthest.saturating_add(least(silence));
            in_vain = if forward { 0 } else { in_vain + 1 };
            furthest = furthest.max(part.length);
            let pause = asked.unwrap_or(PAUSE * 2_u32.pow(in_vain.saturating_sub(1)));
            if in_vain > RETRIES || pause > LONGEST_PAUSE {
                return Err(error);
            }
            let why = match &error {
                // The URL was said when it began.
                InstallError::Download { why, .. } => why.clone(),
                error => chain(error),
            };
            self.progress.say(&format!("{why}; trying again in {:.1} s", pause.as_secs_f32()));
            tokio::time::sleep(pause).await;
        }
        Err(InstallError::TooManyTries { url: shown(self.url) })
    }

    async fn attempt(
        &self,
        asking: &Asking<'_>,
        silence: Duration,
        part: &mut Part<'_>,
    ) -> Result<(), Stop> {
        let (response, from) = asking.ask(part.length).await.map_err(Stop::from)?;
        let status = response.status();
        let refused = || InstallError::Status { url: shown(self.url), status: status.as_u16() };
        match status {
            StatusCode::PARTIAL_CONTENT if range_start(response.headers()) == Some(part.length) => {
                if part.length > 0 {
                    self.progress.say(&format!("going on after {} bytes", part.length));
                }
                self.take(asking, &from, silence, response, part).await
            }
            // Not the range that was asked for: without one then.
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
                let error = match status {
                    StatusCode::PARTIAL_CONTENT => self.another_part(&response, part.length),
                    _ => refused(),
                };
                let had_some = part.length > 0;
                part.restart()?;
                if had_some {
                    Err(Stop::Again(error, Some(Duration::ZERO)))
                } else {
                    Err(Stop::Final(error))
                }
            }
            status if status.is_success() => {
                // The server knows no ranges: this is the whole file.
                if part.length > 0 {
                    self.progress.say("the server begins anew: it knows no parts of a file");
                }
                part.restart()?;
                self.take(asking, &from, silence, response, part).await
            }
            StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_EARLY
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::INTERNAL_SERVER_ERROR
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => {
                Err(Stop::Again(refused(), retry_after(response.headers())))
            }
            _ => Err(Stop::Final(refused())),
        }
    }

    /// What is to be said of a part that was not asked for.
    fn another_part(&self, response: &Response, start: u64) -> InstallError {
        let sent = response.headers().get(header::CONTENT_RANGE);
        let sent = sent.map(|sent| String::from_utf8_lossy(sent.as_bytes()).into_owned());
        let sent = sent.map_or_else(|| "no range".to_owned(), |sent| cap(&visible(&sent), 40));
        let why =
            format!("bytes from {start} on were asked for, and a part came that says `{sent}`");
        InstallError::Download { url: shown(self.url), why }
    }

    /// Takes a body to its end.
    async fn take(
        &self,
        asking: &Asking<'_>,
        from: &Url,
        silence: Duration,
        mut response: Response,
        part: &mut Part<'_>,
    ) -> Result<(), Stop> {
        let too_long = || InstallError::TooLarge {
            from: shown(self.url),
            limit: self.limit,
            expected: self.pinned.first().copied().unwrap_or_default().to_owned(),
        };
        let whole = response.content_length().map(|length| part.length.saturating_add(length));
        if whole.is_some_and(|whole| whole > self.limit) {
            return Err(Stop::Final(too_long()));
        }
        let mut pace = Pace::new(silence, Instant::now(), part.length);
        loop {
            match response.chunk().await {
                Ok(None) => return Ok(()),
                Ok(Some(chunk)) if part.length + chunk.len() as u64 > self.limit => {
                    return Err(Stop::Final(too_long()));
                }
                Ok(Some(chunk)) => part.write(&chunk)?,
                Err(error) => return Err(asking.failed(&error, from, None).into()),
            }
            self.progress.bytes(part.length, whole);
            if let Some((came, passed)) = pace.too_slow(Instant::now(), part.length) {
                let host = from.host_str().unwrap_or_default();
                let why = format!(
                    "{host} is too slow: {} in {} s",
                    count(usize::try_from(came).unwrap_or(usize::MAX), "byte"),
                    passed.as_secs()
                );
                let error = InstallError::Download { url: shown(self.url), why };
                return Err(Stop::Again(error, None));
            }
            checkpoint::reach(self.env, "downloading").await;
        }
    }

    fn is_pinned(&self, digest: &str) -> bool {
        self.pinned.contains(&digest)
    }
}

/// How long a server may be silent.
pub(super) fn silence(env: &Env) -> Result<Duration, InstallError> {
    let Some(text) = env.var_os(SILENCE) else { return Ok(READ_DEADLINE) };
    let text = text.to_string_lossy();
    let seconds = text.trim().parse().ok().filter(|seconds| (1..=3600).contains(seconds));
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| InstallError::BadTimeout { value: cap(&visible(&text), 40) })
}

/// A status with the words that it stands for.
pub(super) fn status(code: u16) -> String {
    let words = StatusCode::from_u16(code).ok().and_then(|status| status.canonical_reason());
    words.map_or_else(|| code.to_string(), |words| format!("{code} ({words})"))
}

/// Removes what has the name of a partial and is no file. A link is never
/// followed.
pub(super) fn make_way(path: &Path) -> Result<(), InstallError> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_dir() => fs::remove_dir_all(path).map_err(file_error(path)),
        Ok(there) if !there.is_file() => fs::remove_file(path).map_err(file_error(path)),
        _ => Ok(()),
    }
}

/// The partial, and the digest of what is in it.
struct Part<'a> {
    path: &'a Path,
    file: fs::File,
    hasher: Sha256,
    length: u64,
}

impl<'a> Part<'a> {
    fn open(path: &'a Path, limit: u64) -> Result<Self, InstallError> {
        make_way(path)?;
        if fs::symlink_metadata(path).is_ok_and(|there| there.len() > limit) {
            fs::remove_file(path).map_err(file_error(path))?;
        }
        let mut file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(file_error(path))?;
        let (mut hasher, mut length) = (Sha256::new(), 0);
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match file.read(&mut buffer).map_err(file_error(path))? {
                0 => return Ok(Self { path, file, hasher, length }),
                count => {
                    hasher.update(&buffer[..count]);
                    length += count as u64;
                }
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), InstallError> {
        self.file.write_all(bytes).map_err(file_error(self.path))?;
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn restart(&mut self) -> Result<(), InstallError> {
        if self.length > 0 {
            let emptied = self.file.set_len(0);
            emptied
                .and_then(|()| std::io::Seek::rewind(&mut self.file))
                .map_err(file_error(self.path))?;
            self.hasher = Sha256::new();
            self.length = 0;
        }
        Ok(())
    }

    fn digest(&self) -> String {
        hex::encode(self.hasher.clone().finalize())
    }
}

/// Where a partial answer begins: 5 of `bytes 5-9/10`.
fn range_start(headers: &HeaderMap) -> Option<u64> {
    let text = headers.get(header::CONTENT_RANGE)?.to_str().ok()?;
    text.strip_prefix("bytes ")?.split('-').next()?.parse().ok()
}

/// How long the server asks to be left alone: in seconds, or until a date by
/// its own clock.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let asked = text(header::RETRY_AFTER)?;
    if let Ok(seconds) = asked.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = |text| jiff::fmt::rfc2822::parse(text).ok().map(|date| date.timestamp());
    let until = date(asked)?.duration_since(date(text(header::DATE)?)?);
    Some(Duration::try_from(until).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(header::HeaderName, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.clone(), header::HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn a_server_may_ask_for_a_pause_in_seconds_or_by_a_date() {
        let seconds = headers(&[(header::RETRY_AFTER, "7")]);
        assert_eq!(retry_after(&seconds), Some(Duration::from_secs(7)));
        let date = headers(&[
            (header::RETRY_AFTER, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (header::DATE, "Sun, 06 Nov 1994 08:49:07 GMT"),
        ]);
        assert_eq!(retry_after(&date), Some(Duration::from_secs(30)));
        let past = headers(&[
            (header::RETRY_AFTER, "Sun, 06 Nov 1994 08:49:07 GMT"),
            (header::DATE, "Sun, 06 Nov 1994 08:49:37 GMT"),
        ]);
        assert_eq!(retry_after(&past), Some(Duration::ZERO));
        assert_eq!(retry_after(&headers(&[(header::RETRY_AFTER, "soon")])), None);
    }

    #[test]
    fn only_the_range_that_was_asked_for_is_taken() {
        let start = |text| range_start(&headers(&[(header::CONTENT_RANGE, text)]));
        assert_eq!(start("bytes 5-9/10"), Some(5));
        assert_eq!(start("bytes */10"), None);
        assert_eq!(start("5-9/10"), None);
    }
}
