//! Reads the screen of Claude Code (2.1.197 and 2.1.332 were recorded).
//!
//! The rule behind it: a paste is safe only where the input box is drawn *and*
//! the cursor stands in it. Dialogs, menus and viewers either hide the box or
//! take the cursor away. Whatever is not recognised is unknown, never idle.

use crate::base::text::{cap, visible};
use crate::core::inject::screen::{
    Activity, Cell, InputBox, Reading, Row, Screen, is_placeholder, text_of,
};

/// What starts the prompt's line.
const PROMPT: char = '❯';

/// The characters that the working sign turns through.
const SPINNER: [char; 8] = ['·', '✢', '✳', '✶', '✻', '✽', '*', '∗'];

/// How far above the box the working sign is looked for: lists of tasks and
/// queued prompts may stand between.
const SPINNER_ROWS: usize = 16;

/// Hints below a dialog or an overlay.
const HINTS: [&str; 6] = [
    "esc to cancel",
    "esc to close",
    "enter to confirm",
    "enter to select",
    "enter to continue",
    "enter to save",
];

/// Words that only a viewer or a menu shows at the screen's end.
const OVERLAYS: [&str; 4] =
    ["showing detailed transcript", "search prompts", "⌕", "filter history"];

/// Titles of menus that look like a dialog.
const MENUS: [&str; 5] = ["select model", "rewind", "search", "help", "settings"];

/// What the screen says.
pub(in crate::core::harness) fn read(screen: &Screen<'_>) -> Reading {
    let rows = screen.rows();
    match Frame::find(&rows, screen) {
        Some(frame) => frame.read(),
        None => Reading::without_box(without_box(&rows)),
    }
}

/// The input box with the cursor in it, and what is drawn around it.
struct Frame<'a> {
    above: &'a [Row],
    content: &'a [Row],
    below: &'a [Row],
    /// The cursor's row and column within the box.
    cursor: (usize, usize),
}

impl<'a> Frame<'a> {
    /// The last two rules of the screen, with a prompt and the cursor between.
    fn find(rows: &'a [Row], screen: &Screen<'_>) -> Option<Self> {
        let columns = usize::from(screen.columns);
        let mut rules = (0..rows.len()).rev().filter(|&at| is_rule(&rows[at], '─', columns));
        let (bottom, top) = (rules.next()?, rules.next()?);
        let content = rows.get(top + 1..bottom)?;
        let first = content.first()?.first()?.c;
        let (column, row) = (usize::from(screen.cursor.0), usize::from(screen.cursor.1));
        let cursor_is_in = row > top && row < bottom && column >= 2;
        (cursor_is_in && matches!(first, PROMPT | '!')).then(|| Self {
            above: &rows[..top],
            content,
            below: &rows[bottom + 1..],
            cursor: (row - top - 1, column),
        })
    }

    fn read(&self) -> Reading {
        let first = self.content[0][0];
        if first.c != PROMPT {
            // The shell mode: a submit would run our text as a command.
            return Reading::without_box(Activity::Overlay);
        }
        let input = self.input();
        let below = lower(self.below);
        let activity = if OVERLAYS.iter().any(|sign| below.contains(sign)) || is_command(&input) {
            Activity::Overlay
        } else if first.muted || first.dim || below.contains("esc to interrupt") || self.works() {
            Activity::Busy
        } else {
            Activity::Idle
        };
        Reading { activity, input, before_cursor: self.before_cursor(), stashed: self.stashed() }
    }

    /// What was typed before the cursor. Only where each character takes one
    /// column is a column a character.
    fn before_cursor(&self) -> Option<String> {
        let (row, column) = self.cursor;
        let last = self.content.get(row)?;
        let last = &last[..column.min(last.len())];
        if last.iter().any(|cell| cell.c >= '\u{300}' && cell.c != PROMPT) {
            return None;
        }
        let rows = self.content[..row].iter().map(Vec::as_slice).chain([last]);
        let texts = rows.map(|row| {
            let typed = row.get(2..).unwrap_or_default().iter().filter(|cell| !cell.dim);
            typed.map(|cell| cell.c).collect::<String>()
        });
        Some(texts.collect::<Vec<_>>().join("\n"))
    }

    /// The sign that a draft was put aside: right above the box, or below it.
    /// What an agent prints there can only make us wait.
    fn stashed(&self) -> bool {
        let above = self.above.last().map(std::slice::from_ref).unwrap_or_default();
        [above, self.below].into_iter().any(|rows| lower(rows).contains("stashed"))
    }

    /// `✻ Thinking… (3s · …)` at the left edge, above the box.
    fn works(&self) -> bool {
        let mut near = self.above.iter().rev().filter(|row| !is_blank(row)).take(SPINNER_ROWS);
        near.any(|row| {
            row.first().is_some_and(|cell| SPINNER.contains(&cell.c))
                && row.get(1).is_some_and(|cell| cell.c == ' ')
                && row.iter().any(|cell| cell.c == '…')
        })
    }

    fn input(&self) -> InputBox {
        let rows: Vec<&[Cell]> =
            self.content.iter().map(|row| row.get(2..).unwrap_or_default()).collect();
        let mut cells = rows.iter().copied().flatten().filter(|cell| !cell.c.is_whitespace());
        let typed = cells.clone().any(|cell| !cell.dim && !cell.reverse);
        let under_cursor = cells.clone().any(|cell| cell.reverse);
        let hint = cells.any(|cell| cell.dim);
        // The cursor covers the first letter of a hint, or a typed one.
        if !typed && (!under_cursor || hint) {
            return InputBox::Empty;
        }
        let lines: Vec<String> = rows
            .iter()
            .map(|row| {
                let shown: String =
                    row.iter().filter(|cell| !cell.dim).map(|cell| cell.c).collect();
                shown.trim_end().to_owned()
            })
            .collect();
        let text = lines.join("\n").trim_end().to_owned();
        if is_placeholder(&text) {
            InputBox::Placeholder { text }
        } else {
            InputBox::Holds { text }
        }
    }
}

/// What has the keys when the input box has not.
fn without_box(rows: &[Row]) -> Activity {
    let end = rows.iter().rposition(|row| !is_blank(row)).map_or(0, |last| last + 1);
    let rows = &rows[..end];
    let tail = lower(&rows[end.saturating_sub(3)..]);
    if OVERLAYS.iter().any(|sign| tail.contains(sign)) {
        return Activity::Overlay;
    }
    if !HINTS.iter().any(|hint| tail.contains(hint)) {
        return Activity::Unknown;
    }
    let starts = |row: &Row| row.iter().find(|cell| cell.c != ' ').map(|cell| cell.c);
    let Some(choice) = rows.iter().rposition(|row| starts(row) == Some(PROMPT)) else {
        return Activity::Overlay;
    };
    // A dialog stands below a line across the screen; an overlay hangs from a
    // line at the top edge of its cells, or from none.
    let top = rows[..choice].iter().rposition(|row| {
        let strokes = row.iter().take_while(|cell| matches!(cell.c, '─' | '▔'));
        strokes.count() >= 20
    });
    match top {
        Some(top) if rows[top][0].c == '─' && !is_opened_by_hand(&rows[top..choice]) => {
            Activity::Dialog { what: question(&rows[top + 1..choice]) }
        }
        _ => Activity::Overlay,
    }
}

/// A slash command is being typed: its menu has the arrows and the submit.
fn is_command(input: &InputBox) -> bool {
    matches!(input, InputBox::Holds { text } if text.starts_with('/') && !text.contains('\n'))
}

/// A menu that a person opened, by its title: nothing asks, and it closes again.
fn is_opened_by_hand(rows: &[Row]) -> bool {
    let title = rows.iter().skip(1).find(|row| !is_blank(row));
    let title = title.map(|row| text_of(row).trim().to_lowercase()).unwrap_or_default();
    MENUS.iter().any(|menu| title.starts_with(menu))
}

/// A dialog's title and the question that it ends with.
fn question(rows: &[Row]) -> String {
    let lines: Vec<String> = rows
        .iter()
        .map(|row| text_of(row).trim().trim_start_matches(['☐', '☒', '✔', ' ']).to_owned())
        .filter(|line| line.chars().any(char::is_alphanumeric))
        .collect();
    let title = lines.first().map_or("a question", String::as_str);
    let asked = lines.iter().rev().find(|line| line.ends_with('?')).map(String::as_str);
    let more = if title.ends_with(':') { lines.get(1).map(String::as_str) } else { asked };
    let text = match more {
        Some(more) if more != title => format!("{}: {more}", title.trim_end_matches(':')),
        _ => title.to_owned(),
    };
    cap(&visible(&text), 200)
}

/// A line across the screen. A name may be written into it.
fn is_rule(row: &[Cell], stroke: char, columns: usize) -> bool {
    let strokes = row.iter().filter(|cell| cell.c == stroke).count();
    row.first().is_some_and(|cell| cell.c == stroke)
        && row.len() + 1 >= columns
        && strokes * 2 >= columns
}

fn is_blank(row: &Row) -> bool {
    row.iter().all(|cell| cell.c.is_whitespace())
}

fn lower(rows: &[Row]) -> String {
    rows.iter().map(|row| text_of(row)).collect::<Vec<_>>().join("\n").to_lowercase()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn recorded(version: &str, name: &str) -> Reading {
        let dir = format!("{}/tests/fixtures/screens/{version}", env!("CARGO_MANIFEST_DIR"));
        let text = fs_err::read_to_string(format!("{dir}/{name}.txt")).unwrap();
        let meta = fs_err::read_to_string(format!("{dir}/{name}.meta")).unwrap();
        let cursor = meta.trim().rsplit('|').nth(2).unwrap();
        let (x, y) = cursor.split_once(',').unwrap();
        let cursor = (x.parse().unwrap(), y.parse().unwrap());
        read(&Screen { text: &text, cursor, columns: 120, title: "" })
    }

    fn dialog(what: &str) -> Reading {
        Reading::without_box(Activity::Dialog { what: what.into() })
    }

    fn boxed(activity: Activity, input: InputBox) -> Reading {
        Reading { input, ..Reading::without_box(activity) }
    }

    fn holds(text: &str) -> InputBox {
        InputBox::Holds { text: text.into() }
    }

    /// Every recorded screen and what it says.
    fn table() -> Vec<(&'static str, Reading)> {
        use Activity::{Busy, Idle, Overlay};
        let empty = || boxed(Idle, InputBox::Empty);
        let overlay = || boxed(Overlay, InputBox::Absent);
        let placeholder = InputBox::Placeholder { text: "[Pasted text #1 +29 lines]".into() };
        vec![
            ("after-backspace", empty()),
            ("after-escape", empty()),
            ("bash-mode", overlay()),
            ("busy-queued", boxed(Busy, InputBox::Empty)),
            ("busy-streaming", boxed(Busy, InputBox::Empty)),
            ("ctrl-c-once", empty()),
            (
                "dialog-api-key",
                dialog(
                    "Detected a custom API key in your environment: \
                     Do you want to use this API key?",
                ),
            ),
            ("dialog-permission-bash", dialog("Bash command: Do you want to proceed?")),
            // The tool ran without asking when this one was recorded.
            ("dialog-permission-write", empty()),
            ("dialog-question", dialog("Pick: Which one?")),
            ("dialog-trust", dialog("Accessing workspace: /tmp/project")),
            ("exited-dead-pane", Reading::UNKNOWN),
            ("idle-after-turn", empty()),
            ("idle-draft", boxed(Idle, holds("half typed by a person"))),
            ("idle-empty", empty()),
            ("idle-stashed", empty()),
            ("idle-unstashed", boxed(Idle, holds("half typed by a person"))),
            ("menu-slash", boxed(Overlay, holds("/"))),
            ("overlay-help", overlay()),
            ("overlay-model", overlay()),
            ("overlay-rewind", overlay()),
            ("overlay-search", overlay()),
            ("overlay-transcript", overlay()),
            ("pasted-3-lines", boxed(Idle, holds("line 1\nline 2\nline 3"))),
            ("pasted-placeholder", boxed(Idle, placeholder)),
            ("pasted-short", boxed(Idle, holds("one short line"))),
            ("shortcuts", empty()),
        ]
    }

    #[test]
    fn every_recorded_screen_is_read_for_what_it_is() {
        for version in ["claude-2.1.197", "claude-2.1.332"] {
            let dir = format!("{}/tests/fixtures/screens/{version}", env!("CARGO_MANIFEST_DIR"));
            let count = fs_err::read_dir(dir)
                .unwrap()
                .filter(|file| {
                    file.as_ref().unwrap().path().extension().is_some_and(|kind| kind == "txt")
                })
                .count();
            assert_eq!(count, table().len(), "a recorded screen of {version} is not in the table");
            for (name, reading) in table() {
                let seen = recorded(version, name);
                assert_eq!(seen.stashed, name == "idle-stashed", "{version} {name}");
                if name == "idle-draft" {
                    assert_eq!(seen.before_cursor.as_deref(), Some("half typed by a person"));
                }
                let seen = (seen.activity, seen.input);
                assert_eq!(seen, (reading.activity, reading.input), "{version} {name}");
            }
        }
    }

    #[test]
    fn no_screen_is_ready_when_the_cursor_is_elsewhere() {
        for version in ["claude-2.1.197", "claude-2.1.332"] {
            let dir = format!("{}/tests/fixtures/screens/{version}", env!("CARGO_MANIFEST_DIR"));
            let text = fs_err::read_to_string(format!("{dir}/idle-empty.txt")).unwrap();
            for cursor in [(0, 0), (1, 37), (5, 39), (0, 14)] {
                let reading = read(&Screen { text: &text, cursor, columns: 120, title: "" });
                assert!(!reading.is_ready(), "{version} {cursor:?}");
            }
        }
    }

    /// A screen of 40 columns with these rows, the cursor in the box.
    fn drawn(content: &str, footer: &str) -> Reading {
        let rule = "─".repeat(40);
        let text = format!("hello\n{rule}\n{content}\n{rule}\n{footer}\n");
        read(&Screen { text: &text, cursor: (2, 2), columns: 40, title: "" })
    }

    #[test]
    fn one_letter_under_the_cursor_is_a_draft_and_a_hint_is_not() {
        assert_eq!(drawn("❯ \x1b[7mx\x1b[m", "").input, holds("x"));
        assert_eq!(drawn("❯ \x1b[7mT\x1b[0;2mry \"fix it\"\x1b[m", "").input, InputBox::Empty);
        assert_eq!(drawn("❯ \x1b[7m \x1b[m", "").input, InputBox::Empty);
    }

    #[test]
    fn a_box_that_an_agent_prints_is_not_the_box() {
        let rule = "─".repeat(40);
        let text = format!("{rule}\n❯ \n{rule}\n\nanswer\n{rule}\n❯ draft\n{rule}\n");
        let reading = read(&Screen { text: &text, cursor: (7, 6), columns: 40, title: "" });
        assert_eq!(reading.input, holds("draft"));
        let reading = read(&Screen { text: &text, cursor: (2, 1), columns: 40, title: "" });
        assert!(!reading.is_ready());
    }

    #[test]
    fn a_footer_that_offers_an_interrupt_is_a_turn() {
        assert_eq!(drawn("❯ ", "  esc to interrupt").activity, Activity::Busy);
        assert_eq!(drawn("❯ ", "  ? for shortcuts").activity, Activity::Idle);
    }

    #[test]
    fn an_empty_or_foreign_screen_is_unknown() {
        for text in ["", "\n\n", "$ ", "bash-5.2$ ls\nx\nbash-5.2$ "] {
            let screen = Screen { text, cursor: (2, 0), columns: 80, title: "" };
            assert_eq!(read(&screen), Reading::UNKNOWN, "{text:?}");
        }
    }

    proptest! {
        /// Whatever stands on a screen, reading it ends, and nothing but an empty
        /// box with the cursor in it is ready.
        #[test]
        fn any_screen_can_be_read(
            parts in prop::collection::vec(
                prop_oneof![
                    Just("─".repeat(40)), Just("▔".repeat(40)), Just("\n".to_owned()),
                    Just("❯ ".to_owned()), Just("! ".to_owned()), Just("\x1b[2m".to_owned()),
                    Just("\x1b[7m \x1b[m".to_owned()), Just("\x1b[38;5;246m".to_owned()),
                    Just("Esc to cancel".to_owned()), Just("esc to interrupt".to_owned()),
                    Just("✻ Thinking… (3s)".to_owned()), "\\PC{0,6}", any::<String>(),
                ],
                0..30,
            ),
            cursor in (0_u16..45, 0_u16..20),
        ) {
            let text = parts.concat();
            let screen = Screen { text: &text, cursor, columns: 40, title: "" };
            let reading = read(&screen);
            if reading.is_ready() {
                let rows = screen.rows();
                let row: String = text_of(&rows[usize::from(cursor.1)]);
                prop_assert!(!row.starts_with('─') && cursor.0 >= 2, "{:?} in {:?}", row, text);
            }
        }
    }
}
