//! What a pane has shown, for those who cannot scroll in it.

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
            Err(source) if is_absent(&source) => {
                Err(TmuxError::Absent { what: format!("session `{}`", pane.name) })
            }
            Err(source) => Err(TmuxError::Failed { verb: "show a pane's history", source }),
        }
    }
}
