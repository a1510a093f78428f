//! Typing for those who look from elsewhere. Their keys pass through no terminal
//! of tmux, but go to the agent's pane itself, as orders to a client in control
//! mode: whatever becomes of what a browser shows, they arrive there or nowhere.
//!
//! The server itself looks at the pane before each order: a key is dropped while
//! the pane is in a mode, has ended, or stands behind another one. No byte that
//! was typed stands in an order as it is: keys by their names, the rest in
//! hexadecimal.

use std::fmt::Write as _;

use super::{Pane, Tmux, TmuxError, is_absent};
use crate::core::typed::{Key, Name, Typed};

/// What holds, in the environment of an agent's session, when somebody last typed
/// through a browser: seconds of Unix time, a dot, and a number that makes it
/// another one each time. Unlike an option it can be set without all being drawn
/// anew.
pub(super) const TYPED_AT: &str = "THE_LOOP_TYPED";

/// How many bytes of text go into one order.
const AT_ONCE: usize = 512;

/// What an order prints when all before it are done, before its number.
const DONE: &str = "the-loop: done ";

/// Where those who look from elsewhere type: a pane, as a session for viewers
/// shows it.
#[derive(Debug, Clone, Copy)]
pub struct Desk<'a> {
    /// The agent's pane.
    pub pane: &'a Pane,
    /// The viewers' session.
    pub viewers: &'a str,
}

impl Desk<'_> {
    fn target(&self) -> String {
        format!("={}:{}.{}", self.viewers, self.pane.window_id, self.pane.pane_id)
    }

    /// It takes keys, and is what viewers see.
    fn is_seen(&self) -> String {
        format!(
            "#{{==:#{{pane_id}} #{{?pane_dead,1,0}}#{{?pane_in_mode,1,0}}\
             #{{?pane_active,1,0}}#{{?window_active,1,0}},{} 0011}}",
            self.pane.pane_id
        )
    }

    fn mark(&self, at: &str) -> String {
        format!("set-environment -h -t '{}' {TYPED_AT} {at}", self.pane.session_id)
    }

    /// The orders that type this, and with a number one that tells when that is done.
    /// What was pasted is left out.
    pub fn orders(&self, typed: &[Typed], at: &str, asks: Option<u64>) -> String {
        let mut orders = String::new();
        for steps in self.steps(typed).chunks(8) {
            let _ = writeln!(
                orders,
                "if-shell -F -t '{}' '{}' {{ {} ; {} }}",
                self.target(),
                self.is_seen(),
                self.mark(at),
                steps.join(" ; ")
            );
        }
        if let Some(number) = asks {
            let _ = writeln!(orders, "display-message -p '{DONE}{number}'");
        }
        orders
    }

    fn steps(&self, typed: &[Typed]) -> Vec<String> {
        let pane = &self.pane.pane_id;
        let mut steps = Vec::new();
        for one in typed {
            match one {
                Typed::Bytes(bytes) => steps.extend(bytes.chunks(AT_ONCE).map(|bytes| {
                    let mut step = format!("send-keys -t '{pane}' -H");
                    for byte in bytes {
                        let _ = write!(step, " {byte:02x}");
                    }
                    step
                })),
                Typed::Key(key) => steps.push(format!("send-keys -t '{pane}' {}", name(*key))),
                Typed::Paste(_) => {}
            }
        }
        steps
    }
}

/// The number in what a client in control mode has printed, if it is our order's.
pub fn done(line: &str) -> Option<u64> {
    line.strip_prefix(DONE)?.parse().ok()
}

/// What tmux calls a key.
fn name(key: Key) -> String {
    let Key { name, shift, meta, control } = key;
    let held: String = [(control, "C-"), (meta, "M-"), (shift, "S-")]
        .into_iter()
        .filter_map(|(is_held, mark)| is_held.then_some(mark))
        .collect();
    let name = match name {
        Name::Letter(letter) => return format!("{held}{letter}"),
        Name::Function(number) => return format!("{held}F{number}"),
        Name::Space => "Space",
        Name::Up => "Up",
        Name::Down => "Down",
        Name::Right => "Right",
        Name::Left => "Left",
        Name::Home => "Home",
        Name::End => "End",
        Name::Insert => "IC",
        Name::Delete => "DC",
        Name::PageUp => "PPage",
        Name::PageDown => "NPage",
        Name::Enter => "Enter",
        Name::Tab => "Tab",
        Name::Backtab => "BTab",
        Name::Escape => "Escape",
        Name::Backspace => "BSpace",
    };
    held + name
}

impl Tmux {
    /// Pastes what somebody pasted elsewhere, in brackets where the program in the
    /// pane asks for them. `buffer` is the name of a buffer of its own.
    pub async fn paste_for_viewer(
        &self,
        desk: Desk<'_>,
        buffer: &str,
        text: &[u8],
        at: &str,
    ) -> Result<(), TmuxError> {
        let pane = &desk.pane.pane_id;
        let then = format!("{} ; paste-buffer -p -r -d -b {buffer} -t '{pane}'", desk.mark(at));
        let otherwise = format!("delete-buffer -b {buffer}");
        let call = self
            .call()
            .args(["load-buffer", "-b", buffer, "-", ";"])
            .args(["if-shell", "-F", "-t", &desk.target(), &desk.is_seen(), &then, &otherwise])
            .stdin(text);
        match call.run_ok().await {
            Ok(_) => Ok(()),
            Err(source) if is_absent(&source) => {
                // Without its pane the buffer would stay.
                let _ = self.call().args(["delete-buffer", "-b", buffer]).run().await;
                Err(TmuxError::Absent { what: format!("pane {pane}") })
            }
            Err(source) => Err(TmuxError::Failed { verb: "paste into a pane", source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::core::typed::Reader;
    use crate::host::tmux::PaneState;

    fn pane() -> Pane {
        Pane {
            server: "9".into(),
            session_id: "$1".into(),
            window_id: "@2".into(),
            pane_id: "%3".into(),
            name: "loop/o+r+1".into(),
            state: PaneState::Live,
            clients: 0,
            item: None,
            conversation: None,
        }
    }

    fn orders(frame: &[u8]) -> String {
        let pane = pane();
        let desk = Desk { pane: &pane, viewers: "loop-web/me/o+r+1" };
        desk.orders(&Reader::default().read(frame), "17.4", Some(5))
    }

    #[test]
    fn keys_are_orders_by_name_and_the_rest_in_hexadecimal() {
        let text = orders("é;\x02\x1b[1;6A\x1bx\r".as_bytes());
        let (first, last) = text.trim_end().split_once('\n').unwrap();
        assert!(first.starts_with("if-shell -F -t '=loop-web/me/o+r+1:@2.%3' '#{==:"), "{text}");
        assert!(
            first.ends_with(
                "{ set-environment -h -t '$1' THE_LOOP_TYPED 17.4 ; \
                 send-keys -t '%3' -H c3 a9 3b ; send-keys -t '%3' C-b ; \
                 send-keys -t '%3' C-S-Up ; send-keys -t '%3' M-x ; send-keys -t '%3' Enter }"
            ),
            "{text}"
        );
        assert_eq!(last, "display-message -p 'the-loop: done 5'");
        assert_eq!(done("the-loop: done 5"), Some(5));
        assert_eq!(done("the-loop: done x"), None);
    }

    proptest! {
        #[test]
        fn no_frame_makes_an_order_of_its_own(frame in prop::collection::vec(any::<u8>(), 0..3000)) {
            for line in orders(&frame).lines() {
                let Some((_, steps)) = line.split_once("THE_LOOP_TYPED 17.4 ; ") else {
                    prop_assert_eq!(line, "display-message -p 'the-loop: done 5'");
                    continue;
                };
                for step in steps.strip_suffix(" }").unwrap().split(" ; ") {
                    let keys = step.strip_prefix("send-keys -t '%3' ").unwrap();
                    prop_assert!(
                        keys.bytes().all(|b| b.is_ascii_alphanumeric() || b" -".contains(&b)),
                        "{}", keys
                    );
                }
            }
        }
    }
}
