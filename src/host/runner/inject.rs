//! The hands of `core::inject`: looks at the session, asks the machine, and
//! does what it says, each step on disk before it is done.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::base::checkpoint::Checkpoint;
use crate::base::clock::Clock;
use crate::base::failure::chain;
use crate::base::ids::{HarnessSessionId, Marker};
use crate::base::text::{cap, visible};
use crate::core::dispatch::Delivered;
use crate::core::harness::{AgentStatus, Harness};
use crate::core::inject::screen::{Activity, InputBox, Reading, Removal, Screen};
use crate::core::inject::{
    Action, Agent, Injection, Input, Observation, Outcome, Pace, Pane as PaneSeen, Progress,
};
use crate::core::outcome::{Reason, State};
use crate::host::status;
use crate::host::tmux::{Look, Pane, PaneState, Spot, Tmux, TmuxError};
use crate::state::inbox::{Inbox, QueuedDelivery};

use super::Brakes;
use super::signals::{SignalLog, news};
use super::told::Told;
use super::tools::Tools;
use super::tracer::Tracer;

/// How many seconds after a person's key everything of ours waits. tmux tells
/// the key's time in whole seconds.
const HOLD_AFTER_KEY: i64 = 3;
/// How long after a failure of the inbox or of tmux it is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// How long a signal that was on its way when the agent ended may take.
const LATE_SIGNAL: Duration = Duration::from_millis(300);
/// How long after something was typed it is looked again. A look takes as long again.
const TYPED: Duration = Duration::from_millis(2);
/// How long after a key that tmux refused it is looked again.
const LOOK_AGAIN: Duration = Duration::from_millis(15);

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

/// What one look showed, and what the keys need of it.
struct Sight {
    seen: Observation,
    removal: Option<Removal>,
    look: Option<Look>,
}

impl<'a> Injector<'a> {
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
        // Held while keys of ours are under way: no tool begins meanwhile.
        let mut tools = Tools::free(&self.spool);
        self.signals.search_again();
        loop {
            let under_way = injection.is_under_way();
            let look = match self.observe(began, under_way, call_off.is_cancelled()).await {
                Ok(look) => look,
                // What was submitted is never offered again for tmux's sake.
                Err(error) if submitted => return self.without_sight(&error).await,
                // Nor is what may stand in the box.
                Err(error) if under_way && !call_off.is_cancelled() => {
                    self.tell(&mut told, State::Injecting, Reason::TmuxFailed, Some(chain(&error)))
                        .await;
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
                Err(error) => return Delivered::Broken(chain(&error)),
            };
            let Sight { seen, removal, look } = &look;
            let before = injection.clone();
            let action = injection.next(seen);
            tracing::trace!(delivery = %self.delivery.id, ?seen, ?action, "looked");
            self.tracer.note(seen, &action);
            tools.let_go(match action {
                Action::Look(_) => injection.is_about_to_type(),
                _ => action.types(),
            });
            // What was seen is older than the lock: the next look decides.
            if action.types() && tools.must_be_held().await {
                injection = before;
                continue;
            }
            let spot = look.as_ref().map_or(self.pane.into(), |look| self.pane.as_seen(look));
            let marker = &self.delivery.marker;
            let typed = match action {
                Action::Look(wait) => Ok(wait),
                Action::Hold(reason, wait) => {
                    self.tell(&mut told, State::Queued, reason, asked(seen)).await;
                    Ok(wait)
                }
                Action::Stay(reason, wait) => {
                    // That it was submitted must stand in the inbox until its end.
                    if !submitted {
                        self.tell(&mut told, State::Injecting, reason, asked(seen)).await;
                    }
                    Ok(wait)
                }
                Action::Paste => {
                    if let Err(error) = self.put_down(Reason::Pasted).await {
                        return error;
                    }
                    told = None;
                    self.pasted_at = self.clock.now().as_second();
                    Checkpoint::BeforePaste.reached();
                    let pasted = self.tmux.paste(spot, marker, &self.delivery.prompt).await;
                    Checkpoint::Paste.reached();
                    pasted.map(|()| TYPED)
                }
                Action::Submit => match self.submit(spot).await {
                    Ok(pressed) => {
                        submitted = true;
                        Ok(if pressed { TYPED } else { LOOK_AGAIN })
                    }
                    Err(error) => Err(error),
                },
                Action::Stash | Action::Unstash => {
                    self.tmux.stash(spot, marker).await.map(|()| TYPED)
                }
                Action::Remove => {
                    let Removal { lefts, backspaces } =
                        removal.unwrap_or(Removal { lefts: 0, backspaces: 0 });
                    self.tmux.backspace(spot, marker, lefts, backspaces).await.map(|()| TYPED)
                }
                Action::Finish(Outcome::Gone) => return self.gone(submitted).await,
                Action::Finish(Outcome::CalledOff) => return Delivered::CalledOff,
                Action::Finish(outcome) => {
                    if outcome == Outcome::Accepted {
                        Checkpoint::Acknowledge.reached();
                    }
                    return Delivered::Ended(outcome);
                }
            };
            let wait = match typed {
                Ok(wait) => wait,
                // Nothing was typed: what was seen does not hold any more.
                Err(TmuxError::NotLive { .. } | TmuxError::Absent { .. }) => {
                    injection = before;
                    LOOK_AGAIN
                }
                // It may have been typed all the same: the next look says.
                Err(error) => {
                    tracing::warn!(delivery = %self.delivery.id, error = %chain(&error),
                        "could not type");
                    AGAIN
                }
            };
            if give_way.is_cancelled() && injection.is_at_gate() {
                return Delivered::GaveWay;
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = news(&mut self.news) => {}
                () = call_off.cancelled(), if !call_off.is_cancelled() => {}
                () = give_way.cancelled(), if injection.is_at_gate() => {}
            }
        }
    }

    /// Presses the submit key; `false` when it was pressed and tmux failed all the
    /// same: the signal tells.
    async fn submit(&self, spot: Spot<'_>) -> Result<bool, TmuxError> {
        let mut is_late = false;
        while let Err(error) = self.put_down(Reason::Submitted).await {
            // Our text stands in the box, so it is not given up for a disk that is
            // full.
            tracing::warn!(delivery = %self.delivery.id, ?error, "cannot go on yet");
            is_late = true;
            tokio::time::sleep(AGAIN).await;
        }
        Checkpoint::BeforeSubmit.reached();
        // What was seen is too old by then: the next look decides again.
        if is_late {
            return Err(TmuxError::NotLive { pane: self.pane.pane_id.clone() });
        }
        let pressed =
            self.tmux.submit(spot, &self.delivery.marker, self.harness.profile().submit).await;
        Checkpoint::Submit.reached();
        match pressed {
            Ok(()) => Ok(true),
            Err(error @ (TmuxError::NotLive { .. } | TmuxError::Absent { .. })) => Err(error),
            Err(error) => {
                tracing::warn!(delivery = %self.delivery.id, error = %chain(&error),
                    "could not press the submit key");
                Ok(false)
            }
        }
    }

    /// Puts down what is in the way, once.
    async fn tell(
        &self,
        told: &mut Option<(Reason, Option<String>)>,
        state: State,
        reason: Reason,
        detail: Option<String>,
    ) {
        let now = Some((reason, detail.clone()));
        if *told != now {
            self.record(state, reason, detail).await;
            *told = now;
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

    /// One look.
    async fn observe(
        &mut self,
        began: Instant,
        under_way: bool,
        called_off: bool,
    ) -> Result<Sight, TmuxError> {
        let look = self.tmux.look(self.pane).await;
        // After the screen: a signal that is older than the screen is never missed.
        let accepted = self.has_taken();
        let queued = self.signals.holds_back_any(&self.markers());
        let elapsed = began.elapsed();
        let look = match look {
            Ok(look) => look,
            Err(TmuxError::Absent { .. }) => {
                let absent = Observation {
                    pane: PaneSeen::Absent,
                    agent: Agent::Unknown,
                    input: Input::Absent,
                    accepted,
                    queued,
                    typing: false,
                    stashed: false,
                    removable: false,
                    reads: true,
                    called_off,
                    elapsed,
                };
                return Ok(Sight { seen: absent, removal: None, look: None });
            }
            Err(error) => return Err(error),
        };
        let reading = self.harness.read_screen(&Screen {
            text: &look.screen,
            cursor: look.cursor,
            columns: look.columns,
            title: &look.title,
        });
        let removal = reading.removal(&self.delivery.prompt);
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
            removable: removal.is_some(),
            reads: look.reads,
            called_off,
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
            queued,
            elapsed,
        };
        Ok(Sight { seen, removal, look: Some(look) })
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
        let markers = self.markers();
        self.signals.has_taken_all(&markers)
    }

    fn markers(&self) -> Vec<&'a Marker> {
        self.told.each.iter().map(|delivery| &delivery.marker).collect()
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

/// What the agent asks, for people.
fn asked(seen: &Observation) -> Option<String> {
    match &seen.agent {
        Agent::Asks(what) => Some(cap(&visible(what), 200)),
        _ => None,
    }
}
