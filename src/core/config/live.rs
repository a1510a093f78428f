//! The configuration of a program that runs: replaced as a whole by a reload,
//! so that whoever reads it sees the old one or the new one.

use std::sync::{Arc, PoisonError, RwLock};

use super::{Config, Routing};

/// A configuration that can be replaced. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct LiveConfig(Arc<RwLock<Arc<Config>>>);

impl LiveConfig {
    /// One that begins with these values.
    pub fn new(config: Config) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(config))))
    }

    /// The values of now. Whoever does one thing with several of them asks once.
    pub fn get(&self) -> Arc<Config> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// `routing` of now.
    pub fn routing(&self) -> Routing {
        self.get().routing.clone()
    }

    /// Replaces the values.
    pub fn set(&self, config: Config) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }
}
