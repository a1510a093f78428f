//! `the-loop sessions list`.

use std::process::ExitCode;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Context, Failure, Live, Registry, ago, broken_line, registry};
use crate::base::clock::Clock;
use crate::base::terminal::table;
use crate::base::text::visible;
use crate::cli::json;
use crate::core::session::SessionRecord;
use crate::serve::control;

/// Columns of a line for people.
pub(super) const WIDTH: usize = 80;

/// List the sessions, those with the latest event first
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop sessions list")]
pub(super) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Show the git work trees instead, and what stands only in them
    #[arg(long)]
    trees: bool,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    let sessions = Registry::open(&loaded.paths.registry).load_all();
    if args.trees {
        super::trees::run(context, &loaded, &ordered(&sessions), args.json)?;
        for broken in &sessions.broken {
            context.printer.note(&broken_line(broken));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let live = Live::look(context, &loaded, &sessions);
    if args.json {
        context.printer.data(&json::render(&as_json(&sessions, &live)))?;
    } else if sessions.records.is_empty() && sessions.broken.is_empty() {
        context.printer.note("there are no sessions");
    } else {
        let text = as_table(&sessions, &live, Clock::System.now());
        context.printer.data(text.trim_end())?;
        let status = context.block_on(control::ask_status(&loaded.paths.control()));
        for held in status.ok().flatten().map(|status| status.held).unwrap_or_default() {
            context.printer.note(&held.to_string());
        }
        if let Some(command) = live.tmux() {
            context.printer.note(&format!("Sessions are in tmux ({})", visible(command)));
        }
    }
    for broken in &sessions.broken {
        context.printer.note(&broken_line(broken));
    }
    Ok(ExitCode::SUCCESS)
}

/// The sessions in the order in which they are shown.
fn ordered(sessions: &registry::Loaded) -> Vec<&SessionRecord> {
    let mut records: Vec<_> = sessions.records.values().collect();
    records.sort_by_key(|record| std::cmp::Reverse(last_change(record)));
    records
}

fn last_change(record: &SessionRecord) -> Timestamp {
    record.last_event_at.unwrap_or(record.created_at)
}

fn as_table(sessions: &registry::Loaded, live: &Live, now: Timestamp) -> String {
    let rows: Vec<Vec<String>> = ordered(sessions)
        .into_iter()
        .map(|record| {
            let slug = record.slug();
            // What it asks matters more than what it is about.
            let title = match live.asks(&slug) {
                Some(asks) => format!("asks: {asks}"),
                None => visible(record.work_item.title.as_deref().unwrap_or_default()),
            };
            let waiting = live.waiting(&slug).map_or(0, |waiting| waiting.count);
            vec![
                shortened(&record.work_item.reference.short(), 32),
                live.shown(&slug, record),
                if waiting == 0 { "-".to_owned() } else { waiting.to_string() },
                record.harness.as_str().to_owned(),
                record.runner.as_str().to_owned(),
                // One that was registered by hand had none yet.
                record.last_event_at.map_or_else(|| "-".to_owned(), |at| ago(at, now)),
                title,
            ]
        })
        .collect();
    table(&["ITEM", "STATE", "WAIT", "HARNESS", "RUNNER", "LAST", "TITLE"], &rows, WIDTH)
}

/// A name cut in its middle: its beginning and its number tell it from others.
fn shortened(name: &str, limit: usize) -> String {
    let length = name.chars().count();
    if length <= limit {
        return name.to_owned();
    }
    let half = (limit - 1) / 2;
    let start: String = name.chars().take(limit - 1 - half).collect();
    let end: String = name.chars().skip(length - half).collect();
    format!("{start}…{end}")
}

fn as_json(sessions: &registry::Loaded, live: &Live) -> Value {
    let records: Vec<_> =
        ordered(sessions).into_iter().map(|record| session_json(record, live)).collect();
    let broken: Vec<_> = sessions
        .broken
        .iter()
        .map(|broken| json!({ "path": broken.path.to_string_lossy(), "why": broken.why }))
        .collect();
    json!({ "schema": 1, "sessions": records, "broken": broken })
}

/// A session as JSON, the same here and in `sessions show`.
pub(super) fn session_json(record: &SessionRecord, live: &Live) -> Value {
    let slug = record.slug();
    json!({
        "item": record.work_item.reference.short(),
        "ref": record.work_item.reference,
        "slug": slug,
        "title": record.work_item.title,
        "url": record.work_item.url,
        "webUrl": live.web_url(record),
        "harness": record.harness,
        "harnessSessionId": record.harness_session_id,
        "runner": record.runner,
        "view": record.view,
        "tmuxTarget": record.tmux_target,
        "tmuxSocket": record.tmux_socket,
        "status": record.status,
        "state": live.state(&slug, record),
        "asks": live.asks(&slug),
        "blocked": record.blocked,
        "waiting": live.waiting(&slug).map_or(0, |waiting| waiting.count),
        "clients": live.clients(&slug),
        "cwd": record.cwd,
        "workTree": record.work_tree,
        "pullRequests": record.pull_requests,
        "createdAt": record.created_at,
        "lastEventAt": record.last_event_at,
        "resumedAt": record.resumed_at,
        "lastTurn": record.last_turn,
        "failure": record.failure,
        "pausedWhy": record.paused_why,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_keeps_its_number() {
        let name = format!("octo/{}#12345", "x".repeat(100));
        let short = shortened(&name, 32);
        assert_eq!(short.chars().count(), 32);
        assert!(short.starts_with("octo/x") && short.ends_with("x#12345"), "{short}");
        assert_eq!(shortened("o/r#1", 32), "o/r#1");
    }
}
