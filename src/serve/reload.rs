//! Reading the configuration again: on request only, what can be changed while
//! the receiver runs is, a broken file changes nothing.
//!
//! The control socket and SIGHUP ask for it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::base::clock::Clock;
use crate::base::env::Env;
use crate::base::failure::chain;
use crate::core::config::{Change, Config, HarnessName, LiveConfig, changes};
use crate::host::notify::fault;
use crate::state::config_file::{self, ReadError};

/// What a reload came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reloaded {
    /// The version of this format.
    pub schema: u32,
    /// Why the file was refused; the receiver goes on with what it had.
    pub refused: Option<String>,
    /// What is different in the file.
    pub changes: Vec<Change>,
    /// What was taken, and will not work.
    #[serde(default)]
    pub warnings: Vec<String>,
}

impl Reloaded {
    /// Each change in a line of its own.
    pub fn lines(&self) -> Vec<String> {
        self.changes
            .iter()
            .map(|Change { key, old, new, applied }| {
                let when = if *applied { "" } else { " (at the next start)" };
                format!("{key}: {old} → {new}{when}")
            })
            .collect()
    }
}

/// The last request to read the file again, when it was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// When.
    pub at: Timestamp,
    /// Why: the fault with its place.
    pub why: String,
}

/// Reads the configuration of a running receiver again. Clones share it.
#[derive(Debug, Clone)]
pub struct Reloader(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    file: PathBuf,
    env: Env,
    live: LiveConfig,
    harnesses: Vec<HarnessName>,
    clock: Clock,
    taken: Mutex<Taken>,
    /// Changes with each configuration that was taken.
    news: watch::Sender<u64>,
}

/// What was taken from the file, without what the command line put above it.
#[derive(Debug)]
struct Taken {
    config: Config,
    text: String,
    refusal: Option<Refusal>,
}

impl Reloader {
    /// One for the file that was read into `read`. `live` is what the receiver
    /// runs with; `harnesses` are those that new sessions can have.
    pub fn new(
        read: config_file::Read,
        env: Env,
        live: LiveConfig,
        harnesses: Vec<HarnessName>,
        clock: Clock,
    ) -> Self {
        let config_file::Read { config, file, text, .. } = read;
        let taken = Mutex::new(Taken { config, text, refusal: None });
        let news = watch::Sender::default();
        Self(Arc::new(Shared { file, env, live, harnesses, clock, taken, news }))
    }

    /// Reads the file and takes what can be taken. It is logged, too: the person
    /// who asks may not be the one who watches.
    pub fn reload(&self) -> Reloaded {
        let Shared { file, env, live, harnesses, clock, taken, news } = &*self.0;
        let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        let read = match config_file::read(file, env) {
            Ok(read) => read,
            Err(error) => {
                let why = explain(&error);
                tracing::warn!(%why, "the configuration was refused; the old one stays");
                taken.refusal = Some(Refusal { at: clock.now(), why: why.clone() });
                return Reloaded {
                    schema: 1,
                    refused: Some(why),
                    changes: Vec::new(),
                    warnings: Vec::new(),
                };
            }
        };
        let mut changes = changes(&taken.config, &read.config);
        let mut next = read.config;
        next.keep_from(&taken.config);
        if !harnesses.contains(&next.routing.default_harness) {
            next.routing.default_harness = taken.config.routing.default_harness.clone();
            for change in &mut changes {
                change.applied &= change.key != "routing.defaultHarness";
            }
        }
        let mut running = next.clone();
        running.keep_from(&live.get());
        live.set(running);
        news.send_modify(|n| *n = n.wrapping_add(1));
        *taken = Taken { config: next, text: read.text, refusal: None };
        let warnings: Vec<_> = fault(&live.get(), env).into_iter().collect();
        for why in &warnings {
            tracing::error!(%why, "the configuration was read again");
        }
        let reloaded = Reloaded { schema: 1, refused: None, changes, warnings };
        for line in reloaded.lines() {
            tracing::info!(change = %line, "the configuration was read again");
        }
        reloaded
    }

    /// Tells of every configuration that was taken.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.0.news.subscribe()
    }

    /// The last request, when it was refused.
    pub fn refusal(&self) -> Option<Refusal> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner).refusal.clone()
    }

    /// The configuration that is in force, without what the command line put above
    /// it: what a file is compared with.
    pub fn taken(&self) -> Config {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner).config.clone()
    }

    /// Whether the file is another one than was taken.
    pub fn changed_on_disk(&self) -> bool {
        let taken = self.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        fs_err::read(&self.0.file)
            .map_or(true, |bytes| String::from_utf8_lossy(&bytes) != taken.text.as_str())
    }
}

fn explain(error: &ReadError) -> String {
    match error {
        ReadError::Fault(fault) => fault.render(),
        ReadError::Foreign(foreign) => format!("{foreign}\nhint: {}", foreign.remedy()),
        other => chain(other),
    }
}
