//! What a session has shown: the panes that ended, the living one's scrollback,
//! or the output of headless turns; rendered here, because a terminal that may
//! not be typed into cannot be scrolled.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::Pages;
use super::html::{Page, escape, escape_only};
use super::paint::paint;
use super::session::{Standing, head};
use crate::base::failure::chain;
use crate::base::runtime::beside;
use crate::base::text::visible;
use crate::core::session::SessionRecord;
use crate::host::tmux::{Pane, pane_of};
use crate::host::{history, pane_log};

/// How many lines are shown of what has ended, and of what lives.
const LINES: usize = pane_log::LINES;

/// The most that is read of one turn's output.
const MAX_TURN: u64 = 256 << 10;

/// `GET /v/{slug}/history`.
pub(super) async fn history(State(pages): State<Arc<Pages>>, Path(slug): Path<String>) -> Response {
    match pages.record(&slug) {
        Ok(record) => pages.past(&record, None).await,
        Err(answer) => *answer,
    }
}

impl Pages {
    /// The page of what a session has shown; `how` it ended, when that is why it
    /// is shown.
    pub(super) async fn past(&self, record: &SessionRecord, how: Option<&str>) -> Response {
        let standing = self.look_at(record).await;
        let is_live = matches!(standing, Standing::Live(_));
        let how = match (&standing, how) {
            (Standing::Ended(how), None) => Some(how.clone()),
            (_, how) => how.map(str::to_owned),
        };
        let shown = match self.shown(record).await {
            Ok(shown) => shown,
            Err(error) => return self.failed("The history cannot be read", &error),
        };
        let links: &[_] =
            if is_live { &[("Type", "/s/{slug}/"), ("Watch", "/v/{slug}/")] } else { &[] };
        let mut body = head(record, links);
        if let Some(how) = how {
            let how = escape(&how);
            let _ = writeln!(body, "<p id=\"ended\" class=\"notice\" role=\"status\">{how}</p>");
        }
        let slug = record.slug();
        let shown = if shown.is_empty() {
            "<p>Nothing was shown yet.</p>".to_owned()
        } else {
            format!("<pre class=\"history\" tabindex=\"0\" aria-label=\"History\">{shown}</pre>")
        };
        let live = if is_live { " data-live" } else { "" };
        let _ = write!(body, "<main data-slug=\"{slug}\"{live}>{shown}</main>");
        let title = format!("History of {} · the-loop", record.work_item.reference.short());
        Page {
            version: self.assets.version(),
            title: &title,
            class: "past",
            styles: &["colours.css"],
            script: Some("history.mjs"),
            body: &body,
        }
        .answer(StatusCode::OK)
    }

    /// The markup of what a session has shown.
    async fn shown(&self, record: &SessionRecord) -> std::io::Result<String> {
        let parts = &self.web.parts;
        let slug = record.slug();
        let is_headless = record.is_headless();
        let (paths, name) = (parts.paths.clone(), slug.clone());
        // Files of some length: not on a thread that answers others.
        let kept = beside(move || {
            if is_headless {
                history::of_turns(&paths, &name, MAX_TURN)
            } else {
                pane_log::read(&paths, &name)
            }
        })?;
        let kept = kept.await??;
        let begin = kept.len().saturating_sub(LINES);
        let mut out = String::new();
        for line in &kept[begin..] {
            out.push_str(&escape_only(&visible(line)));
            out.push('\n');
        }
        if is_headless {
            return Ok(out);
        }
        let panes = parts.tmux.panes().await.unwrap_or_default();
        if let Some(pane) = pane_of(&panes, &slug).filter(|pane| pane.is_of(&slug)) {
            out.push_str(&self.scrollback(pane).await);
        }
        Ok(out)
    }

    async fn scrollback(&self, pane: &Pane) -> String {
        match self.web.parts.tmux.history(pane, LINES).await {
            Ok(text) => {
                let lines: Vec<_> = text.lines().map(|line| line.trim_end_matches(' ')).collect();
                paint(lines.join("\n").trim_end())
            }
            Err(error) => {
                tracing::debug!(error = %chain(&error), "the pane's history is gone");
                String::new()
            }
        }
    }
}
