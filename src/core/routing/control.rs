//! Control lines: what a listed user tells the-loop itself, on a line of its own
//! in a comment.

use super::markdown::own_lines;

/// What a control line asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// `the-loop start`: the item is armed by hand.
    Start,
    /// `the-loop stop`: its session is closed.
    Stop,
    /// `the-loop pause`: its events are kept.
    Pause,
    /// `the-loop resume`: what was kept is told.
    Resume,
    /// `the-loop now: TEXT`: told without waiting for the end of the turn.
    Now,
}

/// The first control line of a text: a line of a paragraph, in plain text and for
/// all to see. What stands in a quote, in code, in a hidden comment, in a list or
/// in an HTML element is none.
pub(super) fn order(text: &str) -> Option<Order> {
    own_lines(text).iter().filter(|line| line.in_paragraph).find_map(|line| {
        let line = line.text.trim();
        let rest = strip_prefix_without_case(line, "the-loop")?;
        let order = rest.trim_start();
        // `the-loops`, `the-loop:` and the like are no orders.
        if order.len() == rest.len() {
            return None;
        }
        if let Some(said) = strip_prefix_without_case(order, "now:") {
            return (!said.trim().is_empty()).then_some(Order::Now);
        }
        match order.to_ascii_lowercase().as_str() {
            "start" => Some(Order::Start),
            "stop" => Some(Order::Stop),
            "pause" => Some(Order::Pause),
            "resume" => Some(Order::Resume),
            _ => None,
        }
    })
}

fn strip_prefix_without_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_line_of_the_authors_own_is_an_order() {
        for (text, expected) in [
            ("the-loop start", Some(Order::Start)),
            ("  The-Loop   STOP  \r\n", Some(Order::Stop)),
            ("please\n\nthe-loop pause\nthanks", Some(Order::Pause)),
            ("the-loop resume\nthe-loop stop", Some(Order::Resume)),
            ("the-loop now: look at  CI", Some(Order::Now)),
            ("the-loop now:", None),
            ("the-loop", None),
            ("the-loop start it", None),
            ("the-loopstart", None),
            ("ask the-loop stop", None),
            ("the-loop stop.", None),
            ("> the-loop stop", None),
            ("```\nthe-loop stop\n```", None),
            ("\n    the-loop stop", None),
            ("the-loop now: **look** at `it`", Some(Order::Now)),
            ("> quote\nthe-loop stop", None),
            ("> quote\n\nthe-loop stop", Some(Order::Stop)),
            ("hi\n<!-- template\nthe-loop stop\n-->", None),
            ("hi <!--\nthe-loop stop\n-->", None),
            ("<!--\nthe-loop stop", None),
            ("- the-loop stop", None),
            ("- a list\nthe-loop stop", None),
            ("**the-loop stop**", None),
            ("`the-loop stop`", None),
            ("the-loop stop\n---", None),
            ("<details>\n\nthe-loop stop\n\n</details>", None),
            ("<div>\nthe-loop stop\n</div>", None),
            ("| a |\n|---|\nthe-loop stop", None),
            ("[x]: y\n'the-loop\nthe-loop stop\n'", None),
            ("the-löop stop", None),
            ("", None),
        ] {
            assert_eq!(order(text), expected, "{text:?}");
        }
    }
}
