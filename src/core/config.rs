//! The configuration: what can be set, its defaults, and how a file becomes a
//! value or an error that shows the spot.
//!
//! `state::config_file` finds and reads the file; this room only sees its text.
//! A file is read in two steps: YAML becomes a tree (`tree`), the tree becomes
//! a [`Config`] (`walk`), and the first fault on the way knows its path. Only
//! then is the spot in the text looked for (`locate`).

mod amounts;
mod error;
mod load;
mod locate;
mod model;
mod paths;
mod suggest;
mod tree;
mod values;
mod walk;

pub use amounts::{ByteSize, Span};
pub use error::ConfigError;
pub use load::{MAX_BYTES, parse, parse_bytes};
pub use model::*;
pub(crate) use suggest::distance;
