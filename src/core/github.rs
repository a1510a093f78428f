//! What is decided about GitHub itself: which webhook is ours and what it lacks,
//! which deliveries it could not hand over, whether it went silent; and what is said
//! there of events and sessions.
//!
//! `serve::github` asks and acts; the doctor and `gh-webhook status` tell. Nothing
//! here knows how GitHub is asked.

mod hook;
mod missed;
mod telling;
mod words;

pub use hook::{Fault, Hook, NoHook, choose, hooks, newest_event, ping, silence};
pub use missed::{Asked, Attempt, KEPT, Plan, attempts, plan};
pub use telling::{End, Moved, Next, Pace, Reaction, Saying, Target, Telling, TheSession, Words};
pub use words::{Comment, comment};
