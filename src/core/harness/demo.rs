//! The demo agent as a harness: `the-loop demo-agent`, part of this program.
//!
//! It draws Claude's box and speaks the form of Claude's hooks on purpose: what
//! reads one reads the other, so the demo shows the real path.

use std::time::Duration;

use serde_json::Value;

use super::{
    DeliverProfile, HarnessAdapter, OneShotSpec, Program, Signal, Source, StartPlan, StartSpec,
    claude, hooks,
};
use crate::base::ids::Marker;
use crate::core::config::{HarnessName, SubmitKey};
use crate::core::inject::screen::{Reading, Screen};

/// The demo agent. The program that starts it is this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demo;

impl HarnessAdapter for Demo {
    fn name(&self) -> HarnessName {
        HarnessName::Demo
    }

    fn program(&self) -> Program {
        Program::ThisProgram
    }

    fn start(&self, spec: &StartSpec<'_>) -> StartPlan {
        let flag = if spec.resume { "--resume" } else { "--session-id" };
        let fixed = ["demo-agent", flag, spec.session_id.as_str()].map(str::to_owned);
        let args = fixed.into_iter().chain(spec.extra_args.iter().cloned()).collect();
        // It writes its signals itself, to the spool that every agent is given.
        StartPlan { args, env: Vec::new() }
    }

    fn oneshot(&self, spec: &OneShotSpec<'_>) -> StartPlan {
        let mut plan = self.start(&spec.start);
        plan.args.push("--print".to_owned());
        if spec.stream {
            plan.args.push("--stream".to_owned());
        }
        plan
    }

    /// It remembers nothing, so it goes on with everything.
    fn refuses_resume(&self, _said: &str) -> bool {
        false
    }

    fn refuses_start(&self, _said: &str) -> bool {
        false
    }

    fn read_screen(&self, screen: &Screen<'_>) -> Reading {
        claude::screen::read(screen)
    }

    fn profile(&self) -> DeliverProfile {
        DeliverProfile {
            submit: SubmitKey::Enter,
            // It takes its keys one after the other, and needs none of it.
            submit_gap: Duration::from_millis(10),
            submit_retries: 3,
            retry_gap: Duration::from_millis(300),
            ack_timeout: Duration::from_secs(3),
            gives_proof: true,
            stashes: false,
            settles_within: Duration::ZERO,
            ready_by_screen: false,
        }
    }

    fn signal_of(&self, raw: &Value) -> Option<Signal> {
        hooks::signal_of(raw)
    }

    fn source_of(&self, raw: &Value) -> Source {
        hooks::source_of(raw)
    }

    /// It keeps no transcript; its spool says everything.
    fn transcript_has(&self, _line: &str, _marker: &Marker) -> bool {
        false
    }
}
