//! What a command says when it could not do its work, and the exit code for it.

use std::error::Error;
use std::fmt;
use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr as _;

use super::text::{push_wrapped, visible_lines};

/// What kind of failure it was. It decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The command line is wrong: exit 2.
    Usage,
    /// It was understood and not done: exit 1.
    Refused,
    /// It was tried and failed: exit 1.
    Failed,
    /// The doctor could not find out: exit 3.
    CouldNotCheck,
    /// The reader of our output went away: exit 0, nothing printed.
    BrokenPipe,
}

impl Kind {
    /// The process's exit code (docs/reference.md).
    pub fn exit_code(self) -> u8 {
        match self {
            Self::BrokenPipe => 0,
            Self::Refused | Self::Failed => 1,
            Self::Usage => 2,
            Self::CouldNotCheck => 3,
        }
    }
}

/// A failed command: one line, the cause behind it, and what to do next.
#[derive(Debug)]
pub struct Failure {
    kind: Kind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    hints: Vec<String>,
    width: Option<usize>,
    /// Whether the message is whole as it is: its lines, and its hints below it.
    is_rendered: bool,
}

impl Failure {
    /// A failure of the given kind.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, message, source: None, hints: Vec::new(), width: None, is_rendered: false }
    }

    /// Something that was tried and went wrong.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Kind::Failed, message)
    }

    /// Something that was understood and not done.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(Kind::Refused, message)
    }

    /// What another process of this program said of its own failure: shown as it is, for
    /// a command in it must stay whole.
    pub fn rendered(said: &str) -> Self {
        let said = said.strip_prefix("error: ").unwrap_or(said).trim_end();
        Self { is_rendered: true, ..Self::failed(said) }
    }

    /// Adds the cause. Shown after the message, in full with `-v`.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Adds what to do next, as text or as a command that can be pasted.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Gives what to do next in other words.
    #[must_use]
    pub fn advised(self, reword: impl Fn(&str) -> String) -> Self {
        let hints = self.hints.iter().map(|hint| reword(hint)).collect();
        Self { hints, ..self }
    }

    /// Has its lines broken at spaces so that they fit this width, unless they were
    /// already.
    #[must_use]
    pub fn wrapped(self, width: usize) -> Self {
        Self { width: Some(width).filter(|_| !self.is_rendered), ..self }
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What to do next.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// The failure for a person: one line with its nearest cause, the whole
    /// chain when `verbose`, then the hints.
    pub fn render(&self, verbose: bool) -> String {
        let mut out = format!("error: {}", self.message);
        let causes: Vec<String> = causes(self.source()).collect();
        match (verbose, causes.first()) {
            (_, None) => {}
            (false, Some(first)) => {
                out.push_str(": ");
                out.push_str(first);
            }
            (true, Some(_)) => {
                for cause in &causes {
                    out.push_str("\n  caused by: ");
                    out.push_str(cause);
                }
            }
        }
        out.push('\n');
        let Some(width) = self.width else {
            for hint in &self.hints {
                let _ = writeln!(out, "hint: {hint}");
            }
            return visible_lines(&out);
        };
        let lines = std::mem::take(&mut out);
        for line in lines.lines() {
            push_line(&mut out, line, 2, width);
        }
        for hint in &self.hints {
            push_hint(&mut out, hint, width);
        }
        // A path, or what somebody answered, can hold anything.
        visible_lines(&out)
    }
}

/// Adds a line broken at spaces, where it does not fit: what is aligned stays so, and
/// so does a command of the doctor's.
fn push_line(out: &mut String, line: &str, indent: usize, width: usize) {
    if line.width() <= width || line.trim_start().starts_with("run: ") {
        out.push_str(line);
        out.push('\n');
        return;
    }
    let head: String = line.chars().take_while(|c| *c == ' ').collect();
    push_wrapped(out, &head, head.len() + indent, line, width);
}

/// Adds what to do next, so that it fits. A command, or a URL, stays whole on a line
/// of its own.
fn push_hint(out: &mut String, hint: &str, width: usize) {
    let text = format!("hint: {hint}");
    if text.lines().all(|line| line.width() <= width) {
        out.push_str(&text);
        out.push('\n');
        return;
    }
    let at = hint.find(" https://").or_else(|| hint.find(": ").map(|at| at + 1));
    let is_prose = |rest: &str| rest.contains(['`', '\n']);
    match at.map(|at| hint.split_at(at)).filter(|(_, rest)| !is_prose(rest)) {
        Some((before, whole)) => {
            push_line(out, &format!("hint: {before}"), 6, width);
            let _ = writeln!(out, " {whole}");
        }
        None if may_break(hint) => {
            for (number, line) in text.lines().enumerate() {
                push_line(out, line, if number == 0 { 6 } else { 0 }, width);
            }
        }
        None => {
            out.push_str(&text);
            out.push('\n');
        }
    }
}

/// Whether a hint is a sentence: its commands stand in backticks, or it has none.
fn may_break(hint: &str) -> bool {
    hint.contains('`') || !hint.contains(['\'', '"', '/', '$', '&', '|'])
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

impl From<std::io::Error> for Failure {
    /// For writing to the terminal only; file errors are given their context.
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Self::new(Kind::BrokenPipe, "the reader of the output went away")
        } else {
            Self::failed("could not write the output").because(error)
        }
    }
}

/// The text of an error with everything behind it, on one line.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    causes(Some(error)).collect::<Vec<_>>().join(": ")
}

/// The text of an error without the number that the system has for it.
pub fn plain(text: &str) -> &str {
    text.split(" (os error").next().unwrap_or_default()
}

/// The cause alone, where an error of a file also says what was done and where.
pub fn bare(error: &std::io::Error) -> String {
    let text = error.to_string();
    plain(&text).rsplit(": ").next().unwrap_or_default().to_owned()
}

fn causes(first: Option<&(dyn Error + 'static)>) -> std::vec::IntoIter<String> {
    let mut texts = Vec::new();
    let mut next = first;
    while let Some(error) = next {
        texts.push(error.to_string());
        next = error.source();
    }
    texts.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> Failure {
        let inner = Failure::failed("the disk is full");
        let outer = Failure::failed("could not write `/x`").because(inner);
        Failure::refused("nothing was saved").because(outer).hint("make room")
    }

    #[test]
    fn one_line_first_and_the_chain_only_when_asked() {
        assert_eq!(
            failure().render(false),
            "error: nothing was saved: could not write `/x`\nhint: make room\n"
        );
        assert_eq!(
            failure().render(true),
            "error: nothing was saved\n  caused by: could not write `/x`\n  \
             caused by: the disk is full\nhint: make room\n"
        );
    }

    #[test]
    fn what_was_rendered_already_stays_as_it_is() {
        let said = failure().hint(format!("run {}", "x ".repeat(60))).wrapped(40).render(false);
        assert_eq!(Failure::rendered(&said).wrapped(20).render(false), said);
        assert_eq!(Failure::rendered("no error\n").wrapped(2).render(true), "error: no error\n");
    }

    #[test]
    fn what_does_not_fit_is_broken_at_blanks_and_what_is_aligned_or_pasted_stays() {
        let failure =
            Failure::failed("f.yaml:1:4:\n  one two three four five\n1 | a:   b c\n  |      ^")
                .hint("see https://example.net/a-long-page")
                .hint("run this: sudo apt-get install tmux")
                .hint("known keys: a, b,\n      c, d")
                .hint("one two three four")
                .hint("write this: `a b c d`, or that")
                .hint("mkdir 'a b' && touch 'a b/c'");
        let shown = failure.wrapped(18).render(false);
        assert_eq!(
            shown,
            "error: f.yaml:1:4:\n  one two three\n    four five\n1 | a:   b c\n  |      ^\n\
             hint: see\n  https://example.net/a-long-page\n\
             hint: run this:\n  sudo apt-get install tmux\n\
             hint: known keys:\n      a, b,\n      c, d\n\
             hint: one two\n      three four\n\
             hint: write this:\n      `a b c d`,\n      or that\n\
             hint: mkdir 'a b' && touch 'a b/c'\n"
        );
    }
}
