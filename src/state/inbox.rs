//! The inbox: every delivery on disk before it is answered, where each stands,
//! and every decision about it. docs/inbox.md describes the file.
//!
//! The receiver puts deliveries in, the daemon routes what was received and
//! takes what is queued, the dispatcher records what comes of it; commands read
//! it from other processes. It knows nothing of HTTP, of what is inside a body,
//! or of tmux.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::base::clock::Clock;
use crate::base::ids::DeliveryId;

mod error;
mod model;
mod news;
mod open;
mod packing;
mod pings;
mod prune;
mod reader;
mod remains;
mod salvage;
mod steps;
mod texts;
mod writer;

pub use error::InboxError;
pub use model::{
    About, Accepted, Counts, DeliveryHistory, DeliveryKind, Keep, LocalMessage, LogEnd,
    NewDelivery, QueuedDelivery, RecordedStep, Replayed, Route, RouteAction, Step, StoredDelivery,
    Summary, Waiting,
};
pub use reader::InboxReader;
use writer::{Change, Writer, Written};

/// How long the answer to "can you write?" may take.
const PROBE: Duration = Duration::from_secs(2);

/// A handle of an open inbox. Clones share one writer; dropping the last one
/// ends it. What its [`InboxReader`] reads can be read here too.
#[derive(Debug, Clone)]
pub struct Inbox {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    // Dropped before the writer: the last one to close cleans up the log.
    reader: InboxReader,
    writer: Writer,
}

impl Inbox {
    /// Opens the inbox, makes it when there is none, brings it to the newest
    /// format, and starts its writer. The directory must be there.
    pub fn open(path: &Path, clock: Clock) -> Result<Self, InboxError> {
        let connection = open::read_write(path, clock.now_ms())?;
        let reader = InboxReader::open(path)?;
        let writer = Writer::start(path, connection)?;
        Ok(Self { shared: Arc::new(Shared { clock, reader, writer }) })
    }

    /// Opens the inbox for reading only, also while another process writes to
    /// it. No file: [`InboxError::Missing`].
    pub fn read_only(path: &Path) -> Result<InboxReader, InboxError> {
        InboxReader::open(path)
    }

    /// What is wrong with the inbox's file, as far as reading it tells; nothing
    /// where there is none.
    pub fn trouble(path: &Path) -> Option<String> {
        let trouble = match InboxReader::open(path) {
            Ok(reader) => reader.look_through(),
            Err(InboxError::Missing { .. }) => open::log_alone(path).map_or(Ok(()), Err),
            Err(error) => Err(error),
        };
        trouble.err().map(|error| crate::base::failure::chain(&error))
    }

    /// Damaged files of this inbox that were moved aside.
    pub fn damaged_files(path: &Path) -> Vec<std::path::PathBuf> {
        salvage::aside(path)
    }

    /// How many deliveries such a file may have held of which nothing is known but
    /// that.
    pub fn missing_of(kept: &Path) -> u64 {
        salvage::missing(kept)
    }

    /// Whether the file that is written to is still the one at its path: one
    /// that was replaced or removed takes in what nobody will ever read.
    pub fn is_in_place(&self) -> bool {
        self.shared.reader.is_in_place()
    }

    /// Takes a delivery in. It is on the disk when this returns.
    pub async fn accept(&self, new: NewDelivery) -> Result<Accepted, InboxError> {
        self.take_in(new, None).await
    }

    /// The same, and tells whoever waits for `arrived` once there is something
    /// to route: also when the caller gave up waiting for the commit.
    pub async fn accept_telling(
        &self,
        new: NewDelivery,
        arrived: Arc<Notify>,
    ) -> Result<Accepted, InboxError> {
        self.take_in(new, Some(arrived)).await
    }

    async fn take_in(
        &self,
        new: NewDelivery,
        arrived: Option<Arc<Notify>>,
    ) -> Result<Accepted, InboxError> {
        if !self.is_in_place() {
            return Err(InboxError::Replaced { path: self.path().to_path_buf() });
        }
        // Packed here, where many can do it at once, and not by the writer.
        let change = Change::Accept(new.into(), self.shared.clock.now_ms(), arrived);
        match self.shared.writer.write(change).await? {
            Written::Delivery(accepted) => Ok(accepted),
            _ => unreachable!("a delivery is answered as one"),
        }
    }

    /// Records decisions, in one transaction: all or none. A decision that is
    /// the delivery's last one already changes nothing.
    pub async fn record(&self, steps: Vec<Step>) -> Result<(), InboxError> {
        self.record_about(steps, Vec::new()).await
    }

    /// Records decisions together with what the deliveries are about. Routing
    /// does this for every delivery, also for those that go nowhere.
    pub async fn record_about(
        &self,
        steps: Vec<Step>,
        about: Vec<About>,
    ) -> Result<(), InboxError> {
        let change = Change::Record(steps, about, self.shared.clock.now_ms());
        self.shared.writer.write(change).await.map(drop)
    }

    /// Has a delivery routed again, as if it had just arrived. One that is on its
    /// way is left alone.
    pub async fn replay(&self, id: DeliveryId) -> Result<Replayed, InboxError> {
        match self.shared.writer.write(Change::Replay(id, self.shared.clock.now_ms())).await? {
            Written::Replayed(replayed) => Ok(replayed),
            _ => unreachable!("a replay is answered as one"),
        }
    }

    /// Drops what is older or larger than it may be, of deliveries that have
    /// come to their end. In steps: whoever waits to write is let in between.
    pub async fn prune(&self, keep: Keep) -> Result<u64, InboxError> {
        let mut dropped = 0;
        loop {
            let change = Change::Prune(keep, self.shared.clock.now_ms());
            match self.shared.writer.write(change).await? {
                Written::Pruned(0) => return Ok(dropped),
                Written::Pruned(some) => dropped += some,
                _ => unreachable!("pruning is answered as such"),
            }
        }
    }

    /// Whether a delivery could be taken in now. When the last write failed,
    /// this tries another.
    pub async fn can_write(&self) -> bool {
        let writer = &self.shared.writer;
        if !writer.is_alive() || !self.is_in_place() {
            return false;
        }
        if !writer.health().failing.load(Ordering::Relaxed) {
            return true;
        }
        matches!(tokio::time::timeout(PROBE, writer.write(Change::Probe)).await, Ok(Ok(_)))
    }

    /// Why no delivery could be taken in now; tries it.
    pub async fn store_trouble(&self) -> Option<String> {
        let (writer, path) = (&self.shared.writer, self.path());
        if !self.is_in_place() {
            let replaced = InboxError::Replaced { path: path.to_path_buf() };
            return Some(crate::base::failure::chain(&replaced));
        }
        match tokio::time::timeout(PROBE, writer.write(Change::Probe)).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(crate::base::failure::chain(&error)),
            Err(_) => Some(format!(
                "the inbox `{}` cannot be written to for {} s: another process may hold its lock",
                path.display(),
                PROBE.as_secs()
            )),
        }
    }

    /// Tells of every commit: whoever follows what becomes of deliveries looks then.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.shared.writer.health().news.subscribe()
    }

    /// What was put up for routing again since this was last asked. One may ask.
    pub fn routed_again(&self) -> impl Iterator<Item = DeliveryId> + use<> {
        self.shared.writer.health().again.take().into_iter()
    }

    /// How many transactions were committed since the inbox was opened.
    pub fn commits(&self) -> u64 {
        self.shared.writer.health().commits.load(Ordering::Relaxed)
    }

    /// Lets go of this handle. The last one waits for the writer's end.
    pub fn close(self) {
        drop(self);
    }

    /// Bounds the file to a number of pages, as a full disk would.
    #[cfg(feature = "test-fakes")]
    pub async fn limit_pages(&self, pages: u32) -> Result<(), InboxError> {
        self.shared.writer.write(Change::LimitPages(pages)).await.map(drop)
    }
}

impl Deref for Inbox {
    type Target = InboxReader;

    fn deref(&self) -> &InboxReader {
        &self.shared.reader
    }
}
