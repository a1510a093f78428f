//! What a person can do about a reason: the other half of every answer to "why
//! did nothing happen?".

use super::Reason;
use crate::base::ids::{DeliveryId, WorkItem};

impl Reason {
    /// What would have changed the decision, or what to do about it now, for this
    /// delivery; nothing where there is nothing to be done. Its commands can be
    /// pasted into a shell.
    pub fn advice(self, id: &DeliveryId, item: Option<&WorkItem>) -> Option<String> {
        let text = self.general_advice()?;
        let text = text.replace("replay ID", &format!("replay {id}"));
        Some(match item {
            Some(item) => text.replace("ITEM", &item.short()),
            None => text,
        })
    }

    /// The same, with `ID` and `ITEM` for the delivery and its item.
    fn general_advice(self) -> Option<&'static str> {
        Some(match self {
            Self::RoutingDisabled => "set `routing.enabled: true`",
            Self::RepositoryNotListed => "add the repository to `routing.repositories`",
            Self::SenderNotAuthorized => {
                "add the sender to `routing.authorizedUsers`, reload, then \
                 `the-loop gh-webhook replay ID`"
            }
            Self::AuthorNotAuthorized => {
                "add the author to `routing.authorizedUsers`, reload, then \
                 `the-loop gh-webhook replay ID`"
            }
            Self::BotNotListed => {
                "add the bot in quotes (`\"name[bot]\"`) to `routing.authorizedUsers`, reload, then \
                 `the-loop gh-webhook replay ID`"
            }
            Self::NoSession => {
                "comment `the-loop start` on the item, or set `routing.spawnOnUnmatched`"
            }
            Self::NotArmed | Self::OtherLabel => {
                "set the label of `routing.autoExecuteLabel`, or comment `the-loop start`"
            }
            Self::AlreadyArmed | Self::LinkedToIssue | Self::ForeignHead => {
                "comment on it: that is told to the session"
            }
            Self::TurnTimedOut => {
                "raise `routing.dispatchTimeoutSeconds`, or comment on the item to go on"
            }
            Self::NoTmux => {
                "`the-loop doctor --for tmux`, restart the receiver, then \
                 `the-loop gh-webhook replay ID`"
            }
            Self::InboxDamaged => {
                "have GitHub send it again: the webhook's page, Recent Deliveries"
            }
            Self::Attached => "end the program of `sessions attach`: what waits follows",
            Self::ItemIsClosed => "open the item again, then arm it",
            Self::SessionClosed => "comment on the item: that resumes its session",
            Self::AgentAsks => "answer it: `the-loop sessions attach ITEM`",
            Self::HumanDraft => "submit or clear what stands in the agent's input box",
            Self::NotReading => "let the agent's program go on (`kill -CONT`), or end it",
            Self::CopyMode => "leave tmux's copy mode in that pane: `q`",
            Self::UnknownScreen => {
                "look at it: `the-loop sessions attach ITEM`; what the input of a declared \
                 harness must look like, docs/harnesses.md tells (`screen`)"
            }
            Self::NotReady => "look at it: `the-loop sessions attach ITEM`",
            Self::RateLimited => {
                "`the-loop sessions resume ITEM`; raise `routing.rateLimit` when it was no loop"
            }
            Self::SessionsFull => {
                "close another session (`the-loop sessions list`), or raise `routing.maxSessions`"
            }
            Self::MemoryLow => "free some memory, or lower `routing.memoryFloor`",
            Self::ForkDenied => "set `routing.workspace.forks: allow` where you trust the fork",
            Self::UnknownHead => "open a pull request for the branch: its checks are told",
            Self::PausedByHand | Self::SessionPaused => "`the-loop sessions resume ITEM`",
            Self::HarnessExited
            | Self::StartFailed
            | Self::TurnFailed
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_advice_names_the_delivery_and_the_item_that_are_meant() {
        let (id, item) = ("72d3162e-cc78".parse().unwrap(), "o/r#1".parse().unwrap());
        let all = || Reason::ALL.iter().filter_map(|reason| reason.advice(&id, Some(&item)));
        assert!(all().count() > 15);
        for advice in all() {
            let words: Vec<_> = advice.split(|c: char| !c.is_alphanumeric()).collect();
            assert!(!words.contains(&"ID") && !words.contains(&"ITEM"), "{advice}");
        }
        let said = Reason::HarnessExited.advice(&id, None).unwrap();
        assert_eq!(said, "mend the cause, then `the-loop gh-webhook replay 72d3162e-cc78`");
        let said = Reason::AgentAsks.advice(&id, Some(&item)).unwrap();
        assert_eq!(said, "answer it: `the-loop sessions attach o/r#1`");
    }
}
