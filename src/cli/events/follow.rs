//! `events --since` and `--follow`: deliveries by time, and steps as they happen.

use std::collections::BTreeMap;
use std::process::ExitCode;

use jiff::Timestamp;
use serde::Serialize;

use super::{Args, LEFT_OF_ITEM, SCHEMA, WIDTH, Wanted, push_line, stamp, unreadable, with_number};
use crate::base::clock::Clock;
use crate::base::failure::Failure;
use crate::base::ids::{DeliveryId, Slug, WorkItem};
use crate::base::text::visible;
use crate::cli::Context;
use crate::core::outcome::{Reason, State};
use crate::state::inbox::{Inbox, InboxError, InboxReader, LogEnd, RecordedStep, Summary};

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
    // Times are shown in UTC, so a day is one of UTC.
    if let Ok(day) = text.parse::<jiff::civil::Date>()
        && let Ok(midnight) = jiff::tz::Offset::UTC.to_timestamp(day.at(0, 0, 0, 0))
        && !text.contains(':')
    {
        return Ok(Since::At(midnight));
    }
    span(text).map(|seconds| Since::Ago(jiff::SignedDuration::from_secs(seconds))).ok_or_else(|| {
        "neither a time (`2026-11-30`, `2026-11-30T09:00:00Z`) nor a span (`30m`, `1h30m`, `3d`)"
            .to_owned()
    })
}

/// The seconds of a span: numbers, each with its unit.
fn span(text: &str) -> Option<i64> {
    let (mut seconds, mut rest) = (0_i64, text);
    while let Some(end) = rest.find(|c: char| !c.is_ascii_digit()) {
        let number: i64 = rest.get(..end)?.parse().ok()?;
        let unit = match rest.as_bytes().get(end)? {
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            b'd' => 86_400,
            _ => return None,
        };
        seconds = seconds.checked_add(number.checked_mul(unit)?)?;
        rest = rest.get(end + 1..)?;
    }
    (rest.is_empty() && (1..=100_000 * 86_400).contains(&seconds)).then_some(seconds)
}

/// Shows every step as it is recorded, until interrupted.
pub(super) fn follow(
    context: &Context,
    path: &std::path::Path,
    wanted: Option<&Wanted>,
    args: &Args,
) -> Result<ExitCode, Failure> {
    context.block_on(async {
        let mut reader = None;
        let mut log: Option<Log> = None;
        loop {
            // One that was put in its place begins anew.
            if reader.as_ref().is_some_and(|reader: &InboxReader| !reader.is_in_place()) {
                (reader, log) = (None, Some(Log::default()));
            }
            if reader.is_none() {
                reader = match Inbox::read_only(path) {
                    Ok(opened) => Some(opened),
                    Err(InboxError::Missing { .. }) => {
                        log.get_or_insert_default();
                        None
                    }
                    Err(error) if error.may_pass() => None,
                    Err(error) => return Err(unreadable(error)),
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
                    let is_shown = |step: &&RecordedStep| {
                        !args.failed || matches!(step.state, State::Failed | State::Unproven)
                    };
                    for step in
                        history.steps.get(shown..).unwrap_or_default().iter().filter(is_shown)
                    {
                        let text = if args.json {
                            as_json(&history.delivery, step)?
                        } else {
                            as_text(&history.delivery, step)
                        };
                        context.printer.data(&text)?;
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

fn as_text(delivery: &Summary, step: &RecordedStep) -> String {
    let (state, reason) = (step.state, step.reason);
    // What it is about is known only when it was looked at.
    let about = delivery.item.as_ref().map_or_else(|| visible(&delivery.event), WorkItem::short);
    let about = with_number(&about, WIDTH - LEFT_OF_ITEM);
    let mut text = String::new();
    push_line(&mut text, &format!("{}  {state:<9}  {reason:<22}  {about}", stamp(step.at)));
    push_line(&mut text, &format!("  {}", delivery.id));
    text.truncate(text.trim_end().len());
    text
}

/// A step and the delivery that it is of, in one line of JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StepLine<'a> {
    schema: u32,
    id: &'a DeliveryId,
    kind: &'static str,
    event: &'a str,
    item: Option<&'a WorkItem>,
    session: Option<&'a Slug>,
    url: Option<&'a str>,
    received_at: Timestamp,
    at: Timestamp,
    state: State,
    reason: Reason,
    explanation: &'static str,
    detail: Option<&'a str>,
}

fn as_json(delivery: &Summary, step: &RecordedStep) -> Result<String, Failure> {
    let line = StepLine {
        schema: SCHEMA,
        id: &delivery.id,
        kind: delivery.kind.as_str(),
        event: &delivery.event,
        item: delivery.item.as_ref(),
        session: delivery.session.as_ref(),
        url: delivery.url.as_deref(),
        received_at: delivery.received_at,
        at: step.at,
        state: step.state,
        reason: step.reason,
        explanation: step.reason.explain(),
        detail: step.detail.as_deref(),
    };
    serde_json::to_string(&line)
        .map_err(|error| Failure::failed("could not write JSON").because(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_day_a_moment_or_so_long_ago() {
        for (text, seconds) in [("30m", 1800), ("1h30m", 5400), ("3d", 259_200), ("45s", 45)] {
            let Ok(Since::Ago(ago)) = since(text) else { unreachable!("{text}") };
            assert_eq!(ago.as_secs(), seconds, "{text}");
        }
        for (text, at) in [
            ("2026-11-30", "2026-11-30T00:00:00Z"),
            ("2026-11-30T09:00:00+01:00", "2026-11-30T08:00:00Z"),
        ] {
            let Ok(Since::At(found)) = since(text) else { unreachable!("{text}") };
            assert_eq!(found.to_string(), at);
        }
        for text in ["", "soon", "0s", "-5m", "5", "m", "1h30", "99999999999d", "é"] {
            assert!(since(text).unwrap_err().contains("`1h30m`"), "{text}");
        }
    }
}
