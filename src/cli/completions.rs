//! `the-loop completions` and `the-loop man`: what shells and manuals know of
//! the command line.

use std::io::Write as _;
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::{Cli, Context};
use crate::base::failure::Failure;

/// Print a shell's completions
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop completions bash > the-loop.bash")]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

/// Print the manual page
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop man | man -l -")]
pub(super) struct ManArgs {}

/// Runs `completions`.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "the-loop", &mut text);
    print(context, &text)
}

/// Runs `man`.
pub(super) fn man(context: &Context, _args: &ManArgs) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut text)?;
    print(context, &text)
}

fn print(context: &Context, text: &[u8]) -> Result<ExitCode, Failure> {
    let mut out = context.printer.out();
    out.write_all(text)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
