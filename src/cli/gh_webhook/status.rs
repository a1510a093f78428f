//! `the-loop gh-webhook status`.

use std::process::ExitCode;

use super::hooks;
use crate::base::failure::Failure;
use crate::base::text::{visible, visible_lines, wrapped};
use crate::cli::events::damaged;
use crate::cli::{Context, json};
use crate::serve::control::{self, Status};
use crate::serve::receiver::Refused;
use crate::state::inbox::Inbox;

const WIDTH: usize = 80;

/// What stands below a name in the list.
const BESIDE_NAMES: &str = "               ";

/// Show whether the receiver runs, and what came in
///
/// Exits 0 when it runs, and 1 when it does not or can store nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop gh-webhook status --json")]
pub(super) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    let (file, paths) = context.paths()?;
    for kept in Inbox::damaged_files(&paths.inbox()) {
        context.printer.note(&damaged(&kept));
    }
    context.block_on(async {
        let Some(status) = control::ask_status(&paths.control()).await? else {
            if args.json {
                let value = serde_json::json!({ "schema": 1, "running": false });
                context.printer.data(&json::render(&value))?;
            } else {
                context.printer.data(&format!("not running\nconfiguration  {}", file.display()))?;
            }
            return Ok(ExitCode::FAILURE);
        };
        if args.json {
            let mut value = serde_json::to_value(&status).unwrap_or_default();
            value["running"] = true.into();
            context.printer.data(&json::render(&value))?;
        } else {
            context.printer.data(&render(&status))?;
        }
        Ok(if status.cannot_store.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    })
}

fn render(status: &Status) -> String {
    let when = |time: Option<jiff::Timestamp>| {
        time.map_or_else(|| "never".to_owned(), |time| format!("{time:.0}"))
    };
    let deliveries: Vec<_> = status
        .deliveries
        .iter()
        .filter(|(_, number)| **number > 0)
        .map(|(state, number)| format!("{number} {state}"))
        .collect();
    let deliveries = if deliveries.is_empty() { "none".to_owned() } else { deliveries.join(", ") };
    let changed = if status.changed_on_disk { " (changed on disk)" } else { "" };
    let mut lines = vec![
        format!("running        pid {} since {:.0}", status.pid, status.started_at),
        format!("receives on    {}", visible(&status.url)),
        format!("configuration  {}", visible(&status.config) + changed),
        format!("runner         {}", visible(&status.runner)),
        format!("last ping      {}", when(status.last_ping)),
        format!("last delivery  {}", when(status.last_delivery)),
        format!("deliveries     {deliveries}"),
    ];
    for held in &status.held {
        lines.push(format!("starts         {held}"));
    }
    for Refused { status, why, count, last } in &status.refused {
        let refused = format!("{count} with {status} ({why}), last {last:.0}");
        let refused = wrapped(&visible(&refused), WIDTH, BESIDE_NAMES);
        lines.push(format!("refused        {}", refused.trim_start()));
        if *status == 401 {
            lines.push("  the webhook's secret on GitHub and the receiver's differ?".to_owned());
        }
    }
    lines.extend(hooks::lines(&status.github));
    if let Some(why) = &status.cannot_store {
        lines.push("stores         nothing now; GitHub is answered 503:".to_owned());
        lines.push(wrapped(&visible_lines(why), WIDTH, "  "));
        lines.push("  What GitHub sent meanwhile it shows under Recent Deliveries.".to_owned());
    }
    if let Some(command) = &status.tmux_command {
        lines.insert(4, format!("tmux server    {}", visible(command)));
    }
    if let Some(url) = &status.web_url {
        lines.insert(2, format!("web terminal   {}", visible(url)));
    }
    if let Some(refusal) = &status.reload_refused {
        lines.push(format!("reload         refused at {:.0}; the old one stays:", refusal.at));
        lines.extend(visible_lines(&refusal.why).lines().map(|line| format!("  {line}")));
    }
    lines.join("\n")
}
