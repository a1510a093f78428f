//! Faces to others: the receiver, the daemon around it, its control socket.

mod agents_words;
pub mod control;
pub mod daemon;
mod forget;
pub mod github;
pub mod intake;
mod lock;
pub mod metrics;
mod port;
mod rebuild;
pub mod receiver;
pub mod reload;
pub mod sight;
pub mod templates;
mod trees;
pub mod web;
