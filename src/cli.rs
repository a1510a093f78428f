//! The command line.
use crate::base::env::Env;
use std::process::ExitCode;
/// Runs.
pub fn main(_env: Env) -> ExitCode {
    ExitCode::SUCCESS
}
