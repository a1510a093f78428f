//! `the-loop sessions pause`, `resume`, `register` and `link-pr`: changes of a
//! session's entry, made by the receiver where one runs.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{Context, Failure, Loaded, Registry, resolve, visible};
use crate::base::clock::Clock;
use crate::base::failure::Kind;
use crate::base::ids::{HarnessSessionId, Repo, WorkItem};
use crate::base::random;
use crate::core::config::{HarnessName, RunnerKind};
use crate::core::harness::Harnesses;
use crate::core::session::{RecordedItem, SessionRecord, SessionStatus};
use crate::core::workspace::Places;
use crate::serve::control::{self, NotDone, SessionVerb};

/// Keep a session's events back, and leave its agent alone
///
/// What comes in waits, in order, also across a restart of the receiver.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop sessions pause octo/hello#15")]
pub(super) struct PauseArgs {
    /// The session: `15`, `owner/repo#15`, a URL or the slug
    item: String,
}

/// Let a paused session's events go on, in order
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop sessions resume octo/hello#15")]
pub(super) struct ResumeArgs {
    /// The session: `15`, `owner/repo#15`, a URL or the slug
    item: String,
}

/// Make a session for an item by hand; its next event starts the agent
///
/// This is how a session begins where `routing.spawnOnUnmatched` is `never`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  the-loop sessions register octo/hello#15\n  \
                        the-loop sessions register octo/hello#15 --session-id ID --cwd ../hello")]
pub(super) struct RegisterArgs {
    /// The issue or pull request: `owner/repo#15` or its URL
    item: String,

    /// The agent, instead of `routing.defaultHarness`
    #[arg(long, value_name = "NAME")]
    harness: Option<String>,

    /// The directory to work in, instead of `routing.spawnWorkdir`
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,

    /// Go on with this conversation of the agent
    #[arg(long, value_name = "ID")]
    session_id: Option<HarnessSessionId>,
}

/// Let a pull request's events go to a session
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop sessions link-pr octo/hello#15 octo/hello#16")]
pub(super) struct LinkArgs {
    /// The session: `15`, `owner/repo#15`, a URL or the slug
    item: String,

    /// The pull request: `16` in the item's repository, `owner/repo#16`, a URL
    pull_request: String,
}

/// Runs `pause`.
pub(super) fn pause(context: &Context, args: &PauseArgs) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    let item = resolve(&loaded, &args.item)?.1.work_item.reference;
    let short = item.short();
    change(context, &loaded, &SessionVerb::Pause { item })?;
    let told =
        format!("{short} is paused: its events wait until `the-loop sessions resume '{short}'`");
    context.printer.note(&context.with_config(&told));
    Ok(ExitCode::SUCCESS)
}

/// Runs `resume`.
pub(super) fn resume(context: &Context, args: &ResumeArgs) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    let record = resolve(&loaded, &args.item)?.1;
    let was_paused = record.status == SessionStatus::Paused;
    let item = record.work_item.reference;
    let short = item.short();
    change(context, &loaded, &SessionVerb::Resume { item })?;
    context.printer.note(&if was_paused {
        format!("{short} goes on")
    } else {
        format!("{short} is not paused: its events go on")
    });
    Ok(ExitCode::SUCCESS)
}

/// Runs `register`.
pub(super) fn register(context: &Context, args: &RegisterArgs) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    let item = work_item(&args.item)?;
    let routing = &loaded.config.routing;
    let harnesses = Harnesses::new(&loaded.config.harnesses, context.env.home());
    let harness = match &args.harness {
        Some(name) => named(&harnesses, name)?,
        None => routing.default_harness.clone(),
    };
    if let Some(id) = &args.session_id
        && !harnesses.get(&harness).is_ok_and(|harness| harness.may_call(id))
    {
        let name = harness.as_str();
        let said = format!("`--session-id`: `{id}` is not a UUID, and {name} takes no other");
        return Err(Failure::new(Kind::Usage, said)
            .hint("leave it out, and the agent begins a conversation of its own"));
    }
    let wants_tree = args.cwd.is_none() && routing.workspace.enabled;
    let cwd = match &args.cwd {
        Some(dir) => context.env.cwd().join(dir),
        None => loaded.project.join(&routing.spawn_workdir),
    };
    let cwd = directory(&cwd, args.cwd.is_some())?;
    let root = loaded.paths.workspace(&loaded.config);
    if let Ok(root) = fs_err::canonicalize(&root)
        && args.cwd.is_some()
        && cwd.starts_with(&root)
    {
        let places = Places::below(&root);
        if ![false, true].into_iter().any(|foreign| cwd == places.tree_of(&item, foreign)) {
            let shown = visible(&cwd.display().to_string());
            return Err(Failure::refused(format!(
                "`{shown}`\n  is where the work trees of sessions are"
            ))
            .hint("name a directory of your own, or leave `--cwd` out"));
        }
    }
    let beside = args.cwd.is_some().then(|| live_in(&loaded, &cwd)).flatten();
    if let Some(other) = &beside
        && routing.workspace.enabled
    {
        let shown = visible(&cwd.display().to_string());
        let said = format!("`{shown}`\n  is in the work tree of the live session of {other}");
        return Err(Failure::refused(said)
            .hint("name another directory, or leave `--cwd` out: it gets a tree of its own"));
    }
    let (short, repo) = (item.short(), item.repo.clone());
    let mut record = SessionRecord::new(
        RecordedItem { reference: item, title: None, url: None },
        harness,
        args.session_id.clone().unwrap_or_else(|| HarnessSessionId::uuid(random::bytes())),
        cwd,
        routing.runner,
        Clock::System.now(),
    );
    if wants_tree {
        context.block_on(crate::cli::tools::workspaces(context, &loaded))?.settle(&mut record);
    }
    record.status = SessionStatus::Active;
    record.conversation_started = args.session_id.is_some();
    if routing.runner == RunnerKind::Tmux {
        record.view = routing.tmux.view;
        record.tmux_socket.clone_from(&routing.tmux.socket);
    }
    change(context, &loaded, &SessionVerb::Register { record: Box::new(record) })?;
    context.printer.note(&format!("{short} has a session; its next event starts the agent"));
    if let Some(other) = beside {
        context.printer.note(&format!(
            "warning: the session of {other} works in the same tree:\n  \
             their agents will see each other's changes"
        ));
    }
    warn_unheard(context, &loaded, &repo);
    Ok(ExitCode::SUCCESS)
}

/// The live session that works in the same git work tree, or in the same directory
/// where that is in none.
fn live_in(loaded: &Loaded, cwd: &Path) -> Option<String> {
    let top = |dir: &Path| {
        let found = dir.ancestors().find(|dir| dir.join(".git").exists());
        found.unwrap_or(dir).to_path_buf()
    };
    let ours = top(cwd);
    let records = Registry::of(&loaded.paths).load_all().records;
    let is_beside = |other: &&SessionRecord| {
        let its = fs_err::canonicalize(&other.cwd).unwrap_or_else(|_| other.cwd.clone());
        other.status.is_live() && top(&its) == ours
    };
    records.values().find(is_beside).map(|other| other.work_item.reference.short())
}

/// The directory that a session is to work in, where there is one.
fn directory(dir: &Path, is_given: bool) -> Result<PathBuf, Failure> {
    let shown = visible(&dir.display().to_string());
    let hint = if is_given {
        "make it, or name another with `--cwd DIR`"
    } else {
        "make it, or set `routing.spawnWorkdir`, or name another with `--cwd DIR`"
    };
    match fs_err::canonicalize(dir) {
        Ok(dir) if dir.is_dir() => Ok(dir),
        Ok(_) => {
            Err(Failure::refused(format!("the session's directory is a file:\n  `{shown}`"))
                .hint(hint))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Failure::refused(format!("the session's directory does not exist:\n  `{shown}`"))
                .hint(hint))
        }
        Err(error) => {
            let said = format!("the session's directory cannot be used:\n  `{shown}`");
            Err(Failure::refused(said).because(std::io::Error::from(error.kind())).hint(hint))
        }
    }
}

/// Runs `link-pr`.
pub(super) fn link(context: &Context, args: &LinkArgs) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    let item = resolve(&loaded, &args.item)?.1.work_item.reference;
    let number = args.pull_request.strip_prefix('#').unwrap_or(&args.pull_request);
    let pull_request = match number.parse() {
        Ok(number) if number > 0 => item.repo.item(number),
        _ => work_item(&args.pull_request)?,
    };
    let (short, linked) = (item.short(), pull_request.short());
    let repo = pull_request.repo.clone();
    change(context, &loaded, &SessionVerb::LinkPr { item, pull_request })?;
    context.printer.note(&format!("events of {linked} go to the session of {short}"));
    warn_unheard(context, &loaded, &repo);
    Ok(ExitCode::SUCCESS)
}

/// Says that a repository's events are not acted on, where that is so.
fn warn_unheard(context: &Context, loaded: &Loaded, repo: &Repo) {
    let listed = &loaded.config.routing.repositories;
    if !listed.is_empty() && !listed.contains(repo) {
        context.printer.note(&format!(
            "warning: `{repo}` is not in `routing.repositories`,\n  so its events are not acted on"
        ));
    }
}

/// The harness that a person names.
fn named(harnesses: &Harnesses, name: &str) -> Result<HarnessName, Failure> {
    let found = harnesses.names().into_iter().find(|known| known.as_str() == name);
    found.ok_or_else(|| {
        let name = visible(name);
        Failure::new(Kind::Usage, format!("`--harness`: no harness `{name}` is known"))
            .hint(format!("there is {}", harnesses.list()))
    })
}

fn work_item(text: &str) -> Result<WorkItem, Failure> {
    text.parse().map_err(|_| {
        Failure::refused(format!("`{}` names no issue", visible(text)))
            .hint("write `owner/repo#15`, or its URL")
    })
}

fn change(context: &Context, loaded: &Loaded, verb: &SessionVerb) -> Result<(), Failure> {
    let socket = loaded.paths.control();
    let answer = context.block_on(async { control::ask_verb(&socket, verb).await })?;
    let is_here = answer.is_none();
    let done = answer.unwrap_or_else(|| {
        control::apply(&Registry::of(&loaded.paths), verb).map_err(NotDone::from)
    });
    done.map_err(|not_done| match not_done {
        NotDone::Refused { why, hint } => {
            hint.into_iter().fold(Failure::refused(why), Failure::hint)
        }
        NotDone::Unreadable { path, why } => super::unreadable(&path, &why),
        NotDone::Failed { why } => {
            Failure::failed("could not change the session's entry").because(why)
        }
    })?;
    if is_here {
        context.printer.note("no receiver runs: the session's entry was changed");
    }
    Ok(())
}
