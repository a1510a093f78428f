//! What a person can do about a reason: the other half of every answer to "why
//! did nothing happen?".

use super::Reason;

impl Reason {
    /// What would have changed the decision, or what to do about it now; nothing
    /// where there is nothing to be done.
    pub fn advice(self) -> Option<&'static str> {
        Some(match self {
            Self::RoutingDisabled => "set `routing.enabled: true`",
            Self::RepositoryNotListed => "add the repository to `routing.repositories`",
            Self::SenderNotAuthorized => "add the sender to `routing.authorizedUsers`",
            Self::AuthorNotAuthorized => "add the author to `routing.authorizedUsers`",
            Self::BotNotListed => "add the bot (`name[bot]`) to `routing.authorizedUsers`",
            Self::NoSession => {
                "comment `the-loop start` on the item, or set `routing.spawnOnUnmatched`"
            }
            Self::NotArmed | Self::OtherLabel => {
                "set the label of `routing.autoExecuteLabel`, or comment `the-loop start`"
            }
            Self::ItemIsClosed => "open the item again, then arm it",
            Self::SessionClosed => "comment on the item: that resumes its session",
            Self::AgentAsks => "answer it: `the-loop sessions attach ITEM`",
            Self::HumanDraft => "submit or clear what stands in the agent's input box",
            Self::NotReading => "let the agent's program go on (`kill -CONT`), or end it",
            Self::CopyMode => "leave tmux's copy mode in that pane: `q`",
            Self::UnknownScreen | Self::NotReady => "look at it: `the-loop sessions attach ITEM`",
            Self::RateLimited => {
                "`the-loop sessions resume ITEM`; raise `routing.rateLimit` when it was no loop"
            }
            Self::SessionsFull => {
                "`the-loop sessions close ITEM` of another, or raise `routing.maxSessions`"
            }
            Self::MemoryLow => "free some memory, or lower `routing.memoryFloor`",
            Self::ForkDenied => "set `routing.workspace.forks: allow` where you trust the fork",
            Self::PausedByHand => "`the-loop sessions resume ITEM`",
            Self::HarnessExited
            | Self::StartFailed
            | Self::WorkTreeFailed
            | Self::TmuxFailed
            | Self::NeverSeen
            | Self::Internal
            | Self::RegistryUnreadable
            | Self::ClosedBeforeDelivery => "mend the cause, then `the-loop gh-webhook replay ID`",
            Self::NoSignal => {
                "look whether the agent has it; if not, `the-loop gh-webhook replay ID`"
            }
            Self::AgentsOwnWords => "if a person wrote it, `the-loop sessions send ITEM TEXT`",
            _ => return None,
        })
    }
}
