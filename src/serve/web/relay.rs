//! Between a browser's WebSocket and a ttyd: frame by frame, each way.
//!
//! The browser's side is subprotocol `tty`, binary frames. From the browser:
//! `0` and bytes are keys, `2` and `3` hold the output and let it go on. To the
//! browser: `0` and bytes are output. What else ttyd has is neither asked for nor
//! passed on; the size is always the agent's own. Beside that there are text
//! frames, each a [`Notice`] in JSON.

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;

use serde::Serialize;

use super::Web;

/// What a terminal's page is told beside the terminal itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Notice {
    /// The size of the agent's window, first and whenever it changes.
    Size {
        /// Columns.
        columns: u16,
        /// Lines.
        lines: u16,
    },
    /// Whether keys are dropped because the pane is in a mode of tmux, or another
    /// pane is in front of the agent's.
    Mode {
        /// Whether they are dropped.
        in_mode: bool,
    },
    /// The session has ended; nothing more comes.
    Ended {
        /// How.
        how: String,
    },
}

/// The routes of the terminals.
pub(super) fn routes(web: Arc<Web>) -> Router {
    Router::new()
        .route("/s/{slug}/ws", get(not_yet))
        .route("/v/{slug}/ws", get(not_yet))
        .with_state(web)
}

async fn not_yet() -> StatusCode {
    StatusCode::NOT_IMPLEMENTED
}
