//! `the-loop doctor`: examines this host, or installs a pinned tool.

mod bundle;
mod fix;
mod hide;
pub(crate) mod managed;
pub(crate) mod notes;
mod project;
pub(crate) mod stalls;

use std::error::Error as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::Context;
use super::json::render;
use super::setup::Loaded;
use crate::base::dirs::Dirs;
use crate::base::failure::{Failure, Kind, chain};
use crate::base::process::{Household, shell_word};
use crate::base::runtime;
use crate::base::terminal::table;
use crate::base::text::{visible, visible_lines};
use crate::core::config::{Config, RunnerKind, Tools};
use crate::core::harness::{Harnesses, Program};
use crate::core::platform::Remedy;
use crate::doctor::catalogue::{CHECKS, is_known};
use crate::doctor::{self, Finding, Needs, Project, Report, Request, Severity};

use fix::{Tried, fix};
use managed::Wanted;
pub(crate) use project::project_of;

/// The exit code of a program that was interrupted.
const INTERRUPTED: u8 = 130;
/// The exit code of a program whose terminal was closed.
const HUNG_UP: u8 = 129;
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
  the-loop doctor --fix --dry-run
  the-loop doctor --install ttyd
  the-loop doctor --install tmux@3.6a --offline ~/Downloads")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct Args {
    /// What must work; may be given more than once
    #[arg(long = "for", value_name = "MODE", value_enum)]
    modes: Vec<Mode>,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    /// Make only this check, or all of one group, as in `tmux`
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<String>,

    /// Show the ids of all checks
    #[arg(long, conflicts_with_all = ["modes", "only"])]
    list_checks: bool,

    /// Print what a bug report needs, without names and secrets
    #[arg(long, conflicts_with = "json")]
    report: bool,

    /// Put right what can be, and say what
    #[arg(long)]
    fix: bool,

    /// Only say what `--fix` would do
    #[arg(long, requires = "fix")]
    dry_run: bool,

    /// Install pinned builds into a directory of the-loop's own
    #[arg(long, value_name = "TOOL[@VERSION]", value_delimiter = ',', group = "managed")]
    install: Vec<Wanted>,

    /// Remove builds that the-loop installed; all versions without one
    #[arg(long, value_name = "TOOL[@VERSION]", value_delimiter = ',', group = "managed")]
    uninstall: Vec<Wanted>,

    /// Show the builds that the-loop installed
    #[arg(long, group = "managed")]
    list: bool,

    /// Take the files from this folder instead of the network
    #[arg(long, value_name = "DIR")]
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

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    let result = run_it(context, args);
    if let Err(failure) = &result
        && args.json
        && failure.kind() != Kind::BrokenPipe
    {
        // Whoever fails here has printed nothing yet.
        let mut why = failure.to_string();
        if let Some(cause) = failure.source() {
            why = format!("{why}: {}", chain(cause));
        }
        let hints: Vec<_> = failure.hints().iter().map(|hint| context.with_config(hint)).collect();
        let told = json!({
            "schema": 1,
            "error": why,
            "hints": hints,
            "exitCode": failure.kind().exit_code(),
        });
        context.printer.data(&render(&told))?;
    }
    result.map_err(|failure| failure.wrapped(managed::WIDTH))
}

fn run_it(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    check_usage(args)?;
    if args.list_checks {
        return list_checks(context, args.json);
    }
    // Without a home nothing can be checked, and nothing can be installed.
    let kind = if is_managing(args) { Kind::Failed } else { Kind::CouldNotCheck };
    let dirs = Dirs::new(&context.env)
        .map_err(|error| Failure::new(kind, error.to_string()).hint(error.hint()))?;
    if let (Err(why), false) = (runtime::can_open(), is_managing(args)) {
        return show(context, args, &doctor::at_the_limit(&context.env, &why));
    }
    let household = Household::enter();
    let result = context.block_on(async {
        tokio::select! {
            // First, so that the signals are caught before anything is started.
            biased;
            // What the doctor started ends with the other future.
            code = interrupted() => Ok(ExitCode::from(code)),
            result = work(context, &dirs, args) => result,
        }
    });
    drop(household);
    result
}

fn is_managing(args: &Args) -> bool {
    args.list || !args.install.is_empty() || !args.uninstall.is_empty()
}

fn check_usage(args: &Args) -> Result<(), Failure> {
    let usage = |text: String| Failure::new(Kind::Usage, text);
    if args.offline.is_some() && args.install.is_empty() && !args.fix {
        return Err(usage("`--offline` is for `--install` and `--fix`".to_owned()));
    }
    let is_examining = !args.modes.is_empty()
        || !args.only.is_empty()
        || args.report
        || args.fix
        || args.list_checks;
    if is_managing(args) && is_examining {
        let text = "`--install`, `--uninstall` and `--list` examine nothing: call them alone";
        return Err(usage(text.to_owned()));
    }
    match args.only.iter().find(|id| !is_known(id)) {
        Some(id) => Err(usage(format!("there is no check `{}`", visible(id)))
            .hint("`the-loop doctor --list-checks` shows them")),
        None => Ok(()),
    }
}

/// Waits for Ctrl-C or for the request to end; gives the exit code for it.
async fn interrupted() -> u8 {
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    let hung_up = async {
        match signal(SignalKind::hangup()) {
            Ok(mut signal) => signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => INTERRUPTED,
        _ = terminated => TERMINATED,
        _ = hung_up => HUNG_UP,
    }
}

async fn work(context: &Context, dirs: &Dirs, args: &Args) -> Result<ExitCode, Failure> {
    if args.list {
        managed::list(context, dirs, args.json)
    } else if !args.uninstall.is_empty() {
        managed::uninstall_all(context, dirs, &args.uninstall, args.json).await
    } else if !args.install.is_empty() {
        let offline = args.offline.as_deref();
        managed::install_all(context, dirs, &args.install, offline, args.json).await
    } else {
        examine(context, dirs, args).await
    }
}

async fn examine(context: &Context, dirs: &Dirs, args: &Args) -> Result<ExitCode, Failure> {
    let mut asked = Asked::new(context, &args.modes);
    if args.report && asked.about_config.severity == Severity::Error {
        asked.about_config = bundle::masked(asked.about_config);
    }
    let mut report = asked.check_up(context, dirs, &args.only).await;
    let mut is_left = false;
    if args.fix {
        let mut tried = Tried::default();
        // What was put right can show the next thing to do, as a mode does.
        while fix(context, dirs, args, &report, &mut tried).await? {
            report = asked.check_up(context, dirs, &args.only).await;
        }
        is_left = report.give_up(&tried.failed);
    }
    if args.report {
        let text =
            bundle::text(context, &mut report, asked.config.as_ref(), asked.place.as_deref());
        context.printer.out().write_all(text.as_bytes())?;
    } else {
        show(context, args, &report)?;
    }
    // After a repair it is the second look that counts: what was not fixed is there.
    Ok(ExitCode::from(match report.exit_code() {
        0 if is_left => Kind::Failed.exit_code(),
        code => code,
    }))
}

fn show(context: &Context, args: &Args, report: &Report) -> Result<ExitCode, Failure> {
    if args.json {
        context.printer.data(&render(&report.to_json()))?;
    } else {
        context.printer.out().write_all(report.render(context.printer.is_verbose()).as_bytes())?;
    }
    Ok(ExitCode::from(report.exit_code()))
}

/// What is needed, and what is configured.
struct Asked {
    needs: Needs,
    tools: Tools,
    project: Project,
    config: Option<Config>,
    /// The directory of the project.
    place: Option<PathBuf>,
    about_config: Finding,
}

impl Asked {
    /// From the configuration when there is one that can be read, and from the
    /// command line, which wins.
    fn new(context: &Context, modes: &[Mode]) -> Self {
        let loaded = context.load_own();
        let about_config = about_config(context, &loaded);
        let loaded = loaded.ok();
        let mut needs = loaded.as_ref().map(|loaded| needs_of(&loaded.config)).unwrap_or_default();
        if !modes.is_empty() {
            needs.web = modes.contains(&Mode::Web);
            needs.runner = if modes.contains(&Mode::Tmux) {
                Some(RunnerKind::Tmux)
            } else {
                modes.contains(&Mode::Process).then_some(RunnerKind::Process)
            };
        }
        Self {
            needs,
            tools: loaded.as_ref().map(|loaded| loaded.config.tools.clone()).unwrap_or_default(),
            project: loaded.as_ref().map(project_of).unwrap_or_default(),
            place: match &loaded {
                Some(loaded) => Some(loaded.project.clone()),
                None => context.project(),
            },
            config: loaded.map(|loaded| loaded.config),
            about_config,
        }
    }

    async fn check_up(&self, context: &Context, dirs: &Dirs, only: &[String]) -> Report {
        let mut report = doctor::check_up(&Request {
            env: &context.env,
            dirs,
            tools: &self.tools,
            needs: &self.needs,
            project: &self.project,
            only,
        })
        .await;
        report.push(self.about_config.clone());
        report.narrow(only, &self.needs);
        report.advise(|text| context.with_config(text));
        report
    }
}

fn about_config(context: &Context, loaded: &Result<Loaded, Failure>) -> Finding {
    let id = "config.valid";
    match loaded {
        Ok(loaded) => {
            let file = visible(&loaded.file.to_string_lossy());
            Finding::new(id, Severity::Ok, format!("the configuration has no fault: {file}"))
        }
        Err(_) if !context.has_config() => {
            let place = context.env.cwd().join(".the-loop");
            let remedy = if place.exists() && !place.is_dir() {
                let word = shell_word(&place.to_string_lossy());
                Remedy::command(format!("mv {word} {word}.away && the-loop init"))
            } else {
                Remedy::command("the-loop init")
            };
            Finding::new(id, Severity::Note, "there is no configuration here").remedy(remedy)
        }
        Err(failure) => {
            let text = visible_lines(&failure.to_string());
            let mut lines = text.lines().peekable();
            let mut what = lines.next().unwrap_or_default().to_owned();
            // Broken only to fit a terminal: here the report breaks its lines.
            while let Some(more) =
                lines.next_if(|line| line.starts_with("  ") && !line.contains(" |"))
            {
                what.push(' ');
                what.push_str(more.trim_start());
            }
            let mut finding = Finding::new(id, Severity::Error, what);
            finding.evidence = lines.map(ToOwned::to_owned).collect();
            if let Some(source) = failure.source() {
                finding.evidence.push(visible(&chain(source)));
            }
            let (commands, notes): (Vec<_>, Vec<_>) =
                failure.hints().iter().cloned().partition(|hint| is_command(hint));
            let note = (!notes.is_empty()).then(|| notes.join("; "));
            if note.is_none() && commands.is_empty() {
                return finding;
            }
            finding.remedy(Remedy { commands, note })
        }
    }
}

/// Whether a hint is nothing but a command that changes who may do what.
fn is_command(hint: &str) -> bool {
    let programs = ["chmod ", "chown ", "sudo ", "doas ", "su "];
    programs.iter().any(|program| hint.starts_with(program))
}

/// What a configuration enables.
pub(crate) fn needs_of(config: &Config) -> Needs {
    // A path below the home is put together by the doctor.
    let agent = Harnesses::new(&config.harnesses, None).get(&config.routing.default_harness).ok();
    let agent = agent.filter(|agent| matches!(agent.program(), Program::Looked(_)));
    Needs {
        agent,
        runner: Some(config.routing.runner),
        harness: Some(config.routing.default_harness.clone()),
        web: config.wants_browser(),
        workspace: config.routing.workspace.enabled,
    }
}

fn list_checks(context: &Context, as_json: bool) -> Result<ExitCode, Failure> {
    if as_json {
        let checks: Vec<_> =
            CHECKS.iter().map(|(id, what)| json!({ "id": id, "what": what })).collect();
        context.printer.data(&render(&json!({ "schema": 1, "checks": checks })))?;
    } else {
        let rows: Vec<_> =
            CHECKS.iter().map(|(id, what)| vec![(*id).to_owned(), (*what).to_owned()]).collect();
        context.printer.data(table(&["CHECK", "WHAT IS TRIED"], &rows, 80).trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}
