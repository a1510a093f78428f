//! Pure decisions: functions of values, with no input or output, no clock and
//! no tasks in them. Every rule of the product can be read, and tested, here.

pub mod admission;
pub mod config;
pub mod dispatch;
pub mod event;
pub mod harness;
pub mod inject;
pub mod outcome;
pub mod platform;
pub mod routing;
pub mod service;
pub mod session;
pub mod typed;
pub mod workspace;
