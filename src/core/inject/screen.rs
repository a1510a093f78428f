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
    /// The pane's title, as the program set it.
    pub title: &'a str,
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
    /// The end of a text that is longer than the box, which shows no more of it.
    Tail {
        /// The end as it is shown.
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
            // That nothing else stands above, only the box before the paste says.
            InputBox::Tail { text } => {
                without_space(text).contains(marker.as_str()) && ends_as(prompt, text)
            }
            InputBox::Placeholder { text } => {
                whole_placeholder(text).is_some_and(|size| size.fits(prompt))
            }
        }
    }

    /// Whether anything in the box may be of this prompt: the beginning of one
    /// of ours, or a placeholder that stands for as many lines.
    pub fn shows(&self, prompt: &str, marker: &Marker) -> bool {
        match &self.input {
            InputBox::Absent | InputBox::Empty => false,
            InputBox::Holds { text } | InputBox::Tail { text } | InputBox::Placeholder { text } => {
                let text = without_space(text);
                text.contains(marker.as_str())
                    || text.contains("[the-loopevent")
                    || text.contains("[endofevent")
                    || placeholders(&text).any(|(_, size)| size.fits(prompt))
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
        let fitting = placeholders(&all).filter(|(_, size)| size.fits(prompt)).count();
        // Which of two is ours, nobody knows.
        let is_placeholder = match fitting {
            0 => false,
            1 => true,
            _ => return None,
        };
        let row = before.rsplit('\n').next().unwrap_or_default();
        (0..=row.chars().count()).find_map(|lefts| {
            let behind = row.chars().rev().take(lefts).map(char::len_utf8).sum::<usize>();
            let head = &before[..before.len() - behind];
            if lefts > 0 && head.ends_with(char::is_whitespace) {
                return None;
            }
            Some(Removal {
                lefts,
                backspaces: backspaces(&without_space(head), prompt, is_placeholder)?,
            })
        })
    }
}

/// How many Backspaces take `prompt` away from the end of `head`, which has no
/// white space; `is_placeholder` where it is shown as one.
fn backspaces(head: &str, prompt: &str, is_placeholder: bool) -> Option<usize> {
    if is_placeholder {
        // A placeholder goes with one key.
        let last = placeholders(head).last();
        return last.is_some_and(|(end, size)| end == head.len() && size.fits(prompt)).then_some(1);
    }
    // A key takes a whole letter, whatever it is made of: only where each
    // character is a letter is their number known.
    let is_plain = prompt.chars().all(|c| c == '\n' || (' '..'\u{300}').contains(&c));
    let is_behind = head.ends_with(&without_space(prompt));
    (is_plain && is_behind && !prompt.ends_with('\n')).then(|| prompt.chars().count())
}

/// Whether a text is exactly one placeholder of a paste, such as
/// `[Pasted text #1 +29 lines]`, `[Pasted Content 3401 chars]`,
/// `[Pasted Text: 62 lines]` or `[Paste #1 - 62 lines]`.
pub fn is_placeholder(text: &str) -> bool {
    whole_placeholder(text).is_some()
}

/// How much a placeholder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Lines(usize),
    Chars(usize),
}

impl Size {
    fn fits(self, prompt: &str) -> bool {
        match self {
            Self::Lines(lines) => lines == lines_of(prompt),
            Self::Chars(chars) => chars == prompt.chars().count(),
        }
    }

    /// Reads what stands between the brackets, without white space.
    fn read(inner: &str) -> Option<Self> {
        let lines = |text: &str| text.trim_end_matches('s').strip_suffix("line")?.parse().ok();
        if let Some(rest) = inner.strip_prefix("Pastedtext#") {
            let (number, more) = match rest.split_once('+') {
                Some((number, more)) => (number, lines(more)?),
                None => (rest, 0_usize),
            };
            number.parse::<u32>().ok()?;
            return more.checked_add(1).map(Self::Lines);
        }
        if let Some(rest) = inner.strip_prefix("Paste#") {
            let (number, count) = rest.split_once('-')?;
            number.parse::<u32>().ok()?;
            return lines(count).map(Self::Lines);
        }
        let rest = ["PastedContent", "PastedText:"].iter().find_map(|p| inner.strip_prefix(p))?;
        match rest.strip_suffix("chars") {
            Some(chars) => chars.parse().ok().map(Self::Chars),
            None => lines(rest).map(Self::Lines),
        }
    }
}

fn whole_placeholder(text: &str) -> Option<Size> {
    let text = without_space(text);
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    (!inner.contains(['[', ']'])).then(|| Size::read(inner)).flatten()
}

/// The placeholders in a text without white space: where each ends, and how
/// much it stands for.
fn placeholders(text: &str) -> impl Iterator<Item = (usize, Size)> {
    text.match_indices("[Paste").filter_map(|(at, _)| {
        let inner = text[at + 1..].split(']').next()?;
        let end = at + inner.len() + 2;
        (end <= text.len()).then_some((end, Size::read(inner)?))
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

/// Whether a terminal that was given `prompt` may show `text` as its end.
fn ends_as(prompt: &str, text: &str) -> bool {
    let mut shown = text.chars().rev().filter(|c| !c.is_whitespace()).peekable();
    for given in prompt.chars().rev().filter(|c| !c.is_whitespace()) {
        let is_next =
            |&c: &char| c == given || (c == char::REPLACEMENT_CHARACTER && !given.is_ascii());
        if shown.peek().is_none() {
            return true;
        }
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
    fn the_end_of_ours_is_known_where_the_box_shows_no_more() {
        let prompt = format!("first\nüber 👍 second\n[end of event {}]", marker());
        for (text, ours) in [
            (format!("second\n[end of\nevent {}]", marker()), true),
            (format!("ber second\n[end of event {}]", marker()), true),
            (format!("Xsecond\n[end of event {}]", marker()), false),
            (format!("[end of event {}] x", marker()), false),
            ("second".to_owned(), false),
        ] {
            let reading = holding(InputBox::Tail { text: text.clone() });
            assert_eq!(reading.holds_only(&prompt, &marker()), ours, "{text}");
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
        for none in [
            "[Pasted text #1 +29 lines] x",
            "[Pasted text #1 +18446744073709551615 lines]",
            "[Pasted Content chars]",
            "[Pasted text]",
        ] {
            assert!(!is_placeholder(none), "{none}");
        }
    }

    #[test]
    fn each_harness_has_its_own_placeholder() {
        let prompt = "line\n".repeat(62);
        let chars = prompt.chars().count();
        for (text, fits) in [
            (format!("[Pasted Content {chars} chars]"), true),
            (format!("[Pasted Content {} chars]", chars + 1), false),
            ("[Pasted Text: 62 lines]".to_owned(), true),
            (format!("[Pasted Text: {chars} chars]"), true),
            ("[Pasted Text: 61 lines]".to_owned(), false),
            ("[Paste #1 - 62 lines]".to_owned(), true),
            ("[Paste #1 - 6 lines]".to_owned(), false),
            ("[Pasted text #3 +61 lines]".to_owned(), true),
        ] {
            let reading = holding(InputBox::Placeholder { text: text.clone() });
            assert_eq!(reading.holds_only(&prompt, &marker()), fits, "{text}");
            assert_eq!(reading.shows(&prompt, &marker()), fits, "{text}");
        }
    }

    #[test]
    fn attributes_carry_over_rows_and_links_are_skipped() {
        let text = "\x1b[38;5;246ma\n\x1b[0;2mb\x1b[22mc\x1b]8;;http://x\x1b\\d\x1b[7m \x1b[m";
        let rows = Screen { text, cursor: (0, 0), columns: 80, title: "" }.rows();
        assert_eq!(rows.iter().map(|row| text_of(row)).collect::<Vec<_>>(), ["a", "bcd "]);
        assert!(rows[0][0].muted && !rows[1][0].muted);
        assert!(rows[1][0].dim && !rows[1][1].dim);
        assert!(rows[1][3].reverse);
    }

    #[test]
    fn direct_colours_do_not_swallow_the_next_attribute() {
        let text = "\x1b[38;2;153;153;153;7ma\x1b[48;5;237mb\x1b[38;5;231mc";
        let row = &Screen { text, cursor: (0, 0), columns: 80, title: "" }.rows()[0];
        assert!(row[0].muted && row[0].reverse);
        assert!(row[1].muted);
        assert!(!row[2].muted);
    }
}
