//! `the-loop gh-webhook start`.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::base::clock::Clock;
use crate::base::failure::Failure;
use crate::base::process::Household;
use crate::base::runtime;
use crate::base::text::{visible, visible_lines};
use crate::cli::background::Background;
use crate::cli::doctor::stalls;
use crate::cli::setup::Loaded;
use crate::cli::tools::server_of;
use crate::cli::{Context, no_runtime};
use crate::core::config::{GithubConfig, HarnessName, RunnerKind, variable_shown};
use crate::doctor::tool::{Tool, ToolId};
use crate::doctor::{self, Finding};
use crate::host::agents::Agents;
use crate::host::tmux::Tmux;
use crate::serve::daemon::{Daemon, Setup};
use crate::serve::github::{API, TOKENS};
use crate::serve::receiver::Secret;
use crate::serve::reload::Reloader;
use crate::state::config_file;

/// The threads that the receiver's work is spread over.
const WORKERS: usize = 2;

/// The checks whose faults keep the receiver from starting, or every session. tmux's
/// socket is looked at when it is known which one it is.
const BEFORE_THE_PORT: &[&str] = &[
    "tmux.found",
    "tmux.runs",
    "tmux.version",
    "tmux.server",
    "tmux.pane",
    "tmux.paste",
    "ttyd",
    "git",
    "claude.found",
    "claude.runs",
    "claude.version",
    "agent",
    "secret.there",
    "port.free",
    "port.web",
    "workdir.there",
    "state.modes",
    "disk.space",
];

/// Those of them that say why there can be no place for a log.
const BEFORE_THE_LOG: &[&str] = &["state.modes", "disk.space"];

/// Start the receiver, in the foreground unless `--detach` is given
///
/// Checks first what it needs, and says what is missing and how to get it
/// before it opens its port.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop gh-webhook start --runner tmux")]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(super) struct Args {
    /// How new sessions are hosted, instead of `routing.runner`
    #[arg(long, value_name = "RUNNER", value_parser = ["process", "tmux"])]
    runner: Option<String>,

    /// Go to the background; returns when the receiver answers
    #[arg(long)]
    detach: bool,

    /// Accept deliveries without a signature, on a loopback address only
    #[arg(long)]
    insecure_no_secret: bool,

    /// Resume the sessions in tmux now, not each at its next event
    ///
    /// As after a reboot. Paused and closed ones stay as they are; no more than
    /// `routing.maxSessions` are resumed, those with the latest events.
    #[arg(long)]
    resume_all: bool,

    /// Be the background process of `--detach`
    #[arg(long, hide = true)]
    detached: bool,
}

impl Args {
    /// The configuration, with what the flags change of it.
    fn load(&self, context: &Context) -> Result<Loaded, Failure> {
        let mut loaded = context.load_own()?;
        if let Some(runner) = &self.runner {
            loaded.config.routing.runner =
                if runner == "tmux" { RunnerKind::Tmux } else { RunnerKind::Process };
        }
        Ok(loaded)
    }
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    begin(context, args, args.detach)
}

/// Starts the receiver in the background, whatever the flags say.
pub(super) fn run_detached(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    begin(context, args, true)
}

/// Whether a start would find what it needs, apart from the port.
pub(super) fn check_first(context: &Context, args: &Args) -> Result<(), Failure> {
    let loaded = args.load(context)?;
    let read = loaded.read();
    context.block_on(Box::pin(check(context, args, loaded, read))).map(drop)
}

fn begin(context: &Context, args: &Args, in_background: bool) -> Result<ExitCode, Failure> {
    let loaded = args.load(context)?;
    let read = loaded.read();
    if args.detached {
        rustix::process::setsid()
            .map_err(|error| Failure::failed("could not leave the terminal").because(error))?;
    }
    let runtime = runtime::with_workers(WORKERS).map_err(no_runtime)?;
    let result = if in_background {
        runtime.block_on(Box::pin(detach(context, args, loaded, read)))
    } else {
        runtime.block_on(Box::pin(foreground(context, args, loaded, read)))
    };
    runtime.shutdown_timeout(Duration::from_millis(200));
    result
}

async fn foreground(
    context: &Context,
    args: &Args,
    loaded: Loaded,
    read: config_file::Read,
) -> Result<ExitCode, Failure> {
    start_log();
    let setup = Box::pin(check(context, args, loaded, read)).await?;
    stalls::warn(context, &setup.config, &setup.paths).await?;
    let command = setup.tmux.as_ref().and_then(Tmux::typed);
    let place = place_of(setup.config.routing.runner.as_str(), command.as_deref());
    let users = setup.config.routing.authorized_users.is_empty();
    let daemon = Daemon::bind(setup).await?;
    for broken in daemon.broken_sessions() {
        context.printer.note(&format!(
            "warning: a session cannot be read and is left alone: {}",
            visible_lines(&broken)
        ));
    }
    if users {
        context
            .printer
            .note("warning: `routing.authorizedUsers` is empty: no person's event is acted on");
    }
    let list = context.with_config("`the-loop sessions list`");
    context.printer.note(&format!("Receiving on {}\n{place}: {list}", daemon.url()));
    if let Some(url) = daemon.web_url() {
        context.printer.note(&format!("The web terminal is at {url}"));
    }
    let stop = CancellationToken::new();
    let watch = watch_signals(stop.clone(), daemon.reloader())?;
    let (result, ()) = tokio::join!(Box::pin(daemon.run(stop.clone())), async {
        tokio::select! { () = watch => {}, () = stop.cancelled() => {} }
    });
    result.map(|()| ExitCode::SUCCESS)
}

/// Where new sessions are, and by which command a person comes to them.
fn place_of(runner: &str, command: Option<&str>) -> String {
    match command {
        _ if runner != RunnerKind::Tmux.as_str() => "Sessions are headless".to_owned(),
        Some(command) => format!("Sessions are in tmux ({})", visible(command)),
        None => "Sessions are in tmux".to_owned(),
    }
}

/// Finds out whether everything is there, before anything is opened.
async fn check(
    context: &Context,
    args: &Args,
    loaded: Loaded,
    read: config_file::Read,
) -> Result<Setup, Failure> {
    let project = crate::cli::doctor::project_of(&loaded);
    let Loaded { config, paths, .. } = loaded;
    let webhook = &config.webhooks.gh_webhook;
    let dirs = context.dirs()?;
    let mut ids: Vec<String> = BEFORE_THE_PORT.iter().map(|id| (*id).to_owned()).collect();
    if args.insecure_no_secret {
        ids.retain(|id| id != "secret.there");
    }
    let household = Household::enter();
    let mut report = Box::pin(doctor::check_up(&doctor::Request {
        env: &context.env,
        dirs: &dirs,
        tools: &config.tools,
        needs: &crate::cli::doctor::needs_of(&config),
        // Trees are trusted one by one.
        project: &doctor::Project { workdir: None, ..project },
        only: &ids,
    }))
    .await;
    drop(household);
    report.advise(|text| context.with_config(text));
    if let Some(text) = report.errors_text() {
        return Err(Failure::refused(format!("this host is not ready\n{}", text.trim_end()))
            .hint("`the-loop doctor` shows every check"));
    }
    let secret = if args.insecure_no_secret {
        if !webhook.host.is_loopback() {
            return Err(Failure::refused(format!(
                "`--insecure-no-secret` is for a loopback address, not {}",
                webhook.host
            )));
        }
        None
    } else {
        Some(Secret::load(&context.env, webhook).map_err(|error| {
            let failure = Failure::refused("the webhook has no secret").because(error);
            match &webhook.secret_file {
                Some(_) => failure,
                None => failure
                    .hint(doctor::secret_export(variable_shown(&webhook.secret_env)))
                    .hint("and give GitHub the same"),
            }
        })?)
    };
    let tmux = match report.tool(ToolId::Tmux) {
        Some(tool) => Some(tool.clone()),
        // Sessions from before may be in tmux, whatever new ones are.
        None => doctor::find(ToolId::Tmux, &context.env, &dirs, &config.tools).await,
    };
    if tmux.is_none() && config.routing.runner == RunnerKind::Tmux {
        return Err(Failure::refused("tmux was not found").hint(Context::says_why("tmux")));
    }
    let tmux_tool = tmux.clone();
    let not_ready = |mut finding: Finding| {
        finding.advise(|text| context.with_config(text));
        Failure::refused(format!("this host is not ready\n{}", finding.told().trim_end()))
            .hint("`the-loop doctor` shows every check")
    };
    let in_tmux = config.routing.runner == RunnerKind::Tmux;
    let tmux = match tmux {
        Some(tool) => match server_of(tool, context, &config, &paths).await {
            Ok(tmux) => Some(tmux),
            Err(finding) if in_tmux => return Err(not_ready(*finding)),
            // New sessions need none, and those from before are told as unreachable.
            Err(_) => None,
        },
        None => None,
    };
    if let Some(tmux) = tmux.as_ref().filter(|_| in_tmux)
        && let Some(fault) = doctor::socket_fault(&context.env, tmux.server().socket())
    {
        return Err(not_ready(fault));
    }
    let git = match report.tool(ToolId::Git) {
        Some(tool) => Some(tool.clone()),
        // Sessions from before may have work trees, whatever new ones have.
        None => doctor::find(ToolId::Git, &context.env, &dirs, &config.tools).await,
    };
    let program = Tool::this_program(&context.env);
    let agents = Agents::new(&config, program.clone(), context.env.clone(), dirs);
    let agents = match report.tool(ToolId::Claude) {
        Some(tool) => agents.with(HarnessName::Claude, tool.clone()),
        None => agents,
    };
    let for_agents = [tmux_tool, git.clone(), report.tool(ToolId::Ttyd).cloned()];
    Ok(Setup {
        agents: agents.finding(for_agents.into_iter().flatten()),
        resume_all: args.resume_all,
        git,
        ttyd: report.tool(ToolId::Ttyd).filter(|_| config.wants_browser()).cloned(),
        tmux,
        program,
        config,
        read,
        env: context.env.clone(),
        paths,
        secret,
        clock: Clock::System,
    })
}

/// Whether nothing is known that keeps the log's directory from being made.
async fn has_place_for_log(context: &Context, loaded: &Loaded) -> Result<bool, Failure> {
    let ids: Vec<String> = BEFORE_THE_LOG.iter().map(|id| (*id).to_owned()).collect();
    let report = Box::pin(doctor::check_up(&doctor::Request {
        env: &context.env,
        dirs: &context.dirs()?,
        tools: &loaded.config.tools,
        needs: &crate::cli::doctor::needs_of(&loaded.config),
        project: &crate::cli::doctor::project_of(loaded),
        only: &ids,
    }))
    .await;
    Ok(report.errors_text().is_none())
}

/// Ends the receiver at SIGTERM and SIGINT, reads the configuration again at
/// SIGHUP. Where it was started at a terminal, a SIGHUP may mean that the
/// terminal has gone: then it ends, as any program there does.
fn watch_signals(
    stop: CancellationToken,
    reloader: Reloader,
) -> Result<impl Future<Output = ()>, Failure> {
    let failed = |error| Failure::failed("could not watch for signals").because(error);
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    // Under `nohup` neither is one.
    let at_terminal = std::io::stdin().is_terminal() || std::io::stderr().is_terminal();
    Ok(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hangup.recv() => {
                    if at_terminal && !has_terminal() {
                        break;
                    }
                    reloader.reload();
                }
            }
        }
        stop.cancel();
    })
}

/// Whether this process has a terminal that controls it.
fn has_terminal() -> bool {
    fs_err::File::open("/dev/tty").is_ok()
}

fn start_log() {
    let filter = EnvFilter::try_from_env("THE_LOOP_LOG")
        .unwrap_or_else(|_| EnvFilter::new("the_loop=info,warn"));
    // A second subscriber in one process (a test's) keeps the first: not a failure.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A log that cannot be written must not take a thread with it.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init();
}

/// Starts the receiver as a process of its own and waits until it answers.
async fn detach(
    context: &Context,
    args: &Args,
    loaded: Loaded,
    read: config_file::Read,
) -> Result<ExitCode, Failure> {
    if !has_place_for_log(context, &loaded).await? {
        // Told as in the foreground, with whatever else is missing.
        Box::pin(check(context, args, loaded.clone(), read)).await?;
    }
    let webhook = &loaded.config.webhooks.gh_webhook;
    let mut invocation = Tool::this_program(&context.env)
        .invocation()
        .args(["gh-webhook", "start", "--detached"])
        .args(args.runner.iter().flat_map(|runner| ["--runner", runner]))
        .args(args.resume_all.then_some("--resume-all"))
        .args(args.insecure_no_secret.then_some("--insecure-no-secret"));
    let own = ["THE_LOOP_HOME", "THE_LOOP_LOG", API, &webhook.secret_env];
    // The receiver's own: agents are given none of them.
    let tokens = TOKENS.iter().copied().filter(|_| loaded.config.github != GithubConfig::default());
    for name in own.into_iter().chain(tokens) {
        if let Some(value) = context.env.var_os(name) {
            invocation = invocation.env(name, value);
        }
    }
    if context.named().is_none() {
        invocation = invocation.arg("--found-config");
    }
    let mut background = Background::start(&context.env, invocation, &loaded.file, &loaded.paths)?;
    let status = background.ready().await?;
    context.printer.note(&format!(
        "Receiving on {} (pid {}), log in `{}`",
        status.url,
        status.pid,
        loaded.paths.log().display()
    ));
    context.printer.note(&place_of(&status.runner, status.tmux_command.as_deref()));
    Ok(ExitCode::SUCCESS)
}
