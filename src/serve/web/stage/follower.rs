//! What follows a session that is looked at: a client of tmux in control mode. It
//! tells when something has changed, takes the keys of all who type, and sees to it
//! that nobody is led astray.
//!
//! Three tasks work on it: one listens to the client, one types, one looks. What
//! the listener hears wakes the others; the end of one is the end of all, and
//! `stage` sets up another.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::Parts;
use super::StageError;
use crate::base::clock::Clock;
use crate::base::failure::chain;
use crate::core::typed::Typed;
use crate::host::keeper::{Kept, KeptStdin, Order};
use crate::host::tmux::{self, Desk, Guests, Pane, Seen, Sight, Tmux, UNKNOWN_STATUS};

/// How often a pane is looked at although nothing was told: of the end of a
/// program tmux tells nothing.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long after the end of a program its status is waited for: it comes a moment
/// later, or never.
const STATUS_WITHIN: Duration = Duration::from_secs(2);
/// How long a client of tmux may take to begin.
const BEGINS_WITHIN: Duration = Duration::from_secs(5);
/// How many frames of keys may wait, and how many orders may be under way.
const QUEUE: usize = 64;
const UNDER_WAY: u64 = 16;
/// Of how many orders one asks whether it is done: an answer costs the server as much
/// as a key.
const ASKS_EVERY: u64 = 8;
/// How long an order may take.
const TYPES_WITHIN: Duration = Duration::from_secs(10);

/// A client of tmux that follows a session, with what it does for those who look.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) pane: Pane,
    pub(super) sight: watch::Receiver<Sight>,
    /// What is sent here is typed into the pane, in its order.
    pub(super) keys: mpsc::Sender<Vec<Typed>>,
    end: CancellationToken,
    gone: CancellationToken,
}

/// What its tasks share.
#[derive(Debug)]
struct Shared {
    tmux: Tmux,
    clock: Clock,
    pane: Pane,
    /// The viewers' session.
    name: String,
    stdin: KeptStdin,
    /// The number of the last order that is done.
    done: watch::Sender<u64>,
    changed: Notify,
    end: CancellationToken,
}

impl Follower {
    /// Starts the client that follows a pane at the viewers' session of that name.
    pub(super) async fn start(parts: &Parts, pane: &Pane, name: &str) -> Result<Self, StageError> {
        let tmux = &parts.tmux;
        // Without its viewers the session would live on, and the agent in it.
        let order = Order {
            command: tmux.follow_for_viewers(name).stored(),
            log: None,
            socket: None,
            farewell: Some(tmux.ending_for_viewers(name).stored()),
        };
        let mut kept = Kept::start(&parts.program, &order, &parts.tasks).await?;
        let mut lines = Lines::of(kept.take_stdout().ok_or(StageError::Follow)?);
        // Its first words: it is attached.
        let begun = tokio::time::timeout(BEGINS_WITHIN, lines.next()).await;
        let (Ok(Some(_)), (Seen::Shown(first), _)) = (begun, tmux.sight(pane, name).await?) else {
            return Err(StageError::Follow);
        };
        let (sender, sight) = watch::channel(first);
        let (keys, typed) = mpsc::channel(QUEUE);
        let (end, gone) = (CancellationToken::new(), CancellationToken::new());
        let shared = Arc::new(Shared {
            tmux: tmux.clone(),
            clock: parts.clock.clone(),
            pane: pane.clone(),
            name: name.to_owned(),
            stdin: kept.stdin(),
            done: watch::Sender::new(0),
            changed: Notify::new(),
            end: end.clone(),
        });
        let follower = Self { pane: pane.clone(), sight, keys, end, gone: gone.clone() };
        parts.tasks.spawn(async move {
            let work = async {
                tokio::select! {
                    () = shared.listen(&mut lines) => {}
                    () = shared.look(&sender) => {}
                    () = shared.end.cancelled() => {}
                }
                if !shared.end.is_cancelled() {
                    // For how it ended.
                    if let Some((seen, _)) = shared.see().await {
                        shared.tell(seen, &sender).await;
                    }
                    shared.end.cancel();
                }
            };
            tokio::join!(work, async {
                shared.end.run_until_cancelled(shared.types(typed)).await;
                shared.end.cancel();
            });
            drop(sender);
            kept.end().await;
            gone.cancel();
        });
        Ok(follower)
    }

    pub(super) fn is_gone(&self) -> bool {
        self.end.is_cancelled()
    }

    pub(super) async fn end(self) {
        self.end.cancel();
        self.gone.cancelled().await;
    }
}

impl Shared {
    /// Hears what the client says, until its end.
    async fn listen(&self, lines: &mut Lines<impl AsyncRead + Unpin>) {
        let mut is_answer = false;
        while let Some(line) = lines.next().await {
            match line.split(' ').next().unwrap_or_default() {
                "%begin" => is_answer = true,
                "%end" | "%error" => is_answer = false,
                _ if is_answer => {
                    if let Some(number) = tmux::done(&line) {
                        self.done.send_replace(number);
                    }
                }
                _ => {
                    if leads_away(&line, &self.name)
                        && self.say(&Tmux::come_back(&self.name)).await.is_err()
                    {
                        return;
                    }
                    self.changed.notify_one();
                }
            }
        }
    }

    /// Types what comes, in its order. It ends when tmux does not take it.
    async fn types(&self, mut typed: mpsc::Receiver<Vec<Typed>>) {
        let desk = Desk { pane: &self.pane, viewers: &self.name };
        let mut number = 0;
        while let Some(all) = typed.recv().await {
            for part in all.split_inclusive(|one| matches!(one, Typed::Paste(_))) {
                number += 1;
                let paste = match part.last() {
                    Some(Typed::Paste(text)) => Some(text),
                    _ => None,
                };
                // A paste goes another way, and must not overtake.
                let before = if paste.is_some() { 0 } else { UNDER_WAY };
                let asks = (paste.is_some() || number % ASKS_EVERY == 0).then_some(number);
                let orders = desk.orders(part, &self.now(), asks);
                let work = async {
                    self.say(&orders).await.ok()?;
                    let mut done = self.done.subscribe();
                    let is_near = |done: &u64| *done + before >= number;
                    done.wait_for(is_near).await.ok().map(drop)
                };
                if !matches!(tokio::time::timeout(TYPES_WITHIN, work).await, Ok(Some(()))) {
                    tracing::warn!(session = self.name, "tmux takes no keys");
                    return;
                }
                if let Some(text) = paste {
                    let at = self.now();
                    let buffer =
                        format!("the-loop-web-{}-{at}", self.pane.pane_id.trim_matches('%'));
                    let pasted = self.tmux.paste_for_viewer(desk, &buffer, text, &at).await;
                    if let Err(error) = pasted {
                        tracing::warn!(error = %chain(&error), "a paste was lost");
                    }
                }
            }
        }
    }

    /// The time, and what makes it another one each time.
    fn now(&self) -> String {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        format!("{}.{count}", self.clock.now().as_second())
    }

    async fn say(&self, orders: &str) -> io::Result<()> {
        self.stdin.say(orders.as_bytes()).await
    }

    /// Looks when something has changed, and now and then, until there is nothing
    /// more to see.
    async fn look(&self, sender: &watch::Sender<Sight>) {
        let mut vague_since: Option<Instant> = None;
        loop {
            let is_time = tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => true,
                () = self.changed.notified() => false,
            };
            // A server that is busy; the next look tells.
            let Some((seen, guests)) = self.see().await else { continue };
            let waits_for_status = is_vague(&seen)
                && vague_since.get_or_insert_with(Instant::now).elapsed() < STATUS_WITHIN;
            if !waits_for_status && !self.tell(seen, sender).await {
                return;
            }
            let put_right = self.tmux.put_right(&guests, &self.pane, &self.name).await;
            if let Err(error) = put_right {
                tracing::debug!(error = %chain(&error), "a client stays where it should not be");
            }
            if is_time && self.say(&Tmux::uncover(&guests)).await.is_err() {
                return;
            }
        }
    }

    async fn see(&self) -> Option<(Seen, Guests)> {
        let seen = self.tmux.sight(&self.pane, &self.name).await;
        seen.inspect_err(|error| tracing::debug!(%error, "a pane was not seen")).ok()
    }

    /// Tells what is new; whether there will be more. Of a session that is gone
    /// nothing is told: who looks asks why it is, when this ends.
    async fn tell(&self, seen: Seen, sender: &watch::Sender<Sight>) -> bool {
        let mut new = match seen {
            Seen::Shown(new) => new,
            Seen::Unshown => return false,
            Seen::Gone => {
                // The pane would live on in the viewers' session.
                let _ = self.tmux.close_for_viewers(&self.name).await;
                return false;
            }
        };
        new.ended = new.ended.map(|how| format!("the agent has ended: {how}"));
        sender.send_if_modified(|sight| {
            let is_new = *sight != new;
            *sight = new;
            is_new
        });
        true
    }
}

/// Whether a program has ended, and its status is not known yet.
fn is_vague(seen: &Seen) -> bool {
    matches!(seen, Seen::Shown(Sight { ended: Some(how), .. }) if how == UNKNOWN_STATUS)
}

/// Whether a client was told that it is at another session now.
fn leads_away(line: &str, name: &str) -> bool {
    line.strip_prefix("%session-changed ")
        .and_then(|rest| rest.split_once(' '))
        .is_some_and(|(_, now)| now != name)
}

/// What a program says, line by line. What is no text stays readable.
struct Lines<R>(BufReader<R>);

impl<R: AsyncRead + Unpin> Lines<R> {
    fn of(source: R) -> Self {
        Self(BufReader::with_capacity(1024, source))
    }

    async fn next(&mut self) -> Option<String> {
        let mut line = Vec::new();
        match self.0.read_until(b'\n', &mut line).await {
            Ok(1..) => Some(String::from_utf8_lossy(line.trim_ascii_end()).into_owned()),
            Ok(0) | Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_led_away_by_another_session_alone() {
        assert!(leads_away("%session-changed $4 loop/o+r+2", "loop-web/me/o+r+1"));
        assert!(!leads_away("%session-changed $4 loop-web/me/o+r+1", "loop-web/me/o+r+1"));
        assert!(!leads_away("%client-session-changed /dev/pts/1 $4 a", "loop-web/me/o+r+1"));
    }
}
