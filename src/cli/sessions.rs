//! `the-loop sessions`: look at sessions and talk to them.

mod attach;
mod close;
mod drive;
mod list;
mod live;
mod logs;
mod release;
mod resize;
mod send;
mod show;
mod trees;
mod verbs;

use std::process::ExitCode;

use clap::Subcommand;
use jiff::Timestamp;

use self::live::Live;
use super::Context;
use super::setup::Loaded;
use super::tools;
use crate::base::failure::Failure;
use crate::base::ids::Slug;
use crate::base::terminal::fit;
use crate::base::text::{visible, wrapped};
use crate::core::session::{SessionRecord, SessionStatus, find_item};
use crate::state::registry::{self, Broken, Registry, RegistryError};

/// Look at sessions and talk to them
///
/// A session is one conversation with an agent about one issue or pull request.
/// ITEM is `15` or `#15` where only one session has that number,
/// `owner/repo#15`, the item's URL, or the session's slug. A pull request means
/// the session that it is linked to. (In a shell, `#15` needs quotes.)
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop sessions show octo/hello#15")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::Args),
    Show(show::Args),
    Attach(attach::Args),
    Send(send::Args),
    Close(close::Args),
    Pause(verbs::PauseArgs),
    Resume(verbs::ResumeArgs),
    Register(verbs::RegisterArgs),
    #[command(name = "link-pr")]
    LinkPr(verbs::LinkArgs),
    Logs(logs::Args),
    Release(release::Args),
    Resize(resize::Args),
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    match &args.command {
        Command::List(args) => list::run(context, args),
        Command::Show(args) => show::run(context, args),
        Command::Attach(args) => attach::run(context, args),
        Command::Send(args) => send::run(context, args),
        Command::Close(args) => close::run(context, args),
        Command::Pause(args) => verbs::pause(context, args),
        Command::Resume(args) => verbs::resume(context, args),
        Command::Register(args) => verbs::register(context, args),
        Command::LinkPr(args) => verbs::link(context, args),
        Command::Logs(args) => logs::run(context, args),
        Command::Release(args) => release::run(context, args),
        Command::Resize(args) => resize::run(context, args),
    }
}

/// The session that a person means, with its entry.
pub(super) fn resolve(loaded: &Loaded, item: &str) -> Result<(Slug, SessionRecord), Failure> {
    let registry = Registry::open(&loaded.paths.registry);
    let slug = find_item(item, &registry.load_all().known()).map_err(|error| {
        // Below its own first line.
        let hint = wrapped(&error.hint(), 80, "      ");
        Failure::refused(error.to_string()).hint(hint.trim_start())
    })?;
    match registry.load(&slug) {
        Ok(Some(record)) => Ok((slug, record)),
        Ok(None) => Err(Failure::refused(format!("the session `{slug}` was just removed"))),
        Err(RegistryError::Unreadable { path, why }) => Err(Failure::failed(format!(
            "the session's entry cannot be read: {why}\n  `{}`",
            visible(&path.display().to_string())
        ))
        .hint("put it right; or move it away, and the next event starts the session anew")),
        Err(error) => Err(Failure::failed("the session cannot be read").because(error)),
    }
}

/// A broken entry, in a line for people.
fn broken_line(broken: &Broken) -> String {
    let path = visible(&broken.path.display().to_string());
    format!("warning: a session's entry cannot be read: {}\n  `{path}`", broken.why)
}

/// How long ago something was: `5s`, `3m`, `2h`, `9d`.
pub(super) fn ago(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_in_its_largest_unit() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (60, "1m"), (7199, "1h"), (86_400, "1d"), (864_000, "10d")]
        {
            assert_eq!(ago(at(1000), at(1000 + seconds)), text);
        }
        assert_eq!(ago(at(1000), at(900)), "0s", "a clock that was set back");
    }
}
