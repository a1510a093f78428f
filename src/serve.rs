//! Faces to others: what listens, and what it answers.

pub mod receiver;
