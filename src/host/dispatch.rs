//! The dispatcher's driver: runs the commands of `core::dispatch` and reports
//! back. One loop; events that wait together share a commit.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::base::failure::chain;
use crate::base::ids::Slug;
use crate::core::dispatch::{Command, Delivered, Dispatcher, Input, Job, StartFailure};
use crate::core::outcome::Reason;
use crate::state::inbox::{Inbox, Step};

use super::runner::{Brakes, Runners};

mod waiting;

/// How long after a failure of the inbox it is tried again.
const RECORD_AGAIN: Duration = Duration::from_secs(1);
/// How many agents are looked for at a time.
const LOOKS: usize = 4;
/// How many events may wait for the loop; what does not fit waits with its sender.
const BACKLOG: usize = 1024;
/// How many events that wait are handled together, with one commit for all.
const TOGETHER: usize = 64;

/// A way to give work to the dispatcher.
#[derive(Debug, Clone)]
pub struct DispatchHandle {
    inputs: mpsc::Sender<Input>,
}

impl DispatchHandle {
    /// Makes a session live, though nothing waits for it.
    pub async fn revive(&self, slug: Slug) {
        if self.inputs.send(Input::Revive(slug)).await.is_err() {
            tracing::debug!("the dispatcher has ended");
        }
    }

    /// Puts a job into its session's queue. The inbox has it already, so that a
    /// dispatcher which is ending loses nothing.
    pub async fn enqueue(&self, job: Job) {
        if self.inputs.send(Input::Enqueued(job)).await.is_err() {
            tracing::debug!("the dispatcher has ended; the job waits in the inbox");
        }
    }

    /// Lets in what waits for a session.
    pub async fn release(&self, slug: Slug) {
        // One that has ended has nothing at the gate.
        let _ = self.inputs.send(Input::Released(slug)).await;
    }

    /// Holds back what waits for a session that was paused.
    pub async fn paused(&self, slug: Slug) {
        let _ = self.inputs.send(Input::Paused(slug)).await;
    }
}

/// Starts the dispatcher's loop. It ends when `stop` is cancelled; what is under
/// way then is taken up from the inbox at the next start.
pub fn start(
    runner: Runners,
    inbox: Inbox,
    max_starts: usize,
    tasks: &TaskTracker,
    stop: CancellationToken,
) -> DispatchHandle {
    let (sender, receiver) = mpsc::channel(BACKLOG);
    let handle = DispatchHandle { inputs: sender.clone() };
    let (waiting, counts) = watch::channel(waiting::Counts::new());
    let shown_by = runner.clone();
    let driver = Driver {
        runner,
        waiting,
        inbox,
        machine: Dispatcher::new(max_starts),
        inputs: sender,
        tasks: tasks.clone(),
        brakes: HashMap::new(),
        looks: Arc::new(Semaphore::new(LOOKS)),
        stop: stop.clone(),
    };
    tasks.spawn(driver.run(receiver));
    tasks.spawn(waiting::show(shown_by, counts, stop));
    handle
}

struct Driver {
    runner: Runners,
    inbox: Inbox,
    machine: Dispatcher,
    inputs: mpsc::Sender<Input>,
    tasks: TaskTracker,
    /// How many events there are for each session.
    waiting: watch::Sender<waiting::Counts>,
    /// How the running delivery of a session is stopped.
    brakes: HashMap<Slug, Brakes>,
    /// As many as may look for an agent at a time.
    looks: Arc<Semaphore>,
    stop: CancellationToken,
}

impl Driver {
    async fn run(mut self, mut receiver: mpsc::Receiver<Input>) {
        loop {
            let mut inputs = Vec::new();
            let count = tokio::select! {
                () = self.stop.cancelled() => return,
                count = receiver.recv_many(&mut inputs, TOGETHER) => count,
            };
            if count == 0 {
                return;
            }
            let mut commands = Vec::new();
            for input in inputs {
                if let Input::Delivered(slug, _) = &input {
                    self.brakes.remove(slug);
                }
                commands.extend(self.machine.handle(input));
            }
            if !self.record(&commands).await {
                return;
            }
            for command in commands {
                self.execute(command);
            }
            self.waiting.send_if_modified(|counts| {
                let now = self.machine.waiting().map(|(slug, n)| (slug.clone(), n)).collect();
                let is_new = *counts != now;
                *counts = now;
                is_new
            });
        }
    }

    /// Puts down what became of deliveries, before anything new begins. A disk
    /// that is full, or a lock, is waited for: what is not put down would be lost
    /// from here on. `false` when the receiver ends first.
    async fn record(&self, commands: &[Command]) -> bool {
        let steps: Vec<_> = commands
            .iter()
            .filter_map(|command| match command {
                Command::Record { delivery, state, reason, detail } => Some(Step {
                    delivery: delivery.clone(),
                    state: *state,
                    reason: *reason,
                    detail: detail.clone(),
                    route: None,
                }),
                _ => None,
            })
            .collect();
        if steps.is_empty() {
            return true;
        }
        loop {
            match self.inbox.record(steps.clone()).await {
                Ok(()) => return true,
                Err(error) => {
                    // Should the receiver end here, the agent's own record still proves
                    // what it took, and the next start finds it.
                    tracing::error!(error = %chain(&error), "could not record what became of a delivery");
                    if !error.may_pass() {
                        self.record_alone(steps).await;
                        return true;
                    }
                }
            }
            tokio::select! {
                () = self.stop.cancelled() => return false,
                () = tokio::time::sleep(RECORD_AGAIN) => {}
            }
        }
    }

    /// One that cannot be put down must not take the others with it.
    async fn record_alone(&self, steps: Vec<Step>) {
        if steps.len() < 2 {
            return;
        }
        for step in steps {
            let delivery = step.delivery.clone();
            if let Err(error) = self.inbox.record(vec![step]).await {
                tracing::error!(%delivery, error = %chain(&error), "this one");
            }
        }
    }

    fn execute(&mut self, command: Command) {
        let runner = self.runner.clone();
        let takes_up = matches!(command, Command::TakeUp(_));
        match command {
            Command::Start(slug) | Command::TakeUp(slug) => {
                let failed = StartFailure {
                    reason: Reason::Internal,
                    detail: "the start ended unexpectedly; the log has more".to_owned(),
                    transient: false,
                };
                let on_panic = Input::Started(slug.clone(), Err(failed));
                self.spawn(on_panic, async move {
                    let result = runner.start(&slug, takes_up).await;
                    Input::Started(slug, result)
                });
            }
            Command::Look(slug) => {
                let looks = Arc::clone(&self.looks);
                self.spawn(Input::Looked(slug.clone(), false), async move {
                    let _one = looks.acquire().await;
                    let is_live = runner.is_live(&slug).await;
                    Input::Looked(slug, is_live)
                });
            }
            Command::Deliver(slug, batch) => {
                let brakes = Brakes::default();
                self.brakes.insert(slug.clone(), brakes.clone());
                let broken = Delivered::Broken("the injection ended unexpectedly".to_owned());
                self.spawn(Input::Delivered(slug.clone(), broken), async move {
                    let delivered = runner.deliver(&slug, &batch, &brakes).await;
                    Input::Delivered(slug, delivered)
                });
            }
            Command::CallOff(slug) => {
                if let Some(brakes) = self.brakes.get(&slug) {
                    brakes.call_off.cancel();
                }
            }
            Command::GiveWay(slug) => {
                if let Some(brakes) = self.brakes.get(&slug) {
                    brakes.give_way.cancel();
                }
            }
            Command::Gather(slug, delivery, time) => {
                let gathered = Input::Gathered(slug, delivery);
                self.spawn(gathered.clone(), async move {
                    tokio::time::sleep(time).await;
                    gathered
                });
            }
            Command::Close(slug) => {
                let failed = Err("the closing ended unexpectedly".to_owned());
                self.spawn(Input::Closed(slug.clone(), failed), async move {
                    let result = runner.close(&slug).await;
                    Input::Closed(slug, result)
                });
            }
            Command::AwaitRelease(slug) => {
                self.spawn(Input::Woke(slug.clone()), async move {
                    runner.released(&slug).await;
                    Input::Woke(slug)
                });
            }
            Command::Pause(slug, pause) => {
                self.spawn(Input::Woke(slug.clone()), async move {
                    tokio::time::sleep(pause).await;
                    Input::Woke(slug)
                });
            }
            Command::Record { .. } => {}
        }
    }

    /// Runs work beside the loop. Its result comes back as an input; so does a
    /// panic in it, so that no session waits for ever.
    fn spawn(&self, on_panic: Input, work: impl Future<Output = Input> + Send + 'static) {
        let inputs = self.inputs.clone();
        let stop = self.stop.clone();
        let tasks = self.tasks.clone();
        self.tasks.spawn(async move {
            let work = tasks.spawn(work);
            let abort = work.abort_handle();
            let input = tokio::select! {
                () = stop.cancelled() => {
                    abort.abort();
                    return;
                }
                result = work => result.unwrap_or_else(|error| {
                    tracing::error!(%error, "a task of the dispatcher panicked");
                    on_panic
                }),
            };
            // Refused only when the loop has ended, and then nobody needs it.
            let _ = inputs.send(input).await;
        });
    }
}
