//! What a captured pane says, in words that hold for every harness.
//!
//! A harness's reader (`core::harness`) turns a [`Screen`] into a [`Reading`];
//! the injection's state machine acts on readings alone. This module knows the
//! terminal's attributes and no harness.

use crate::base::ids::Marker;

/// A pane as it was captured.
#[derive(Debug, Clone, Copy)]
pub struct Screen<'a> {
    /// What `tmux capture-pane -p -e` printed: the visible rows, with SGR.
    pub text: &'a str,
    /// The cursor's column and row, from 0.
    pub cursor: (u16, u16),
    /// The pane's width.
    pub columns: u16,
}

/// What a screen says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// What the agent is doing.
    pub activity: Activity,
    /// What stands in its input box.
    pub input: InputBox,
    /// What of it stands before the cursor, where that is certain.
    pub before_cursor: Option<String>,
    /// Whether a draft was put aside, and will come back.
    pub stashed: bool,
}

/// The keys that take exactly our text out of the box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removal {
    /// So many Lefts before, and Rights after: a person typed letters behind ours.
    pub lefts: usize,
    /// So many Backspaces.
    pub backspaces: usize,
}

/// What the agent is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Activity {
    /// It waits for a prompt, and keys go to the input box.
    Idle,
    /// It is in the middle of a turn; keys go to the input box.
    Busy,
    /// It asks something: a key would be an answer.
    Dialog {
        /// What it asks, on one line, for people.
        what: String,
    },
    /// A menu, a viewer or another mode has the keys.
    Overlay,
    /// Nothing that the harness is known to show.
    Unknown,
}

/// What stands in the input box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputBox {
    /// There is no box, or keys do not go to it.
    Absent,
    /// Nothing was typed. A hint in dim letters is nothing.
    Empty,
    /// Text that a submit would send, its rows joined by newlines.
    Holds {
        /// The text as it is shown.
        text: String,
    },
    /// A pasted text that the harness shows as a placeholder, and nothing else.
    Placeholder {
        /// The placeholder as it is shown.
        text: String,
    },
}

impl Reading {
    /// A screen on which nothing was recognised.
    pub const UNKNOWN: Self = Self::without_box(Activity::Unknown);

    /// A screen without an input box that has the keys.
    pub const fn without_box(activity: Activity) -> Self {
        Self { activity, input: InputBox::Absent, before_cursor: None, stashed: false }
    }

    /// Whether a paste would land in an input box that is empty.
    pub fn is_ready(&self) -> bool {
        self.activity == Activity::Idle && self.input == InputBox::Empty
    }

    /// Whether the box holds `prompt` and nothing else. White space does not
    /// count: the box wraps. A placeholder counts when it stands for as many
    /// lines as the prompt has; that it is ours, only the paste before it says.
    pub fn holds_only(&self, prompt: &str, marker: &Marker) -> bool {
        match &self.input {
            InputBox::Absent | InputBox::Empty => false,
            InputBox::Holds { text } => {
                without_space(text).contains(marker.as_str()) && is_shown_as(prompt, text)
            }
            InputBox::Placeholder { text } => placeholder_lines(text) == Some(lines_of(prompt)),
        }
    }

    /// Whether anything in the box may be of this prompt: the beginning of one
    /// of ours, or a placeholder that stands for as many lines.
    pub fn shows(&self, prompt: &str, marker: &Marker) -> bool {
        match &self.input {
            InputBox::Absent | InputBox::Empty => false,
            InputBox::Holds { text } | InputBox::Placeholder { text } => {
                let text = without_space(text);
                text.contains(marker.as_str())
                    || text.contains("[the-loopevent")
                    || placeholders(&text).any(|(_, lines)| lines == lines_of(prompt))
            }
        }
    }

    /// The keys that take exactly `prompt` out of the box; `None` when they are not
    /// certain. The cursor must stand behind it, with at most a few letters of the
    /// same row between.
    pub fn removal(&self, prompt: &str) -> Option<Removal> {
        let before = self.before_cursor.as_ref()?;
        let (InputBox::Holds { text } | InputBox::Placeholder { text }) = &self.input else {
            return None;
        };
        let all = without_space(text);
        let fitting = placeholders(&all).filter(|(_, lines)| *lines == lines_of(prompt)).count();
        // Which of two is ours, nobody knows.
        let one = match fitting {
            0 => None,
            1 => Some(lines_of(prompt)),
            _ => return None,
        };
        let row = before.rsplit('\n').next().unwrap_or_default();
        (0..=row.chars().count()).find_map(|lefts| {
            let behind = row.chars().rev().take(lefts).map(char::len_utf8).sum::<usize>();
            let head = &before[..before.len() - behind];
            if lefts > 0 && head.ends_with(char::is_whitespace) {
                return None;
            }
            Some(Removal { lefts, backspaces: backspaces(&without_space(head), prompt, one)? })
        })
    }
}

/// How many Backspaces take `prompt` away from the end of `head`, which has no
/// white space; `placeholder` has so many lines where that is how it is shown.
fn backspaces(head: &str, prompt: &str, placeholder: Option<usize>) -> Option<usize> {
    if let Some(ours) = placeholder {
        // A placeholder goes with one key.
        let last = placeholders(head).last();
        return last.is_some_and(|(end, lines)| end == head.len() && lines == ours).then_some(1);
    }
    // A key takes a whole letter, whatever it is made of: only where each
    // character is a letter is their number known.
    let is_plain = prompt.chars().all(|c| c == '\n' || (' '..'\u{300}').contains(&c));
    let is_behind = head.ends_with(&without_space(prompt));
    (is_plain && is_behind && !prompt.ends_with('\n')).then(|| prompt.chars().count())
}

/// How many lines a placeholder such as `[Pasted text #1 +29 lines]` stands
/// for; `None` when the text is not exactly one placeholder.
pub fn placeholder_lines(text: &str) -> Option<usize> {
    let inner = text.trim().strip_prefix("[Pasted text #")?.strip_suffix(']')?;
    let (number, more) = match inner.split_once(" +") {
        Some((number, more)) => {
            let more = more.strip_suffix(" lines").or_else(|| more.strip_suffix(" line"))?;
            (number, more.parse().ok()?)
        }
        None => (inner, 0_usize),
    };
    number.parse::<u32>().ok()?;
    more.checked_add(1)
}

/// The placeholders in a text without white space: where each ends, and how
/// many lines it stands for.
fn placeholders(text: &str) -> impl Iterator<Item = (usize, usize)> {
    const BEGIN: &str = "[Pastedtext#";
    text.match_indices(BEGIN).filter_map(|(at, _)| {
        let inner = text[at + BEGIN.len()..].split(']').next()?;
        let end = at + BEGIN.len() + inner.len() + 1;
        let (number, more) = match inner.split_once('+') {
            Some((number, more)) => (number, more.trim_end_matches('s').strip_suffix("line")?),
            None => (inner, "0"),
        };
        number.parse::<u32>().ok()?;
        (end <= text.len()).then_some((end, more.parse::<usize>().ok()?.checked_add(1)?))
    })
}

fn lines_of(prompt: &str) -> usize {
    prompt.trim_end_matches('\n').lines().count()
}

/// Whether a terminal that was given `prompt` may show `text`. A terminal can
/// lose what it cannot draw, joiners in an emoji above all, but no ASCII; and
/// it shows nothing that it was not given.
fn is_shown_as(prompt: &str, text: &str) -> bool {
    let mut shown = text.chars().filter(|c| !c.is_whitespace()).peekable();
    for given in prompt.chars().filter(|c| !c.is_whitespace()) {
        let is_next =
            |&c: &char| c == given || (c == char::REPLACEMENT_CHARACTER && !given.is_ascii());
        if shown.next_if(is_next).is_none() && given.is_ascii() {
            return false;
        }
    }
    shown.next().is_none()
}

fn without_space(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// One character of a row, with those attributes that carry meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// The character.
    pub c: char,
    /// Faint (SGR 2): the program's own hint, not anybody's text.
    pub dim: bool,
    /// Reversed (SGR 7): the cursor as the program draws it.
    pub reverse: bool,
    /// Printed in a middle grey, the colour of what is not active.
    pub muted: bool,
}

/// A row of the screen.
pub type Row = Vec<Cell>;

impl Screen<'_> {
    /// The rows with their attributes. Sequences other than SGR are skipped.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = vec![Row::new()];
        let mut style = Style::default();
        let mut chars = self.text.chars();
        while let Some(c) = chars.next() {
            match c {
                '\n' => rows.push(Row::new()),
                '\x1b' => style.escape(&mut chars),
                c if c.is_control() => {}
                c => rows.last_mut().expect("one row at least").push(Cell {
                    c,
                    dim: style.dim,
                    reverse: style.reverse,
                    muted: style.muted,
                }),
            }
        }
        rows
    }
}

/// The text of a row without attributes.
pub fn text_of(row: &[Cell]) -> String {
    row.iter().map(|cell| cell.c).collect()
}

#[derive(Debug, Clone, Copy, Default)]
struct Style {
    dim: bool,
    reverse: bool,
    muted: bool,
}

impl Style {
    /// Reads one escape sequence; its ESC has been taken.
    fn escape(&mut self, chars: &mut std::str::Chars<'_>) {
        match chars.next() {
            Some('[') => {
                let mut parameters = String::new();
                for c in chars {
                    match c {
                        '0'..='?' => parameters.push(c),
                        ' '..='/' => {}
                        'm' => return self.select(&parameters),
                        _ => return,
                    }
                }
            }
            // A hyperlink or another string, up to BEL or ESC \.
            Some(']') => {
                while let Some(c) = chars.next() {
                    if c == '\x07' || (c == '\x1b' && chars.next() == Some('\\')) {
                        return;
                    }
                }
            }
            // A character set: one more character belongs to it.
            Some('(' | ')') => {
                chars.next();
            }
            _ => {}
        }
    }

    fn select(&mut self, parameters: &str) {
        let codes: Vec<u16> =
            parameters.split([';', ':']).map(|code| code.parse().unwrap_or(0)).collect();
        let mut rest = codes.as_slice();
        while let Some((&code, after)) = rest.split_first() {
            rest = after;
            match code {
                0 => *self = Self::default(),
                2 => self.dim = true,
                7 => self.reverse = true,
                22 => self.dim = false,
                27 => self.reverse = false,
                30..=37 | 39 | 90..=97 => self.muted = code == 90,
                38 | 48 | 58 => {
                    let (grey, after) = colour(rest);
                    rest = after;
                    if code == 38 {
                        self.muted = grey;
                    }
                }
                _ => {}
            }
        }
    }
}

/// Whether an indexed or direct colour is a middle grey, and what follows it.
fn colour(rest: &[u16]) -> (bool, &[u16]) {
    match *rest {
        [5, index, ref after @ ..] => ((236..=250).contains(&index) || index == 8, after),
        [2, red, green, blue, ref after @ ..] => {
            let (low, high) = (red.min(green).min(blue), red.max(green).max(blue));
            (high - low <= 16 && (60..=200).contains(&low), after)
        }
        _ => (false, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker() -> Marker {
        Marker::new([0xab; 16])
    }

    fn holding(input: InputBox) -> Reading {
        Reading { activity: Activity::Idle, input, before_cursor: None, stashed: false }
    }

    /// A box in which a person has typed `left` and `right`, and ours between.
    fn mixed(left: &str, ours: &str, right: &str) -> Reading {
        Reading {
            before_cursor: Some(format!("{left}{ours}")),
            ..holding(InputBox::Holds { text: format!("{left}{ours}{right}") })
        }
    }

    #[test]
    fn it_is_known_how_to_take_ours_out_of_a_persons_draft() {
        let short = format!("[the-loop event {}] one\ntwo", marker());
        let keys = short.chars().count();
        let keys = |lefts| Some(Removal { lefts, backspaces: keys });
        assert_eq!(mixed("dra", &short, "ft").removal(&short), keys(0));
        assert_eq!(mixed("", &short.replace("one", "o\nne"), "").removal(&short), keys(0));
        // The cursor elsewhere, a text whose letters cannot be counted, half of ours.
        let elsewhere = Reading { before_cursor: Some("dra".into()), ..mixed("dra", &short, "ft") };
        assert_eq!(elsewhere.removal(&short), None);
        let family = format!("{short} 👨\u{200d}👩");
        assert_eq!(mixed("x", &family, "").removal(&family), None);
        assert_eq!(mixed("x", &short[..20], "").removal(&short), None);
        assert!(mixed("x", &short[..20], "").shows(&short, &marker()));
        // A placeholder goes with one key; of two that fit, nobody knows which is ours.
        let long = "a\n".repeat(30);
        let placeholder = "[Pasted text #2 +29 lines]";
        let one = |lefts| Some(Removal { lefts, backspaces: 1 });
        assert_eq!(mixed("dra", placeholder, "ft").removal(&long), one(0));
        assert_eq!(mixed("dra", "[Pasted text #2\n +29 lines]", "").removal(&long), one(0));
        assert_eq!(mixed(placeholder, placeholder, "").removal(&long), None);
        assert_eq!(mixed("x", "[Pasted text #2 +7 lines]", "").removal(&long), None);
        assert!(!mixed("x", "[Pasted text #2 +7 lines]", "").shows(&long, &marker()));
    }

    #[test]
    fn letters_that_were_typed_behind_ours_are_stepped_over() {
        let short = format!("[the-loop event {}] one\n[end of event {}]", marker(), marker());
        let count = short.chars().count();
        let behind = |left, ours: &str, letters: &str| {
            mixed(left, &format!("{ours}{letters}"), "").removal(&short)
        };
        let keys = |lefts| Some(Removal { lefts, backspaces: count });
        assert_eq!(behind("", &short, "x"), keys(1));
        assert_eq!(behind("dra", &short, " and ]more "), keys(11));
        // Where a row ends, a space or a line's end may be hidden.
        assert_eq!(behind("", &short, "\nx"), None);
        assert_eq!(behind("", &short, " x\ny"), None);
        assert_eq!(behind("", &short[1..], "x"), None);
        let long = "a\n".repeat(30);
        let removal = mixed("d", "[Pasted text #2 +29 lines]ab c", "").removal(&long);
        assert_eq!(removal, Some(Removal { lefts: 4, backspaces: 1 }));
    }

    #[test]
    fn wrapping_does_not_hide_our_own_text_and_a_foreign_letter_is_seen() {
        let prompt = format!("[event {}] hello wide world\nand more", marker());
        let wrapped = prompt.replace("wide", "wi\nde");
        assert!(holding(InputBox::Holds { text: wrapped }).holds_only(&prompt, &marker()));
        let merged = format!("x{prompt}");
        let merged = holding(InputBox::Holds { text: merged });
        assert!(!merged.holds_only(&prompt, &marker()));
        assert!(merged.shows(&prompt, &marker()));
    }

    #[test]
    fn a_terminal_may_lose_a_joiner_but_never_a_letter() {
        for (given, shown, ours) in [
            ("a 👨\u{200d}👩\u{200d}👧 b", "a 👨👩👧 b", true),
            ("a 👨\u{200d}👩 b", "a 👨 b", true),
            ("a ❤\u{fe0f}", "a \u{fffd}\u{fffd}", true),
            ("é é x", "é x", true),
            ("ab", "a", false),
            ("a", "ab", false),
            ("a", "a👍", false),
            ("a👍", "👎a", false),
            ("a", "\u{fffd}a", false),
        ] {
            assert_eq!(is_shown_as(given, shown), ours, "{given:?} {shown:?}");
        }
    }

    #[test]
    fn a_text_without_the_marker_is_never_ours() {
        let reading = holding(InputBox::Holds { text: "hello".into() });
        assert!(!reading.holds_only("hello", &marker()));
        assert!(!reading.shows("hello", &marker()));
    }

    #[test]
    fn a_placeholder_counts_when_its_lines_fit() {
        let placeholder = |text: &str| holding(InputBox::Placeholder { text: text.into() });
        let prompt = "a\n".repeat(30);
        assert!(placeholder("[Pasted text #1 +29 lines]").holds_only(&prompt, &marker()));
        assert!(!placeholder("[Pasted text #1 +28 lines]").holds_only(&prompt, &marker()));
        assert!(placeholder("[Pasted text #7]").holds_only(&"long ".repeat(200), &marker()));
        assert_eq!(placeholder_lines("[Pasted text #1 +29 lines] x"), None);
        assert_eq!(placeholder_lines("[Pasted text #1 +18446744073709551615 lines]"), None);
    }

    #[test]
    fn attributes_carry_over_rows_and_links_are_skipped() {
        let text = "\x1b[38;5;246ma\n\x1b[0;2mb\x1b[22mc\x1b]8;;http://x\x1b\\d\x1b[7m \x1b[m";
        let rows = Screen { text, cursor: (0, 0), columns: 80 }.rows();
        assert_eq!(rows.iter().map(|row| text_of(row)).collect::<Vec<_>>(), ["a", "bcd "]);
        assert!(rows[0][0].muted && !rows[1][0].muted);
        assert!(rows[1][0].dim && !rows[1][1].dim);
        assert!(rows[1][3].reverse);
    }

    #[test]
    fn direct_colours_do_not_swallow_the_next_attribute() {
        let text = "\x1b[38;2;153;153;153;7ma\x1b[48;5;237mb\x1b[38;5;231mc";
        let row = &Screen { text, cursor: (0, 0), columns: 80 }.rows()[0];
        assert!(row[0].muted && row[0].reverse);
        assert!(row[1].muted);
        assert!(!row[2].muted);
    }
}
