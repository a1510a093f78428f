//! What can become of a delivery: the closed vocabularies of states and reasons
//! that the inbox stores and people read.

use serde::{Deserialize, Serialize};

mod advice;

macro_rules! vocabulary {
    (
        $(#[$meta:meta])* $name:ident {
            $($(#[doc = $doc:literal])+ $variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name {
            $($(#[doc = $doc])+ #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            /// Every word of the vocabulary.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The word as it is stored and printed.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// The word with this text.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text)
            }

            /// What it means, for people.
            pub fn explain(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii()),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

vocabulary! {
    /// Where a delivery stands.
    State {
        /// On disk, not yet looked at.
        Received = "received",
        /// Meant for a session and waiting for its turn.
        Queued = "queued",
        /// Being told to its session.
        Injecting = "injecting",
        /// The agent's own signal proved that it arrived.
        Delivered = "delivered",
        /// An instruction to us (close a session, a ping): done.
        Done = "done",
        /// Not meant for an agent; the reason says why.
        Ignored = "ignored",
        /// Could not be delivered; the reason says why.
        Failed = "failed",
        /// Told, and no signal proves whether it arrived; not sent again.
        Unproven = "unproven",
    }
}

impl State {
    /// Whether nothing more will happen to the delivery by itself.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Received | Self::Queued | Self::Injecting)
    }
}

vocabulary! {
    /// Why a delivery stands where it stands.
    Reason {
        /// Stored before it was answered.
        Stored = "stored",
        /// GitHub's greeting to a new webhook.
        Ping = "ping",
        /// Routing is off in the configuration.
        RoutingDisabled = "routing-disabled",
        /// The body is not JSON, or lacks what its event needs.
        Unreadable = "unreadable",
        /// This kind of event is recorded only.
        EventNotRouted = "event-not-routed",
        /// This action of the event is recorded only.
        ActionNotRouted = "action-not-routed",
        /// The event names no issue and no pull request.
        NoWorkItem = "no-work-item",
        /// The repository is not in `routing.repositories`.
        RepositoryNotListed = "repository-not-listed",
        /// The sender is not in `routing.authorizedUsers`.
        SenderNotAuthorized = "sender-not-authorized",
        /// The author of the text is not in `routing.authorizedUsers`.
        AuthorNotAuthorized = "author-not-authorized",
        /// The event was made by a bot that is not listed.
        BotNotListed = "bot-not-listed",
        /// Our own words: the text ends with our marker.
        OwnVoice = "own-voice",
        /// The text stands in the agent's own transcript of the last ten minutes.
        AgentsOwnWords = "agents-own-words",
        /// The item has no session and the event may not start one.
        NoSession = "no-session",
        /// The item is not armed by the label.
        NotArmed = "not-armed",
        /// Another label than the arming one.
        OtherLabel = "other-label",
        /// The item is armed already and has its session.
        AlreadyArmed = "already-armed",
        /// The check did not fail.
        CheckNotFailed = "check-not-failed",
        /// This failure was told before.
        CheckAlreadyTold = "check-already-told",
        /// The head of the pull request is in another repository.
        ForeignHead = "foreign-head",
        /// The check names no pull request, and nothing proves that its commit is in
        /// the item's own repository.
        UnknownHead = "unknown-head",
        /// There is no text in it.
        EmptyText = "empty-text",
        /// The pull request was closed, and the session is not its own.
        NotTheSessionsItem = "not-the-sessions-item",
        /// The session is closed or closing.
        SessionClosed = "session-closed",
        /// An authorised user armed the item.
        Armed = "armed",
        /// It belongs to the item's session.
        Matched = "matched",
        /// It belongs to the session of the issue that the pull request is for.
        MatchedByLink = "matched-by-link",
        /// A person sent it with `sessions send`.
        SentByHand = "sent-by-hand",
        /// A person closed the session with `sessions close`.
        ClosedByHand = "closed-by-hand",
        /// A listed user commented `the-loop start`.
        StartedByHand = "started-by-hand",
        /// A listed user commented `the-loop stop`: the session is closed.
        StoppedByHand = "stopped-by-hand",
        /// A listed user commented `the-loop pause`: events are kept from now on.
        PausedByHand = "paused-by-hand",
        /// A listed user commented `the-loop resume`: what was kept is told.
        ResumedByHand = "resumed-by-hand",
        /// The session is not paused, so there is nothing to resume.
        NotPaused = "not-paused",
        /// More events in an hour than `routing.rateLimit`: the session is paused
        /// and the event kept. Resume it when its agent does not answer itself.
        RateLimited = "rate-limited",
        /// The inbox was damaged, and a part of the delivery is lost.
        InboxDamaged = "inbox-damaged",
        /// It is to be routed again: a person asked for it.
        Replayed = "replayed",
        /// The item was closed: its session is closed.
        ItemClosed = "item-closed",
        /// Waits for what is before it in its session's queue.
        Waiting = "waiting",
        /// Waits until a session may start.
        WaitingForStart = "waiting-for-start",
        /// The agent is in the middle of a turn.
        AgentBusy = "agent-busy",
        /// The agent asks something that only a person should answer.
        AgentAsks = "agent-asks",
        /// A person has text in the agent's input box.
        HumanDraft = "human-draft",
        /// A person pressed a key in the session a moment ago.
        HumanTyping = "human-typing",
        /// The submit key did nothing; the text was taken out of the box again.
        SubmitIgnored = "submit-ignored",
        /// The agent's program does not read what is typed: it is stopped or hangs.
        NotReading = "not-reading",
        /// The pane is in tmux's copy mode.
        CopyMode = "copy-mode",
        /// The screen shows nothing that the harness is known to show.
        UnknownScreen = "unknown-screen",
        /// Typing has begun.
        Pasted = "pasted",
        /// The submit key was pressed.
        Submitted = "submitted",
        /// The agent's own record holds the delivery's marker.
        Accepted = "accepted",
        /// The agent printed the result of its turn; no record of it holds the marker.
        AcceptedByResult = "accepted-by-result",
        /// The signal proving it was found after a restart.
        AcceptedBeforeRestart = "accepted-before-restart",
        /// The session was closed before it could be delivered.
        ClosedBeforeDelivery = "closed-before-delivery",
        /// The agent ended before it was ready.
        HarnessExited = "harness-exited",
        /// The agent was started and never said that it was ready.
        NotReady = "not-ready",
        /// The agent could not be started.
        StartFailed = "start-failed",
        /// tmux did not do what it was asked.
        TmuxFailed = "tmux-failed",
        /// The text went in and never showed in the input box.
        NeverSeen = "never-seen",
        /// Nothing proves that the agent took it, and nothing that it did not.
        NoSignal = "no-signal",
        /// The session's registry entry cannot be read.
        RegistryUnreadable = "registry-unreadable",
        /// A part of this program failed; the log has more.
        Internal = "internal",
        /// It had failed, and GitHub sent it again.
        Redelivered = "redelivered",
        /// The item has no session yet, and `routing.spawnOnUnmatched` is `always`.
        SpawnAlways = "spawn-always",
        /// The item was opened again: its next event resumes the session.
        Reopened = "reopened",
        /// The pull request belongs to its issue's session, which is not told.
        LinkedToIssue = "linked-to-issue",
        /// A person paused the session: the event is kept.
        SessionPaused = "session-paused",
        /// A person drives the conversation with `sessions attach`.
        Attached = "attached",
        /// A headless turn runs.
        TurnRunning = "turn-running",
        /// A headless turn ran past `routing.dispatchTimeoutSeconds`.
        TurnTimedOut = "turn-timed-out",
        /// A headless turn ended with a failure.
        TurnFailed = "turn-failed",
        /// The agent took it, and how its turn ended was not seen or failed.
        AcceptedWithoutResult = "accepted-without-result",
        /// The agent no longer had the conversation: a fresh one was begun.
        FreshConversation = "fresh-conversation",
        /// The agent had ended: it was started again with its conversation, and is
        /// told so.
        Resumed = "resumed",
        /// No usable tmux was found when the receiver started.
        NoTmux = "no-tmux",
        /// As many sessions are open as `routing.maxSessions` allows.
        SessionsFull = "sessions-full",
        /// Less memory is free than `routing.memoryFloor`.
        MemoryLow = "memory-low",
        /// The item's git work tree could not be made or entered.
        WorkTreeFailed = "work-tree-failed",
        /// The pull request's head is not in its repository, and
        /// `routing.workspace.forks` denies working on what a fork sent.
        ForkDenied = "fork-denied",
        /// The item is closed, and a closed item starts no session.
        ItemIsClosed = "item-is-closed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_back() {
        for reason in Reason::ALL {
            assert_eq!(Reason::parse(reason.as_str()), Some(*reason));
            assert!(!reason.explain().is_empty());
        }
        assert_eq!(State::parse("queued"), Some(State::Queued));
        assert_eq!(State::parse("nonsense"), None);
    }
}
