//! A terminal's text with its colours, as part of a page. Everything in it is
//! the agent's, and others' behind it: what is no colour is text.

use std::fmt::Write as _;

use super::colours::nearest;
use super::html::escape_only;
use crate::base::text::visible_lines;

/// How the text that follows looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Look {
    text: Option<u8>,
    ground: Option<u8>,
    /// Bits, as they stand in [`CLASSES`].
    style: u8,
}

const BOLD: u8 = 1;
const DIM: u8 = 2;
const ITALIC: u8 = 4;
const UNDERLINED: u8 = 8;
const STRUCK: u8 = 16;
const HIDDEN: u8 = 32;
const REVERSED: u8 = 64;

/// The class of each style that has one of its own.
const CLASSES: [(u8, &str); 6] = [
    (BOLD, " bold"),
    (DIM, " dim"),
    (ITALIC, " italic"),
    (UNDERLINED, " underlined"),
    (STRUCK, " struck"),
    (HIDDEN, " hidden"),
];

impl Look {
    fn set(&mut self, style: u8, on: bool) {
        if on {
            self.style |= style;
        } else {
            self.style &= !style;
        }
    }

    fn classes(self) -> String {
        let mut out = String::new();
        let is_reversed = self.style & REVERSED != 0;
        let (text, ground) =
            if is_reversed { (self.ground, self.text) } else { (self.text, self.ground) };
        if is_reversed && text.is_none() && ground.is_none() {
            out.push_str(" reversed");
        }
        let is_on_ground = ground.is_some();
        if let Some(index) = text {
            // On a background of its own it is as it is; else it must be readable.
            let _ = write!(out, " {}{index}", if is_on_ground { 't' } else { 'f' });
        } else if is_reversed && is_on_ground {
            out.push_str(" grounded");
        }
        if let Some(index) = ground {
            let _ = write!(out, " g{index}");
        }
        for (style, class) in CLASSES {
            if self.style & style != 0 {
                out.push_str(class);
            }
        }
        out.trim_start().to_owned()
    }

    /// Takes up what `ESC [ … m` says.
    fn take(&mut self, parameters: &str) {
        let mut rest = parameters.split(';');
        while let Some(parameter) = rest.next() {
            let mut parts = parameter.split(':').map(|part| part.parse::<u16>().unwrap_or(0));
            let code = parts.next().unwrap_or(0);
            let is_whole = parameter.contains(':');
            match code {
                0 => *self = Self::default(),
                1 => self.set(BOLD, true),
                2 => self.set(DIM, true),
                3 => self.set(ITALIC, true),
                // `4:0` is none, `4:3` a wavy one.
                4 => self.set(UNDERLINED, !is_whole || parts.next() != Some(0)),
                7 => self.set(REVERSED, true),
                8 => self.set(HIDDEN, true),
                9 => self.set(STRUCK, true),
                21 => self.set(UNDERLINED, true),
                22 => self.set(BOLD | DIM, false),
                23 => self.set(ITALIC, false),
                24 => self.set(UNDERLINED, false),
                27 => self.set(REVERSED, false),
                28 => self.set(HIDDEN, false),
                29 => self.set(STRUCK, false),
                30..=37 => self.text = index(code - 30),
                39 => self.text = None,
                40..=47 => self.ground = index(code - 40),
                49 => self.ground = None,
                90..=97 => self.text = index(code - 90 + 8),
                100..=107 => self.ground = index(code - 100 + 8),
                38 | 48 | 58 => {
                    let colour = if is_whole {
                        let parts: Vec<_> = parts.collect();
                        match parts[..] {
                            [5, index] => Some(index.to_le_bytes()[0]),
                            [2, r, g, b] | [2, _, r, g, b, ..] => Some(rgb(r, g, b)),
                            _ => None,
                        }
                    } else {
                        let mut next = || rest.next().and_then(|part| part.parse::<u16>().ok());
                        match next() {
                            Some(5) => next().map(|index| index.to_le_bytes()[0]),
                            Some(2) => {
                                let (r, g, b) = (next(), next(), next());
                                r.zip(g).zip(b).map(|((r, g), b)| rgb(r, g, b))
                            }
                            _ => None,
                        }
                    };
                    match code {
                        38 => self.text = colour.or(self.text),
                        48 => self.ground = colour.or(self.ground),
                        // The colour of an underline is not shown.
                        _ => {}
                    }
                }
                _ => {}
            }
        }
    }
}

fn index(code: u16) -> Option<u8> {
    u8::try_from(code).ok()
}

fn rgb(red: u16, green: u16, blue: u16) -> u8 {
    let channel = |value: u16| u8::try_from(value).unwrap_or(u8::MAX);
    nearest(channel(red), channel(green), channel(blue))
}

/// The markup of lines as `capture-pane -e` gives them.
pub(super) fn paint(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut look = Look::default();
    let mut plain = String::new();
    read(text, |piece| match piece {
        Piece::Char(c) => plain.push(c),
        Piece::Look(parameters) => {
            flush(&mut out, &mut plain, look);
            look.take(parameters);
        }
    });
    flush(&mut out, &mut plain, look);
    out
}

/// The text alone, without what colours it.
pub(super) fn strip(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    read(text, |piece| {
        if let Piece::Char(c) = piece {
            out.push(c);
        }
    });
    out
}

fn flush(out: &mut String, plain: &mut String, look: Look) {
    if plain.is_empty() {
        return;
    }
    let text = escape_only(&visible_lines(plain));
    plain.clear();
    if look == Look::default() {
        out.push_str(&text);
    } else {
        let _ = write!(out, "<span class=\"{}\">{text}</span>", look.classes());
    }
}

/// A part of what a terminal is sent.
enum Piece<'a> {
    Char(char),
    /// The parameters of `ESC [ … m`.
    Look(&'a str),
}

/// Goes through a text; what neither shows nor colours anything is left out.
fn read(text: &str, mut take: impl FnMut(Piece<'_>)) {
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\u{1b}' => rest = escaped(rest, &mut take),
            // To another character set and back.
            '\u{e}' | '\u{f}' | '\r' => {}
            c => take(Piece::Char(c)),
        }
    }
}

/// Takes what an ESC begins; gives what comes after it.
fn escaped<'a>(text: &'a str, take: &mut impl FnMut(Piece<'_>)) -> &'a str {
    let mut chars = text.chars();
    match chars.next() {
        Some('[') => {
            let body = chars.as_str();
            let Some(end) = body.find(|c: char| !matches!(c, ' '..='?')) else { return "" };
            let after = &body[end..];
            match after.strip_prefix(|c: char| matches!(c, '@'..='~')) {
                Some(rest) => {
                    if after.starts_with('m') {
                        take(Piece::Look(&body[..end]));
                    }
                    rest
                }
                // What cannot stand there ends it, and is looked at by itself.
                None => after,
            }
        }
        // A link's address, and other strings: up to their end.
        Some(']' | 'P' | '_' | '^' | 'X') => {
            let body = chars.as_str();
            let ends = ["\u{7}", "\u{1b}\\"].map(|end| body.find(end).map(|at| at + end.len()));
            ends.into_iter().flatten().min().map_or("", |end| &body[end..])
        }
        Some('(' | ')') => {
            chars.next();
            chars.as_str()
        }
        // Not one that we know: the next character is text.
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn colours_become_classes() {
        for (text, markup) in [
            ("plain", "plain"),
            ("\u{1b}[31mred\u{1b}[0m.", "<span class=\"f1\">red</span>."),
            ("\u{1b}[1;38;5;208mx", "<span class=\"f208 bold\">x</span>"),
            ("\u{1b}[38;2;255;0;0mx", "<span class=\"f196\">x</span>"),
            ("\u{1b}[38:2::255:0:0mx", "<span class=\"f196\">x</span>"),
            ("\u{1b}[97;44mx", "<span class=\"t15 g4\">x</span>"),
            ("\u{1b}[7mx\u{1b}[27my", "<span class=\"reversed\">x</span>y"),
            ("\u{1b}[31;7mx", "<span class=\"grounded g1\">x</span>"),
            ("\u{1b}[4:3mx\u{1b}[4:0my", "<span class=\"underlined\">x</span>y"),
            ("\u{1b}[58;5;9;3mx", "<span class=\"italic\">x</span>"),
            ("\u{1b}]8;;https://evil.example/\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}(Bx\u{e}y\u{f}", "xy"),
            ("a\u{1b}[2Kb", "ab"),
            ("a\nb", "a\nb"),
        ] {
            assert_eq!(paint(text), markup, "{text:?}");
        }
    }

    #[test]
    fn what_is_written_to_be_markup_is_text() {
        assert_eq!(
            paint("\u{1b}[31m<script>alert('\"')</script>\u{202e}"),
            "<span class=\"f1\">&lt;script&gt;alert(&#39;&quot;&#39;)&lt;/script&gt;\
             \\u{202e}</span>"
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_a_tag_but_ours(text in "(\\PC|\u{1b}|[<>\"'&;:m\\[\\]0-9]){0,60}") {
            let markup = paint(&text);
            for tag in markup.split('<').skip(1) {
                let is_ours = tag.starts_with("/span>") || tag.starts_with("span class=\"");
                prop_assert!(is_ours, "{markup}");
            }
            let bare = strip(&text);
            prop_assert!(!bare.contains('\u{1b}'), "{bare:?}");
        }
    }
}
