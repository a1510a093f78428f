//! The pages: the list of the sessions, and one page for each to type and to
//! watch.

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, post};

use super::Web;

/// The routes of the pages.
pub(super) fn routes(web: Arc<Web>) -> Router {
    Router::new()
        .route("/", get(not_yet))
        .route("/s/{slug}/", get(not_yet))
        .route("/s/{slug}/leave-mode", post(not_yet))
        .route("/v/{slug}/", get(not_yet))
        .route("/v/{slug}/history", get(not_yet))
        .with_state(web)
}

async fn not_yet() -> StatusCode {
    StatusCode::NOT_IMPLEMENTED
}
