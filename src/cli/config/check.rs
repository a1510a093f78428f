//! `the-loop config check`.

use std::process::ExitCode;

use crate::base::failure::{Failure, chain};
use crate::base::text::{visible, wrapped};
use crate::cli::setup::Loaded;
use crate::cli::{Context, json};
use crate::core::config::{EVENTS, SpawnPolicy, WITHOUT_EFFECT, is_among, lines};
use crate::core::harness::Harnesses;
use crate::serve::receiver::Secret;
use crate::serve::templates::read_templates;
use crate::serve::web::address_of;

/// Check the configuration
///
/// Exits 1 with the place and the reason when there is a fault in it. Notes are
/// no faults: they say what is allowed and will surprise.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop config check")]
pub(super) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    let loaded = context.load_own().and_then(|loaded| {
        // The receiver would not start with them.
        read_templates(&loaded.config.routing, &loaded.file, &loaded.text)?;
        Ok(loaded)
    });
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(failure) if args.json => {
            let value = serde_json::json!({
                "schema": 1, "valid": false, "error": failure.to_string(),
                "hints": failure.hints(),
            });
            context.printer.data(&json::render(&value))?;
            return Ok(ExitCode::FAILURE);
        }
        Err(failure) => return Err(failure),
    };
    let notes = notes(context, &loaded);
    if args.json {
        let value = serde_json::json!({
            "schema": 1, "valid": true, "file": loaded.file.display().to_string(),
            "notes": notes,
        });
        context.printer.data(&json::render(&value))?;
        return Ok(ExitCode::SUCCESS);
    }
    for note in notes {
        context.printer.note(wrapped(&format!("note: {note}"), 80, "  ").trim_start());
    }
    context.printer.data(&format!("{} is valid", visible(&loaded.file.display().to_string())))?;
    Ok(ExitCode::SUCCESS)
}

fn notes(context: &Context, loaded: &Loaded) -> Vec<String> {
    let set = lines(&loaded.text);
    let routing = &loaded.config.routing;
    let mut notes: Vec<_> = set
        .iter()
        .filter(|(key, _)| is_among(key, WITHOUT_EFFECT))
        .map(|(key, line)| format!("line {line}: `{key}` has no effect in this version"))
        .collect();
    let events = &loaded.config.webhooks.gh_webhook.events;
    for event in events.iter().filter(|event| !EVENTS.contains(&event.as_str())) {
        notes.push(format!(
            "`webhooks.ghWebhook.events`: `{event}` is recorded, and acted on by nobody"
        ));
    }
    if let Err(error) = Secret::load(&context.env, &loaded.config.webhooks.gh_webhook) {
        notes.push(format!("no receiver can be started from here: {}", chain(&error)));
    }
    let harnesses = Harnesses::new(&loaded.config.harnesses, context.env.home());
    let name = &routing.default_harness;
    if harnesses.get(name).is_ok_and(|harness| !harness.can_be(routing.runner)) {
        notes.push(format!(
            "no receiver can be started: the agent {} cannot be hosted by\n\
             `routing.runner: {}`",
            visible(name.as_str()),
            routing.runner.as_str()
        ));
    }
    if loaded.paths.dir.starts_with(&loaded.project) {
        let path = visible(&loaded.paths.dir.display().to_string());
        notes.push(format!(
            "`state.dir` is inside the project (`{path}`): a `git clean` sweeps it away, and \
             agents can write to it"
        ));
    }
    if !routing.spawn_workdir.is_dir() {
        let path = visible(&routing.spawn_workdir.display().to_string());
        notes.push(format!("`routing.spawnWorkdir`: there is no directory `{path}`"));
    }
    let web = &routing.web_terminal;
    if web.enabled
        && web.socket.is_none()
        && let Err(failure) = address_of(&web.host)
    {
        notes.push(format!("no receiver can be started from here: {failure}"));
    }
    if !routing.enabled {
        notes.push("`routing.enabled` is false: deliveries are only recorded".to_owned());
    } else if routing.authorized_users.is_empty() {
        notes.push("`routing.authorizedUsers` is empty: no person's event is acted on".to_owned());
    } else if routing.spawn_on_unmatched == SpawnPolicy::Never {
        notes.push("`routing.spawnOnUnmatched` is never: no event starts a session".to_owned());
    }
    notes
}
