//! Acting on this machine: tmux, the runners, the dispatcher's driver, and the
//! agent of the demo.

pub mod agents;
pub mod demo_agent;
pub mod dispatch;
pub mod history;
pub mod keeper;
pub mod live;
pub mod notify;
pub mod pane_log;
pub mod runner;
pub mod status;
pub mod tmux;
pub mod ttyd;
pub mod workspace;
