//! Sessions for those who look from elsewhere: of the group of an agent's
//! session, so that they show its window, and without anything by which a key
//! leads out of the agent's pane.
//!
//! Such a session has no prefix, an empty key table, no status line and no mouse,
//! and its clients take no keys: what is typed elsewhere goes to the pane itself
//! (`typing`). It is ended with its last viewer, by us: with `destroy-unattached` tmux 3.3a
//! does not count a client in control mode, frees the session under it, and dies
//! with every agent. What was measured is in docs/web.md.

use super::guests::{CLIENTS, FLAGS, FOR_VIEWERS, Guest, Guests};
use super::panes::how_it_ended;
use super::server::remind;
use super::{ExecError, Pane, Tmux, TmuxError, UNKNOWN_STATUS, is_absent};
use crate::base::ids::Slug;
use crate::base::process::Invocation;

/// A key table that nobody binds keys in.
const NO_KEYS: &str = "the-loop-viewer";

/// The hooks that run for a client.
const HOOKS: &[&str] = &[
    "client-active",
    "client-attached",
    "client-dark-theme",
    "client-detached",
    "client-focus-in",
    "client-focus-out",
    "client-light-theme",
    "client-resized",
    "client-session-changed",
];

/// What a viewers' session tells of the agent's pane. No field may hold a `|`.
const SIGHT: &str = "#{session_id}|#{?pane_dead,1,0}|#{pane_dead_status}/#{pane_dead_signal}|\
     #{?pane_in_mode,1,0}|#{?pane_active,1,0}#{?window_active,1,0}|#{window_width}|#{window_height}|\
     #{session_name}";

/// How an agent's pane is to those who look at it from elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    /// Columns and lines of its window.
    pub size: (u16, u16),
    /// Whether keys are dropped, and why.
    pub cover: Cover,
    /// How its program has ended, if it has.
    pub ended: Option<String>,
}

/// What stands between those who look at a pane and its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cover {
    /// Nothing.
    Open,
    /// The pane is in a mode of tmux.
    Mode,
    /// Another pane or another window is shown.
    Behind,
}

/// What became of a pane and of those sessions that show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// Both are there.
    Shown(Sight),
    /// The viewers' session is gone.
    Unshown,
    /// The agent's session is gone.
    Gone,
}

impl Tmux {
    /// The name of the session for the viewers of an item's session.
    pub fn viewers_name(&self, slug: &Slug) -> String {
        let instance = self.instance.get(..8).unwrap_or(&self.instance);
        format!("{FOR_VIEWERS}{instance}/{slug}")
    }

    /// Makes the session for the viewers of a pane, where there is none.
    pub async fn open_for_viewers(&self, pane: &Pane, name: &str) -> Result<(), TmuxError> {
        let target = format!("={name}:");
        let (session, window) = (pane.session_id.as_str(), pane.window_id.as_str());
        // tmux makes a group, and a shell in it, of the id of a session that is gone:
        // it must be there in the very moment.
        let is_there = format!("#{{==:#{{session_id}},{session}}}");
        let refuse = format!("has-session -t '{session}'");
        let make = format!("new-session -d -t '{session}' -s '{name}'");
        let is_fatal = self.is_fatal_to_begin().await;
        let mut call = self
            .begun(is_fatal)
            .args(["if-shell", "-F", "-t", &format!("{session}:"), &is_there, &make, &refuse])
            // Only this keeps a window's size whoever looks at it.
            .args([";", "set-option", "-w", "-t", window, "window-size", "manual"]);
        call = self.survived(call, window);
        for (option, value) in [
            ("prefix", "None"),
            ("prefix2", "None"),
            ("key-table", NO_KEYS),
            ("status", "off"),
            ("mouse", "off"),
            ("lock-after-time", "0"),
            ("lock-command", ""),
            ("set-titles", "off"),
            ("detach-on-destroy", "on"),
            ("destroy-unattached", "off"),
        ] {
            call = call.args([";", "set-option", "-t", &target, option, value]);
        }
        // What a person has for his own clients must not happen to a browser's. `-q`,
        // for not every tmux has each of them.
        for hook in HOOKS {
            call = call.args([";", "set-option", "-q", "-t", &target, hook, ""]);
        }
        call = call.args([";", "select-window", "-t", &format!("{target}{window}")]);
        let made = Self::ended(call, is_fatal).run_ok().await;
        if made.is_err() {
            self.undo(is_fatal).await;
        }
        match made {
            Ok(_) => Ok(()),
            Err(ExecError::Failed { output, .. }) if output.complaint().contains("duplicate") => {
                Ok(())
            }
            Err(source) if is_absent(&source) => {
                Err(TmuxError::Absent { what: format!("session `{}`", pane.name) })
            }
            Err(source) => Err(TmuxError::Failed { verb: "open a session for viewers", source }),
        }
    }

    /// The command line that shows the session of that name on a terminal from
    /// which no keys are taken.
    pub fn show_to_viewer(&self, name: &str) -> Invocation {
        // Where there is no server it must not start one.
        let call = self.call().args(["-N", "attach-session", "-E", "-f", FLAGS, "-t"]);
        call.arg(format!("={name}"))
    }

    /// The command line of a client without a terminal at the session of that name.
    /// It takes orders, and tells when something has changed that [`Tmux::sight`] may
    /// see.
    pub fn follow_for_viewers(&self, name: &str) -> Invocation {
        self.call()
            .args(["-N", "-C", "attach-session", "-E", "-f", "ignore-size,no-output", "-t"])
            .arg(format!("={name}"))
    }

    /// How a pane is to those who look at it through the session of that name, and
    /// who is there.
    pub async fn sight(&self, pane: &Pane, name: &str) -> Result<(Seen, Guests), TmuxError> {
        let filter = format!("#{{==:#{{pane_id}},{}}}", pane.pane_id);
        let call = self.call().args(["list-panes", "-a", "-f", &filter, "-F", SIGHT, ";"]).args([
            "list-clients",
            "-F",
            CLIENTS,
        ]);
        match call.run_ok().await {
            Ok(output) => {
                let text = output.stdout_text();
                let seen = seen(&text, &pane.session_id, name);
                if let Seen::Shown(Sight { ended: Some(how), .. }) = &seen
                    && how == UNKNOWN_STATUS
                {
                    // The next look tells.
                    remind(&pane.server).await;
                }
                Ok((seen, Guests::of(&text, name)))
            }
            Err(source) if is_absent(&source) => Ok((Seen::Gone, Guests::default())),
            Err(source) => Err(TmuxError::Failed { verb: "look at a pane", source }),
        }
    }

    /// The orders that close whatever was opened over what these show: a popup, or a
    /// menu.
    pub fn uncover(guests: &Guests) -> String {
        let close = |guest: &Guest| format!("display-popup -C -c '{}'\n", guest.name);
        guests.browsers.iter().map(close).collect::<Vec<_>>().concat()
    }

    /// The order that brings the client itself back to the session of that name.
    pub fn come_back(name: &str) -> String {
        format!("switch-client -E -t '={name}'\n")
    }

    /// Ends the session of that name. What it shows lives on where another session
    /// has it.
    pub async fn close_for_viewers(&self, name: &str) -> Result<(), TmuxError> {
        match self.ending_for_viewers(name).run_ok().await {
            Ok(_) => Ok(()),
            Err(source) if is_absent(&source) => Ok(()),
            Err(source) => Err(TmuxError::Failed { verb: "end a session for viewers", source }),
        }
    }

    /// The command line that does the same.
    pub fn ending_for_viewers(&self, name: &str) -> Invocation {
        self.call().args(["kill-session", "-t", &format!("={name}")])
    }

    /// Takes a pane out of whatever mode of tmux it is in.
    pub async fn leave_mode(&self, pane: &Pane) -> Result<(), TmuxError> {
        let call = self.call().args(["copy-mode", "-q", "-t", &pane.pane_id]);
        match call.run_ok().await {
            Ok(_) => Ok(()),
            Err(source) if is_absent(&source) => {
                Err(TmuxError::Absent { what: format!("session `{}`", pane.name) })
            }
            Err(source) => Err(TmuxError::Failed { verb: "leave a mode", source }),
        }
    }
}

fn seen(rows: &str, session: &str, name: &str) -> Seen {
    let mut seen = Seen::Gone;
    let mut sight = None;
    for row in rows.lines() {
        let fields: Vec<_> = row.splitn(8, '|').collect();
        let &[its_session, dead, status, mode, front, columns, lines, its_name] = &fields[..]
        else {
            continue;
        };
        if its_session == session {
            seen = Seen::Unshown;
        } else if its_name == name {
            sight = Some(Sight {
                size: (columns.parse().unwrap_or(80), lines.parse().unwrap_or(24)),
                cover: match (mode, front) {
                    (_, front) if front != "11" => Cover::Behind,
                    ("1", _) => Cover::Mode,
                    _ => Cover::Open,
                },
                ended: (dead == "1").then(|| how_it_ended(status)),
            });
        }
    }
    match (seen, sight) {
        (Seen::Unshown, Some(sight)) => Seen::Shown(sight),
        (seen, _) => seen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pane_is_seen_only_where_both_sessions_are() {
        let own = "$1|0|/|0|11|160|48|loop/o+r+1\n";
        let shown = "$4|0|/|0|11|160|48|loop-web/me/o+r+1\n";
        let both = |shown: &str| seen(&format!("{own}{shown}"), "$1", "loop-web/me/o+r+1");
        let sight = Sight { size: (160, 48), cover: Cover::Open, ended: None };
        assert_eq!(both(shown), Seen::Shown(sight.clone()));
        assert_eq!(both(""), Seen::Unshown);
        assert_eq!(both("$4|0|/|0|11|160|48|loop-web/me/o+r+10\n"), Seen::Unshown);
        assert_eq!(seen(shown, "$1", "loop-web/me/o+r+1"), Seen::Gone);
        for (row, cover) in [
            ("$4|0|/|1|11|160|48", Cover::Mode),
            ("$4|0|/|0|01|160|48", Cover::Behind),
            ("$4|0|/|1|10|160|48", Cover::Behind),
        ] {
            let covered = Sight { cover, ..sight.clone() };
            assert_eq!(both(&format!("{row}|loop-web/me/o+r+1")), Seen::Shown(covered));
        }
        let dead = Sight { ended: Some("exit code 3".into()), ..sight };
        assert_eq!(both("$4|1|3/|0|11|160|48|loop-web/me/o+r+1"), Seen::Shown(dead));
    }
}
