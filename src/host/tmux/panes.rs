//! Looking: which panes there are, and what one of them shows.

use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::termios::{LocalModes, tcgetattr};

use crate::base::ids::{Slug, WorkItem};

use super::server::{is_vague, remind};
use super::{CONVERSATION_OPTION, INSTANCE_OPTION, ITEM_OPTION, Tmux, TmuxError, is_absent};

/// The pane of a session of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pane {
    /// The process id of the server. The ids below are unique within it.
    pub server: String,
    /// tmux's id of the session; never used again while the server lives.
    pub session_id: String,
    /// tmux's id of the window that it is in.
    pub window_id: String,
    /// tmux's id of the pane; never used again while the server lives.
    pub pane_id: String,
    /// The session's name.
    pub name: String,
    /// Whether its program runs.
    pub state: PaneState,
    /// How many clients look at it.
    pub clients: u32,
    /// The work item it was made for; `None` when it is not ours.
    pub item: Option<String>,
    /// The harness's id of the conversation in it.
    pub conversation: Option<String>,
}

impl Pane {
    /// Whether both are the same pane of the same server.
    pub fn is_the_same_as(&self, other: &Self) -> bool {
        (&self.server, &self.session_id, &self.pane_id)
            == (&other.server, &other.session_id, &other.pane_id)
    }

    /// Whether the pane was made for the work item with this slug.
    pub fn is_of(&self, slug: &Slug) -> bool {
        let item = self.item.as_deref().and_then(|item| item.parse::<WorkItem>().ok());
        item.is_some_and(|item| item.slug() == *slug)
    }
}

/// The state of a pane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaneState {
    /// Its program runs.
    Live,
    /// Its program runs, and a person scrolls in it.
    CopyMode,
    /// Its program has ended; with its exit code or signal where tmux knows.
    Dead(String),
}

/// What one look at a pane showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Whether its program runs.
    pub state: PaneState,
    /// The visible screen, with colours.
    pub screen: String,
    /// Column and line of the cursor, from 0.
    pub cursor: (u16, u16),
    /// The pane's columns.
    pub columns: u16,
    /// When the session was last active, as its server tells it.
    pub activity: String,
    /// Whether its program has read all that was typed, and reads key by key; that
    /// of a dead pane is said to.
    pub reads: bool,
    /// The pane's title, as its program set it.
    pub title: String,
    /// When a person last pressed a key in the session, in seconds of Unix time.
    /// Those who can only look do not count.
    pub last_key: Option<i64>,
}

/// The pane of an item's session among others: see [`Tmux::find_of`]. Of several
/// that are ours the living one counts, then the one with its own name.
pub fn pane_of<'a>(panes: &'a [Pane], slug: &Slug) -> Option<&'a Pane> {
    let name = slug.tmux_name();
    let ours = panes.iter().filter(|pane| pane.is_of(slug));
    ours.min_by_key(|pane| (matches!(pane.state, PaneState::Dead(_)), pane.name != name))
        .or_else(|| panes.iter().find(|pane| pane.name == name))
}

/// What tmux writes into a pane whose program has ended: its own default.
pub(super) const DEAD_FORMAT: &str = "Pane is dead (\
    #{?#{!=:#{pane_dead_status},},status #{pane_dead_status},}\
    #{?#{!=:#{pane_dead_signal},},signal #{pane_dead_signal},}, #{t:pane_dead_time})";
/// How that begins.
const PANE_IS_DEAD: &str = "Pane is dead (";

/// What ends the list of clients: what comes after it, on the same line, is the
/// title, and after that the screen, whatever stands on that.
const SCREEN_FOLLOWS: &str = "the-loop: the title and the screen: ";

/// The fields of a listing. The session's name comes last, because that of a
/// stranger may hold anything.
const FIELDS: usize = 16;

/// When a session was last active: by a person's key in a terminal of tmux, and in a
/// browser. The server compares it too, so that both look at the same.
pub(super) const ACTIVITY: &str = "#{session_activity} #{THE_LOOP_TYPED}";

fn format() -> String {
    format!(
        "#{{pid}}|#{{session_id}}|#{{pane_id}}|#{{?pane_dead,1,0}}|#{{?pane_in_mode,1,0}}|\
         #{{pane_dead_status}}/#{{pane_dead_signal}}|#{{cursor_x}}|#{{cursor_y}}|#{{pane_width}}|\
         #{{session_attached}}|#{{{ITEM_OPTION}}} #{{{CONVERSATION_OPTION}}} #{{{INSTANCE_OPTION}}}|\
         #{{pane_tty}}|{ACTIVITY}|#{{window_id}}|#{{s/[|]/ /:session_group}}|#{{session_name}}"
    )
}

impl Tmux {
    /// Every pane of the server. No server is no panes.
    pub async fn panes(&self) -> Result<Vec<Pane>, TmuxError> {
        let panes = self.listed().await?;
        let vague = panes.iter().find(|pane| is_vague(&pane.state) && pane.item.is_some());
        match vague {
            Some(pane) if remind(&pane.server).await => self.listed().await,
            _ => Ok(panes),
        }
    }

    async fn listed(&self) -> Result<Vec<Pane>, TmuxError> {
        let call = self.call().args(["list-panes", "-a", "-F", &format()]);
        match call.run_ok().await {
            Ok(output) => Ok(output
                .stdout_text()
                .lines()
                .filter_map(|line| parse(line, &self.instance))
                .map(|row| row.pane)
                .collect()),
            Err(source) if is_absent(&source) => Ok(Vec::new()),
            Err(source) => Err(TmuxError::Failed { verb: "list its panes", source }),
        }
    }

    /// The first pane of the session with exactly this name.
    pub async fn find(&self, name: &str) -> Result<Option<Pane>, TmuxError> {
        Ok(self.panes().await?.into_iter().find(|pane| pane.name == name))
    }

    /// The first pane of a session: ours by its mark, whatever a person has
    /// called it since; else of somebody else's that has its name.
    pub async fn find_of(&self, slug: &Slug) -> Result<Option<Pane>, TmuxError> {
        Ok(pane_of(&self.panes().await?, slug).cloned())
    }

    /// Gives a session that a person renamed its own name back. Where another
    /// one has that name by now it stays as it is: all is done by its id.
    pub async fn rename_back(&self, pane: Pane, slug: &Slug) -> Pane {
        let name = slug.tmux_name();
        if pane.name == name {
            return pane;
        }
        let call = self.call().args(["rename-session", "-t", &pane.session_id, &name]);
        match call.run_ok().await {
            Ok(_) => {
                tracing::info!(%slug, renamed = %pane.name, "the session has its name back");
                Pane { name, ..pane }
            }
            Err(error) => {
                tracing::warn!(%slug, renamed = %pane.name, %error, "the session keeps another name");
                pane
            }
        }
    }

    /// What a pane shows now: its state and its screen, in one call.
    pub async fn look(&self, pane: &Pane) -> Result<Look, TmuxError> {
        let look = self.looked(pane).await?;
        if is_vague(&look.state) && remind(&pane.server).await {
            return self.looked(pane).await;
        }
        Ok(look)
    }

    async fn looked(&self, pane: &Pane) -> Result<Look, TmuxError> {
        let filter = format!(
            "#{{&&:#{{==:#{{pane_id}},{}}},#{{==:#{{session_id}},{}}}}}",
            pane.pane_id, pane.session_id
        );
        let call = self
            .call()
            .args(["list-panes", "-a", "-f", &filter, "-F", &format()])
            .args([";", "list-clients", "-F", CLIENT_FORMAT])
            .args([";", "display-message", "-p", "-t", &pane.pane_id])
            .arg(format!("{SCREEN_FOLLOWS}#{{pane_title}}"))
            .args([";", "capture-pane", "-p", "-e", "-t", &pane.pane_id]);
        let absent = || TmuxError::Absent { what: format!("session `{}`", pane.name) };
        let output = match call.run_ok().await {
            Ok(output) => output.stdout_text(),
            Err(source) if is_absent(&source) => return Err(absent()),
            Err(source) => return Err(TmuxError::Failed { verb: "show a pane", source }),
        };
        let (first, rest) = output.split_once('\n').ok_or_else(absent)?;
        let (clients, shown) = rest.split_once(SCREEN_FOLLOWS).ok_or_else(absent)?;
        let (title, screen) = shown.split_once('\n').ok_or_else(absent)?;
        let row = parse(first, &self.instance).ok_or_else(absent)?;
        // Ids are never used again within one server, but a new server counts anew.
        // A name says nothing: a person may have changed it.
        if !row.pane.is_the_same_as(pane) || row.pane.item != pane.item {
            return Err(absent());
        }
        let last_key = last_key(clients, &pane.session_id, &row.group).max(typed_at(&row.activity));
        Ok(Look {
            state: row.pane.state,
            screen: screen.to_owned(),
            cursor: row.cursor,
            columns: row.columns,
            activity: row.activity,
            reads: reads(Path::new(&row.tty)),
            title: title.to_owned(),
            last_key,
        })
    }

    /// The last `lines` lines that a pane has shown, plain, without the blank
    /// ones at its end.
    pub async fn last_lines(&self, pane: &Pane, lines: usize) -> Result<Vec<String>, TmuxError> {
        let call = self.call().output_limit(16 << 20).args([
            "display-message",
            "-p",
            "-t",
            &pane.pane_id,
            "#{?pane_dead,1,0}",
            ";",
            "capture-pane",
            "-p",
            "-J",
            "-S",
            &format!("-{}", lines.max(500)),
            "-t",
            &pane.pane_id,
        ]);
        let output = call.run_ok().await.map_err(|source| {
            if is_absent(&source) {
                TmuxError::Absent { what: format!("session `{}`", pane.name) }
            } else {
                TmuxError::Failed { verb: "show a pane's history", source }
            }
        })?;
        let text = output.stdout_text();
        let (is_dead, text) = text.split_once('\n').unwrap_or_default();
        let mut said: Vec<_> = text.lines().map(str::trim_end).collect();
        let is_said = |line: &&str| !line.is_empty();
        // tmux writes "Pane is dead (…)" itself, into the last line or wrapped on
        // behind it; that is not the program's word.
        if let Some(last) = said.iter().rposition(is_said)
            && is_dead == "1"
            && let Some(at) = said[last].rfind(PANE_IS_DEAD)
        {
            said[last] = said[last][..at].trim_end();
        }
        let end = said.iter().rposition(is_said).map_or(0, |last| last + 1);
        let begin = end.saturating_sub(lines);
        Ok(said[begin..end].iter().map(|line| (*line).to_owned()).collect())
    }
}

/// A client: when its last key came, when it attached, whether it can only look,
/// its session and that one's group. The group's name comes last: it may hold
/// anything.
const CLIENT_FORMAT: &str = "#{client_activity}|#{client_created}|\
     #{client_readonly}|#{session_id}|#{session_group}";

/// The latest key of a person who looks at the session or at one of its group.
/// A client that has never had a key has been active since it was attached.
fn last_key(clients: &str, session: &str, group: &str) -> Option<i64> {
    let keys = clients.lines().filter_map(|line| {
        let fields: Vec<_> = line.splitn(5, '|').collect();
        let &[activity, created, read_only, its_session, its_group] = &fields[..] else {
            return None;
        };
        let is_here = its_session == session || (!group.is_empty() && its_group == group);
        if !is_here || read_only == "1" || activity == created {
            return None;
        }
        activity.parse().ok()
    });
    keys.max()
}

/// When somebody last typed through a browser.
fn typed_at(activity: &str) -> Option<i64> {
    let (_, typed) = activity.split_once(' ')?;
    typed.split_once('.')?.0.parse().ok()
}

/// Whether the program behind a terminal has read all that was typed into it, and
/// reads key by key rather than whole lines. A terminal that cannot be asked says
/// nothing, and holds nothing up.
fn reads(tty: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(tty) = rustix::fs::open(tty, flags, Mode::empty()) else { return true };
    let takes_keys =
        tcgetattr(&tty).map_or(true, |settings| !settings.local_modes.contains(LocalModes::ICANON));
    takes_keys && rustix::io::ioctl_fionread(&tty).map_or(true, |unread| unread == 0)
}

/// What is told of an end of which tmux does not know how it was.
pub const UNKNOWN_STATUS: &str = "an unknown status";

/// How a pane's program has ended, from its exit code and its signal.
pub(super) fn how_it_ended(status: &str) -> String {
    // Before 3.3 there is no signal, where there is one no exit code; for a moment,
    // or until the server is reminded, neither.
    match status.split_once('/').unwrap_or((status, "")) {
        ("", "") => UNKNOWN_STATUS.to_owned(),
        ("", signal) => format!("signal {signal}"),
        (code, _) => format!("exit code {code}"),
    }
}

struct Row {
    tty: String,
    activity: String,
    pane: Pane,
    group: String,
    cursor: (u16, u16),
    columns: u16,
}

/// One line of a listing. A session that another receiver made counts as a
/// stranger's.
fn parse(line: &str, instance: &str) -> Option<Row> {
    let fields: Vec<_> = line.splitn(FIELDS, '|').collect();
    let &[
        server,
        session,
        pane,
        dead,
        mode,
        status,
        x,
        y,
        width,
        clients,
        ours,
        tty,
        activity,
        window,
        group,
        name,
    ] = &fields[..]
    else {
        return None;
    };
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let mut ours = ours.split(' ');
    let (item, conversation) = (ours.next()?, ours.next()?);
    let is_ours = ours.next().is_some_and(|made_by| made_by == instance);
    let state = match (dead, mode) {
        ("1", _) => PaneState::Dead(how_it_ended(status)),
        (_, "1") => PaneState::CopyMode,
        _ => PaneState::Live,
    };
    Some(Row {
        tty: tty.to_owned(),
        activity: activity.to_owned(),
        pane: Pane {
            server: server.to_owned(),
            session_id: session.to_owned(),
            window_id: window.to_owned(),
            pane_id: pane.to_owned(),
            name: name.to_owned(),
            state,
            clients: clients.parse().unwrap_or(0),
            item: some(item).filter(|_| is_ours),
            conversation: some(conversation),
        },
        group: group.to_owned(),
        cursor: (x.parse().unwrap_or(0), y.parse().unwrap_or(0)),
        columns: width.parse().unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_ours_and_rows_of_strangers() {
        let ours =
            parse("9|$1|%2|0|0|/|3|4|160|1|github:o/r#1 abc me|/dev/pts/1|50|@1||loop/o+r+1", "me")
                .unwrap();
        assert_eq!(ours.pane.item.as_deref(), Some("github:o/r#1"));
        assert_eq!(ours.pane.conversation.as_deref(), Some("abc"));
        assert_eq!((ours.pane.state, ours.cursor, ours.columns), (PaneState::Live, (3, 4), 160));
        let strange = parse("9|$2|%3|1|0|7/|0|0|80|0|  |/dev/pts/2|50|@1|g|a|b c", "me").unwrap();
        assert_eq!(strange.pane.name, "a|b c");
        assert_eq!(strange.pane.item, None);
        assert_eq!(strange.pane.state, PaneState::Dead("exit code 7".into()));
        let others = parse(
            "9|$1|%2|0|0|/|3|4|160|1|github:o/r#1 abc you|/dev/pts/1|50|@1||loop/o+r+1",
            "me",
        );
        assert_eq!(others.unwrap().pane.item, None);
        assert!(parse("nonsense", "me").is_none());
        let killed = parse("9|$2|%3|1|0|/KILL|0|0|80|0|  |/dev/pts/2|50|@1|g|n", "me").unwrap();
        assert_eq!(killed.pane.state, PaneState::Dead("signal KILL".into()));
        let unknown = parse("9|$2|%3|1|0|/|0|0|80|0|  |/dev/pts/2|50|@1|g|n", "me").unwrap();
        assert_eq!(unknown.pane.state, PaneState::Dead("an unknown status".into()));
    }

    #[test]
    fn a_session_is_known_by_its_mark_whatever_it_is_called() {
        let pane = |number: u32, dead: u8, item: &str, by: &str, name: &str| {
            let line = format!(
                "9|${number}|%{number}|{dead}|0|/|0|0|80|0|{item} abc {by}|/dev/pts/1|50|@1||{name}"
            );
            parse(&line, "me").unwrap().pane
        };
        let slug = "o/r#1".parse::<WorkItem>().unwrap().slug();
        let found = |panes: &[Pane]| pane_of(panes, &slug).map(|pane| pane.session_id.clone());
        let item = "github:o/r#1";
        let renamed = pane(1, 0, item, "me", "mine now");
        let strange = pane(2, 0, "", "", "loop/o+r+1");
        let others = pane(3, 0, item, "you", "loop/o+r+1");
        let dead = pane(4, 1, item, "me", "loop/o+r+1");
        let other_item = pane(5, 0, "github:o/r#10", "me", "loop/o+r+1");
        assert_eq!(found(&[strange.clone(), renamed.clone()]), Some("$1".into()));
        assert_eq!(found(&[others.clone(), dead.clone(), renamed]), Some("$1".into()));
        assert_eq!(found(&[others, dead]), Some("$4".into()));
        assert_eq!(found(&[strange]), Some("$2".into()), "it has the name, and is not ours");
        assert_eq!(found(std::slice::from_ref(&other_item)), Some("$5".into()));
        assert!(!other_item.is_of(&slug));
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn a_key_counts_when_it_was_pressed_here_by_somebody_who_can_type() {
        let clients = "20|10|0|$1|\n30|10|1|$1|\n40|40|0|$1|\n50|10|0|$2|\n60|10|0|$3|g|h\n";
        assert_eq!(last_key(clients, "$1", ""), Some(20));
        assert_eq!(last_key(clients, "$1", "g|h"), Some(60));
        assert_eq!(last_key(clients, "$9", ""), None);
        assert_eq!(last_key("", "$1", ""), None);
        assert_eq!(typed_at("30 70.12"), Some(70));
        assert_eq!(typed_at("30 "), None);
    }
}
