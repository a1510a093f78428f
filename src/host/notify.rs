//! Telling somebody that an agent waits for a person: the program of `notify` is
//! run with its fixed arguments, and the facts in its environment. Nothing that
//! anybody else wrote is ever in its argument list.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::base::env::Env;
use crate::base::failure::chain;
use crate::base::text::{cap, visible};
use crate::core::config::{Config, LiveConfig};
use crate::core::session::SessionRecord;
use crate::doctor::trouble::Trouble;
use crate::doctor::{self, Tool};

/// How long the program may take.
const DEADLINE: Duration = Duration::from_secs(30);
/// How many of them may run at once. One more is not told, and the log says so.
const AT_ONCE: usize = 4;
/// The longest fact, in characters.
const LONGEST: usize = 500;

/// Why the program of the configuration cannot be run; nothing where it can, or where
/// there is none.
pub fn fault(config: &Config, env: &Env) -> Option<String> {
    let program = config.notify.command.first()?;
    let trouble = doctor::named(program, env).err()?;
    Some(cannot_be_run(program, &trouble))
}

fn cannot_be_run(program: &str, trouble: &Trouble) -> String {
    let why = chain(trouble);
    format!("`notify.command` cannot be run: `{}`: {why}", visible(program))
}

/// Tells people.
#[derive(Debug, Clone)]
pub struct Notifier {
    config: LiveConfig,
    env: Env,
    tasks: TaskTracker,
    stop: CancellationToken,
    running: Arc<Semaphore>,
}

impl Notifier {
    /// One that runs what the configuration says at the time.
    pub fn new(config: LiveConfig, env: Env, tasks: TaskTracker, stop: CancellationToken) -> Self {
        Self { config, env, tasks, stop, running: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Says in the log when the program of the configuration cannot be run: better
    /// at the start than when somebody should be told.
    pub fn check(&self) {
        if let Some(why) = fault(&self.config.get(), &self.env) {
            tracing::error!("{why}");
        }
    }

    fn find(&self, program: &str) -> Option<(Tool, Vec<(String, String)>)> {
        doctor::named(program, &self.env)
            .inspect_err(|trouble| tracing::error!("{}", cannot_be_run(program, trouble)))
            .ok()
    }

    /// Tells that a session's agent waits for a person, and what it asks.
    pub fn blocked(&self, record: &SessionRecord, asks: &str) {
        let config = self.config.get();
        let [program, args @ ..] = &config.notify.command[..] else { return };
        let item = &record.work_item;
        let slug = record.slug();
        let Some((tool, desktop)) = self.find(program) else { return };
        let fact = |text: &str| cap(&visible(text), LONGEST);
        let facts = [
            ("THE_LOOP_NOTICE", "blocked".to_owned()),
            ("THE_LOOP_ITEM", item.reference.short()),
            ("THE_LOOP_SESSION", slug.to_string()),
            ("THE_LOOP_TMUX", record.tmux_target.clone().unwrap_or_default()),
            ("THE_LOOP_HARNESS", record.harness.as_str().to_owned()),
            ("THE_LOOP_TITLE", fact(item.title.as_deref().unwrap_or_default())),
            ("THE_LOOP_URL", fact(item.url.as_deref().unwrap_or_default())),
            ("THE_LOOP_ASKS", fact(asks)),
        ];
        let invocation = desktop
            .into_iter()
            .chain(facts.map(|(name, fact)| (name.to_owned(), fact)))
            .fold(tool.invocation().args(args), |all, (name, fact)| all.env(name, fact))
            .cwd("/")
            .deadline(DEADLINE)
            .output_limit(4096);
        let Ok(permit) = Arc::clone(&self.running).try_acquire_owned() else {
            tracing::warn!(%slug, "nobody is told: too many `notify.command` run already");
            return;
        };
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            let _permit = permit;
            tokio::select! {
                // Its process group goes with it.
                () = stop.cancelled() => {}
                result = invocation.run_ok() => if let Err(error) = result {
                    tracing::warn!(%slug, error = %chain(&error), "`notify.command` failed");
                }
            }
        });
    }
}
