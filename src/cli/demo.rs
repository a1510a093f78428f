//! `the-loop demo`: the whole path, on this machine alone.

mod payloads;
mod stage;

use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::Context;
use crate::base::failure::Failure;
use crate::base::process::Household;
use crate::base::terminal::fit;
use crate::core::config::{HarnessName, RunnerKind, Tools};
use crate::doctor::{self, Needs};
use stage::Stage;

/// The exit code of a program that was interrupted.
const INTERRUPTED: u8 = 130;
/// The exit code of a program whose terminal was closed.
const HUNG_UP: u8 = 129;
/// The exit code of a program that was asked to end.
const TERMINATED: u8 = 143;
/// How long each step of the demo may take.
const STEP_WITHIN: Duration = Duration::from_secs(30);

/// Show the whole path on this machine: no GitHub, no account, no agent
///
/// Starts a receiver on a free loopback port, posts a signed delivery of a
/// labelled issue to it, and shows how an agent that is part of this program
/// gets it in a tmux session of its own; then a comment arrives in the same
/// conversation. Everything is kept in a directory of its own and is gone at
/// the end, unless `--keep` is given.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop demo --keep")]
pub(super) struct Args {
    /// Leave the receiver and the session running
    #[arg(long)]
    keep: bool,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    context.block_on(async {
        let failed = |error| Failure::failed("could not watch for signals").because(error);
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
        let mut stage = None;
        // The signals first: one that comes early must find its branch.
        let result = tokio::select! {
            biased;
            _ = interrupt.recv() => Ok(Played::Interrupted(INTERRUPTED)),
            _ = terminate.recv() => Ok(Played::Interrupted(TERMINATED)),
            _ = hangup.recv() => Ok(Played::Interrupted(HUNG_UP)),
            result = Box::pin(play(context, args, &mut stage)) => result.map(|()| Played::ToTheEnd),
        };
        let kept = args.keep && matches!(result, Ok(Played::ToTheEnd));
        if let Some(stage) = stage
            && !kept
        {
            Box::pin(stage.clear()).await;
            say(context, "\nEverything that the demo started is gone again.");
        }
        match result? {
            Played::Interrupted(code) => Ok(ExitCode::from(code)),
            Played::ToTheEnd => {
                say(context, &next_steps(args.keep));
                Ok(ExitCode::SUCCESS)
            }
        }
    })
}

/// How the demo ended.
enum Played {
    ToTheEnd,
    /// By a signal, with the exit code that tells it.
    Interrupted(u8),
}

async fn play(
    context: &Context,
    args: &Args,
    stage_out: &mut Option<Stage>,
) -> Result<(), Failure> {
    title(context, "1. The doctor looks at this host");
    let needs = Needs {
        runner: Some(RunnerKind::Tmux),
        harness: Some(HarnessName::Demo),
        ..Needs::default()
    };
    let household = Household::enter();
    let report = doctor::examine(&context.env, &context.dirs()?, &Tools::default(), &needs).await;
    drop(household);
    if let Some(text) = report.errors_text() {
        return Err(Failure::refused(format!("this host is not ready\n{}", text.trim_end()))
            .hint("`the-loop doctor` shows every check"));
    }
    let tmux = stage::tmux_of(&report)?;
    say(context, &format!("tmux works: {}", tmux.path().display()));

    title(context, "2. A receiver starts, with a fresh secret");
    let stage = stage_out.insert(Stage::set(context, tmux)?);
    Box::pin(stage.start(context)).await?;
    say(context, &format!("It takes deliveries on {}", stage.url()));
    say(context, &format!("Everything of it is in {}", stage.dir().display()));

    title(context, "3. GitHub tells: octocat put the label on issue #1");
    let answer = Box::pin(stage.post("issues", &payloads::labeled())).await?;
    say(context, &format!("{answer}, and it is on disk: delivery {}", stage.last_delivery()));
    Box::pin(stage.delivered(STEP_WITHIN)).await?;
    say(context, &format!("An agent runs in the tmux session `{}` and has it:", stage.session()));
    show(context, &stage.screen().await?);

    title(context, "4. GitHub tells: octocat wrote a comment on it");
    let answer = Box::pin(stage.post("issue_comment", &payloads::comment())).await?;
    say(context, &format!("{answer}: delivery {}", stage.last_delivery()));
    Box::pin(stage.delivered(STEP_WITHIN)).await?;
    say(context, "It was typed into the same conversation, and the agent has it:");
    show(context, &stage.screen().await?);

    title(context, "5. What became of the comment, step by step");
    show(context, &stage.history()?);
    if args.keep {
        title(context, "Still running");
        say(context, &stage.instructions());
    }
    Ok(())
}

fn next_steps(kept: bool) -> String {
    let first = if kept {
        ""
    } else {
        "  the-loop demo --keep          do it again and look at the live session\n"
    };
    format!(
        "\nWhat to type next:\n{first}  the-loop doctor               \
         what this host has and lacks\n  the-loop --help               every command\n\
         README.md tells how to connect a real repository."
    )
}

fn title(context: &Context, text: &str) {
    say(context, &format!("\n{text}"));
}

fn say(context: &Context, text: &str) {
    // The demo is its own output; nobody reading it is no failure.
    let _ = context.printer.data(text);
}

fn show(context: &Context, text: &str) {
    for line in text.lines() {
        say(context, &format!("  | {}", fit(line, 75)));
    }
}
