//! Control lines: what a listed user tells the-loop itself, on a line of its own
//! in a comment.

use super::quotes::own_lines;

/// What a control line asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order<'a> {
    /// `the-loop start`: the item is armed by hand.
    Start,
    /// `the-loop stop`: its session is closed.
    Stop,
    /// `the-loop pause`: its events are kept.
    Pause,
    /// `the-loop resume`: what was kept is told.
    Resume,
    /// `the-loop now: TEXT`: told without waiting for the end of the turn.
    Now(&'a str),
}

/// The first control line of a text, outside quotes and code.
pub(super) fn order(text: &str) -> Option<Order<'_>> {
    own_lines(text).find_map(|line| {
        let line = line.trim();
        let rest = strip_prefix_without_case(line, "the-loop")?;
        let order = rest.trim_start();
        // `the-loops`, `the-loop:` and the like are no orders.
        if order.len() == rest.len() {
            return None;
        }
        if let Some(said) = strip_prefix_without_case(order, "now:") {
            return Some(Order::Now(said.trim())).filter(|_| !said.trim().is_empty());
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
            ("the-loop now: look at  CI", Some(Order::Now("look at  CI"))),
            ("the-loop now:", None),
            ("the-loop", None),
            ("the-loop start it", None),
            ("the-loopstart", None),
            ("ask the-loop stop", None),
            ("the-loop stop.", None),
            ("> the-loop stop", None),
            ("```\nthe-loop stop\n```", None),
            ("\n    the-loop stop", None),
            ("the-löop stop", None),
            ("", None),
        ] {
            assert_eq!(order(text), expected, "{text:?}");
        }
    }
}
