//! `the-loop sessions send`.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;

use super::{Context, Failure, resolve};
use crate::base::clock::Clock;
use crate::serve::control;
use crate::state::inbox::{Inbox, LocalMessage};

/// The longest text, in bytes: what a prompt has room for.
const LIMIT: u64 = 14 << 10;

/// Send a text to a session, through its queue
///
/// The text waits for its turn like any event and is typed when the agent is
/// ready for it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  the-loop sessions send 15 'Please also update the docs'\n  \
                        git diff --stat | the-loop sessions send 15 -")]
pub(super) struct Args {
    /// The session: `15`, `owner/repo#15`, a URL or the slug
    item: String,

    /// The text; `-` reads it from standard input
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    text: Option<String>,

    /// Read the text from a file
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Do not wait for the end of the agent's turn, and go before what does
    #[arg(long)]
    now: bool,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    let (_, record) = resolve(&loaded, &args.item)?;
    let text = text(context, args)?;
    if text.trim().is_empty() {
        return Err(Failure::refused("there is no text to send"));
    }
    let message =
        LocalMessage { item: record.work_item.reference, text: Some(text), now: args.now };
    let id = context.block_on(async {
        if let Some(id) = control::send_local(&loaded.paths.control(), &message).await? {
            return Ok(id);
        }
        let failed =
            |error: crate::state::inbox::InboxError| error.failure("could not write to the inbox");
        loaded.paths.make(&context.env)?;
        let inbox = Inbox::open(&loaded.paths.inbox(), Clock::System).map_err(failed)?;
        let id = control::put_local(&inbox, &message).await.map_err(failed)?;
        inbox.close();
        context.printer.note("no receiver runs: the text waits in the inbox for its start");
        Ok(id)
    })?;
    let told = format!("queued; `the-loop events {id}` tells what becomes of it");
    context.printer.note(&context.with_config(&told));
    Ok(ExitCode::SUCCESS)
}

fn text(context: &Context, args: &Args) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = match (&args.text, &args.file) {
        (_, Some(file)) => fs_err::File::open(context.env.cwd().join(file))
            .and_then(|file| file.take(LIMIT + 1).read_to_end(&mut bytes)),
        (Some(text), None) if text != "-" => {
            bytes.extend_from_slice(text.as_bytes());
            Ok(bytes.len())
        }
        _ => std::io::stdin().lock().take(LIMIT + 1).read_to_end(&mut bytes),
    };
    read.map_err(|error| Failure::failed("could not read the text").because(error))?;
    if bytes.len() as u64 > LIMIT {
        return Err(Failure::refused("the text is longer than 14 KiB")
            .hint("put it into a file of the project and send the file's name"));
    }
    String::from_utf8(bytes).map_err(|_| Failure::refused("the text is not UTF-8"))
}
