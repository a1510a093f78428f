//! The demo agent: a small terminal program that takes prompts and echoes them.
//!
//! It stands where a real agent would: in a pane, in raw mode, with bracketed
//! paste, a box at the bottom and signals in the spool. It starts no program,
//! reads no file and knows no network. `the-loop demo-agent` runs it; this file
//! is its terminal, the decisions are in `agent`.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::Duration;

use rustix::termios::{self, OptionalActions, Termios};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

use self::agent::{Agent, Effect};
use self::keys::Decoder;
use self::view::{Entry, Painter};
use crate::base::ids::HarnessSessionId;
use crate::state::spool;

mod agent;
mod editor;
mod headless;
mod keys;
mod view;

pub use headless::answer;

/// How long a turn takes.
const TURN: Duration = Duration::from_millis(300);

/// How the demo agent is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// The conversation's id.
    pub session_id: HarnessSessionId,
    /// Whether the conversation goes on.
    pub resume: bool,
    /// Where its signals go; nowhere without it.
    pub spool: Option<PathBuf>,
    /// The directory it says that it works in.
    pub cwd: PathBuf,
}

/// Why the demo agent could not run.
#[derive(Debug, thiserror::Error)]
pub enum DemoAgentError {
    /// There is nobody to talk to.
    #[error("standard input and output are no terminal")]
    NoTerminal {
        /// Why.
        source: io::Error,
    },
    /// The terminal went away.
    #[error("lost the terminal")]
    Terminal {
        /// Why.
        source: io::Error,
    },
}

/// Runs the agent until it is told to end.
pub async fn run(options: Options) -> Result<(), DemoAgentError> {
    let raw = RawMode::enter().map_err(|source| DemoAgentError::NoTerminal { source })?;
    let result = converse(options).await.map_err(|source| DemoAgentError::Terminal { source });
    drop(raw);
    result
}

async fn converse(options: Options) -> io::Result<()> {
    let mut input = read_keys()?;
    let mut resized = signal(SignalKind::window_change())?;
    let mut hung_up = signal(SignalKind::hangup())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut terminal = Terminal::new(options);
    let mut decoder = Decoder::default();
    let mut agent = Agent::new(&terminal.options.session_id, terminal.options.resume);
    let mut turn_ends = Instant::now();
    terminal.apply(agent.greet(), &agent)?;
    loop {
        let was_busy = agent.is_busy();
        let effects = tokio::select! {
            bytes = input.recv() => match bytes {
                None => Agent::end("other"),
                Some(bytes) => {
                    decoder.feed(&bytes).into_iter().flat_map(|key| agent.press(key)).collect()
                }
            },
            () = tokio::time::sleep_until(turn_ends), if was_busy => agent.end_turn(),
            _ = resized.recv() => {
                terminal.resize(&agent)?;
                Vec::new()
            }
            _ = hung_up.recv() => Agent::end("other"),
            _ = terminated.recv() => Agent::end("other"),
        };
        let new_turn = effects.iter().any(|effect| matches!(effect, Effect::TurnStarts));
        if new_turn {
            turn_ends = Instant::now() + TURN;
        }
        if terminal.apply(effects, &agent)? {
            return Ok(());
        }
    }
}

/// What comes from the terminal, from a thread of its own: a terminal cannot be
/// read without blocking unless its output stops blocking too. The thread ends
/// with the process.
fn read_keys() -> io::Result<mpsc::Receiver<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel(64);
    std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
        let mut buffer = [0; 16 * 1024];
        loop {
            match io::stdin().lock().read(&mut buffer) {
                Ok(read) if read > 0 => {
                    if sender.blocking_send(buffer[..read].to_vec()).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => return,
            }
        }
    })?;
    Ok(receiver)
}

/// The terminal and the spool: where effects go.
struct Terminal {
    options: Options,
    painter: Painter,
}

impl Terminal {
    fn new(options: Options) -> Self {
        Self { options, painter: Painter::new(size()) }
    }

    /// Draws first and signals afterwards: who reads the signal finds the box.
    /// Gives whether that was the end.
    fn apply(&mut self, effects: Vec<Effect>, agent: &Agent) -> io::Result<bool> {
        let mut signals = Vec::new();
        let mut printed: Vec<Entry> = Vec::new();
        let mut title = None;
        let mut ended = false;
        for effect in effects {
            match effect {
                Effect::Print(entry) => printed.push(entry),
                Effect::Signal(signal) => signals.push(signal),
                Effect::Title(text) => title = Some(text),
                Effect::TurnStarts => {}
                Effect::Ended => ended = true,
            }
        }
        let mut out = title.map_or_else(String::new, |title| format!("\x1b]2;✳ {title}\x07"));
        out.push_str(&self.painter.paint(printed, (!ended).then(|| agent.look())));
        // A terminal that is gone takes nothing; the signals are written all the same.
        let drawn = show(&out);
        for mut signal in signals {
            signal["session_id"] = json!(self.options.session_id);
            signal["cwd"] = json!(self.options.cwd);
            if let Some(spool) = &self.options.spool {
                let _ = spool::write(spool, &signal);
            }
        }
        if ended { Ok(true) } else { drawn.map(|()| false) }
    }

    fn resize(&mut self, agent: &Agent) -> io::Result<()> {
        show(&self.painter.resize(size(), &agent.look()))
    }
}

/// Columns and rows; the usual ones where nobody knows.
fn size() -> (usize, usize) {
    termios::tcgetwinsize(io::stdout().as_fd())
        .map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)))
        .ok()
        .filter(|&(columns, rows)| columns > 0 && rows > 0)
        .unwrap_or((80, 24))
}

fn show(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Raw mode with bracketed paste, taken back when dropped.
struct RawMode {
    before: Termios,
}

impl RawMode {
    fn enter() -> io::Result<Self> {
        let stdin = io::stdin();
        let before = termios::tcgetattr(stdin.as_fd())?;
        let mut raw = before.clone();
        raw.make_raw();
        termios::tcsetattr(stdin.as_fd(), OptionalActions::Now, &raw)?;
        let mode = Self { before };
        show("\x1b[?2004h")?;
        Ok(mode)
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = show("\x1b[?2004l");
        let _ = termios::tcsetattr(io::stdin().as_fd(), OptionalActions::Now, &self.before);
    }
}
