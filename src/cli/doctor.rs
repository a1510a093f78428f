//! `the-loop doctor`: examines this host, or installs a pinned tool.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::Context;
use crate::base::dirs::Dirs;
use crate::base::failure::{Failure, Kind, chain};
use crate::base::terminal::Printer;
use crate::core::config::{RunnerKind, Tools};
use crate::core::platform::Host;
use crate::doctor::install::source::Source;
use crate::doctor::install::store::Store;
use crate::doctor::install::{InstallError, Progress, install};
use crate::doctor::{self, Needs, ToolId, host};

/// The exit code of a program that was interrupted.
const INTERRUPTED: u8 = 130;
/// The exit code of a program that was asked to end.
const TERMINATED: u8 = 143;

/// Check this host and say what is missing, or install a pinned tool
///
/// Exit codes: 0 nothing stops the work, 1 errors, 2 usage, 3 something could
/// not be checked.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  the-loop doctor
  the-loop doctor --for tmux --json
  the-loop doctor --install ttyd
  the-loop doctor --install tmux@3.6a --offline ~/Downloads")]
pub(super) struct Args {
    /// What must work; may be given more than once
    #[arg(long = "for", value_name = "MODE", value_enum)]
    modes: Vec<Mode>,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    /// Install pinned builds into a directory of the-loop's own
    #[arg(long, value_name = "TOOL[@VERSION]", value_delimiter = ',', conflicts_with = "modes")]
    install: Vec<Wanted>,

    /// Take the files from this folder instead of the network
    #[arg(long, value_name = "DIR", requires = "install")]
    offline: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// Sessions in tmux
    Tmux,
    /// Sessions as headless processes
    Process,
    /// The web terminal
    Web,
}

/// A tool to install.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    id: ToolId,
    version: Option<String>,
}

impl std::str::FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, version) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version.to_owned())),
            None => (text, None),
        };
        let installable: Vec<_> =
            ToolId::ALL.into_iter().filter(|id| !id.data().pins.is_empty()).collect();
        let id = installable.iter().copied().find(|id| id.as_str() == name).ok_or_else(|| {
            let names: Vec<_> = installable.iter().map(|id| id.as_str()).collect();
            format!("the-loop can install {}", names.join(" and "))
        })?;
        Ok(Self { id, version })
    }
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    let dirs = Dirs::new(&context.env).ok_or_else(|| {
        Failure::new(Kind::CouldNotCheck, "no home directory is known")
            .hint("set HOME, or THE_LOOP_HOME to a directory for everything that is the-loop's")
    })?;
    context.block_on(async {
        tokio::select! {
            // First, so that the signals are caught before anything is started.
            biased;
            // What the doctor started ends with the other future.
            code = interrupted() => Ok(ExitCode::from(code)),
            result = work(context, &dirs, args) => result,
        }
    })
}

/// Waits for Ctrl-C or for the request to end; gives the exit code for it.
async fn interrupted() -> u8 {
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => INTERRUPTED,
        _ = terminated => TERMINATED,
    }
}

async fn work(context: &Context, dirs: &Dirs, args: &Args) -> Result<ExitCode, Failure> {
    if args.install.is_empty() {
        examine(context, dirs, args).await
    } else {
        install_all(context, dirs, args).await
    }
}

async fn examine(context: &Context, dirs: &Dirs, args: &Args) -> Result<ExitCode, Failure> {
    let (needs, tools) = asked(args);
    let report = doctor::examine(&context.env, dirs, &tools, &needs).await;
    if args.json {
        context.printer.data(&format!("{:#}", report.to_json()))?;
    } else {
        context.printer.out().write_all(report.render(context.printer.is_verbose()).as_bytes())?;
    }
    Ok(ExitCode::from(report.exit_code()))
}

/// What is needed, and what is configured about the tools.
fn asked(args: &Args) -> (Needs, Tools) {
    let needs = Needs {
        runner: if args.modes.contains(&Mode::Tmux) {
            Some(RunnerKind::Tmux)
        } else {
            args.modes.contains(&Mode::Process).then_some(RunnerKind::Process)
        },
        harness: None,
        web: args.modes.contains(&Mode::Web),
    };
    (needs, Tools::default())
}

async fn install_all(context: &Context, dirs: &Dirs, args: &Args) -> Result<ExitCode, Failure> {
    let host = host::gather(&context.env).await;
    let store = Store::new(dirs);
    let source = Source::choose(&context.env, args.offline.as_deref()).map_err(|error| {
        Failure::new(Kind::Usage, "there is nowhere to install from").because(error)
    })?;
    let mut installed = Vec::new();
    for wanted in &args.install {
        let line = install_one(context, &host, &store, &source, wanted).await?;
        if !args.json {
            context.printer.data(&line.text)?;
        }
        installed.push(line.json);
    }
    if args.json {
        let all = json!({ "schema": 1, "installed": installed });
        context.printer.data(&format!("{all:#}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

struct Line {
    text: String,
    json: serde_json::Value,
}

async fn install_one(
    context: &Context,
    host: &Host,
    store: &Store,
    source: &Source,
    wanted: &Wanted,
) -> Result<Line, Failure> {
    let name = wanted.id.as_str();
    let data = wanted.id.data();
    let pin = data.pin_for(host, wanted.version.as_deref()).map_err(|error| {
        let remedy = crate::core::platform::remedy_for(data, host);
        let failure = Failure::refused(error.to_string());
        remedy.commands.into_iter().chain(remedy.note).fold(failure, Failure::hint)
    })?;
    let progress = Notes(context.printer);
    let done = install(&context.env, wanted.id, pin, store, source, &progress)
        .await
        .map_err(|error| explain(name, &pin.version, &pin.url, &error))?;
    let path = done.installed.path.display();
    let state = if done.was_there { "is already installed" } else { "installed" };
    Ok(Line {
        text: format!("{name} {} {state}: {path}", done.installed.version),
        json: json!({
            "id": name,
            "version": done.installed.version,
            "path": path.to_string(),
            "wasThere": done.was_there,
        }),
    })
}

fn explain(name: &str, version: &str, url: &str, error: &InstallError) -> Failure {
    let failure =
        Failure::failed(format!("could not install {name} {version}")).because(chain(error));
    match error {
        InstallError::NotInFolder { .. } => failure.hint(format!("get it from {url}")),
        InstallError::WrongDigest { .. } => {
            failure.hint("nothing was changed; what was installed before is still in its place")
        }
        InstallError::Download { .. } | InstallError::Status { .. } => {
            failure.hint(format!("or: the-loop doctor --install {name}@{version} --offline DIR"))
        }
        _ => failure,
    }
}

/// Plain lines on standard error.
struct Notes(Printer);

impl Progress for Notes {
    fn say(&self, text: &str) {
        self.0.note(text);
    }
}
