//! Named moments at which a crash would hurt most: between what is on disk and
//! what has happened in the world.
//!
//! Placed by whoever crosses such a moment. In the program that people install
//! they are nothing; built with `test-fakes`, the process freezes at the one
//! that a test names, so that it can be killed exactly there.

/// A moment on a delivery's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checkpoint {
    /// A delivery is on disk, and its sender has no answer yet.
    Commit,
    /// It was decided where a delivery goes, and nothing of that is on disk.
    Route,
    /// The decision is on disk, and the dispatcher does not know of it yet.
    HandOver,
    /// An agent's process was started, and nobody has heard of it yet.
    Spawn,
    /// It is on disk that pasting (or a headless turn) begins, and nothing has.
    BeforePaste,
    /// The text was pasted, or lies ready for a headless agent.
    Paste,
    /// It is on disk that the submit key is pressed, and it was not.
    BeforeSubmit,
    /// The submit key was pressed, or a headless turn has come to its end.
    Submit,
    /// It was seen what the agent did with it, and that is not on disk.
    Acknowledge,
    /// It is on disk that GitHub is asked for a missed delivery, and it was not.
    AskAgain,
    /// GitHub was asked for it, and that is not on disk.
    Asked,
    /// It is on disk that something is said on GitHub, and it was not.
    Say,
    /// It was said there, and that is not on disk.
    Said,
}

impl Checkpoint {
    /// Every moment of a delivery's way, in its order. The moments in which GitHub is
    /// asked for what was missed, or told something, are apart: not every delivery comes by them.
    pub const ALL: &[Self] = &[
        Self::Commit,
        Self::Route,
        Self::HandOver,
        Self::Spawn,
        Self::BeforePaste,
        Self::Paste,
        Self::BeforeSubmit,
        Self::Submit,
        Self::Acknowledge,
    ];

    /// The name by which a test asks for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Route => "route",
            Self::HandOver => "hand-over",
            Self::Spawn => "spawn",
            Self::BeforePaste => "before-paste",
            Self::Paste => "paste",
            Self::BeforeSubmit => "before-submit",
            Self::Submit => "submit",
            Self::Acknowledge => "acknowledge",
            Self::AskAgain => "ask-again",
            Self::Asked => "asked",
            Self::Say => "say",
            Self::Said => "said",
        }
    }

    /// Passes the moment.
    #[cfg(not(feature = "test-fakes"))]
    #[inline]
    pub fn reached(self) {}

    /// Passes the moment; freezes the whole process there when
    /// `THE_LOOP_FREEZE_AT` names it, with the file `THE_LOOP_FREEZE_MARK`
    /// written first.
    #[cfg(feature = "test-fakes")]
    #[expect(clippy::disallowed_methods, reason = "a switch of the tests, read where it works")]
    pub fn reached(self) {
        let Some(mark) = std::env::var_os("THE_LOOP_FREEZE_MARK") else { return };
        if std::env::var("THE_LOOP_FREEZE_AT").as_deref() != Ok(self.as_str()) {
            return;
        }
        if std::fs::write(mark, self.as_str()).is_ok() {
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::STOP,
            );
        }
        // The signal may take a moment to reach this thread.
        loop {
            std::thread::park();
        }
    }
}
