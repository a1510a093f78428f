//! Acting on this machine: tmux, the runners, the dispatcher's driver.

pub mod dispatch;
pub mod runner;
pub mod tmux;
