//! The hands of `core::inject`: looks at the session, asks the machine, and
//! does what it says, each step on disk before it is done.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::base::checkpoint::Checkpoint;
use crate::base::clock::Clock;
use crate::base::failure::chain;
use crate::base::ids::HarnessSessionId;
use crate::base::text::{cap, visible};
use crate::core::dispatch::Delivered;
use crate::core::harness::{AgentStatus, Harness};
use crate::core::inject::screen::{Activity, InputBox, Reading, Screen};
use crate::core::inject::{
    Action, Agent, Injection, Input, Observation, Outcome, Pace, Pane as PaneSeen, Progress,
};
use crate::core::outcome::{Reason, State};
use crate::host::status;
use crate::host::tmux::{Pane, PaneState, Tmux, TmuxError};
use crate::state::inbox::{Inbox, QueuedDelivery};
use crate::state::spool;

use super::Brakes;
use super::signals::{SignalLog, news};
use super::told::Told;
use super::tracer::Tracer;

/// How many seconds after a person's key everything of ours waits. tmux tells
/// the key's time in whole seconds.
const HOLD_AFTER_KEY: i64 = 3;
/// How long after a failure of the inbox it is tried again.
const PUT_DOWN_AGAIN: Duration = Duration::from_secs(1);
/// How long a signal that was on its way when the agent ended may take.
const LATE_SIGNAL: Duration = Duration::from_millis(300);
/// How long a text that was submitted may still stand in the box once the
/// delivery was called off.
const CALLED_OFF_WITHIN: Duration = Duration::from_secs(10);

/// One delivery on its way into one pane.
pub(super) struct Injector<'a> {
    pub(super) tmux: &'a Tmux,
    pub(super) pane: &'a Pane,
    pub(super) harness: &'a Harness,
    pub(super) inbox: &'a Inbox,
    pub(super) news: Option<watch::Receiver<u64>>,
    pub(super) signals: &'a mut SignalLog,
    pub(super) delivery: &'a QueuedDelivery,
    /// The same with each of those that are told in one text.
    pub(super) told: &'a Told,
    /// Whether it may go in while a turn runs.
    pub(super) into_turns: bool,
    /// Keys that a person pressed before this second do not count: that person
    /// let it in.
    pub(super) released_at: Option<i64>,
    pub(super) tracer: Tracer,
    /// The agent's process and its user's home, where its own file may say what it
    /// does.
    pub(super) process: Option<(u32, PathBuf)>,
    pub(super) conversation: HarnessSessionId,
    pub(super) clock: &'a Clock,
    pub(super) spool: PathBuf,
    /// When the text was pasted, in seconds of Unix time; before that, for ever ago.
    pub(super) pasted_at: i64,
}

impl Injector<'_> {
    /// Runs the injection to its end.
    pub(super) async fn run(mut self, progress: Progress, brakes: &Brakes) -> Delivered {
        let Brakes { call_off, give_way } = brakes;
        let began = Instant::now();
        let profile = self.harness.profile();
        let pace = Pace {
            submit_gap: profile.submit_gap,
            retry_gap: profile.retry_gap,
            max_submits: profile.submit_retries + 1,
            ack_timeout: profile.ack_timeout,
            stashes: profile.stashes,
            into_turns: self.into_turns,
        };
        let mut injection = Injection::new(pace, progress);
        let mut submitted = progress == Progress::Submitted;
        let mut told = None;
        let mut called_off_at = None;
        // Held from the text being seen to the submit key: no tool begins meanwhile.
        let mut gate = None;
        self.signals.search_again();
        loop {
            if !injection.is_about_to_submit() {
                gate = None;
            } else if gate.is_none() {
                gate = spool::hold_tools(&self.spool)
                    .inspect_err(|error| tracing::debug!(%error, "tools are not held back"))
                    .ok();
            }
            let (seen, backspaces) = match self.observe(began, injection.is_under_way()).await {
                Ok(seen) => seen,
                // What was submitted is never offered again for tmux's sake.
                Err(error) if submitted => return self.without_sight(&error).await,
                Err(error) => return broken(&error),
            };
            let action = injection.next(&seen);
            self.tracer.note(&seen, &action);
            let wait = match action {
                Action::Look(wait) => {
                    let mixed = Some((Reason::HumanDraft, None));
                    if seen.input == Input::Mixed && !submitted && told != mixed {
                        self.record(State::Injecting, Reason::HumanDraft, None).await;
                        told = mixed;
                    }
                    wait
                }
                Action::Hold(reason, wait) => {
                    let detail = match &seen.agent {
                        Agent::Asks(what) => Some(cap(&visible(what), 200)),
                        _ => None,
                    };
                    if told != Some((reason, detail.clone())) {
                        self.record(State::Queued, reason, detail.clone()).await;
                        told = Some((reason, detail));
                    }
                    wait
                }
                Action::Paste => {
                    if let Err(error) = self.put_down(Reason::Pasted).await {
                        return error;
                    }
                    self.pasted_at = self.clock.now().as_second();
                    Checkpoint::BeforePaste.reached();
                    let delivery = self.delivery;
                    let pasted =
                        self.tmux.paste(self.pane, &delivery.marker, &delivery.prompt).await;
                    Checkpoint::Paste.reached();
                    match pasted {
                        // The next look says what the pane is now.
                        Ok(()) | Err(TmuxError::NotLive { .. }) => Duration::from_millis(5),
                        Err(error) => return broken(&error),
                    }
                }
                Action::Submit => {
                    let mut is_late = false;
                    while let Err(error) = self.put_down(Reason::Submitted).await {
                        // Our text stands in the box, so it is not given up for a disk
                        // that is full.
                        tracing::warn!(delivery = %self.delivery.id, ?error, "cannot go on yet");
                        is_late = true;
                        tokio::time::sleep(PUT_DOWN_AGAIN).await;
                    }
                    submitted = true;
                    Checkpoint::BeforeSubmit.reached();
                    // What was seen is too old by then: the next look decides again.
                    if !is_late
                        && let Err(error) = self.tmux.submit(self.pane, &self.delivery.marker).await
                    {
                        // It may have been pressed all the same: the signal tells.
                        tracing::warn!(delivery = %self.delivery.id, error = %chain(&error),
                            "could not press the submit key");
                    }
                    Checkpoint::Submit.reached();
                    Duration::from_millis(5)
                }
                Action::Stash => {
                    let stashed = self.tmux.stash(self.pane, &self.delivery.marker).await;
                    if let Err(error @ TmuxError::Failed { .. }) = stashed {
                        return broken(&error);
                    }
                    Duration::from_millis(5)
                }
                Action::Remove => {
                    let keys = backspaces.unwrap_or(0);
                    let removed = self.tmux.backspace(self.pane, &self.delivery.marker, keys).await;
                    if let Err(error @ TmuxError::Failed { .. }) = removed {
                        return broken(&error);
                    }
                    Duration::from_millis(5)
                }
                Action::Finish(Outcome::Gone) => return self.gone(submitted).await,
                Action::Finish(outcome) => {
                    if outcome == Outcome::Accepted {
                        Checkpoint::Acknowledge.reached();
                    }
                    return Delivered::Ended(outcome);
                }
            };
            if call_off.is_cancelled() {
                let since = *called_off_at.get_or_insert_with(Instant::now);
                if !submitted {
                    return Delivered::CalledOff;
                }
                if since.elapsed() > CALLED_OFF_WITHIN {
                    return Delivered::Ended(Outcome::Unproven);
                }
            }
            if give_way.is_cancelled() && injection.is_at_gate() {
                return Delivered::GaveWay;
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = news(&mut self.news) => {}
                () = call_off.cancelled(), if called_off_at.is_none() => {}
                () = give_way.cancelled(), if injection.is_at_gate() => {}
            }
        }
    }

    /// tmux does not show the session any more. The agent's own record may still
    /// tell what became of the text.
    async fn without_sight(&mut self, error: &TmuxError) -> Delivered {
        tracing::warn!(delivery = %self.delivery.id, error = %chain(error),
            "cannot look at the session; waiting for the agent's word");
        let deadline = Instant::now() + self.harness.profile().ack_timeout;
        while !self.has_taken() {
            if Instant::now() >= deadline {
                return Delivered::Ended(Outcome::Unproven);
            }
            tokio::select! {
                () = tokio::time::sleep(LATE_SIGNAL) => {}
                () = news(&mut self.news) => {}
            }
        }
        Delivered::Ended(Outcome::Accepted)
    }

    /// The agent is gone. What it told with its last breath still counts.
    async fn gone(&mut self, submitted: bool) -> Delivered {
        tokio::time::sleep(LATE_SIGNAL).await;
        if self.has_taken() {
            return Delivered::Ended(Outcome::Accepted);
        }
        if submitted && !self.harness.profile().gives_proof {
            return Delivered::Ended(Outcome::Unproven);
        }
        Delivered::Ended(Outcome::Gone)
    }

    /// One look, and how many Backspaces would take our text out of the box.
    async fn observe(
        &mut self,
        began: Instant,
        under_way: bool,
    ) -> Result<(Observation, Option<usize>), TmuxError> {
        let look = self.tmux.look(self.pane).await;
        // After the screen: a signal that is older than the screen is never missed.
        let accepted = self.has_taken();
        let elapsed = began.elapsed();
        let look = match look {
            Ok(look) => look,
            Err(TmuxError::Absent { .. }) => {
                let absent = Observation {
                    pane: PaneSeen::Absent,
                    agent: Agent::Unknown,
                    input: Input::Absent,
                    accepted,
                    typing: false,
                    stashed: false,
                    removable: false,
                    elapsed,
                };
                return Ok((absent, None));
            }
            Err(error) => return Err(error),
        };
        let reading = self.harness.read_screen(&Screen {
            text: &look.screen,
            cursor: look.cursor,
            columns: look.columns,
            title: &look.title,
        });
        let backspaces = reading.backspaces(&self.delivery.prompt);
        let now = self.clock.now().as_second();
        let seen = Observation {
            pane: match look.state {
                PaneState::Live => PaneSeen::Live,
                PaneState::CopyMode => PaneSeen::CopyMode,
                PaneState::Dead(_) => PaneSeen::Dead,
            },
            input: self.input(&reading, under_way, look.last_key),
            typing: look.last_key.is_some_and(|key| {
                now - key <= HOLD_AFTER_KEY && self.released_at.is_none_or(|at| key > at)
            }),
            stashed: reading.stashed,
            removable: backspaces.is_some(),
            agent: match reading.activity {
                // A question that the screen's reader does not know is one all the same.
                Activity::Idle | Activity::Busy | Activity::Unknown
                    if let Some(AgentStatus::Waiting(what)) = self.says() =>
                {
                    Agent::Asks(what)
                }
                Activity::Idle if self.signals.settles(self.clock.now()) => Agent::Busy,
                Activity::Idle => Agent::Idle,
                Activity::Busy => Agent::Busy,
                Activity::Dialog { what } => Agent::Asks(what),
                Activity::Overlay => Agent::Asks("something is open over the input box".to_owned()),
                Activity::Unknown => Agent::Unknown,
            },
            accepted,
            elapsed,
        };
        Ok((seen, backspaces))
    }

    /// What the agent's own file says.
    fn says(&self) -> Option<AgentStatus> {
        let (pid, home) = self.process.as_ref()?;
        status::read(self.harness, home, *pid, &self.conversation)
    }

    fn input(&self, reading: &Reading, under_way: bool, last_key: Option<i64>) -> Input {
        let QueuedDelivery { prompt, marker, .. } = self.delivery;
        match reading.input {
            InputBox::Absent => Input::Absent,
            InputBox::Empty => Input::Empty,
            // Before our paste a placeholder is a person's, however many lines it has.
            InputBox::Placeholder { .. } if !under_way => Input::Foreign,
            // What a person typed just before our paste would be out of sight.
            InputBox::Tail { .. } if last_key.is_some_and(|key| key >= self.pasted_at - 1) => {
                Input::Mixed
            }
            _ if reading.holds_only(prompt, marker) => Input::Ours,
            _ if under_way && reading.shows(prompt, marker) => Input::Mixed,
            _ => Input::Foreign,
        }
    }

    fn has_taken(&mut self) -> bool {
        if let Err(error) = self.signals.refresh() {
            tracing::warn!(slug = %self.delivery.slug, %error, "could not read the spool");
        }
        let markers: Vec<_> = self.told.each.iter().map(|delivery| &delivery.marker).collect();
        self.signals.has_taken_all(&markers)
    }

    /// Puts a step down before it is done; without that it is not done.
    async fn put_down(&self, reason: Reason) -> Result<(), Delivered> {
        self.inbox
            .record(self.told.steps(State::Injecting, reason, None))
            .await
            .map_err(|error| Delivered::Broken(chain(&error)))
    }

    async fn record(&self, state: State, reason: Reason, detail: Option<String>) {
        let steps = self.told.steps(state, reason, detail.as_deref());
        if let Err(error) = self.inbox.record(steps).await {
            tracing::warn!(delivery = %self.delivery.id, %error, "could not record a step");
        }
    }
}

fn broken(error: &TmuxError) -> Delivered {
    Delivered::Broken(chain(error))
}
