//! Talking to the person at the terminal: data on standard output, everything
//! else on standard error.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use super::text::visible_lines;

/// Columns and rows of the terminal on standard input or error; nothing where
/// neither is one.
pub fn size() -> Option<(u16, u16)> {
    use rustix::termios::tcgetwinsize;
    tcgetwinsize(io::stdin())
        .or_else(|_| tcgetwinsize(io::stderr()))
        .ok()
        .map(|size| (size.ws_col, size.ws_row))
        .filter(|&(columns, rows)| columns > 0 && rows > 0)
}

/// How much to say, and where.
#[derive(Debug, Clone, Copy, Default)]
pub struct Printer {
    verbose: bool,
}

impl Printer {
    /// A printer that shows chains of causes when `verbose`.
    pub fn new(verbose: bool) -> Self {
        Self { verbose }
    }

    /// Whether the person asked for more.
    pub fn is_verbose(self) -> bool {
        self.verbose
    }

    /// Where data goes. Colours are dropped when it is not a terminal, and
    /// with `NO_COLOR`.
    pub fn out(self) -> impl Write {
        anstream::stdout()
    }

    /// Where everything else goes.
    pub fn err(self) -> impl Write {
        anstream::stderr()
    }

    /// Prints data, with a newline.
    pub fn data(self, text: &str) -> io::Result<()> {
        let mut out = self.out();
        writeln!(out, "{text}")?;
        out.flush()
    }

    /// Prints a remark. Nobody may be listening, and that is no failure.
    pub fn note(self, text: &str) {
        let _ = writeln!(self.err(), "{}", visible_lines(text));
    }

    /// Whether a person can answer a question.
    pub fn can_ask(self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }
}

/// A text cut to a width, with a mark where it was cut.
pub fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// A table for people: columns as wide as their content, the last one cut so
/// that a line fits `width`.
pub fn table(head: &[&str], rows: &[Vec<String>], width: usize) -> String {
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .chain([head[column].chars().count()])
                .max()
                .unwrap_or(0)
        })
        .collect();
    let head = head.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut out = String::new();
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let pad = widths.get(column).copied().unwrap_or(0);
            let _ = write!(line, "{cell:<pad$}  ");
        }
        out.push_str(&fit(line.trim_end(), width));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_a_line_fits() {
        let rows = vec![vec!["a".into(), "long cell".into()], vec!["bbb".into(), "x".into()]];
        assert_eq!(table(&["id", "text"], &rows, 12), "id   text\na    long c…\nbbb  x\n");
    }
}
