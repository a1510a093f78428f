//! What is asked of GitHub while the receiver runs: the deliveries that it could
//! not hand over, and whether the webhook went silent.
//!
//! Off unless `github.redeliver` says otherwise, and without a token. It has a task
//! of its own: nothing that GitHub answers, or does not, holds up a delivery. What
//! it finds is remembered by `state::github`, where `gh-webhook status` and the
//! doctor read it.

mod client;
mod redeliver;
mod report;

pub use client::{API, TOKENS};
pub use redeliver::{Parts, Redeliver};
pub use report::{FaultStatus, GithubStatus, RepoStatus};
