//! Typing an event into a live agent, and proving that it was accepted.

pub mod screen;
