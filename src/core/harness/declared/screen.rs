//! Reads a screen by signs: where the input is, and what stands around it.
//!
//! As with Claude: a paste is safe only where the sign of the input is drawn and
//! the cursor stands behind it. What is not recognised is unknown, never idle.

use crate::base::text::{cap, visible};
use crate::core::config::ScreenSigns;
use crate::core::inject::screen::{
    Activity, Cell, InputBox, Reading, Row, Screen, is_placeholder, text_of,
};

/// How many rows from the screen's end a dialog's texts are looked for in.
const DIALOG_ROWS: usize = 16;
/// How many rows above the input say that it works.
const BUSY_ROWS: usize = 4;
/// What a question of a first run is told with.
const FIRST_RUN: &str = "first run: ";
/// What boxes and rules are drawn with.
const STROKES: [char; 14] = ['─', '━', '│', '┃', '╭', '╮', '╰', '╯', '┌', '┐', '└', '┘', '▀', '▄'];

/// What the screen says.
pub(in crate::core::harness) fn read(signs: &ScreenSigns, screen: &Screen<'_>) -> Reading {
    let rows: Vec<Row> = screen.rows();
    let end = rows.iter().rposition(|row| !is_blank(row)).map_or(0, |last| last + 1);
    let rows = &rows[..end];
    let found = signs.prompt.as_deref().and_then(|sign| Input::find(sign, rows, screen));
    // A list to choose from has the sign too: `› 1. Yes`.
    let Some(input) = found.filter(|input| !input.is_menu()) else {
        let texts = lower(last_of(rows, DIALOG_ROWS));
        return Reading::without_box(without_input(signs, &texts, rows, screen.title));
    };
    let below_it = lower(&rows[input.last + 1..]);
    let near = format!("{}\n{below_it}", lower(last_of(&rows[..input.first], BUSY_ROWS)));
    if let Some(text) = signs.first_run.iter().find(|text| near.contains(&text.to_lowercase())) {
        return Reading::without_box(Activity::Dialog { what: format!("{FIRST_RUN}{text}") });
    }
    if let Some(text) = signs.dialog.iter().find(|text| below_it.contains(&text.to_lowercase())) {
        return Reading::without_box(Activity::Dialog { what: text.clone() });
    }
    if any(&signs.overlay, &below_it) {
        return Reading::without_box(Activity::Overlay);
    }
    let works = any(&signs.busy, &near) || has_title(signs, screen.title);
    Reading {
        activity: if works { Activity::Busy } else { Activity::Idle },
        input: input.content(signs),
        before_cursor: input.before_cursor(),
        stashed: false,
    }
}

/// Whether below the input stands only what does so before the agent is up.
pub(in crate::core::harness) fn is_loading(signs: &ScreenSigns, screen: &Screen<'_>) -> bool {
    let rows: Vec<Row> = screen.rows();
    let found = signs.prompt.as_deref().and_then(|sign| Input::find(sign, &rows, screen));
    let Some(input) = found.filter(|_| !signs.loading.is_empty()) else { return false };
    let mut below = rows[input.last + 1..].iter().filter(|row| !is_blank(row));
    below.all(|row| {
        let text = text_of(row).trim().to_lowercase();
        signs.loading.iter().any(|sign| sign.to_lowercase() == text)
    })
}

/// What has the keys when no input is found.
fn without_input(signs: &ScreenSigns, texts: &str, rows: &[Row], title: &str) -> Activity {
    if let Some(text) = signs.first_run.iter().find(|text| texts.contains(&text.to_lowercase())) {
        let asked = question(last_of(rows, DIALOG_ROWS), text);
        return Activity::Dialog { what: format!("{FIRST_RUN}{asked}") };
    }
    if let Some(text) = signs.dialog.iter().find(|text| texts.contains(&text.to_lowercase())) {
        return Activity::Dialog { what: question(last_of(rows, DIALOG_ROWS), text) };
    }
    if any(&signs.overlay, texts) {
        return Activity::Overlay;
    }
    if has_title(signs, title) { Activity::Busy } else { Activity::Unknown }
}

/// The question that a dialog asks, else the text it was known by.
fn question(rows: &[Row], known_by: &str) -> String {
    let lines = rows.iter().map(|row| {
        let text = text_of(row);
        text.trim_matches(|c: char| c.is_whitespace() || STROKES.contains(&c)).to_owned()
    });
    let asked = lines.rev().find(|line| line.ends_with('?'));
    cap(&visible(asked.as_deref().unwrap_or(known_by)), 200)
}

fn has_title(signs: &ScreenSigns, title: &str) -> bool {
    let first = title.chars().next();
    signs.busy_title.as_deref().is_some_and(|signs| first.is_some_and(|c| signs.contains(c)))
}

/// The input: the row with its sign, and those that it goes on in.
struct Input<'a> {
    rows: Vec<&'a [Cell]>,
    first: usize,
    last: usize,
    /// The cursor's row within it, and its column behind the indent.
    cursor: (usize, usize),
}

impl<'a> Input<'a> {
    /// From the cursor's row upward to the sign: between them stands nothing in
    /// the columns of the sign.
    fn find(sign: &str, rows: &'a [Row], screen: &Screen<'_>) -> Option<Self> {
        let (column, at) = (usize::from(screen.cursor.0), usize::from(screen.cursor.1));
        let mut first = at;
        let indent = loop {
            let row = rows.get(first)?;
            match indent_of(sign, row) {
                Some(indent) => break indent,
                // A row of the same input has at least its first column free.
                None if first > 0 && starts_free(row) => first -= 1,
                None => return None,
            }
        };
        let is_within = |row: &&Row| {
            let head = &row[..indent.min(row.len())];
            head.iter().all(|cell| cell.c.is_whitespace() || cell.c == '│')
        };
        if column < indent || !rows[first + 1..=at].iter().all(|row| is_within(&row)) {
            return None;
        }
        let more = rows[at + 1..].iter().take_while(|row| {
            !is_blank(row) && is_within(row) && !STROKES.contains(&row[indent.min(row.len() - 1)].c)
        });
        // What follows the cursor's row is the input only when it is indented as
        // that is: hints and status lines are not told apart otherwise.
        let last = at + if first == at { 0 } else { more.count() };
        let content = |row: &'a Row| -> &'a [Cell] {
            let row = row.get(indent..).unwrap_or_default();
            let end = row.iter().rposition(|cell| !cell.c.is_whitespace() && cell.c != '│');
            &row[..end.map_or(0, |last| last + 1)]
        };
        let rows = rows[first..=last].iter().map(content).collect();
        Some(Self { rows, first, last, cursor: (at - first, column - indent) })
    }

    /// Whether it begins as a list to choose from does.
    fn is_menu(&self) -> bool {
        let first: String = self.rows[0].iter().take(4).map(|cell| cell.c).collect();
        let mut letters = first.trim_start().chars();
        letters.next().is_some_and(|c| c.is_ascii_digit()) && letters.next() == Some('.')
    }

    fn content(&self, signs: &ScreenSigns) -> InputBox {
        let lines: Vec<String> = self
            .rows
            .iter()
            .map(|row| row.iter().filter(|cell| !cell.dim).map(|cell| cell.c).collect::<String>())
            .map(|line| line.trim_end().to_owned())
            .collect();
        let text = lines.join("\n").trim_end().to_owned();
        let shown = text.trim();
        let first = text_of(self.rows[0]);
        if signs.more_above.as_deref().is_some_and(|sign| first.ends_with(sign)) {
            let sign = signs.more_above.as_deref().unwrap_or_default();
            let first = lines[0].strip_suffix(sign).unwrap_or(&lines[0]);
            let lines = [first].into_iter().chain(lines[1..].iter().map(String::as_str));
            return InputBox::Tail {
                text: lines.map(str::trim_end).collect::<Vec<_>>().join("\n"),
            };
        }
        // Of a hint the cursor covers the first letter.
        if shown.is_empty() || signs.hints.iter().any(|hint| is_hint(shown, hint)) {
            return InputBox::Empty;
        }
        if is_placeholder(&text) {
            InputBox::Placeholder { text }
        } else {
            InputBox::Holds { text }
        }
    }

    fn before_cursor(&self) -> Option<String> {
        let (row, column) = self.cursor;
        let rows: Vec<&[Cell]> = self.rows[..row].to_vec();
        let last = self.rows.get(row)?;
        let last = &last[..column.min(last.len())];
        // Only where each character takes one column is a column a character.
        if last.iter().any(|cell| cell.c >= '\u{300}') {
            return None;
        }
        let rows = rows.into_iter().chain([last]);
        let lines = rows
            .map(|row| row.iter().filter(|cell| !cell.dim).map(|cell| cell.c).collect::<String>());
        Some(lines.collect::<Vec<_>>().join("\n"))
    }
}

fn is_hint(shown: &str, hint: &str) -> bool {
    shown.starts_with(hint) || shown.trim_start_matches(|c: char| !c.is_alphanumeric()) == hint
}

/// The column behind the sign and the space after it, where a row has the sign
/// as its first letter.
fn indent_of(sign: &str, row: &Row) -> Option<usize> {
    let at = row.iter().position(|cell| !cell.c.is_whitespace() && cell.c != '│')?;
    let letters = sign.chars().count();
    let is_there = row.get(at..at + letters)?.iter().map(|cell| cell.c).eq(sign.chars());
    let next = row.get(at + letters);
    (at <= 4 && is_there && next.is_none_or(|cell| cell.c.is_whitespace()))
        .then_some(at + letters + 1)
}

fn starts_free(row: &Row) -> bool {
    row.first().is_none_or(|cell| cell.c.is_whitespace() || cell.c == '│')
}

fn is_blank(row: &Row) -> bool {
    row.iter().all(|cell| cell.c.is_whitespace())
}

/// The last rows that are not blank.
fn last_of(rows: &[Row], count: usize) -> &[Row] {
    let mut left = count;
    let begin = rows.iter().rposition(|row| {
        left -= usize::from(!is_blank(row));
        left == 0
    });
    &rows[begin.unwrap_or(0)..]
}

fn lower(rows: &[Row]) -> String {
    rows.iter().map(|row| text_of(row)).collect::<Vec<_>>().join("\n").to_lowercase()
}

fn any(signs: &[String], texts: &str) -> bool {
    signs.iter().any(|text| texts.contains(&text.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::config::shipped;

    fn recorded(harness: &str, version: &str, name: &str) -> Reading {
        let root = env!("CARGO_MANIFEST_DIR");
        let path = format!("{root}/tests/fixtures/screens/{harness}-{version}/{name}");
        let text = fs_err::read_to_string(format!("{path}.txt")).unwrap();
        let meta = fs_err::read_to_string(format!("{path}.meta")).unwrap();
        let mut fields = meta.trim_end().rsplitn(4, '|').skip(2);
        let (x, y) = fields.next().unwrap().split_once(',').unwrap();
        let cursor = (x.parse().unwrap(), y.parse().unwrap());
        let title = fields.next().unwrap();
        let signs = &shipped()[&harness.parse().unwrap()].screen;
        read(signs, &Screen { text: &text, cursor, columns: 120, title })
    }

    #[test]
    fn every_recorded_screen_is_read_for_what_it_is() {
        use Activity::{Busy, Idle};
        let holds = |text: &str| InputBox::Holds { text: text.into() };
        let pasted = |text: &str| InputBox::Placeholder { text: text.into() };
        for (harness, version, short, three, long, dialog) in [
            (
                "codex",
                "0.171.0",
                "hello world {{slow=6000}}",
                "a\nb\nc",
                (Idle, "[Pasted Content 3401 chars]"),
                "Would you like to run the following command?",
            ),
            (
                "gemini",
                "0.61.0",
                "hello world {{slow=5000}}",
                "three lines 1\nthree lines 2\nthree lines 3",
                (Busy, "[Pasted Text: 62 lines]"),
                "Allow execution of [Shell]?",
            ),
            (
                "copilot",
                "1.0.102",
                "hello world {{slow=5000}}",
                "three lines 1\nthree lines 2\nthree lines 3",
                (Busy, "[Paste #1 - 62 lines]"),
                "Do you want to run this command?",
            ),
        ] {
            for (name, activity, input) in [
                ("idle-start", Idle, InputBox::Empty),
                ("idle-after", Idle, InputBox::Empty),
                ("after-esc", Idle, InputBox::Empty),
                ("busy", Busy, InputBox::Empty),
                ("draft", Idle, holds("half typed")),
                ("pasted-short", Idle, holds(short)),
                ("pasted-3", Idle, holds(three)),
                ("pasted-long", long.0, pasted(long.1)),
            ] {
                let seen = recorded(harness, version, name);
                assert_eq!((seen.activity, seen.input), (activity, input), "{harness} {name}");
            }
            let asks = Activity::Dialog { what: dialog.to_owned() };
            let seen = recorded(harness, version, "dialog");
            assert_eq!((seen.activity, seen.input), (asks, InputBox::Absent), "{harness}");
        }
    }

    /// As they were drawn in a fresh home.
    #[test]
    fn a_question_of_a_first_run_is_told_as_one() {
        let box_of = |lines: &[&str]| {
            let lines: Vec<_> = lines.iter().map(|line| format!("│ {line:<60} │")).collect();
            format!("╭{0}╮\n{1}\n╰{0}╯\n", "─".repeat(62), lines.join("\n"))
        };
        let gemini = box_of(&[
            "? Get started",
            "",
            "  How would you like to authenticate for this project?",
            "",
            "  ● 1. Sign in with Google",
            "    2. Use Gemini API Key",
            "    3. Vertex AI",
            "",
            "  (Use Enter to select)",
        ]);
        let key = box_of(&["Enter Gemini API Key", "", "Paste your API key here"]);
        let trust = box_of(&[
            "Confirm folder trust",
            "Do you trust the files in this folder?",
            "",
            "❯ 1. Yes",
            "  2. Yes, and remember this folder for future sessions",
        ]);
        let rule = "─".repeat(60);
        let login = format!(
            "Please use /login to sign in to use Copilot\n\n ~/p\n{rule}\n❯\n{rule}\n ← open\n"
        );
        for (harness, text, cursor, asks) in [
            ("gemini", &gemini, (0, 9), "How would you like to authenticate for this project?"),
            ("gemini", &key, (0, 3), "enter gemini api key"),
            ("copilot", &trust, (2, 4), "Do you trust the files in this folder?"),
            ("copilot", &login, (2, 4), "please use /login to sign in"),
        ] {
            let signs = &shipped()[&harness.parse().unwrap()].screen;
            let reading = read(signs, &Screen { text, cursor, columns: 120, title: "" });
            let what = format!("first run: {asks}");
            assert_eq!(reading.activity, Activity::Dialog { what }, "{harness}");
            assert!(!reading.is_ready());
        }
    }

    /// As Codex 0.171.0 draws it for a moment before it asks how to sign in, and
    /// 0.156.0, which has nothing below.
    #[test]
    fn an_input_of_an_agent_that_is_not_up_yet_is_known_by_what_stands_below() {
        let signs = &shipped()[&"codex".parse().unwrap()].screen;
        for (below, loads) in [
            ("", true),
            ("  ? for shortcuts", true),
            ("  mock-model default · /tmp/work\n  ← for agents · ? for shortcuts", false),
        ] {
            let text = format!("  >_ OpenAI Codex\n\n› Ask Codex to do anything\n\n{below}\n");
            let screen = Screen { text: &text, cursor: (2, 2), columns: 120, title: "" };
            assert!(read(signs, &screen).is_ready());
            assert_eq!(is_loading(signs, &screen), loads, "{below}");
        }
    }

    #[test]
    fn of_a_text_that_is_scrolled_the_end_is_read() {
        let signs = &shipped()[&"codex".parse().unwrap()].screen;
        for sign in ["↑", "\x1b[2m↑\x1b[m"] {
            let text = format!("said\n\n› the middle      {sign}\n  and the end\n\n  status\n");
            let reading =
                read(signs, &Screen { text: &text, cursor: (13, 3), columns: 40, title: "" });
            assert_eq!(reading.input, InputBox::Tail { text: "the middle\nand the end".into() });
        }
    }

    #[test]
    fn nothing_is_ready_when_the_cursor_is_elsewhere() {
        let root = env!("CARGO_MANIFEST_DIR");
        for (harness, version) in [("codex", "0.171.0"), ("gemini", "0.61.0")] {
            let path = format!("{root}/tests/fixtures/screens/{harness}-{version}/idle-start.txt");
            let text = fs_err::read_to_string(path).unwrap();
            let signs = &shipped()[&harness.parse().unwrap()].screen;
            for cursor in [(0, 0), (0, 36), (5, 39), (40, 10), (1, 26)] {
                let reading = read(signs, &Screen { text: &text, cursor, columns: 120, title: "" });
                assert!(!reading.is_ready(), "{harness} {cursor:?}");
            }
        }
    }
}
