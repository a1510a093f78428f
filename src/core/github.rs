//! What is decided about GitHub itself: which webhook is ours and what it lacks,
//! which deliveries it could not hand over, whether it went silent.
//!
//! `serve::github` asks and acts; the doctor and `gh-webhook status` tell. Nothing
//! here knows how GitHub is asked.

mod hook;
mod missed;

pub use hook::{Fault, Hook, NoHook, choose, hooks, newest_event, ping, silence};
pub use missed::{Asked, Attempt, KEPT, Plan, attempts, plan};
