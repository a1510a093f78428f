//! What a session's window is like for those who look at it: its size, and how
//! many events wait.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::base::process::Invocation;
use crate::core::platform::Version;

use super::{ExecError, INSTANCE_OPTION, Pane, Tmux, TmuxError, escape_semicolon, is_absent};

/// What a client tells about its size. The group's name comes last: it may hold
/// anything.
const SIZES: &str = "#{client_activity}|#{client_flags}|#{client_width}|#{client_height}|\
     #{?#{==:#{status},on},1,#{?#{==:#{status},off},0,#{status}}}|#{session_id}|#{session_group}";

/// The option that holds how many events wait for a session, for a status line
/// of the user's own.
const WAITING_OPTION: &str = "@the_loop_waiting";
/// How long the count is shown to those who have no status line, in
/// milliseconds.
const SHOWN_FOR: &str = "5000";
const MANUAL_FOR_ALL: [&str; 4] = ["set-option", "-gw", "window-size", "manual"];
/// Takes the pane out of every mode that its program had asked for, and brings its
/// last screen back, which the first of them moves into the history.
const RESET_THE_DEAD: &str = "send-keys -R ; resize-pane -T";
/// What the count needs of the status line.
const COUNT_COLUMNS: usize = 24;

impl Tmux {
    /// Shows those who look at a session how many events wait for it: before what
    /// stands at the right of their status line, until the number is 0. Nothing
    /// but the number is shown.
    pub async fn show_waiting(&self, pane: &Pane, number: usize) -> Result<(), TmuxError> {
        if number == 0 {
            return self.hide_waiting(&pane.session_id).await;
        }
        let session = pane.session_id.as_str();
        let call = self
            .call()
            .args(["display-message", "-p", "-t", session, "#{status}", ";"])
            .args(["show-options", "-gqv", "status-right-length", ";"])
            .args(["list-clients", "-t", session, "-F", "the-loop client #{client_name}", ";"])
            .args(["show-options", "-gqv", "status-right"]);
        let output = call.run_ok().await.map_err(|source| failed(pane, "show options", source))?;
        let text = output.stdout_text();
        let mut lines = text.lines();
        let status = lines.next().unwrap_or_default();
        let length: usize = lines.next().and_then(|text| text.parse().ok()).unwrap_or(40);
        let mut theirs = String::new();
        let mut clients = Vec::new();
        for line in lines {
            match line.strip_prefix("the-loop client ") {
                Some(client) => clients.push(client),
                None => theirs.push_str(line),
            }
        }
        let count = format!("the-loop: {number} waiting");
        let right = OsString::from(format!("[{count}] {theirs}"));
        let mut call = self
            .call()
            .args(["set-option", "-t", session, WAITING_OPTION, &number.to_string(), ";"])
            .args(["set-option", "-t", session, "status-right-length"])
            .args([&(length + COUNT_COLUMNS).to_string(), ";"])
            .args(["set-option", "-t", session, "status-right"])
            .arg(escape_semicolon(&right));
        if status == "off" {
            for client in clients {
                call = call.args([";", "display-message", "-d", SHOWN_FOR, "-c", client, &count]);
            }
        }
        call.run_ok().await.map(drop).map_err(|source| failed(pane, "show a count", source))
    }

    /// The process that each pane of the server became, by the pane's id.
    pub async fn pids(&self) -> Result<BTreeMap<String, u32>, TmuxError> {
        let call = self.call().args(["list-panes", "-a", "-F", "#{pane_id} #{pane_pid}"]);
        match call.run_ok().await {
            Ok(output) => Ok(output
                .stdout_text()
                .lines()
                .filter_map(|line| {
                    let (pane, pid) = line.split_once(' ')?;
                    Some((pane.to_owned(), pid.parse().ok()?))
                })
                .collect()),
            Err(source) if is_absent(&source) => Ok(BTreeMap::new()),
            Err(source) => Err(TmuxError::Failed { verb: "list its panes", source }),
        }
    }

    /// Hides the counts that an earlier receiver left.
    pub async fn hide_all_waiting(&self) -> Result<(), TmuxError> {
        let format = format!("#{{session_id}}|#{{{WAITING_OPTION}}}|#{{{INSTANCE_OPTION}}}");
        let call = self.call().args(["list-sessions", "-F", &format]);
        let output = match call.run_ok().await {
            Ok(output) => output.stdout_text(),
            Err(source) if is_absent(&source) => return Ok(()),
            Err(source) => return Err(TmuxError::Failed { verb: "list its sessions", source }),
        };
        for line in output.lines() {
            let fields: Vec<_> = line.splitn(3, '|').collect();
            if let &[session, waiting, instance] = &fields[..]
                && !waiting.is_empty()
                && instance == self.instance
            {
                self.hide_waiting(session).await?;
            }
        }
        Ok(())
    }

    async fn hide_waiting(&self, session: &str) -> Result<(), TmuxError> {
        let call = self
            .call()
            .args(["set-option", "-u", "-t", session, WAITING_OPTION, ";"])
            .args(["set-option", "-u", "-t", session, "status-right-length", ";"])
            .args(["set-option", "-u", "-t", session, "status-right"]);
        match call.run_ok().await {
            Ok(_) => Ok(()),
            Err(source) if is_absent(&source) => Ok(()),
            Err(source) => Err(TmuxError::Failed { verb: "hide a count", source }),
        }
    }

    /// Whether a new session would end the server: 3.3 to 3.6b do not survive one
    /// while `window-size` is `manual` for all windows. A server that does not run
    /// yet reads the user's settings first.
    pub(super) async fn is_fatal_to_begin(&self) -> bool {
        let survives = Version::parse("3.7")
            .is_some_and(|first| self.tool.version().is_some_and(|version| *version >= first));
        if survives {
            return false;
        }
        let call = self.call().args(["start-server", ";", "show-options", "-gwv", "window-size"]);
        call.run_ok().await.is_ok_and(|output| output.stdout_text().trim() == "manual")
    }

    /// A call that also keeps a window's pane from ending the server after its
    /// program has ended. 3.3a writes to a program that has asked for the focus when
    /// somebody comes to look or goes (`CSI ? 1004 h`, most agents), also when that
    /// has ended, and dies of it, with every session. 3.6a does not.
    pub(super) fn survived(&self, call: Invocation, window: &str) -> Invocation {
        let survives = Version::parse("3.6")
            .is_some_and(|first| self.tool.version().is_some_and(|version| *version >= first));
        if survives {
            return call;
        }
        call.args([";", "set-option", "-w", "-q", "-t", window, "pane-died", RESET_THE_DEAD])
    }

    /// The beginning of a call that makes a session. Where that would be fatal the
    /// setting is another one until [`Tmux::ended`].
    pub(super) fn begun(&self, is_fatal: bool) -> Invocation {
        if is_fatal {
            let set = ["set-option", "-gw", "window-size", "latest", ";"];
            return self.call().args(["start-server", ";"]).args(set);
        }
        self.call()
    }

    /// The end of that call.
    pub(super) fn ended(call: Invocation, is_fatal: bool) -> Invocation {
        if is_fatal { call.args([";"]).args(MANUAL_FOR_ALL) } else { call }
    }

    /// The setting as it was, after such a call that failed on its way.
    pub(super) async fn undo(&self, is_fatal: bool) {
        if is_fatal {
            // A server that is gone has no setting.
            let _ = self.call().args(MANUAL_FOR_ALL).run().await;
        }
    }

    /// Gives a session's window this many columns and lines, from now on.
    pub async fn resize(&self, pane: &Pane, (columns, lines): (u16, u16)) -> Result<(), TmuxError> {
        let call = self.call().args(["resize-window", "-t", &pane.pane_id]).args([
            "-x",
            &columns.to_string(),
            "-y",
            &lines.to_string(),
        ]);
        call.run_ok().await.map(drop).map_err(|source| failed(pane, "resize a window", source))
    }

    /// The room that the terminal has which was used last, of those that look at
    /// the session and may decide about its size.
    pub async fn room(&self, pane: &Pane) -> Result<Option<(u16, u16)>, TmuxError> {
        let group = ["display-message", "-p", "-t", &pane.pane_id, "#{session_group}"];
        let call = self.call().args(group).args([";", "list-clients", "-F", SIZES]);
        let output =
            call.run_ok().await.map_err(|source| failed(pane, "list its clients", source))?;
        let text = output.stdout_text();
        let (group, clients) = text.split_once('\n').unwrap_or((&text, ""));
        Ok(room(clients, &pane.session_id, group))
    }
}

fn room(clients: &str, session: &str, group: &str) -> Option<(u16, u16)> {
    let rooms = clients.lines().filter_map(|line| {
        let fields: Vec<_> = line.splitn(7, '|').collect();
        let &[activity, flags, columns, lines, status, its_session, its_group] = &fields[..] else {
            return None;
        };
        let is_here = its_session == session || (!group.is_empty() && its_group == group);
        if !is_here || flags.split(',').any(|flag| flag == "ignore-size") {
            return None;
        }
        let lines: u16 = lines.parse().ok()?;
        let status: u16 = status.parse().unwrap_or(1);
        let size = (columns.parse().ok()?, lines.saturating_sub(status));
        Some((activity.parse::<i64>().ok()?, size))
    });
    rooms.max_by_key(|(activity, _)| *activity).map(|(_, size)| size)
}

fn failed(pane: &Pane, verb: &'static str, source: ExecError) -> TmuxError {
    if is_absent(&source) {
        return TmuxError::Absent { what: format!("session `{}`", pane.name) };
    }
    TmuxError::Failed { verb, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_that_was_used_last_decides_and_one_that_only_looks_does_not() {
        let clients = "10|attached,focused,UTF-8|100|30|1|$1|\n\
                       20|attached,UTF-8|90|40|0|$1|\n\
                       30|attached,ignore-size,read-only|20|10|1|$1|\n\
                       40|attached|70|20|2|$2|\n\
                       50|attached|60|22|2|$3|g|h\n";
        assert_eq!(room(clients, "$1", ""), Some((90, 40)));
        assert_eq!(room(clients, "$1", "g|h"), Some((60, 20)));
        assert_eq!(room(clients, "$9", ""), None);
    }
}
