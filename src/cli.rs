//! The command line: what can be typed, and which file answers it.

mod background;
mod completions;
mod config;
mod demo;
mod demo_agent;
mod doctor;
mod events;
mod gh_webhook;
mod hook;
mod init;
mod json;
mod keep;
mod launch;
mod service;
mod sessions;
mod setup;
mod tools;
mod view;
mod web;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use unicode_width::UnicodeWidthStr as _;

use crate::base::env::Env;
use crate::base::failure::{Failure, Kind};
use crate::base::runtime;
use crate::base::terminal::Printer;
use crate::base::text::push_wrapped;

/// The width of what people read.
const WIDTH: usize = 80;

/// The heading of the options that every command has.
const GLOBAL: &str = "Options of every command";

/// Runs a coding agent on a labelled GitHub issue in a tmux session and types
/// every later event into it.
#[derive(Debug, Parser)]
#[command(name = "the-loop", version, max_term_width = 80, disable_help_subcommand = true)]
#[command(after_help = "Example:\n  the-loop demo")]
struct Cli {
    /// The configuration, instead of `.the-loop/config.yaml` here or above
    #[arg(long, global = true, value_name = "FILE", help_heading = GLOBAL)]
    config: Option<PathBuf>,

    /// The configuration is one that is found from here: no advice names it
    #[arg(long, global = true, hide = true, requires = "config")]
    found_config: bool,

    /// Show the causes behind an error
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    verbose: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::Args),
    Doctor(doctor::Args),
    #[command(name = "gh-webhook")]
    GhWebhook(gh_webhook::Args),
    Sessions(sessions::Args),
    Web(web::Args),
    Events(events::Args),
    Config(config::Args),
    Service(service::Args),
    Demo(demo::Args),
    Completions(completions::Args),
    Man(completions::ManArgs),
    #[command(hide = true)]
    Hook(hook::Args),
    #[command(hide = true)]
    Keep(keep::Args),
    #[command(hide = true)]
    Launch(launch::Args),
    #[command(hide = true)]
    View(view::Args),
    #[command(hide = true)]
    DemoAgent(demo_agent::Args),
}

/// What every command is given.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// The process's surroundings.
    pub(crate) env: Env,
    /// The terminal.
    pub(crate) printer: Printer,
    /// `--config`. Its variable is looked at by [`Context::load`].
    pub(crate) config: Option<PathBuf>,
    /// Whether it is found from here without being named.
    pub(crate) is_found: bool,
}

impl Context {
    /// Refuses to go on in a directory that was removed: no path there means
    /// anything, and what is above it is not what was meant.
    pub(crate) fn in_a_directory(&self) -> Result<(), Failure> {
        if self.env.is_cwd_gone() {
            return Err(Failure::refused("the current directory was removed")
                .hint("`cd` into one that is there"));
        }
        Ok(())
    }

    /// Runs an asynchronous command to its end on one thread.
    #[expect(clippy::unused_self, reason = "only a command may run one")]
    pub(crate) fn block_on<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let runtime = runtime::one_thread().map_err(no_runtime)?;
        let result = runtime.block_on(work);
        // A look at a file system that hangs is not waited for.
        runtime.shutdown_background();
        result
    }
}

/// About a system that has no files, or no threads, left for a runtime.
fn no_runtime(error: io::Error) -> Failure {
    let helps = runtime::more(&error);
    let failure = Failure::failed("could not start the runtime").because(error);
    match helps {
        Some(helps) => failure.hint(helps),
        None => failure,
    }
}

/// Runs the program: parses the arguments, runs the command, and says what went
/// wrong. The exit code is 0, or what the failure's kind asks for.
pub fn main(env: Env) -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are "errors" with exit code 0 here.
            let code = ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
            return match print(&error) {
                // `the-loop --help | head -1` is no failure either.
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
                _ => code,
            };
        }
    };
    let printer = Printer::new(cli.verbose);
    let context = Context { env, printer, config: cli.config, is_found: cli.found_config };
    match run(&context, cli.command) {
        Ok(code) => code,
        Err(failure) => {
            let kind = failure.kind();
            if kind != Kind::BrokenPipe {
                let failure = failure.advised(|hint| context.with_config(hint));
                let text = failure.wrapped(WIDTH).render(cli.verbose);
                let _ = write!(context.printer.err(), "{text}");
            }
            ExitCode::from(kind.exit_code())
        }
    }
}

/// Prints what the parser says. It breaks the lines of its help, and not those of
/// its errors, which may hold a value and a reason of any length.
fn print(error: &clap::Error) -> io::Result<()> {
    let text = error.render().to_string();
    if !error.use_stderr() || text.lines().all(|line| line.width() <= WIDTH) {
        return error.print();
    }
    let mut broken = String::new();
    for line in text.lines() {
        let head: String = line.chars().take_while(|c| *c == ' ').collect();
        push_wrapped(&mut broken, &head, head.len() + 2, line, WIDTH);
    }
    io::stderr().write_all(broken.as_bytes())
}

fn run(context: &Context, command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Init(args) => init::run(context, &args),
        Command::Doctor(args) => doctor::run(context, &args),
        Command::GhWebhook(args) => gh_webhook::run(context, &args),
        Command::Sessions(args) => sessions::run(context, &args),
        Command::Web(args) => web::run(context, &args),
        Command::Events(args) => events::run(context, &args),
        Command::Config(args) => config::run(context, &args),
        Command::Service(args) => service::run(context, &args),
        Command::Demo(args) => demo::run(context, &args),
        Command::Completions(args) => completions::run(context, &args),
        Command::Man(args) => completions::man(context, &args),
        Command::Hook(args) => hook::run(context, &args),
        Command::Keep(args) => keep::run(context, &args),
        Command::Launch(args) => launch::run(context, &args),
        Command::View(args) => view::run(context, &args),
        Command::DemoAgent(args) => demo_agent::run(context, &args),
    }
}
