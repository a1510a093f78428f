//! What goes wrong around a real agent: one that ends at its start, an id that is
//! taken, a directory that is gone, a turn that does not end, a program that hangs.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Rig, Row};
use crate::process::comment;
use crate::support::eventually;

impl Row {
    /// Whether we choose the id of its conversation, so that one can be in use.
    fn takes_our_id(self) -> bool {
        matches!(self.name, "claude" | "gemini" | "copilot")
    }

    /// What it says of the arguments in [`BROKEN`].
    fn says_of_broken(self) -> &'static str {
        match self.name {
            // Its usage, and no reason.
            "opencode" => "run opencode with a message",
            "gemini" => "Unknown arguments: such-flag",
            _ => "--no-such-flag",
        }
    }

    /// Whether a headless turn of it that is cut off has told that it took the prompt.
    fn tells_headless(self) -> bool {
        self.name != "opencode"
    }
}

/// Arguments that no agent takes.
const BROKEN: &str = "[--no-such-flag]";

impl Rig {
    /// Sets or changes a line below `routing:`.
    fn routes(&self, line: &str) {
        let config = std::fs::read_to_string(self.world.config()).unwrap();
        let key = line.split_once(':').unwrap().0;
        let others = config.lines().filter(|known| !known.trim_start().starts_with(key));
        let mut text: String = others.flat_map(|line| [line, "\n"]).collect();
        text = text.replacen("routing:\n", &format!("routing:\n  {line}\n"), 1);
        std::fs::write(self.world.config(), text).unwrap();
    }

    /// The last step of a delivery that got this far: its reason and its detail.
    async fn ends(&self, id: &str, state: &str) -> (String, String) {
        let out = self.reaches(id, state).await;
        let value: Value = serde_json::from_str(&out).unwrap();
        let step = value["deliveries"][0]["steps"].as_array().unwrap().last().unwrap().clone();
        let text = |key: &str| step[key].as_str().unwrap_or_default().to_owned();
        (text("reason"), text("detail"))
    }

    /// As after a crash and a reboot: nothing tells that the conversation has begun.
    fn forgets_that_it_began(&self) {
        let entry = self.world.project.join(".the-loop/sessions/o+r+1.json");
        let mut record: Value = serde_json::from_slice(&std::fs::read(&entry).unwrap()).unwrap();
        record["conversationStarted"] = json!(false);
        std::fs::write(&entry, record.to_string()).unwrap();
        let _ = std::fs::remove_dir_all(self.world.state_dir().join("spool/o+r+1"));
    }

    /// What the last headless turn printed.
    fn printed(&self) -> String {
        let turns = std::fs::read_dir(self.world.state_dir().join("turns/o+r+1")).unwrap();
        let last = turns.map(|turn| turn.unwrap().path()).max().unwrap();
        ["stdout", "stderr"]
            .iter()
            .map(|name| std::fs::read_to_string(last.join(name)).unwrap_or_default())
            .collect()
    }

    async fn is_delivered_or_asks(&self, row: Row, id: &str) -> bool {
        // Whether its conversation is in use elsewhere is a person's to answer.
        if row.name == "copilot" && self.asks(id).await {
            return false;
        }
        self.reaches(id, "delivered").await;
        true
    }
}

/// Ends at its start, has its id already, loses its directory: each is told, and
/// once the reason is gone it goes on.
pub async fn a_start_that_cannot_be_is_told_and_the_next_goes_on(row: Row) {
    let Some(mut rig) = row.rig().await else { return };
    let dir = rig.world.project.join("tree");
    std::fs::create_dir(&dir).unwrap();
    let args = ["sessions", "register", "o/r#1", "--cwd", dir.to_str().unwrap()];
    let (code, _, err) = rig.world.run(&args);
    assert_eq!(code, 0, "{err}");
    rig.routes(&format!("harnessArgs: {{ {}: {BROKEN} }}", row.name));
    rig.world.start().await;
    comment(&rig.world, "d-1", "word-0.").await;
    // Gemini reads its prompt before its arguments: nobody knows what it did with it.
    let (state, why) = match (row.name, row.in_tmux()) {
        ("gemini", false) => ("unproven", "no-signal"),
        _ => ("failed", "harness-exited"),
    };
    let (reason, detail) = rig.ends("d-1", state).await;
    assert_eq!(reason, why, "{detail}");
    assert!(detail.contains(row.says_of_broken()), "{detail}");
    assert!(!detail.contains('\u{1b}') && !detail.contains("\\x1b"), "{detail}");
    rig.world.end(Signal::TERM);
    rig.routes("harnessArgs: {}");
    rig.world.start().await;
    comment(&rig.world, "c-1", "word-1.").await;
    rig.reaches("c-1", "delivered").await;
    rig.heard("word-1.").await;
    let first = rig.conversation();
    // Not in the middle of writing down what was said.
    tokio::time::sleep(Duration::from_secs(1)).await;
    if row.in_tmux() {
        rig.kill_agent();
    }
    if row.takes_our_id() {
        rig.world.end(Signal::KILL);
        rig.forgets_that_it_began();
        rig.world.start().await;
        comment(&rig.world, "c-2", "word-2.").await;
        if !rig.is_delivered_or_asks(row, "c-2").await {
            return;
        }
        rig.heard("word-2.").await;
        assert_eq!(rig.conversation(), first);
        tokio::time::sleep(Duration::from_secs(1)).await;
        if row.in_tmux() {
            rig.kill_agent();
        }
    }
    let away = rig.world.project.join("away");
    std::fs::rename(&dir, &away).unwrap();
    comment(&rig.world, "g-1", "word-3.").await;
    let (reason, detail) = rig.ends("g-1", "failed").await;
    assert_eq!(reason, "start-failed", "{detail}");
    assert!(detail.contains("tree` is not there"), "{detail}");
    assert!(!dir.exists(), "another directory took its place");
    std::fs::rename(&away, &dir).unwrap();
    comment(&rig.world, "g-2", "word-4.").await;
    if !rig.is_delivered_or_asks(row, "g-2").await {
        return;
    }
    rig.heard("word-4.").await;
    assert_eq!(rig.conversation(), first);
    let told = rig.api.conversation();
    assert!(told.contains("word-1.") && !told.contains("word-3."), "{told}");
}

/// The processes of a group, by the number of the one that leads it.
fn of_group(leader: &str) -> Vec<Pid> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let is_of_it = fields[2] == leader && fields[0] != "Z";
        is_of_it.then(|| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).flatten()
    });
    pids.collect()
}

fn signal(pids: &[Pid], signal: Signal) {
    for pid in pids {
        kill_process(*pid, signal).unwrap();
    }
}

/// A model that does not answer, or a program that hangs: told, and not sent again.
pub async fn what_takes_too_long_is_told_and_not_sent_again(row: Row) {
    let Some(mut rig) = row.rig().await else { return };
    rig.start().await;
    let first = rig.conversation();
    if row.in_tmux() {
        rig.heard("Please do it").await;
        // tmux lets what the pane became go on by itself, and sees nothing below it.
        let leader = rig.agent(row).unwrap();
        let mut hung = of_group(&leader);
        hung.retain(|pid| pid.to_string() != leader);
        signal(&hung, Signal::STOP);
        comment(&rig.world, "t-1", "word-1.").await;
        if !hung.is_empty() {
            // Longer than an idle agent may show nothing of a text.
            tokio::time::sleep(Duration::from_secs(5)).await;
            let (_, out, _) = rig.world.run(&["events", "t-1", "--json"]);
            let told = ["agent-busy", "not-reading", "unknown-screen", "\"pasted\""];
            assert!(told.iter().any(|reason| out.contains(reason)), "{out}");
            assert!(!rig.api.conversation().contains("word-1."), "{out}");
        }
        signal(&hung, Signal::CONT);
        rig.reaches("t-1", "delivered").await;
    } else {
        // Long enough to come to the model.
        let limit = if row.name == "opencode" { 25 } else { 10 };
        rig.world.end(Signal::TERM);
        rig.routes(&format!("dispatchTimeoutSeconds: {limit}"));
        rig.world.start().await;
        comment(&rig.world, "t-1", "word-1. {{slow=60000}}").await;
        rig.heard("word-1.").await;
        let agent = rig.agent(row).unwrap();
        assert!(!of_group(&agent).is_empty());
        let (state, reason) = if row.tells_headless() {
            ("delivered", "turn-timed-out")
        } else {
            ("unproven", "no-signal")
        };
        let (why, detail) = rig.ends("t-1", state).await;
        assert_eq!(why, reason, "{detail}\n{}", rig.printed());
        assert!(detail.contains(&format!("did not end within {limit} s")), "{detail}");
        eventually("nothing of it runs", async || of_group(&agent).is_empty().then_some(())).await;
    }
    comment(&rig.world, "t-2", "word-2. {{slow=20}}").await;
    rig.reaches("t-2", "delivered").await;
    rig.heard("word-2.").await;
    assert_eq!(rig.conversation(), first);
    let told = rig.api.conversation();
    assert!(told.matches("word-1.").count() == 1, "{told}");
}
