//! How long saying something takes and waits.

use std::time::Duration;

use jiff::SignedDuration;

use super::super::client::DEADLINE;
use crate::base::env::Env;
use crate::core::github::Pace;

/// The rest after a fault that may pass; it doubles with each.
const PAUSE: Duration = Duration::from_secs(30);

/// The least time between two looks at the inbox.
const GATHER: Duration = Duration::from_millis(200);

/// How long things take; tests have less time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) pace: Pace,
    pub(super) deadline: Duration,
    pub(super) pause: Duration,
    pub(super) gather: Duration,
}

fn usual() -> Times {
    let pace = Pace { apart: SignedDuration::from_secs(1), settles: SignedDuration::from_secs(10) };
    Times { pace, deadline: DEADLINE, pause: PAUSE, gather: GATHER }
}

#[cfg(not(feature = "test-fakes"))]
pub(super) fn times(_: &Env) -> Times {
    usual()
}

/// Tests have a receiver that waits less.
#[cfg(feature = "test-fakes")]
pub(super) fn times(env: &Env) -> Times {
    let given = env.var("THE_LOOP_TELL_TIMES").unwrap_or_default();
    let mut given = given.split(',').map(|ms| ms.parse::<u32>().ok());
    let mut next = || given.next().flatten();
    let signed = |ms: u32| SignedDuration::from_millis(ms.into());
    let plain = |ms: u32| Duration::from_millis(ms.into());
    let usual = usual();
    Times {
        pace: Pace {
            apart: next().map_or(usual.pace.apart, signed),
            settles: next().map_or(usual.pace.settles, signed),
        },
        deadline: next().map_or(usual.deadline, plain),
        pause: next().map_or(usual.pause, plain),
        gather: next().map_or(usual.gather, plain),
    }
}
