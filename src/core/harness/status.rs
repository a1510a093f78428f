//! The file in which Claude Code says what each of its processes does. It is the
//! program's own affair: what does not look as it was measured says nothing.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::base::ids::HarnessSessionId;
use crate::base::text::{cap, visible};

/// What a harness's own file says that it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentStatus {
    /// It waits for a prompt.
    Idle,
    /// It is in the middle of a turn.
    Busy,
    /// It waits for a person, for this.
    Waiting(String),
}

/// Where the process writes it; nobody has set another directory, for agents are
/// not given that variable.
pub(super) fn file(home: &Path, pid: u32) -> PathBuf {
    home.join(".claude/sessions").join(format!("{pid}.json"))
}

/// What the file says of this process and conversation; nothing when it is about
/// another: one that was killed leaves its file behind.
pub(super) fn read(raw: &Value, pid: u32, conversation: &HarnessSessionId) -> Option<AgentStatus> {
    let text = |key: &str| raw.get(key).and_then(Value::as_str);
    if raw.get("pid").and_then(Value::as_u64) != Some(pid.into())
        || text("sessionId") != Some(conversation.as_str())
    {
        return None;
    }
    match text("status")? {
        "idle" => Some(AgentStatus::Idle),
        "busy" => Some(AgentStatus::Busy),
        "waiting" => {
            let what = text("waitingFor").unwrap_or("a person");
            Some(AgentStatus::Waiting(cap(&visible(what), 200)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_file_of_this_process_and_conversation_says_something() {
        let id: HarnessSessionId = "5fc556da-df67-4581-84ce-2ede8fbb1c5c".parse().unwrap();
        // As 2.1.197 and 2.1.332 write it, shortened.
        let of = |status: &str| {
            json!({ "pid": 29104, "sessionId": id, "procStart": "310474", "version": "2.1.197",
                    "status": status, "waitingFor": "permission prompt\u{1b}" })
        };
        assert_eq!(read(&of("idle"), 29104, &id), Some(AgentStatus::Idle));
        assert_eq!(read(&of("busy"), 29104, &id), Some(AgentStatus::Busy));
        let waiting = AgentStatus::Waiting("permission prompt\\x1b".to_owned());
        assert_eq!(read(&of("waiting"), 29104, &id), Some(waiting));
        assert_eq!(read(&of("shell"), 29104, &id), None);
        assert_eq!(read(&of("idle"), 1, &id), None);
        assert_eq!(read(&of("idle"), 29104, &"other".parse().unwrap()), None);
        assert_eq!(read(&json!([1]), 29104, &id), None);
        assert_eq!(file(Path::new("/h"), 7), Path::new("/h/.claude/sessions/7.json"));
    }
}
