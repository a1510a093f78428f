//! What kind of machine this is, told from given facts, and what that means for
//! the tools: which build fits it and which command installs one.
//!
//! `doctor` gathers the facts; everything here is a function of them, so that
//! every combination of system and release is a line in a table.

mod distro;
mod guidance;
mod host;
mod pins;
mod version;

pub use distro::Distro;
pub use guidance::{Remedy, remedy_again, remedy_by, remedy_for};
pub use host::{Arch, Facts, Host, Libc, Os, PackageManager, Privilege};
pub use pins::{Defect, Format, NoPin, Pin, ToolData, tool_data};
pub use version::Version;
