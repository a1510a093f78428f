//! `the-loop hook`: called by harnesses, for every signal. It must never be felt
//! by the agent: it prints nothing (or `{}`, where that is asked for), takes a few milliseconds, needs no daemon,
//! and its exit code is 0 whatever happens.

use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Context;
use crate::base::failure::Failure;
use crate::state::spool;

/// The most that is read of one signal.
const MAX_INPUT: usize = 1 << 20;

/// How long the harness may take to tell a signal and to close its pipe. One that
/// leaves the pipe open waits for us, and goes on.
const PATIENCE: Duration = Duration::from_secs(2);

/// How much is read at a time.
const CHUNK: usize = 64 << 10;

/// Record a harness's signal
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Answer `{}`, for a harness that wants an answer
    #[arg(long)]
    json: bool,
    /// What another version of this program may have been called with
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    others: Vec<std::ffi::OsString>,
}

/// Runs the command.
#[expect(clippy::unnecessary_wraps, reason = "the form of every command")]
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    // Read first, whatever comes of it: the harness's pipe must not break.
    let signal = told(&chunks(io::stdin()), Instant::now() + PATIENCE);
    if args.json {
        // Nobody could be told that nobody listens.
        let _ = context.printer.data("{}");
    }
    let dir = context.env.var_os(spool::DIR_VAR).map(Path::new);
    if let (Some(dir), Some(signal)) = (dir, signal) {
        if signal.get("hook_event_name").and_then(Value::as_str) == Some("PreToolUse") {
            // Not a signal: only the wait counts.
            let _ = spool::wait_for_tools(dir);
            return Ok(ExitCode::SUCCESS);
        }
        // Nobody could be told: the agent must not notice.
        let _ = spool::write(dir, &signal);
    }
    Ok(ExitCode::SUCCESS)
}

/// What is read, as it comes. The thread ends with this short-lived program, if not
/// before: a read of a pipe that nobody closes cannot be given up.
fn chunks(mut input: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::sync_channel(4);
    let reads = move || {
        let mut chunk = vec![0; CHUNK];
        while let Ok(length @ 1..) = input.read(&mut chunk) {
            if sender.send(chunk[..length].to_vec()).is_err() {
                return;
            }
        }
    };
    // Without a thread nothing is read, and the signal is lost: the agent must not
    // notice.
    let _ = std::thread::Builder::new().spawn(reads);
    receiver
}

/// The signal, at the end of the input or when the time is over. What comes after
/// the limit is read and dropped, so that the harness's pipe does not break.
fn told(chunks: &Receiver<Vec<u8>>, until: Instant) -> Option<Value> {
    let (mut bytes, mut is_cut) = (Vec::new(), false);
    while let Ok(chunk) = chunks.recv_timeout(until.saturating_duration_since(Instant::now())) {
        let room = MAX_INPUT - bytes.len();
        is_cut |= chunk.len() > room;
        bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }
    if is_cut { mended(&bytes) } else { serde_json::from_slice(&bytes).ok() }
}

/// The signal from its beginning, when it was cut inside the last text of the
/// outermost object. That is where a prompt of a million characters is cut.
fn mended(bytes: &[u8]) -> Option<Value> {
    let text = match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => str::from_utf8(&bytes[..error.valid_up_to()]).ok()?,
    };
    // The cut may have gone through an escape, `\u` with four digits at most.
    (0..=6).find_map(|back| {
        let end = text.len().checked_sub(back).filter(|&end| text.is_char_boundary(end))?;
        serde_json::from_str(&format!("{}\"}}", &text[..end])).ok()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(input: impl Into<Vec<u8>>) -> Option<Value> {
        let input = io::Cursor::new(input.into());
        told(&chunks(input), Instant::now() + Duration::from_mins(1))
    }

    #[test]
    fn what_is_no_signal_is_nothing() {
        for input in ["", "{", "not json"] {
            assert_eq!(read(input), None, "{input:?}");
        }
        assert_eq!(read("{\"a\": 1}\n"), Some(json!({"a": 1})));
    }

    #[test]
    fn a_prompt_beyond_the_limit_keeps_its_beginning() {
        for filler in ["a", "ü", "\u{1}", "\"", "\\", "😀"] {
            for shift in 0..7 {
                let prompt = format!("marker{}{}", "-".repeat(shift), filler.repeat(1 << 20));
                let input = json!({"hook_event_name": "UserPromptSubmit", "prompt": prompt});
                let read = read(input.to_string()).expect("mended");
                assert_eq!(read["hook_event_name"], "UserPromptSubmit");
                assert!(read["prompt"].as_str().unwrap().starts_with("marker"));
            }
        }
    }
}
