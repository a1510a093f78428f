//! The clients at a session for viewers: those of browsers, which belong there and
//! nowhere else, and those of people at a keyboard, who came in by paging through
//! the sessions and find no prefix there.
//!
//! A browser's client is known by a flag that nobody else has use for. tmux tells
//! which session it came from: the one of a browser comes from none.

use super::{ExecError, Pane, Tmux, TmuxError, is_absent};

/// What all sessions for viewers begin with, of whichever receiver.
pub(super) const FOR_VIEWERS: &str = "loop-web/";

/// The flags of a browser's client. With `active-pane` a client has an active pane
/// of its own, which means nothing to one that takes no keys.
pub(super) const FLAGS: &str = "read-only,ignore-size,active-pane";
const ITS_FLAG: &str = "active-pane";

/// What is told of each client. Its session comes last, because a name may hold
/// anything.
pub(super) const CLIENTS: &str = "the-loop client|#{client_control_mode}|#{client_flags}|\
     #{client_name}|#{s/[|]/ /:client_last_session}|#{session_name}";

/// Who is at a session for viewers, and who should be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guests {
    /// The clients of browsers that are where they belong.
    pub browsers: Vec<Guest>,
    /// Those that were led elsewhere, or put to sleep.
    pub strays: Vec<Guest>,
    /// People at a keyboard.
    pub people: Vec<Guest>,
}

/// A client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    /// What tmux calls it: its terminal.
    pub name: String,
    /// The session that it showed before.
    came_from: String,
}

impl Guests {
    /// Reads a listing, for the viewers' session of that name.
    pub(super) fn of(rows: &str, viewers: &str) -> Self {
        let mut guests = Self::default();
        for row in rows.lines() {
            let fields: Vec<_> = row.splitn(6, '|').collect();
            let &["the-loop client", "0", flags, name, came_from, session] = &fields[..] else {
                continue;
            };
            let has = |flag| flags.split(',').any(|one| one == flag);
            let is_here = session == viewers;
            let is_fresh = came_from.is_empty() && !has("suspended");
            let side = match (has(ITS_FLAG), is_here) {
                (true, true) if is_fresh => &mut guests.browsers,
                (true, true) => &mut guests.strays,
                // At another one of ours its own follower looks after it.
                (true, false) if !session.starts_with(FOR_VIEWERS) => &mut guests.strays,
                (false, true) => &mut guests.people,
                (_, false) => continue,
            };
            let [name, came_from] = [name, came_from].map(str::to_owned);
            side.push(Guest { name, came_from });
        }
        guests
    }
}

impl Tmux {
    /// Ends the clients that have strayed (their browsers get new ones), and leads
    /// people on to where they were going.
    pub async fn put_right(
        &self,
        guests: &Guests,
        pane: &Pane,
        viewers: &str,
    ) -> Result<(), TmuxError> {
        for stray in &guests.strays {
            tracing::info!(client = stray.name, "a browser's terminal was led elsewhere");
            done(self.call().args(["detach-client", "-t", &stray.name]).run_ok().await)?;
        }
        if guests.people.is_empty() {
            return Ok(());
        }
        let call = self.call().args(["list-sessions", "-F", "#{session_id} #{session_name}"]);
        let rows = match call.run_ok().await {
            Ok(output) => output.stdout_text(),
            Err(source) if is_absent(&source) => return Ok(()),
            Err(source) => return Err(TmuxError::Failed { verb: "list its sessions", source }),
        };
        for person in &guests.people {
            let to = beyond(&rows, &person.came_from, viewers).unwrap_or(&pane.session_id);
            let call = self.call().args(["switch-client", "-E", "-c", &person.name, "-t", to]);
            done(call.run_ok().await)?;
        }
        Ok(())
    }
}

/// That a client or a session went away in the meantime is fine.
fn done<T>(result: Result<T, ExecError>) -> Result<(), TmuxError> {
    match result {
        Ok(_) => Ok(()),
        Err(source) if is_absent(&source) => Ok(()),
        Err(source) => Err(TmuxError::Failed { verb: "move a client", source }),
    }
}

/// The session at which somebody would be who pages through the sessions and came
/// from one to `viewers`, were there no sessions for viewers. None for one who did
/// not page.
fn beyond<'a>(rows: &'a str, from: &str, viewers: &str) -> Option<&'a str> {
    let mut all: Vec<_> = rows.lines().filter_map(|row| row.split_once(' ')).collect();
    // tmux pages by name.
    all.sort_by_key(|(_, name)| *name);
    let at = all.iter().position(|(_, name)| *name == viewers)?;
    let is_real = |(_, name): &&(&str, &str)| !name.starts_with(FOR_VIEWERS);
    let (before, after) = (&all[..at], &all[at + 1..]);
    let next = after.iter().chain(before).find(is_real)?;
    let previous = before.iter().rev().chain(after.iter().rev()).find(is_real)?;
    match from {
        _ if from == previous.1 => Some(next.0),
        _ if from == next.1 => Some(previous.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_belongs_to_its_session_and_a_person_does_not() {
        let row = |control, flags, name, from, session| {
            format!("the-loop client|{control}|{flags}|{name}|{from}|{session}\n")
        };
        let (web, person) = ("attached,ignore-size,read-only,active-pane,UTF-8", "attached,UTF-8");
        let rows = row(1, "attached,control-mode,no-output", "follower", "", "loop-web/me/1")
            + &row(0, web, "fine", "", "loop-web/me/1")
            + &row(0, web, "returned", "work", "loop-web/me/1")
            + &row(0, "attached,active-pane,suspended", "sleeps", "", "loop-web/me/1")
            + &row(0, web, "moved", "loop-web/me/1", "loop/o+r+2")
            + &row(0, web, "other", "", "loop-web/me/2")
            + &row(0, person, "person", "a b", "loop-web/me/1")
            + &row(0, person, "elsewhere", "", "loop/o+r+1|x")
            + "%1|broken\n";
        let guests = Guests::of(&rows, "loop-web/me/1");
        let names = |guests: &[Guest]| {
            guests.iter().map(|guest| guest.name.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&guests.browsers), "fine");
        assert_eq!(names(&guests.strays), "returned sleeps moved");
        assert_eq!(names(&guests.people), "person");
        assert_eq!(guests.people[0].came_from, "a b");
    }

    #[test]
    fn who_pages_through_the_sessions_passes_those_for_viewers() {
        let rows = "$9 loop/b\n$1 a\n$2 loop-web/me/a\n$3 loop-web/me/b\n$4 loop/a\n$5 z 1\n";
        // Onwards and back, whichever of them he came to.
        for viewers in ["loop-web/me/a", "loop-web/me/b"] {
            assert_eq!(beyond(rows, "a", viewers), Some("$4"));
            assert_eq!(beyond(rows, "loop/a", viewers), Some("$1"));
        }
        // By name, or because his session has ended.
        for from in ["z 1", "", "gone", "loop-web/me/b"] {
            assert_eq!(beyond(rows, from, "loop-web/me/a"), None, "{from}");
        }
        // They are the first: round the end.
        let first = "$2 loop-web/me/a\n$4 loop/a\n$5 z\n";
        assert_eq!(beyond(first, "z", "loop-web/me/a"), Some("$4"));
        assert_eq!(beyond(first, "loop/a", "loop-web/me/a"), Some("$5"));
        // With one session there is nowhere to go.
        assert_eq!(beyond("$2 loop-web/a\n$4 loop/a\n", "loop/a", "loop-web/a"), Some("$4"));
    }
}
