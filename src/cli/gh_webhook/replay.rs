//! `the-loop gh-webhook replay`.

use std::fmt::Write as _;
use std::process::ExitCode;

use crate::base::clock::Clock;
use crate::base::failure::{Failure, chain};
use crate::base::files::lock::LockFile;
use crate::base::ids::{DeliveryId, Marker};
use crate::base::text::{visible, visible_lines, wrapped};
use crate::cli::Context;
use crate::cli::setup::Loaded;
use crate::core::config::{Change, Config, RunnerKind, changes};
use crate::core::event;
use crate::core::harness::Harnesses;
use crate::core::routing::{self, Action, Decision, OwnVoice, prompt};
use crate::serve::control;
use crate::serve::reload::Reloaded;
use crate::serve::sight::Sight;
use crate::serve::templates::read_templates;
use crate::state::inbox::{DeliveryKind, Inbox, InboxError, Replayed, StoredDelivery};
use crate::state::paths::StatePaths;
use crate::state::registry::Registry;

const WIDTH: usize = 80;

/// Route a recorded delivery again
///
/// It is decided about anew, with the configuration and the sessions of now. A
/// delivery that reached its agent before is told once more.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  the-loop gh-webhook replay 72d3162e-cc78-11e3-81ab-4c9367dc0958 --dry-run
  the-loop gh-webhook replay 72d3162e-cc78-11e3-81ab-4c9367dc0958")]
pub(super) struct Args {
    /// The delivery's id
    id: DeliveryId,

    /// Only say what would happen, and why
    #[arg(long)]
    dry_run: bool,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    if args.dry_run {
        return explain(context, &context.load()?, &args.id);
    }
    // The receiver decides, with its own configuration.
    let (_, paths) = context.paths()?;
    let (replayed, is_running) = context.block_on(async {
        match control::ask_to_replay(&paths.control(), &args.id).await? {
            Some(replayed) => Ok((replayed, true)),
            None => put_up(&paths, &args.id).await.map(|replayed| (replayed, false)),
        }
    })?;
    let id = &args.id;
    match replayed {
        Replayed::Queued => {
            if !is_running {
                context.printer.note("no receiver runs: it waits in the inbox for its start");
            }
            let told = format!("To be routed again; see `the-loop events {id}`");
            context.printer.note(&context.with_config(&told));
            Ok(ExitCode::SUCCESS)
        }
        Replayed::UnderWay => Err(Failure::refused(format!("`{id}` is still on its way"))
            .hint(format!("the-loop events {id}"))),
        Replayed::NoBody => Err(no_body(id)),
    }
}

/// Without a receiver: the next one routes it.
async fn put_up(paths: &StatePaths, id: &DeliveryId) -> Result<Replayed, Failure> {
    // Where nothing was ever received there is no directory for a lock either.
    if !paths.inbox().exists() {
        return Err(unknown(id));
    }
    let _lock = LockFile::try_acquire(&paths.lock())
        .map_err(|error| Failure::refused("a receiver runs and does not answer").because(error))?;
    let inbox = Inbox::open(&paths.inbox(), Clock::System).map_err(unreadable)?;
    match inbox.replay(id.clone()).await {
        Ok(replayed) => Ok(replayed),
        Err(InboxError::UnknownDelivery { .. }) => Err(unknown(id)),
        Err(error) => Err(Failure::failed("could not put it up again").because(error)),
    }
}

fn no_body(id: &DeliveryId) -> Failure {
    Failure::refused(format!("the body of `{id}` is not kept any more (`state.retention`)")).hint(
        format!(
            "have GitHub send it again (the webhook's page, Recent Deliveries), then: \
             the-loop gh-webhook replay {id}"
        ),
    )
}

fn unknown(id: &DeliveryId) -> Failure {
    Failure::refused(format!("no delivery `{id}` is recorded"))
        .hint("the latest deliveries: the-loop events")
}

fn unreadable(error: InboxError) -> Failure {
    error.failure("the recorded events cannot be read")
}

fn explain(context: &Context, loaded: &Loaded, id: &DeliveryId) -> Result<ExitCode, Failure> {
    let inbox = match Inbox::read_only(&loaded.paths.inbox()) {
        Ok(inbox) => inbox,
        Err(InboxError::Missing { .. }) => return Err(unknown(id)),
        Err(error) => return Err(unreadable(error)),
    };
    let Some(delivery) = inbox.stored(id).map_err(unreadable)? else {
        let is_known = inbox.history(id).map_err(unreadable)?.is_some();
        return Err(if is_known { no_body(id) } else { unknown(id) });
    };
    // One that is decided about the first time is not asked about here.
    let delivery = StoredDelivery { again: true, ..delivery };
    if delivery.body.is_empty() {
        return Err(Failure::failed(format!("the body of `{id}` is damaged in the inbox"))
            .hint("have GitHub send it again: the webhook's page, Recent Deliveries"));
    }
    if delivery.kind == DeliveryKind::Local {
        context.printer.data("deliver  sent-by-hand\n  A person sent it from this machine.")?;
        return Ok(ExitCode::SUCCESS);
    }
    let event = match event::parse(&delivery.event, &delivery.body) {
        Ok(event) => event,
        Err(error) => {
            context.printer.data(&format!("ignore   unreadable\n  {}", visible(&chain(&error))))?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    let key = loaded.paths.key().map_err(|error| {
        Failure::failed("could not read the key of our own voice").because(error)
    })?;
    let voice = OwnVoice::new(*key.bytes());
    let config = &loaded.config.routing;
    let decide = |with: &Config| {
        let registry = Registry::open(&loaded.paths.registry);
        let harnesses = Harnesses::new(&with.harnesses, context.env.home());
        let mut sight = Sight::new(registry, harnesses, &loaded.paths);
        let routing = &with.routing;
        let view = sight.view(&inbox, routing, &event, &delivery);
        routing::decide(&event, routing, &view, &voice)
    };
    let decision = decide(&loaded.config);
    // The receiver would decide with what it has read.
    let running = context.block_on(control::ask_config(&loaded.paths.control()));
    if let Ok(Some(running)) = running {
        let differs = changes(&running, &loaded.config);
        if !differs.is_empty() {
            context.printer.note(&beside(&decision, &decide(&running), differs));
        }
    }
    let mut text = rule(&decision);
    if let Some(advice) = decision.reason.advice(id, decision.item.as_ref()) {
        text.push('\n');
        text.push_str(&indented(&format!("To change it: {advice}")));
    }
    if let Some(item) = &decision.item {
        // Where it is; one that is yet to be made is made by the configuration.
        let record = Registry::open(&loaded.paths.registry).load(&item.slug()).ok().flatten();
        let place = match record.map_or(config.runner, |record| record.runner) {
            RunnerKind::Process => "headless".to_owned(),
            RunnerKind::Tmux => item.slug().tmux_name(),
        };
        let _ = write!(text, "\nsession  {} ({})", item.short(), place);
    }
    if let (Action::Deliver(message) | Action::Start(message), Some(item)) =
        (&decision.action, &decision.item)
    {
        let first = matches!(decision.action, Action::Start(_));
        let prompt = {
            let templates = read_templates(config, &loaded.file, &loaded.text)?;
            let marker = Marker::new([0; 16]);
            prompt::render_with(&templates, message, item, &marker, &voice, first)
        };
        text.push_str("\n\n");
        text.push_str(&prompt);
    }
    context.printer.data(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// What is decided, and by which rule.
fn rule(decision: &Decision) -> String {
    let Decision { action, reason, .. } = decision;
    let mut text = format!("{:<8} {reason}\n{}", action.as_str(), indented(reason.explain()));
    if let Some(login) = &decision.unlisted {
        let _ = write!(text, "\n  It is `{login}`.");
    }
    text
}

/// What a receiver decides that runs with another configuration than the file.
fn beside(file: &Decision, running: &Decision, differs: Vec<Change>) -> String {
    let mut text = "note: the receiver still runs with another configuration; below is what the\n\
                    file says now."
        .to_owned();
    if (file.action.as_str(), file.reason) == (running.action.as_str(), running.reason) {
        text.push_str(" The receiver would decide the same.");
    } else {
        text.push_str(" The receiver would decide:\n");
        text.push_str(&indented(&rule(running)));
    }
    text.push_str("\nWhat differs:\n");
    let differs = Reloaded { schema: 1, refused: None, changes: differs, warnings: Vec::new() };
    text.push_str(&indented(&differs.lines().join("\n")));
    text.push_str("\n`the-loop gh-webhook reload` lets it apply");
    text
}

fn indented(text: &str) -> String {
    wrapped(&visible_lines(text), WIDTH, "  ")
}
