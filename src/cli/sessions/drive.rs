//! `the-loop sessions attach` for a headless session: a person takes the
//! conversation over on this terminal, with the harness's own resume.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::{Context, Failure, Loaded, Slug};
use crate::base::files::atomic;
use crate::base::files::lock::{LockError, LockFile};
use crate::core::session::SessionRecord;
use crate::doctor::tool::Tool;
use crate::host::agents::{Agents, Form};
use crate::host::runner::SignalLog;
use crate::state::drive::Drive;
use crate::state::spool;
use crate::state::turns::{Mark, Turns};

/// How often the running turn is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How often the lock is tried: whoever looks at it holds it for a moment.
const TRIES: u32 = 10;

/// Takes the conversation over until the harness ends.
pub(super) fn run(
    context: &Context,
    loaded: &Loaded,
    slug: &Slug,
    record: &SessionRecord,
) -> Result<ExitCode, Failure> {
    loaded.paths.make(&context.env)?;
    let drive = Drive::of(&loaded.paths, slug);
    context.block_on(async {
        // Held until the harness has ended; a kill releases it.
        let mut attached = attach(&drive, slug).await?;
        let _ = attached.describe(&format!("pid {}", std::process::id()));
        loaded.paths.claim(&loaded.file, &context.dirs()?)?;
        let turn = await_turn(context, loaded, &drive, slug).await?;
        // What the turns wrote meanwhile counts: a fresh conversation has another id.
        let record = super::resolve(loaded, record.work_item.reference.short().as_str())
            .map_or_else(|_| record.clone(), |(_, record)| record);
        let program = Tool::this_program(&context.env);
        let agents = agents(context, loaded, program.clone())?;
        let record = with_what_was_taken(loaded, &agents, slug, record);
        let routing = &loaded.config.routing;
        let invocation = agents
            .invocation(routing, &loaded.paths, &record, Form::Terminal)
            .await
            .map_err(|text| Failure::refused(format!("cannot attach: {text}")))?;
        let invocation = match context.env.var_os("TERM") {
            Some(term) => invocation.env("TERM", term),
            None => invocation,
        };
        let file = loaded.paths.launch().join(format!("{slug}.attach.json"));
        let stored = serde_json::to_vec(&invocation.stored())
            .map_err(|error| Failure::failed("could not store the command").because(error))?;
        atomic::write(&file, &stored)
            .map_err(|error| Failure::failed("could not store the command").because(error))?;
        let _ = fs_err::remove_file(drive.agent());
        context.printer.note("its events wait until you leave");
        let spool = loaded.paths.spool().join(slug.as_str());
        let told = last_told(&spool);
        let status = program
            .invocation()
            .arg("launch")
            .arg("--claim")
            .arg(drive.agent())
            .arg(&file)
            .run_on_terminal()
            .await
            .map_err(|error| Failure::failed("could not start the agent").because(error))?;
        let _ = fs_err::remove_file(drive.agent());
        drop(turn);
        drop(attached);
        if status.success() {
            return Ok(ExitCode::SUCCESS);
        }
        let failure = Failure::failed(format!("the agent ended with {status}"));
        // One that told nothing did not come so far as to talk.
        Err(if last_told(&spool) == told {
            failure.hint(format!(
                "where it has the conversation no more, the next event begins a fresh one:\n      \
                 `the-loop sessions send '{}' TEXT` is one",
                record.work_item.reference.short()
            ))
        } else {
            failure
        })
    })
}

/// The last that the session's agent told of itself.
fn last_told(spool: &Path) -> Option<String> {
    spool::newest(spool).ok().flatten()
}

/// The entry, with a conversation that was begun while no receiver noted it.
fn with_what_was_taken(
    loaded: &Loaded,
    agents: &Agents,
    slug: &Slug,
    mut record: SessionRecord,
) -> SessionRecord {
    let Ok(harness) = agents.of(&record) else { return record };
    let spool = loaded.paths.spool().join(slug.as_str());
    let mut signals = SignalLog::new(harness, &spool);
    // What cannot be read says nothing: the entry counts.
    if signals.refresh().is_ok() && signals.has_begun(&record.harness_session_id) {
        record.conversation_started = true;
    }
    record
}

/// Says whose agent it is that drives a session although nobody is attached.
pub(super) fn left_behind(slug: &Slug, agent: &Mark) -> Failure {
    Failure::refused(format!(
        "the agent of somebody who attached to `{slug}` still runs (pid {})",
        agent.pid
    ))
}

async fn attach(drive: &Drive, slug: &Slug) -> Result<LockFile, Failure> {
    let mut tries = 0;
    loop {
        match drive.try_attach() {
            Ok(lock) => {
                return match drive.left_behind() {
                    None => Ok(lock),
                    Some(agent) => Err(left_behind(slug, &agent)
                        .hint("two drivers of one conversation would destroy its history")
                        .hint(format!("end it with `kill {}`, then attach again", agent.pid))),
                };
            }
            Err(LockError::Held { .. }) if tries < TRIES => tries += 1,
            Err(LockError::Held { holder, .. }) => {
                return Err(Failure::refused(format!(
                    "somebody is attached to `{slug}` already ({holder})"
                ))
                .hint("two drivers of one conversation would destroy its history"));
            }
            Err(error) => {
                return Err(Failure::failed("could not take the session's lock").because(error));
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits for the running turn's end, and keeps others from beginning.
async fn await_turn(
    context: &Context,
    loaded: &Loaded,
    drive: &Drive,
    slug: &Slug,
) -> Result<LockFile, Failure> {
    let turns = Turns::of(&loaded.paths, slug);
    let mut is_told = false;
    loop {
        match drive.try_turn() {
            // A turn whose receiver was killed goes on without the lock.
            Ok(lock) if turns.live().is_ok_and(|turn| turn.is_none()) => return Ok(lock),
            Ok(_) | Err(LockError::Held { .. }) => {}
            Err(error) => {
                return Err(Failure::failed("could not take the session's lock").because(error));
            }
        }
        if !std::mem::replace(&mut is_told, true) {
            context.printer.note("a turn runs: waiting for its end (C-c gives up)");
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The agents of this machine, for a command that starts one.
fn agents(context: &Context, loaded: &Loaded, program: Tool) -> Result<Agents, Failure> {
    Ok(Agents::new(&loaded.config, program, context.env.clone(), context.dirs()?))
}
