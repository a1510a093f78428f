//! `events --since` and `--follow`: deliveries by time, and steps as they happen.

use std::process::ExitCode;

use jiff::Timestamp;

use super::{Wanted, push_line, stamp, unreadable};
use crate::base::clock::Clock;
use crate::base::failure::Failure;
use crate::base::ids::WorkItem;
use crate::cli::Context;
use crate::state::inbox::Inbox;

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
        let mut seen: Option<i64> = None;
        let mut shown: std::collections::HashMap<i64, usize> = std::collections::HashMap::new();
        loop {
            if reader.is_none() {
                reader = Inbox::read_only(path).ok();
            }
            if let Some(reader) = &reader {
                let first = seen.is_none();
                let changed = reader.changed_since(seen.unwrap_or(-1)).map_err(unreadable)?;
                for (at, id) in changed {
                    seen = Some(seen.map_or(at, |last| last.max(at)));
                    let Some(history) = reader.history(&id).map_err(unreadable)? else { continue };
                    let steps = shown.entry(history.delivery.seq).or_default();
                    let new = history.steps.get(*steps..).unwrap_or_default();
                    *steps = history.steps.len();
                    if first || !wanted.is_none_or(|wanted| wanted.is(&history.delivery)) {
                        continue;
                    }
                    for step in new {
                        let (state, reason) = (step.state, step.reason);
                        let item = history
                            .delivery
                            .item
                            .as_ref()
                            .map_or_else(String::new, WorkItem::short);
                        let mut line = String::new();
                        push_line(
                            &mut line,
                            &format!("{}  {state:<9}  {reason:<22}  {item}", stamp(step.at)),
                        );
                        push_line(&mut line, &format!("  {id}"));
                        context.printer.data(line.trim_end())?;
                    }
                }
                seen.get_or_insert(0);
            }
            tokio::select! {
                _ = tokio::signal::ctrl_c() => return Ok(ExitCode::SUCCESS),
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    })
}
