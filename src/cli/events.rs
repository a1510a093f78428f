//! `the-loop events`: what became of deliveries, and why. Reads the inbox, also
//! while the daemon writes to it, and changes nothing.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

mod follow;

use self::follow::{Since, follow, since};
use super::Context;
use super::sessions::ago;
use crate::base::clock::Clock;
use crate::base::failure::{Failure, Kind};
use crate::base::ids::{DeliveryId, Slug, WorkItem};
use crate::base::text::{cap, visible};
use crate::core::outcome::{Reason, State};
use crate::state::inbox::{DeliveryHistory, Inbox, InboxError, InboxReader, RecordedStep, Summary};

const WIDTH: usize = 80;

/// The version of the JSON that this command prints.
const SCHEMA: u32 = 1;

/// Show what became of deliveries, and why
///
/// Without ID: the latest deliveries. With one: every decision about it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  the-loop events                  the latest deliveries
  the-loop events octo/repo#12     what happened to an issue's events
  the-loop events --failed         what did not arrive
  the-loop events 72d3162e-cc78-11e3-81ab-4c9367dc0958 --json")]
pub(super) struct Args {
    /// A delivery's id, a work item (`OWNER/REPO#N`), or a page's URL
    id: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Only what did not arrive, or may not have arrived
    #[arg(long)]
    failed: bool,

    /// Only what came in since then: `30m`, `2h`, `3d`, or a time
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<Since>,

    /// Go on showing what happens until interrupted
    #[arg(long, conflicts_with_all = ["json", "failed"])]
    follow: bool,

    /// How many deliveries at most: the latest ones
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    let path = loaded.paths.inbox();
    let notice = Notice {
        now: Clock::System.now(),
        after: loaded.config.routing.tmux.wait_notice.duration(),
    };
    for kept in Inbox::damaged_files(&path) {
        context.printer.note(&format!(
            "note: the inbox was damaged; what could not be read is in `{}`",
            kept.display()
        ));
    }
    let wanted = args.id.as_deref().map(Wanted::parse).transpose()?;
    if args.follow {
        return follow(context, &path, wanted.as_ref());
    }
    let reader = match Inbox::read_only(&path) {
        Ok(reader) => Some(reader),
        Err(InboxError::Missing { .. }) => None,
        Err(error) => return Err(unreadable(error)),
    };
    let mut found = match &reader {
        None => Vec::new(),
        Some(reader) => find(context, reader, wanted.as_ref(), args).map_err(unreadable)?,
    };
    if found.is_empty() {
        let place = path.display();
        match (&args.id, &reader) {
            (Some(id), _) => {
                let which = if args.failed { "failed delivery" } else { "delivery" };
                return Err(Failure::refused(format!(
                    "no {which} for `{}` is recorded in `{place}`",
                    visible(&cap(id, 120))
                ))
                .hint("the latest deliveries: the-loop events"));
            }
            (None, Some(_)) if args.failed => context.printer.note("nothing failed"),
            (None, _) => context.printer.note(&format!("nothing was received yet in `{place}`")),
        }
    }
    if args.json {
        let output = Output {
            schema: SCHEMA,
            deliveries: found.drain(..).map(|h| notice.json(h)).collect(),
        };
        let text = serde_json::to_string_pretty(&output)
            .map_err(|error| Failure::failed("could not write JSON").because(error))?;
        context.printer.data(&text)?;
    } else if !found.is_empty() {
        let mut text = String::new();
        for (index, history) in found.iter().enumerate() {
            let word = notice.word(&history.delivery);
            if wanted.is_some() {
                text.push_str(if index == 0 { "" } else { "\n" });
                in_full(&mut text, history);
                if word == WAITING {
                    let since = ago(history.delivery.received_at, notice.now);
                    push_line(&mut text, &format!("  It has been waiting for {since}."));
                }
            } else {
                in_short(&mut text, &history.delivery, word);
            }
        }
        context.printer.data(text.trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What is shown in the place of the state of what has been queued for long.
const WAITING: &str = "waiting";

/// When an event has waited for so long that it is shown
/// (`routing.tmux.waitNotice`).
struct Notice {
    now: Timestamp,
    after: Duration,
}

impl Notice {
    /// Where a delivery stands, in a word for people.
    fn word(&self, delivery: &Summary) -> &'static str {
        let waited = self.now.duration_since(delivery.received_at);
        let is_long = waited.unsigned_abs() > self.after && waited.is_positive();
        match delivery.state {
            State::Queued if is_long => WAITING,
            state => state.as_str(),
        }
    }

    fn json(&self, history: DeliveryHistory) -> DeliveryJson {
        let waiting = self.word(&history.delivery) == WAITING;
        DeliveryJson { waiting, ..into_json(history) }
    }
}

fn unreadable(error: InboxError) -> Failure {
    Failure::failed("the recorded events cannot be read").because(error)
}

/// What the ID names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wanted {
    Delivery(DeliveryId),
    Item(WorkItem),
    Session(Slug),
    Page(String),
}

impl Wanted {
    fn is(&self, delivery: &Summary) -> bool {
        match self {
            Self::Delivery(id) => delivery.id == *id,
            Self::Item(item) => {
                delivery.item.as_ref() == Some(item) || delivery.session == Some(item.slug())
            }
            Self::Session(slug) => delivery.session.as_ref() == Some(slug),
            Self::Page(url) => delivery.url.as_ref() == Some(url),
        }
    }

    fn parse(text: &str) -> Result<Self, Failure> {
        let text = text.trim();
        if text.contains("://") {
            return Ok(Self::Page(text.to_owned()));
        }
        text.parse()
            .map(Self::Delivery)
            .or_else(|_| text.parse().map(Self::Item))
            .or_else(|_| text.parse().map(Self::Session))
            .map_err(|_| {
                Failure::new(
                    Kind::Usage,
                    format!("`{}` names no delivery", visible(&cap(text, 120))),
                )
                .hint("a delivery's id, `OWNER/REPO#N`, or the URL of an issue or a comment")
            })
    }
}

fn find(
    context: &Context,
    reader: &InboxReader,
    wanted: Option<&Wanted>,
    args: &Args,
) -> Result<Vec<DeliveryHistory>, InboxError> {
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    // The failed ones among an item's are few: look at all, then cut.
    let reach = if args.failed { usize::MAX } else { limit };
    let mut found = match wanted {
        None if args.failed => reader.failed(limit)?,
        None => reader.recent(limit)?,
        Some(Wanted::Delivery(id)) => {
            reader.history(id)?.map(|history| history.delivery).into_iter().collect()
        }
        Some(Wanted::Item(item)) => reader.of_item(item, reach)?,
        Some(Wanted::Session(slug)) => reader.of_slug(slug, reach)?,
        Some(Wanted::Page(url)) => of_page(context, reader, url, reach)?,
    };
    if args.failed {
        found.retain(|delivery| matches!(delivery.state, State::Failed | State::Unproven));
    }
    if let Some(since) = args.since {
        let since = since.time();
        found.retain(|delivery| delivery.received_at >= since);
    }
    found.drain(..found.len().saturating_sub(limit));
    // Lists show no steps, and need not read them.
    if wanted.is_none() {
        let bare = |delivery| DeliveryHistory { delivery, steps: Vec::new() };
        return Ok(found.into_iter().map(bare).collect());
    }
    let mut histories = Vec::with_capacity(found.len());
    for delivery in found {
        histories.extend(reader.history(&delivery.id)?);
    }
    Ok(histories)
}

/// The deliveries of exactly this page; those of its item, when there are none
/// and the page belongs to one.
fn of_page(
    context: &Context,
    reader: &InboxReader,
    url: &str,
    limit: usize,
) -> Result<Vec<Summary>, InboxError> {
    let exact = reader.by_url(url)?;
    let Ok(item) = url.parse::<WorkItem>() else { return Ok(exact) };
    let is_item = !url.contains('#');
    if !exact.is_empty() && !is_item {
        return Ok(exact);
    }
    let all = reader.of_item(&item, limit)?;
    if !is_item && !all.is_empty() {
        context.printer.note(&format!(
            "no delivery of exactly this page is recorded; these are of {}",
            item.short()
        ));
    }
    Ok(all)
}

/// One delivery in two lines.
fn in_short(out: &mut String, delivery: &Summary, state: &str) {
    let at = stamp(delivery.received_at);
    let reason = delivery.reason;
    let item = delivery.item.as_ref().map_or_else(String::new, WorkItem::short);
    push_line(out, &format!("{at}  {state:<9}  {reason:<22}  {item}"));
    push_line(out, &format!("  {}  {}", delivery.id, visible(&delivery.event)));
}

/// One delivery with every decision about it.
fn in_full(out: &mut String, history: &DeliveryHistory) {
    let delivery = &history.delivery;
    push_line(out, &format!("delivery  {}", delivery.id));
    push_line(out, &format!("event     {}", visible(&delivery.event)));
    if let Some(item) = &delivery.item {
        push_line(out, &format!("item      {}", item.short()));
    }
    if let Some(session) = &delivery.session {
        push_line(out, &format!("session   {}", session.tmux_name()));
    }
    if let Some(url) = &delivery.url {
        // Not cut: a part of an address leads nowhere.
        let _ = writeln!(out, "page      {}", visible(url));
    }
    for step in &history.steps {
        let RecordedStep { at, state, reason, detail } = step;
        push_line(out, &format!("{}  {state:<9}  {reason}", stamp(*at)));
        for line in wrapped(reason.explain()).chain(detail.iter().flat_map(|text| wrapped(text))) {
            push_line(out, &format!("  {line}"));
        }
    }
    if let Some(advice) = delivery.reason.advice(&delivery.id, delivery.item.as_ref()) {
        for line in wrapped(&format!("To change it: {advice}")) {
            push_line(out, &format!("  {line}"));
        }
    }
}

/// Adds a line that fits the terminal.
fn push_line(out: &mut String, line: &str) {
    let line = line.trim_end();
    if line.chars().count() <= WIDTH {
        out.push_str(line);
    } else {
        out.extend(line.chars().take(WIDTH - 1));
        out.push('…');
    }
    out.push('\n');
}

/// A text in lines that fit the terminal with an indent of two. What is stored
/// may come from anywhere, so it is made visible once more.
fn wrapped(text: &str) -> impl Iterator<Item = String> {
    let mut lines: Vec<String> = Vec::new();
    for word in visible(text).split_whitespace() {
        let mut rest: Vec<char> = word.chars().collect();
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + rest.len() <= WIDTH - 2 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => {
                while rest.len() > WIDTH - 2 {
                    let tail = rest.split_off(WIDTH - 2);
                    lines.push(rest.into_iter().collect());
                    rest = tail;
                }
                lines.push(rest.into_iter().collect());
            }
        }
    }
    lines.into_iter()
}

fn stamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

#[derive(Debug, Serialize)]
struct Output {
    schema: u32,
    deliveries: Vec<DeliveryJson>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DeliveryJson {
    id: DeliveryId,
    kind: &'static str,
    event: String,
    item: Option<WorkItem>,
    session: Option<Slug>,
    url: Option<String>,
    received_at: Timestamp,
    state: State,
    reason: Reason,
    explanation: &'static str,
    /// What would change it.
    advice: Option<String>,
    changed_at: Timestamp,
    /// Whether it has waited for longer than `routing.tmux.waitNotice`.
    waiting: bool,
    attempts: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<StepJson>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StepJson {
    at: Timestamp,
    state: State,
    reason: Reason,
    explanation: &'static str,
    detail: Option<String>,
}

fn into_json(history: DeliveryHistory) -> DeliveryJson {
    let DeliveryHistory { delivery, steps } = history;
    let step = |RecordedStep { at, state, reason, detail }| StepJson {
        at,
        state,
        reason,
        explanation: reason.explain(),
        detail,
    };
    let advice = delivery.reason.advice(&delivery.id, delivery.item.as_ref());
    DeliveryJson {
        id: delivery.id,
        kind: delivery.kind.as_str(),
        event: delivery.event,
        item: delivery.item,
        session: delivery.session,
        url: delivery.url,
        received_at: delivery.received_at,
        state: delivery.state,
        reason: delivery.reason,
        explanation: delivery.reason.explain(),
        advice,
        changed_at: delivery.changed_at,
        waiting: false,
        attempts: delivery.attempts,
        steps: steps.into_iter().map(step).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_delivery_an_item_a_session_or_a_page() {
        let item = "Octo/Repo#12".parse::<WorkItem>().unwrap();
        for (text, wanted) in [
            ("72d3162e-cc78", Wanted::Delivery("72d3162e-cc78".parse().unwrap())),
            ("octo/repo#12", Wanted::Item(item.clone())),
            ("github:octo/repo#12", Wanted::Item(item.clone())),
            ("octo+repo+12", Wanted::Session(item.slug())),
            ("https://github.com/o/r/x", Wanted::Page("https://github.com/o/r/x".to_owned())),
        ] {
            assert_eq!(Wanted::parse(text).unwrap(), wanted, "{text}");
        }
        assert_eq!(Wanted::parse("a b").unwrap_err().kind(), Kind::Usage);
    }

    #[test]
    fn a_history_fits_the_terminal_and_acts_on_nothing() {
        let at: Timestamp = "2026-11-29T12:00:00Z".parse().unwrap();
        let item: WorkItem = "octo/repo#12".parse().unwrap();
        let delivery = Summary {
            seq: 1,
            id: "72d3162e-cc78-11e3-81ab-4c9367dc0958".parse().unwrap(),
            kind: crate::state::inbox::DeliveryKind::Github,
            event: "issue_comment\x1b[31m".to_owned(),
            received_at: at,
            state: State::Queued,
            reason: Reason::AgentBusy,
            changed_at: at,
            attempts: 0,
            item: Some(item.clone()),
            session: Some(item.slug()),
            url: Some("https://github.com/octo/repo/issues/12#issuecomment-1".to_owned()),
        };
        let steps = vec![
            RecordedStep { at, state: State::Received, reason: Reason::Stored, detail: None },
            RecordedStep {
                at,
                state: State::Queued,
                reason: Reason::AgentBusy,
                detail: Some(format!("\u{202e}{} {}", "x".repeat(200), "word ".repeat(30))),
            },
        ];
        let mut text = String::new();
        in_full(&mut text, &DeliveryHistory { delivery: delivery.clone(), steps });
        let notice = |minutes| Notice {
            now: at + Duration::from_mins(31),
            after: Duration::from_mins(minutes),
        };
        assert_eq!(notice(30).word(&delivery), WAITING);
        assert_eq!(notice(40).word(&delivery), "queued");
        in_short(&mut text, &delivery, WAITING);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(!text.contains(['\x1b', '\u{202e}']), "{text}");
        for part in [
            "item      octo/repo#12\n",
            "session   loop/octo+repo+12\n",
            "2026-11-29 12:00:00Z  queued     agent-busy\n  The agent is in the middle of a turn.\n",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
