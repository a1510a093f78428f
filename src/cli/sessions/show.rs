//! `the-loop sessions show`.

use std::fmt::Write as _;
use std::process::ExitCode;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::list::{WIDTH, session_json};
use super::{Context, Failure, Live, ago, fit, registry, resolve};
use crate::base::clock::Clock;
use crate::base::ids::{DeliveryId, WorkItem};
use crate::base::text::{count, visible, visible_lines, wrapped};
use crate::cli::json;
use crate::core::config::RunnerKind;
use crate::core::outcome::Reason;
use crate::core::session::{SessionRecord, SessionStatus};
use crate::state::drive::Drive;
use crate::state::inbox::Waiting;
use crate::state::trace::{Trace, TraceStep};
use crate::state::turns::Mark;

/// What stands below a name in the list of a session's values.
const BESIDE_NAMES: &str = "                 ";

/// Show one session
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop sessions show octo/hello#15")]
pub(super) struct Args {
    /// The session: `15`, `owner/repo#15`, a URL or the slug
    item: String,

    /// Show how the events of the last hour were typed, step by step
    #[arg(long)]
    trace: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    let (slug, record) = resolve(&loaded, &args.item)?;
    let one = registry::Loaded {
        records: [(slug.clone(), record.clone())].into_iter().collect(),
        broken: Vec::new(),
    };
    let live = Live::look(context, &loaded, &one);
    let now = Clock::System.now();
    let trace = Trace::of(&loaded.paths, &slug)
        .last_hour(now)
        .map_err(|error| Failure::failed("what was typed cannot be read").because(error));
    let trace = args.trace.then_some(trace).transpose()?;
    let text = if args.json {
        let mut value = session_json(&record, &live);
        value["schema"] = Value::from(1);
        if let Some(trace) = trace {
            value["trace"] = trace.iter().map(|step| json!(step)).collect();
        }
        json::render(&value)
    } else {
        let orphan = Drive::of(&loaded.paths, &slug).orphan();
        let mut text = as_text(&record, &live, orphan.as_ref(), now);
        if let Some(trace) = &trace {
            text.push_str(&steps(trace));
        }
        text
    };
    context.printer.data(text.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

fn waits(waiting: &Waiting, record: &SessionRecord, now: Timestamp) -> String {
    let events = count(waiting.count.try_into().unwrap_or(usize::MAX), "event");
    // What it waited for before it was paused is not why it waits now.
    let reason = match record.status {
        SessionStatus::Paused => Reason::SessionPaused,
        _ => waiting.reason,
    };
    format!("{events}, {reason} for {}", ago(waiting.since, now))
}

/// The steps of the last hour, each delivery's name where it is another one.
fn steps(trace: &[TraceStep]) -> String {
    let mut out = String::from("  typed in the last hour (UTC):\n");
    if trace.is_empty() {
        out.push_str("    nothing\n");
    }
    let mut last = None;
    for step in trace {
        if last != Some((&step.delivery, &step.with)) {
            let _ = writeln!(out, "    {}", step.delivery);
            if !step.with.is_empty() {
                let others: Vec<_> = step.with.iter().map(DeliveryId::as_str).collect();
                let others = format!("together with {}", others.join(", "));
                let _ = writeln!(out, "{}", wrapped(&others, WIDTH, "      "));
            }
            last = Some((&step.delivery, &step.with));
        }
        let at = step.at.strftime("%H:%M:%S.%3f");
        let line = format!("    {at}  {}: {}", visible(&step.saw), visible(&step.did));
        let _ = writeln!(out, "{}", fit(&line, WIDTH));
    }
    out
}

/// What the session is, and where that is paused what its agent does.
fn state(record: &SessionRecord, live: &Live) -> String {
    let slug = record.slug();
    let (shown, agent) = (live.shown(&slug, record), live.state(&slug, record));
    if shown == agent { shown } else { format!("{shown}; its agent is {agent}") }
}

/// Why it is paused, and how that ends.
fn paused(record: &SessionRecord) -> Option<String> {
    let why = record.paused_why.as_deref().map_or("by hand".to_owned(), visible);
    let item = record.work_item.reference.short();
    (record.status == SessionStatus::Paused)
        .then(|| format!("{why}; `the-loop sessions resume {item}` goes on"))
}

/// What holds the events of a session to which nobody is attached.
fn left_behind(pid: i32) -> String {
    format!(
        "the agent of somebody who attached still runs (pid {pid}), and events wait for its end; \
         `kill {pid}` ends it"
    )
}

fn as_text(record: &SessionRecord, live: &Live, orphan: Option<&Mark>, now: Timestamp) -> String {
    let SessionRecord { work_item, .. } = record;
    let slug = record.slug();
    let title = work_item.title.as_deref().map(visible).unwrap_or_default();
    let head = format!("{}  {title}", work_item.reference.short());
    let mut out = fit(head.trim_end(), WIDTH);
    out.push('\n');
    let when = |at: Timestamp| format!("{at:.0} ({} ago)", ago(at, now));
    let path = |path: &std::path::Path| visible(&path.display().to_string());
    let pull_requests =
        record.pull_requests.iter().map(WorkItem::short).collect::<Vec<_>>().join(", ");
    let lines = [
        ("url", work_item.url.as_deref().map(visible)),
        ("web", live.web_url(record).as_deref().map(visible)),
        ("state", Some(state(record, live))),
        ("left behind", orphan.map(|agent| left_behind(agent.pid))),
        ("asks", live.asks(&slug).map(visible)),
        ("waiting", live.waiting(&slug).map(|waiting| waits(waiting, record, now))),
        ("clients", Some(live.clients(&slug)).filter(|n| *n > 0).map(|n| n.to_string())),
        ("paused", paused(record)),
        ("harness", Some(record.harness.as_str().to_owned())),
        ("conversation", Some(record.harness_session_id.to_string())),
        ("runner", Some(record.runner.as_str().to_owned())),
        ("view", (record.runner == RunnerKind::Tmux).then(|| record.view.as_str().to_owned())),
        ("tmux session", record.tmux_target.clone()),
        ("tmux socket", record.tmux_socket.as_deref().map(path)),
        ("directory", Some(path(&record.cwd))),
        ("pull requests", Some(pull_requests).filter(|text| !text.is_empty())),
        ("last turn", record.last_turn.as_deref().map(visible)),
        ("created", Some(when(record.created_at))),
        ("resumed", record.resumed_at.map(when)),
        ("last event", Some(record.last_event_at.map_or("none yet".to_owned(), when))),
    ];
    for (name, value) in lines {
        if let Some(value) = value {
            // Words are broken at blanks; an address or a path is one word.
            let value = wrapped(&value, WIDTH, BESIDE_NAMES);
            let _ = writeln!(out, "  {name:<13}  {}", value.trim_start());
        }
    }
    if let Some(blocked) = &record.blocked {
        out.push_str("  it did not say that it is ready; its screen then:\n");
        for line in visible_lines(blocked).lines() {
            let _ = writeln!(out, "    {line}");
        }
    }
    if let Some(failure) = &record.failure {
        out.push_str("  why it failed:\n");
        for line in visible_lines(failure).lines() {
            let _ = writeln!(out, "    {line}");
        }
    }
    out
}
