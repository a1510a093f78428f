//! Typing into a pane. The text goes through tmux's standard input, never
//! through an argument, and each step is guarded inside the server: nothing is
//! typed into a pane whose program has ended (a paste there ends the server of
//! tmux 3.3a) or that is not the pane we mean.

use crate::base::ids::Marker;
use crate::core::config::SubmitKey;

use super::panes::ACTIVITY;
use super::{Look, Pane, Tmux, TmuxError, is_absent};

/// Where something is typed: a pane, as a look showed it. A cursor that moved since
/// means that somebody typed or that another screen was drawn; a later activity,
/// that a person pressed a key. The server itself compares, so that nothing comes
/// between that and the typing.
#[derive(Debug, Clone, Copy)]
pub struct Spot<'a> {
    pane: &'a Pane,
    seen: Option<&'a Look>,
}

impl<'a> From<&'a Pane> for Spot<'a> {
    fn from(pane: &'a Pane) -> Self {
        Self { pane, seen: None }
    }
}

impl Pane {
    /// This pane, while it is as this look showed it.
    pub fn as_seen<'a>(&'a self, look: &'a Look) -> Spot<'a> {
        Spot { pane: self, seen: Some(look) }
    }
}

/// Nobody scrolls in the pane.
const NOT_IN_MODE: &str = "#{==:#{pane_in_mode},0}";

const REFUSED: &str = "the-loop: refused";

impl Tmux {
    /// Pastes `text` as one bracketed paste. `marker` makes the buffer's name
    /// unique, so that two pastes never share one.
    pub async fn paste<'a>(
        &self,
        spot: impl Into<Spot<'a>>,
        marker: &Marker,
        text: &str,
    ) -> Result<(), TmuxError> {
        let buffer = format!("the-loop-{marker}");
        // A person's copy mode would not get the paste, but the agent would, unseen.
        self.type_guarded(spot.into(), &buffer, "-p -r", NOT_IN_MODE, text, 0).await
    }

    /// Presses the submit key: in a paste of its own, which reaches the program even
    /// while a person scrolls in the pane.
    pub async fn submit<'a>(
        &self,
        spot: impl Into<Spot<'a>>,
        marker: &Marker,
        key: SubmitKey,
    ) -> Result<(), TmuxError> {
        let buffer = format!("the-loop-{marker}-submit");
        self.type_guarded(spot.into(), &buffer, "-r", "1", &key.bytes(), 0).await
    }

    /// Puts the draft in the input box aside (`^S`), or brings it back into an
    /// empty one.
    pub async fn stash<'a>(
        &self,
        spot: impl Into<Spot<'a>>,
        marker: &Marker,
    ) -> Result<(), TmuxError> {
        let buffer = format!("the-loop-{marker}-stash");
        self.type_guarded(spot.into(), &buffer, "-r", NOT_IN_MODE, "\x13", 0).await
    }

    /// Presses Backspace `keys` times, `lefts` letters before the cursor.
    pub async fn backspace<'a>(
        &self,
        spot: impl Into<Spot<'a>>,
        marker: &Marker,
        lefts: usize,
        keys: usize,
    ) -> Result<(), TmuxError> {
        let buffer = format!("the-loop-{marker}-remove");
        let keys = "\x7f".repeat(keys);
        self.type_guarded(spot.into(), &buffer, "-r", NOT_IN_MODE, &keys, lefts).await
    }

    async fn type_guarded(
        &self,
        Spot { pane, seen }: Spot<'_>,
        buffer: &str,
        flags: &str,
        condition: &str,
        text: &str,
        lefts: usize,
    ) -> Result<(), TmuxError> {
        let Pane { server, pane_id, window_id, session_id, .. } = pane;
        // By its session: a pane alone would be looked up in the session of a group
        // that was active last.
        let place = format!("{session_id}:{window_id}.{pane_id}");
        let unmoved = seen.map_or("1".to_owned(), |Look { cursor: (x, y), activity, .. }| {
            format!("#{{==:#{{cursor_x}} #{{cursor_y}} {ACTIVITY},{x} {y} {activity}}}")
        });
        let alive = format!(
            "#{{&&:#{{==:#{{pid}} #{{session_id}},{server} {session_id}}},\
             #{{&&:#{{==:#{{?pane_dead,1,0}},0}},#{{&&:{condition},{unmoved}}}}}}}"
        );
        let mut then = format!("paste-buffer {flags} -d -b {buffer} -t {pane_id}");
        if lefts > 0 {
            let step = |key| format!("send-keys -t {pane_id} -N {lefts} {key}");
            then = format!("{} ; {then} ; {}", step("Left"), step("Right"));
        }
        let otherwise = format!("delete-buffer -b {buffer} ; display-message -p '{REFUSED}'");
        let call = self
            .call()
            .args(["load-buffer", "-b", buffer, "-", ";"])
            .args(["if-shell", "-F", "-t", &place, &alive, &then, &otherwise])
            .stdin(text);
        match call.run_ok().await {
            Ok(output) if output.stdout_text().contains(REFUSED) => {
                Err(TmuxError::NotLive { pane: pane_id.clone() })
            }
            Ok(_) => Ok(()),
            Err(source) if is_absent(&source) => {
                Err(TmuxError::Absent { what: format!("pane {pane_id}") })
            }
            Err(source) => Err(TmuxError::Failed { verb: "type into a pane", source }),
        }
    }
}
