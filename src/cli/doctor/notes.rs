//! What an install tells a person while it goes on.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

use super::managed::WIDTH;
use crate::base::terminal::Printer;
use crate::base::text::push_wrapped;
use crate::cli::Context;
use crate::doctor::install::Progress;

/// Progress on standard error: a bar on a terminal, plain lines elsewhere.
pub(crate) struct Notes {
    printer: Printer,
    is_terminal: bool,
    bar: Mutex<Option<ProgressBar>>,
}

impl Notes {
    pub(crate) fn new(context: &Context) -> Self {
        let (printer, term) = (context.printer, context.env.var("TERM"));
        let is_dumb = matches!(term, None | Some("dumb"));
        let is_terminal = io::stderr().is_terminal() && !is_dumb;
        Self { printer, is_terminal, bar: Mutex::new(None) }
    }
}

impl Progress for Notes {
    fn say(&self, text: &str) {
        self.done();
        let mut lines = String::new();
        for line in text.lines() {
            if line.chars().count() > WIDTH && !line.starts_with(' ') {
                push_wrapped(&mut lines, "", 2, line, WIDTH);
            } else {
                lines.push_str(line);
                lines.push('\n');
            }
        }
        self.printer.note(lines.trim_end());
    }

    fn bytes(&self, here: u64, of: Option<u64>) {
        if !self.is_terminal {
            return;
        }
        let Ok(mut bar) = self.bar.lock() else { return };
        let bar = bar.get_or_insert_with(|| {
            let target = ProgressDrawTarget::term_like_with_hz(Box::new(Screen), 20);
            let template = match of {
                Some(_) => "[{bar:30}] {bytes} of {total_bytes}, {eta} left",
                None => "{spinner} {bytes}",
            };
            let style = ProgressStyle::with_template(template)
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("=> ");
            ProgressBar::with_draw_target(of, target).with_style(style)
        });
        bar.set_position(here);
    }

    fn done(&self) {
        if let Ok(mut bar) = self.bar.lock()
            && let Some(bar) = bar.take()
        {
            bar.finish_and_clear();
        }
    }
}

/// Standard error, but for a few columns at the right. What a terminal shows of
/// a Ctrl-C goes behind the bar: in the last column it would begin a line, and
/// the bar would stay.
#[derive(Debug)]
struct Screen;

/// The columns that are left free.
const MARGIN: u16 = 4;

impl Screen {
    fn control(number: usize, letter: char) -> io::Result<()> {
        if number == 0 { Ok(()) } else { write!(io::stderr(), "\x1b[{number}{letter}") }
    }
}

impl TermLike for Screen {
    fn width(&self) -> u16 {
        let size = rustix::termios::tcgetwinsize(io::stderr());
        let columns = size.map(|size| size.ws_col).ok().filter(|columns| *columns > 0);
        columns.unwrap_or(80).saturating_sub(MARGIN).max(1)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        Self::control(n, 'A')
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        Self::control(n, 'B')
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        Self::control(n, 'C')
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        Self::control(n, 'D')
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        writeln!(io::stderr(), "{text}")
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        write!(io::stderr(), "{text}")
    }

    fn clear_line(&self) -> io::Result<()> {
        write!(io::stderr(), "\r\x1b[2K")
    }

    fn flush(&self) -> io::Result<()> {
        io::stderr().flush()
    }
}
