//! Faces to others: the receiver, the daemon around it, its control socket.

pub mod control;
pub mod daemon;
pub mod intake;
pub mod receiver;
pub mod reload;
