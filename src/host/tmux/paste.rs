//! Typing into a pane. The text goes through tmux's standard input, never
//! through an argument, and each step is guarded inside the server: nothing is
//! typed into a pane whose program has ended (a paste there ends the server of
//! tmux 3.3a) or that is not the pane we mean.

use crate::base::ids::Marker;

use super::{Pane, Tmux, TmuxError, is_absent};

const REFUSED: &str = "the-loop: refused";

impl Tmux {
    /// Pastes `text` as one bracketed paste. `marker` makes the buffer's name
    /// unique, so that two pastes never share one.
    pub async fn paste(&self, pane: &Pane, marker: &Marker, text: &str) -> Result<(), TmuxError> {
        let buffer = format!("the-loop-{marker}");
        // A person's copy mode would not get the paste, but the agent would, unseen.
        let free = "#{==:#{pane_in_mode},0}";
        self.type_guarded(pane, &buffer, "-p -r", free, text).await
    }

    /// Presses the submit key: a carriage return of its own, which reaches the
    /// program even while a person scrolls in the pane.
    pub async fn submit(&self, pane: &Pane, marker: &Marker) -> Result<(), TmuxError> {
        let buffer = format!("the-loop-{marker}-submit");
        self.type_guarded(pane, &buffer, "-r", "1", "\r").await
    }

    /// Puts the draft in the input box aside (`^S`).
    pub async fn stash(&self, pane: &Pane, marker: &Marker) -> Result<(), TmuxError> {
        let buffer = format!("the-loop-{marker}-stash");
        self.type_guarded(pane, &buffer, "-r", "#{==:#{pane_in_mode},0}", "\x13").await
    }

    /// Presses Backspace `keys` times.
    pub async fn backspace(
        &self,
        pane: &Pane,
        marker: &Marker,
        keys: usize,
    ) -> Result<(), TmuxError> {
        let buffer = format!("the-loop-{marker}-remove");
        let keys = "\x7f".repeat(keys);
        self.type_guarded(pane, &buffer, "-r", "#{==:#{pane_in_mode},0}", &keys).await
    }

    async fn type_guarded(
        &self,
        pane: &Pane,
        buffer: &str,
        flags: &str,
        condition: &str,
        text: &str,
    ) -> Result<(), TmuxError> {
        let Pane { server, pane_id, session_id, .. } = pane;
        let alive = format!(
            "#{{&&:#{{==:#{{pid}} #{{session_id}},{server} {session_id}}},\
             #{{&&:#{{==:#{{?pane_dead,1,0}},0}},{condition}}}}}"
        );
        let then = format!("paste-buffer {flags} -d -b {buffer} -t {pane_id}");
        let otherwise = format!("delete-buffer -b {buffer} ; display-message -p '{REFUSED}'");
        let call = self
            .call()
            .args(["load-buffer", "-b", buffer, "-", ";"])
            .args(["if-shell", "-F", "-t", pane_id, &alive, &then, &otherwise])
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
