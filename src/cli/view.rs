//! `the-loop view DIR`: what a pane with `view: stream` runs. It shows what the
//! headless turns of one session say, and takes no key.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use super::Context;
use crate::base::failure::Failure;
use crate::core::harness::Rendering;
use crate::host::history::{ending, heading};
use crate::state::changes::Changes;
use crate::state::turns::output::MAX_OUTPUT;
use crate::state::turns::{Turn, Turns};

/// The longest line that is waited for; a longer one is shown in parts.
const MAX_LINE: usize = 1 << 20;

/// Show the headless turns of a session
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The directory of the session's turns
    dir: PathBuf,
}

/// Runs the command until its pane ends.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    silence();
    let failed = |error| Failure::failed("could not read the turns").because(error);
    let turns = Turns::in_dir(&args.dir);
    context.block_on(async {
        say(&["(the turns of this session; keys do nothing here)".to_owned()]);
        // Before the first look, so that each later change is seen.
        let mut changes = Changes::of(&args.dir);
        let mut shown: Option<Shown> = None;
        loop {
            for turn in turns.list().map_err(failed)? {
                if shown.as_ref().is_some_and(|shown| turn.dir() < shown.turn.dir()) {
                    continue;
                }
                if shown.as_ref().is_none_or(|shown| shown.turn != turn) {
                    if let Some(old) = &mut shown {
                        old.show_more();
                    }
                    say(&heading(&turn));
                    shown = Some(Shown::new(turn));
                }
                if let Some(shown) = &mut shown {
                    shown.show_more();
                }
            }
            // Keys are read and dropped: nothing waits for the next program.
            changes.next().await;
        }
    })
}

struct Shown {
    turn: Turn,
    read_to: u64,
    rest: Vec<u8>,
    has_ended: bool,
    rendering: Rendering,
}

impl Shown {
    fn new(turn: Turn) -> Self {
        let rendering = Rendering::new(turn.about().and_then(|about| about.shows));
        Self { turn, read_to: 0, rest: Vec::new(), has_ended: false, rendering }
    }

    fn show_more(&mut self) {
        self.show_lines();
        if !self.has_ended {
            let lines = ending(&self.turn);
            self.has_ended = !lines.is_empty();
            // A last line that was cut is said before.
            let rest = std::mem::take(&mut self.rest);
            if self.has_ended && !rest.is_empty() {
                say(&self.rendering.line(&String::from_utf8_lossy(&rest)));
            } else {
                self.rest = rest;
            }
            if self.has_ended {
                say(&self.rendering.end());
            }
            say(&lines);
        }
    }

    fn show_lines(&mut self) {
        // What cannot be read now is tried again at the next look.
        if let Ok(new) = read_from(&self.turn.stdout(), &mut self.read_to) {
            self.rest.extend(new);
        }
        let end = match self.rest.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => last + 1,
            None if self.rest.len() > MAX_LINE => self.rest.len(),
            None => return,
        };
        let lines: Vec<u8> = self.rest.drain(..end).collect();
        let text = String::from_utf8_lossy(&lines);
        let shown: Vec<_> = text.lines().flat_map(|line| self.rendering.line(line)).collect();
        say(&shown);
    }
}

fn read_from(path: &Path, read_to: &mut u64) -> std::io::Result<Vec<u8>> {
    let mut file = fs_err::File::open(path)?;
    let length = file.metadata()?.len();
    if length < *read_to {
        // It was cut because it was too long, and begins anew.
        *read_to = length;
    }
    // What has become a hole is not to be had any more.
    *read_to = (*read_to).max(length.saturating_sub(MAX_OUTPUT));
    file.seek(SeekFrom::Start(*read_to))?;
    let mut new = Vec::new();
    let read = file.take(4 * MAX_LINE as u64).read_to_end(&mut new)?;
    *read_to += read as u64;
    Ok(new)
}

fn say(lines: &[String]) {
    let mut out = std::io::stdout().lock();
    let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    // A pane that is gone ends this program by a signal.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Keys show nothing, end nothing and stop nothing.
fn silence() {
    let stdin = std::io::stdin();
    if let Ok(mut modes) = tcgetattr(&stdin) {
        modes.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        let _ = tcsetattr(&stdin, OptionalActions::Now, &modes);
    }
    let _ = std::thread::Builder::new().name("keys".to_owned()).spawn(|| {
        let mut buffer = [0; 4096];
        while matches!(std::io::stdin().lock().read(&mut buffer), Ok(read) if read > 0) {}
    });
}
