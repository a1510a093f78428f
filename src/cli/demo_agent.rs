//! `the-loop demo-agent`.

use std::path::PathBuf;
use std::process::ExitCode;

use super::Context;
use crate::base::failure::Failure;
use crate::base::ids::HarnessSessionId;
use crate::host::demo_agent::{self, Options};
use crate::state::spool;

/// Be the agent of the demo
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Start the conversation with this id
    #[arg(long, value_name = "ID", required_unless_present = "resume")]
    session_id: Option<HarnessSessionId>,

    /// Go on with the conversation of this id
    #[arg(long, value_name = "ID", conflicts_with = "session_id")]
    resume: Option<HarnessSessionId>,

    /// Answer the prompt on standard input, and end
    #[arg(long)]
    print: bool,

    /// With `--print`: tell each step
    #[arg(long, requires = "print")]
    stream: bool,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    let session_id = args.session_id.as_ref().or(args.resume.as_ref());
    let session_id = session_id.ok_or_else(|| Failure::refused("no conversation was named"))?;
    let options = Options {
        session_id: session_id.clone(),
        resume: args.resume.is_some(),
        spool: context.env.var_os(spool::DIR_VAR).map(PathBuf::from),
        cwd: context.env.cwd().to_path_buf(),
    };
    if args.print {
        demo_agent::answer(&options, args.stream)
            .map_err(|error| Failure::failed("the demo agent could not answer").because(error))?;
        return Ok(ExitCode::SUCCESS);
    }
    context.block_on(async {
        demo_agent::run(options).await.map_err(|error| {
            Failure::failed("the demo agent could not run")
                .because(error)
                .hint("it is started in a pane: the-loop demo")
        })
    })?;
    Ok(ExitCode::SUCCESS)
}
