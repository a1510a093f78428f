//! The configuration: what can be set, its defaults, and how a file becomes a
//! value or an error that shows the spot.
//!
//! `state::config_file` finds and reads the file; this room only sees its text.
//! A file is read in two steps: YAML becomes a tree (`tree`), the tree becomes
//! a [`Config`] (`walk`), and the first fault on the way knows its path. Only
//! then is the spot in the text looked for (`locate`).

mod amounts;
mod clash;
mod declared;
mod error;
mod harness_keys;
mod keys;
mod live;
mod load;
mod locate;
mod model;
mod paths;
mod schema;
mod starter;
mod suggest;
mod tree;
mod values;
mod walk;

pub use amounts::{ByteSize, Span};
pub use declared::{declarations, shipped};
pub use error::ConfigError;
pub use harness_keys::{HarnessOrigin, harness_leaves};
pub use keys::{
    AT_START, Change, Leaf, WITHOUT_EFFECT, changes, is_among, leaves, lines, variable_shown,
};
pub use live::LiveConfig;
pub use load::{MAX_BYTES, fault_at, parse, parse_bytes};
pub use model::*;
pub use schema::{SCHEMA_URL, json_schema};
pub use starter::{Starter, gh_logins};
pub(crate) use suggest::distance;
