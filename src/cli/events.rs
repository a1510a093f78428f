//! `the-loop events`: what became of deliveries, and why. Reads the inbox, also
//! while the daemon writes to it, and changes nothing.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

mod follow;
mod wanted;

use self::follow::{Since, follow, since};
use self::wanted::{Found, Wanted, find};
use super::Context;
use super::sessions::ago;
use crate::base::clock::Clock;
use crate::base::failure::Failure;
use crate::base::ids::{DeliveryId, Slug, WorkItem};
use crate::base::text::{cap, visible};
use crate::core::config::RunnerKind;
use crate::core::outcome::{Reason, State};
use crate::core::session::SessionStatus;
use crate::serve::control;
use crate::state::inbox::{DeliveryHistory, Inbox, InboxError, RecordedStep, Summary};
use crate::state::registry::Registry;

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
    /// A delivery's id, a work item (`'#12'`, `OWNER/REPO#12`), or a page's URL
    id: Option<String>,

    /// Print JSON; with --follow one object in each line
    #[arg(long)]
    json: bool,

    /// Only what did not arrive, or may not have arrived
    #[arg(long)]
    failed: bool,

    /// Only what came in since then: `30m`, `1h30m`, `3d`, a day, a time
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<Since>,

    /// Go on showing what happens until interrupted
    #[arg(long)]
    follow: bool,

    /// How many deliveries at most: the latest ones
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    // What was recorded can be read whatever became of the configuration.
    let (_, paths) = context.paths()?;
    let path = paths.inbox();
    let routing = context.load().map(|loaded| loaded.config.routing).unwrap_or_default();
    let notice = Notice { now: Clock::System.now(), after: routing.tmux.wait_notice.duration() };
    for kept in Inbox::damaged_files(&path) {
        context.printer.note(&damaged(&kept));
    }
    let wanted = args.id.as_deref().map(Wanted::parse).transpose()?;
    if args.follow {
        return follow(context, &path, wanted.as_ref(), args);
    }
    let reader = match Inbox::read_only(&path) {
        Ok(reader) => Some(reader),
        Err(missing @ InboxError::Missing { .. }) => {
            let status = context.block_on(control::ask_status(&paths.control()));
            if matches!(status, Ok(Some(_))) {
                return Err(Failure::failed(
                    "the recorded events are gone while the receiver runs",
                )
                .because(missing)
                .hint("`the-loop gh-webhook restart` begins a new inbox"));
            }
            None
        }
        Err(error) => return Err(unreadable(error)),
    };
    let Found { histories: mut found, older } = match &reader {
        None => Found::default(),
        Some(reader) => find(context, reader, wanted.as_ref(), args).map_err(unreadable)?,
    };
    if found.is_empty() {
        let place = path.display();
        match (&args.id, &reader) {
            _ if older => {
                let which = if args.failed { "nothing failed" } else { "no delivery came in" };
                context.printer.note(&format!("{which} since then (`--since`)"));
            }
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
    if wanted.is_none() && !args.json && found.len() as u64 == u64::from(args.limit) {
        let note = format!("the latest {} of those; --limit N shows more", args.limit);
        context.printer.note(&note);
    }
    let sessions = Registry::open(&paths.registry);
    if args.json {
        let output = Output {
            schema: SCHEMA,
            deliveries: found.drain(..).map(|h| notice.json(h, &sessions)).collect(),
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
                in_full(&mut text, history, &sessions);
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

    fn json(&self, history: DeliveryHistory, sessions: &Registry) -> DeliveryJson {
        let waiting = self.word(&history.delivery) == WAITING;
        DeliveryJson { waiting, ..into_json(history, sessions) }
    }
}

/// What is said of an inbox that was damaged and kept.
pub(super) fn damaged(kept: &Path) -> String {
    let file = kept.display();
    let note = format!("note: the inbox was damaged; what could not be read is in `{file}`");
    match Inbox::missing_of(kept) {
        0 => note,
        missing => format!(
            "{note}\nOf up to {missing} deliveries in it nothing is known: look at the webhook's \
             page on GitHub,\nRecent Deliveries, and have those sent again that are not in \
             `the-loop events`"
        ),
    }
}

fn unreadable(error: InboxError) -> Failure {
    error.failure("the recorded events cannot be read")
}

/// One delivery in two lines.
fn in_short(out: &mut String, delivery: &Summary, state: &str) {
    let at = stamp(delivery.received_at);
    let reason = delivery.reason;
    let item = delivery.item.as_ref().map_or_else(String::new, WorkItem::short);
    let item = with_number(&item, WIDTH - LEFT_OF_ITEM);
    push_line(out, &format!("{at}  {state:<9}  {reason:<22}  {item}"));
    push_line(out, &format!("  {}  {}", delivery.id, visible(&delivery.event)));
}

/// Columns before the item in a line of the list.
const LEFT_OF_ITEM: usize = 57;

/// An item in so many columns: its number stays, the middle of its repository's
/// name goes.
fn with_number(item: &str, width: usize) -> String {
    let Some((repo, number)) = item.rsplit_once('#').filter(|_| item.chars().count() > width)
    else {
        return item.to_owned();
    };
    let repo: Vec<char> = repo.chars().collect();
    let room = width.saturating_sub(number.len() + 2);
    let (head, tail) = (room - room / 2, room / 2);
    let [head, tail] = [&repo[..head.min(repo.len())], &repo[repo.len().saturating_sub(tail)..]];
    head.iter().chain(&['…']).chain(tail).collect::<String>() + "#" + number
}

/// Where a session is, for people: one that is headless has no name in tmux.
fn place_of(sessions: &Registry, slug: &Slug) -> String {
    match sessions.load(slug) {
        Ok(Some(record)) if record.runner == RunnerKind::Process => format!("{slug} (headless)"),
        _ => slug.tmux_name(),
    }
}

/// One delivery with every decision about it.
fn in_full(out: &mut String, history: &DeliveryHistory, sessions: &Registry) {
    let delivery = &history.delivery;
    push_line(out, &format!("delivery  {}", delivery.id));
    push_line(out, &format!("event     {}", visible(&delivery.event)));
    if let Some(item) = &delivery.item {
        push_line(out, &format!("item      {}", item.short()));
    }
    if let Some(session) = &delivery.session {
        push_line(out, &format!("session   {}", place_of(sessions, session)));
    }
    if let Some(url) = &delivery.url {
        // Not cut: a part of an address leads nowhere.
        let _ = writeln!(out, "page      {}", visible(url));
    }
    for step in &history.steps {
        let RecordedStep { at, state, reason, detail } = step;
        push_line(out, &format!("{}  {state:<9}  {reason}", stamp(*at)));
        // A detail of several lines, such as an agent's last words, keeps them.
        let detail = detail.iter().flat_map(|text| text.lines()).flat_map(wrapped);
        for line in wrapped(reason.explain()).chain(detail) {
            push_line(out, &format!("  {line}"));
        }
    }
    let reason = reason_now(delivery, sessions);
    if reason != delivery.reason {
        push_line(out, "  By now its session is paused.");
    }
    if let Some(advice) = reason.advice(&delivery.id, delivery.item.as_ref()) {
        for line in wrapped(&format!("To change it: {advice}")) {
            push_line(out, &format!("  {line}"));
        }
    }
}

/// Why a delivery stands where it does now: what waits in a session that was paused
/// since waits for that, whatever it waited for before.
fn reason_now(delivery: &Summary, sessions: &Registry) -> Reason {
    let is_paused = |slug: &Slug| {
        let record = sessions.load(slug).ok().flatten();
        record.is_some_and(|record| record.status == SessionStatus::Paused)
    };
    match delivery.reason {
        reason @ (Reason::SessionPaused | Reason::RateLimited) => reason,
        reason if delivery.state != State::Queued => reason,
        _ if delivery.session.as_ref().is_some_and(is_paused) => Reason::SessionPaused,
        reason => reason,
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
fn wrapped(text: &str) -> impl Iterator<Item = String> + use<> {
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

fn into_json(history: DeliveryHistory, sessions: &Registry) -> DeliveryJson {
    let DeliveryHistory { delivery, steps } = history;
    let step = |RecordedStep { at, state, reason, detail }| StepJson {
        at,
        state,
        reason,
        explanation: reason.explain(),
        detail,
    };
    let advice = reason_now(&delivery, sessions).advice(&delivery.id, delivery.item.as_ref());
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
    use crate::base::failure::Kind;

    #[test]
    fn an_item_keeps_its_number_when_the_name_of_its_repository_is_long() {
        assert_eq!(with_number("o/r#1", 23), "o/r#1");
        let fitted = with_number("codertocat/hello-world-of-things#1234", 23);
        assert_eq!((fitted.as_str(), fitted.chars().count()), ("codertoca…f-things#1234", 23));
        for width in 8..40 {
            let fitted = with_number("codertocat/hello-world-of-things#1234", width);
            assert!(fitted.ends_with("#1234") && fitted.chars().count() <= width, "{fitted}");
        }
    }

    #[test]
    fn an_id_is_a_delivery_an_item_a_session_or_a_page() {
        let item = "Octo/Repo#12".parse::<WorkItem>().unwrap();
        for (text, wanted) in [
            ("72d3162e-cc78", Wanted::Delivery("72d3162e-cc78".parse().unwrap())),
            ("octo/repo#12", Wanted::Item(item.clone())),
            ("github:octo/repo#12", Wanted::Item(item.clone())),
            ("octo+repo+12", Wanted::Session(item.slug())),
            ("loop/octo+repo+12", Wanted::Session(item.slug())),
            ("https://github.com/o/r/x", Wanted::Page("https://github.com/o/r/x".to_owned())),
            ("github.com/o/r/issues/2", Wanted::Page("https://github.com/o/r/issues/2".to_owned())),
            (
                "github.com/o/r/pull/2#discussion_r1",
                Wanted::Page("https://github.com/o/r/pull/2#discussion_r1".to_owned()),
            ),
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
            own: None,
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
        let sessions = Registry::open(Path::new("/nowhere"));
        in_full(&mut text, &DeliveryHistory { delivery: delivery.clone(), steps }, &sessions);
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
