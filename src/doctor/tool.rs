//! Temporary.
use crate::base::env::Env;
use crate::base::process::Invocation;
use std::path::{Path, PathBuf};
/// T
#[derive(Debug, Clone)]
pub struct Tool {
    path: PathBuf,
    env: Env,
}
impl Tool {
    /// x
    pub fn temporary(path: &Path, env: Env) -> Self {
        Self { path: path.into(), env }
    }
    /// x
    pub fn invocation(&self) -> Invocation {
        Invocation::new(&self.path, self.env.passed_on())
    }
    /// x
    pub fn this_program(env: &Env) -> Self {
        Self { path: env.program().into(), env: env.clone() }
    }
    /// x
    pub fn path(&self) -> &Path {
        &self.path
    }
}
