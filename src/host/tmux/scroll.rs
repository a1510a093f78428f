//! What a pane has shown, for those who cannot scroll in it, and how many look at
//! it from elsewhere.

use std::collections::BTreeMap;

use super::{Pane, Tmux, TmuxError, is_absent};

/// The most bytes of one history.
const MAX: usize = 16 << 20;

/// Those who look at a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Audience {
    /// How many may type.
    pub typing: u32,
    /// How many can only look.
    pub watching: u32,
}

/// A client's session comes last: its name may hold anything.
const CLIENT: &str = "#{client_control_mode}|#{client_readonly}|#{session_name}";

impl Tmux {
    /// What a pane shows and has shown, at most `lines` lines above its screen,
    /// with colours; lines that were wrapped are whole.
    pub async fn history(&self, pane: &Pane, lines: usize) -> Result<String, TmuxError> {
        let start = format!("-{lines}");
        let call = self.call().output_limit(MAX).args(["capture-pane", "-p", "-e", "-J"]);
        let call = call.args(["-S", &start, "-t", &pane.pane_id]);
        match call.run_ok().await {
            Ok(output) => Ok(output.stdout_text()),
            Err(source) if is_absent(&source) => {
                Err(TmuxError::Absent { what: format!("session `{}`", pane.name) })
            }
            Err(source) => Err(TmuxError::Failed { verb: "show a pane's history", source }),
        }
    }

    /// Who looks at each session, by the session's name. Clients that only take
    /// orders have no terminal to look with.
    pub async fn audiences(&self) -> Result<BTreeMap<String, Audience>, TmuxError> {
        match self.call().args(["list-clients", "-F", CLIENT]).run_ok().await {
            Ok(output) => Ok(audiences(&output.stdout_text())),
            Err(source) if is_absent(&source) => Ok(BTreeMap::new()),
            Err(source) => Err(TmuxError::Failed { verb: "list its clients", source }),
        }
    }
}

fn audiences(rows: &str) -> BTreeMap<String, Audience> {
    let mut all = BTreeMap::<_, Audience>::new();
    for row in rows.lines() {
        let fields: Vec<_> = row.splitn(3, '|').collect();
        let &["0", read_only, name] = &fields[..] else { continue };
        let audience = all.entry(name.to_owned()).or_default();
        if read_only == "1" {
            audience.watching += 1;
        } else {
            audience.typing += 1;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_type_and_those_who_watch_are_counted_and_followers_are_not() {
        let all = audiences("0|0|a|b\n0|1|a|b\n0|1|a|b\n1|1|a|b\n0|0|c\nbroken\n");
        assert_eq!(all["a|b"], Audience { typing: 1, watching: 2 });
        assert_eq!(all["c"], Audience { typing: 1, watching: 0 });
        assert_eq!(all.len(), 2);
    }
}
