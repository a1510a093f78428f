//! What is asked of GitHub while the receiver runs: the deliveries that it could
//! not hand over, and whether the webhook went silent; and what is said there of
//! events and sessions.
//!
//! Off unless `github.redeliver`, `github.reactions` or `github.comments` says
//! otherwise, and without a token. Each has a task of its own: nothing that GitHub
//! answers, or does not, holds up a delivery. What they find is remembered by
//! `state::github`, where `gh-webhook status` and the doctor read it.

mod client;
mod redeliver;
mod report;
mod rests;
mod say;
mod tell;

pub use client::{API, TOKENS, tokens_of};
pub use redeliver::{Parts, Redeliver};
pub use report::{FaultStatus, GithubStatus, RepoStatus, TellingStatus};
pub use rests::Rests;
pub use tell::Tell;
