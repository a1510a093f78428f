//! The text in the box. A long paste is one piece of it, shown as a placeholder
//! and submitted in full, as Claude Code does it.

use std::fmt::Write as _;

/// What is shown as typed: at most so many lines and characters of a paste.
const INLINE_LINES: usize = 3;
const INLINE_CHARS: usize = 700;

#[derive(Debug, Default)]
pub(super) struct Editor {
    pieces: Vec<Piece>,
    pastes: usize,
}

#[derive(Debug)]
enum Piece {
    Char(char),
    Paste { number: usize, text: String },
}

impl Editor {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(super) fn insert(&mut self, c: char) {
        self.pieces.push(Piece::Char(c));
    }

    pub(super) fn paste(&mut self, text: String) {
        let lines = text.split('\n').count();
        if lines > INLINE_LINES || text.chars().count() > INLINE_CHARS {
            self.pastes += 1;
            self.pieces.push(Piece::Paste { number: self.pastes, text });
        } else {
            self.pieces.extend(text.chars().map(Piece::Char));
        }
    }

    pub(super) fn backspace(&mut self) {
        self.pieces.pop();
    }

    pub(super) fn clear(&mut self) {
        self.pieces.clear();
    }

    /// What stands in the box.
    pub(super) fn shown(&self) -> String {
        let mut shown = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Char(c) => shown.push(*c),
                Piece::Paste { number, text } => {
                    let more = text.matches('\n').count();
                    let _ = write!(shown, "[Pasted text #{number}");
                    if more > 0 {
                        let _ = write!(shown, " +{more} lines");
                    }
                    shown.push(']');
                }
            }
        }
        shown
    }

    /// Takes what a submit sends.
    pub(super) fn take(&mut self) -> String {
        let mut text = String::new();
        for piece in self.pieces.drain(..) {
            match piece {
                Piece::Char(c) => text.push(c),
                Piece::Paste { text: pasted, .. } => text.push_str(&pasted),
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pasted(text: &str) -> Editor {
        let mut editor = Editor::default();
        editor.paste(text.to_owned());
        editor
    }

    #[test]
    fn a_long_paste_is_shown_as_a_placeholder_and_sent_whole() {
        for (text, shown) in [
            ("a\nb\nc".to_owned(), "a\nb\nc".to_owned()),
            ("a\nb\nc\nd".to_owned(), "[Pasted text #1 +3 lines]".to_owned()),
            ("x".repeat(700), "x".repeat(700)),
            ("x".repeat(701), "[Pasted text #1]".to_owned()),
        ] {
            let mut editor = pasted(&text);
            assert_eq!(editor.shown(), shown);
            assert_eq!(editor.take(), text);
            assert!(editor.is_empty());
        }
    }

    #[test]
    fn one_backspace_takes_a_placeholder_away() {
        let mut editor = pasted("a\nb\nc\nd");
        editor.insert('x');
        editor.paste("1\n2\n3\n4\n5".to_owned());
        assert_eq!(editor.shown(), "[Pasted text #1 +3 lines]x[Pasted text #2 +4 lines]");
        editor.backspace();
        editor.backspace();
        assert_eq!(editor.shown(), "[Pasted text #1 +3 lines]");
        editor.backspace();
        editor.backspace();
        assert!(editor.is_empty());
    }
}
