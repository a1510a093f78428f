//! Reads what an agent's program itself says that it does, where it says so in a
//! file: a second source beside the screen.

use std::io::Read as _;
use std::path::Path;

use fs_err as fs;

use crate::base::ids::HarnessSessionId;
use crate::core::harness::{AgentStatus, Harness};

/// A larger file is not that of a process.
const MAX_BYTES: u64 = 64 << 10;

/// What the process says of the conversation; nothing where that cannot be read.
pub fn read(
    harness: &Harness,
    home: &Path,
    pid: u32,
    conversation: &HarnessSessionId,
) -> Option<AgentStatus> {
    let path = harness.status_file(home, pid)?;
    // A pipe would be waited for.
    fs::metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
    let mut bytes = Vec::new();
    fs::File::open(&path).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    harness.status_of(&serde_json::from_slice(&bytes).ok()?, pid, conversation)
}
