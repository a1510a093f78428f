//! What a pane has shown, and the way back from looking at that in tmux itself.

use super::{Pane, Tmux, TmuxError, is_absent};

/// The most bytes of one history.
const MAX: usize = 16 << 20;

impl Tmux {
    /// What a pane shows and has shown, at most `lines` lines above its screen,
    /// with colours; lines that were wrapped are whole.
    pub async fn history(&self, pane: &Pane, lines: usize) -> Result<String, TmuxError> {
        let start = format!("-{lines}");
        let call = self.call().output_limit(MAX).args(["capture-pane", "-p", "-e", "-J"]);
        let call = call.args(["-S", &start, "-t", &pane.pane_id]);
        match call.run_ok().await {
            Ok(output) => Ok(output.stdout_text()),
            Err(source) => Err(failed(source, pane, "show a pane's history")),
        }
    }

    /// Ends the mode that a pane is in, such as scrolling, so that keys reach its
    /// program again. One that is in none is left alone.
    pub async fn leave_mode(&self, pane: &Pane) -> Result<(), TmuxError> {
        let call = self.call().args(["copy-mode", "-q", "-t", &pane.pane_id]);
        match call.run_ok().await {
            Ok(_) => Ok(()),
            Err(source) => Err(failed(source, pane, "leave a mode")),
        }
    }
}

fn failed(source: crate::base::process::ExecError, pane: &Pane, verb: &'static str) -> TmuxError {
    if is_absent(&source) {
        TmuxError::Absent { what: format!("session `{}`", pane.name) }
    } else {
        TmuxError::Failed { verb, source }
    }
}
