//! `events --since` and `--follow`: deliveries by time, and steps as they happen.

use std::collections::BTreeMap;
use std::process::ExitCode;

use jiff::Timestamp;

use super::{Wanted, push_line, stamp, unreadable};
use crate::base::clock::Clock;
use crate::base::failure::Failure;
use crate::base::ids::{DeliveryId, WorkItem};
use crate::cli::Context;
use crate::state::inbox::{Inbox, InboxError, LogEnd, RecordedStep, Summary};

/// How often a followed inbox is looked at.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(500);

/// A time, or how long ago.
#[derive(Debug, Clone, Copy)]
pub(super) enum Since {
    At(Timestamp),
    Ago(jiff::SignedDuration),
}

impl Since {
    /// The time that is meant now.
    pub(super) fn time(self) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(ago) => Clock::System.now().checked_sub(ago).unwrap_or(Timestamp::MIN),
        }
    }
}

/// Reads a time or a span.
pub(super) fn since(text: &str) -> Result<Since, String> {
    if let Ok(at) = text.parse() {
        return Ok(Since::At(at));
    }
    let unit = text.chars().last().filter(char::is_ascii_lowercase);
    let number: Option<i64> =
        text.get(..text.len().saturating_sub(1)).and_then(|number| number.parse().ok());
    let seconds = match unit {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 86_400,
        _ => 0,
    };
    number
        .filter(|number| (1..=100_000).contains(number) && seconds > 0)
        .map(|number| Since::Ago(jiff::SignedDuration::from_secs(number * seconds)))
        .ok_or_else(|| "neither a time nor a span as in `30m`, `2h`, `3d`".to_owned())
}

/// Shows every step as it is recorded, until interrupted.
pub(super) fn follow(
    context: &Context,
    path: &std::path::Path,
    wanted: Option<&Wanted>,
) -> Result<ExitCode, Failure> {
    context.block_on(async {
        let mut reader = None;
        let mut log: Option<Log> = None;
        loop {
            if reader.is_none() {
                reader = match Inbox::read_only(path) {
                    Err(InboxError::Missing { .. }) => {
                        log.get_or_insert_default();
                        None
                    }
                    opened => opened.ok(),
                };
            }
            if let Some(reader) = &reader {
                let open = log.as_ref().map(Log::open).unwrap_or_default();
                let ends = reader.log_ends(&open).map_err(unreadable)?;
                // What was there when it began is not shown.
                let is_first = log.is_none();
                let mut grown = log.get_or_insert_default().advance(ends);
                if is_first {
                    grown.clear();
                }
                for (id, shown) in grown {
                    let Some(history) = reader.history(&id).map_err(unreadable)? else {
                        continue;
                    };
                    if !wanted.is_none_or(|wanted| wanted.is(&history.delivery)) {
                        continue;
                    }
                    for step in history.steps.get(shown..).unwrap_or_default() {
                        show(context, &history.delivery, step)?;
                    }
                }
            }
            tokio::select! {
                _ = tokio::signal::ctrl_c() => return Ok(ExitCode::SUCCESS),
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    })
}

/// How far the logs of deliveries were seen.
#[derive(Debug, Default)]
struct Log {
    seen: BTreeMap<i64, LogEnd>,
    /// The latest delivery that was seen.
    latest: i64,
}

impl Log {
    /// Those whose log may grow.
    fn open(&self) -> Vec<i64> {
        self.seen.values().filter(|end| end.is_under_way).map(|end| end.seq).collect()
    }

    /// Notes how far the logs have come; gives those that have grown, with how
    /// many of their steps were seen before.
    fn advance(&mut self, ends: Vec<LogEnd>) -> Vec<(DeliveryId, usize)> {
        let count = |steps: i64| usize::try_from(steps).unwrap_or(0);
        let mut grown = Vec::new();
        for end in &ends {
            let shown = match self.seen.get(&end.seq) {
                Some(before) if before == end => continue,
                Some(before) if before.steps < end.steps => count(before.steps),
                None if end.seq > self.latest => 0,
                // The last of very many steps was replaced, or an old delivery is
                // routed again on request.
                _ => count(end.steps).saturating_sub(1),
            };
            grown.push((end.id.clone(), shown));
        }
        self.latest = ends.iter().map(|end| end.seq).fold(self.latest, i64::max);
        self.seen = ends.into_iter().map(|end| (end.seq, end)).collect();
        grown
    }
}

fn show(context: &Context, delivery: &Summary, step: &RecordedStep) -> Result<(), Failure> {
    let (state, reason) = (step.state, step.reason);
    let item = delivery.item.as_ref().map_or_else(String::new, WorkItem::short);
    let mut text = String::new();
    push_line(&mut text, &format!("{}  {state:<9}  {reason:<22}  {item}", stamp(step.at)));
    push_line(&mut text, &format!("  {}", delivery.id));
    context.printer.data(text.trim_end())?;
    Ok(())
}
