//! The receiver's figures as Prometheus text: on the control socket, and on
//! `metrics.listen` when that is set. Never on the public port.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::extract::State as AxumState;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use jiff::Timestamp;

use super::receiver::Refusals;
use crate::core::outcome::State;
use crate::state::inbox::{Inbox, InboxError};

/// What the figures are taken from.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// The deliveries.
    pub inbox: Inbox,
    /// What was refused.
    pub refused: Arc<Refusals>,
    /// Since when the receiver runs.
    pub started_at: Timestamp,
}

impl Metrics {
    /// A service with `GET /metrics` and nothing else.
    pub fn router(self) -> Router {
        Router::new().route("/metrics", get(answer)).with_state(self)
    }

    /// The figures, in Prometheus' text format.
    pub fn text(&self) -> Result<String, InboxError> {
        let counts = self.inbox.counts()?;
        let mut out = String::new();
        family(&mut out, "the_loop_deliveries", "gauge", "Recorded deliveries by state.");
        for state in State::ALL {
            let count = counts.get(state).copied().unwrap_or(0);
            let _ = writeln!(out, "the_loop_deliveries{{state=\"{state}\"}} {count}");
        }
        let commits = self.inbox.commits();
        family(&mut out, "the_loop_commits_total", "counter", "Transactions of this run.");
        let _ = writeln!(out, "the_loop_commits_total {commits}");
        let help = "Requests of this run that were refused, by the answer's status.";
        family(&mut out, "the_loop_refused_requests_total", "counter", help);
        let mut by_status = BTreeMap::<u16, u64>::new();
        for refused in self.refused.all() {
            *by_status.entry(refused.status).or_default() += refused.count;
        }
        for (status, count) in by_status {
            let _ = writeln!(out, "the_loop_refused_requests_total{{status=\"{status}\"}} {count}");
        }
        family(&mut out, "the_loop_inbox_bytes", "gauge", "Size of the inbox's file.");
        let bytes = fs_err::metadata(self.inbox.path()).map_or(0, |meta| meta.len());
        let _ = writeln!(out, "the_loop_inbox_bytes {bytes}");
        family(&mut out, "the_loop_start_time_seconds", "gauge", "When the receiver started.");
        let _ = writeln!(out, "the_loop_start_time_seconds {}", self.started_at.as_second());
        let last = self.inbox.last_delivery()?.map_or(0, |last| last.received_at.as_second());
        family(&mut out, "the_loop_last_delivery_time_seconds", "gauge", "The latest delivery.");
        let _ = writeln!(out, "the_loop_last_delivery_time_seconds {last}");
        family(&mut out, "the_loop_info", "gauge", "The program's version.");
        let _ = writeln!(out, "the_loop_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
        Ok(out)
    }
}

fn family(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

async fn answer(AxumState(metrics): AxumState<Metrics>) -> Response {
    match metrics.text() {
        Ok(text) => {
            let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
            (kind, text).into_response()
        }
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}
