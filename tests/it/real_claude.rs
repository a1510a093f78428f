//! The real Claude Code, typed into by the real receiver on real tmux. It lives
//! in a private home and talks to a stand-in of the Messages API on loopback.
//! `scripts/fetch-claude .tools` installs it; without it these tests only say so.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::git_server::GitServer;
use crate::injection::stage::Random;
use crate::mock_api::MockApi;
use crate::support::{World, eventually, payload};

const NEWER: &str = "2.1.332";
const OLDER: &str = "2.1.197";
const KEY: &str = "sk-ant-test-0123456789abcdefghij";

/// The program of that version, or a word on where it would come from.
fn claude(version: &str) -> Option<PathBuf> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join(".tools");
    let path = tools.join(format!("claude-{version}/node_modules/.bin/claude"));
    if !path.exists() {
        let say = "`scripts/fetch-claude .tools` installs it";
        let _ = writeln!(std::io::stderr(), "SKIPPED: no Claude Code {version}: {say}");
        return None;
    }
    Some(path)
}

struct Rig {
    world: World,
    api: MockApi,
}

impl Rig {
    async fn new(claude: &Path) -> Self {
        let api = MockApi::start().await;
        let world = World::new("defaultHarness: claude\nrateLimit: 0");
        let home = world.home.join("claude");
        std::fs::create_dir_all(&home).unwrap();
        let project = world.project.to_str().unwrap();
        let state = json!({
            "hasCompletedOnboarding": true,
            "customApiKeyResponses": { "approved": [&KEY[KEY.len() - 20..]], "rejected": [] },
            "projects": { project: { "hasTrustDialogAccepted": true } },
        });
        std::fs::write(home.join(".claude.json"), state.to_string()).unwrap();
        // A pane's environment holds nothing of ours: this brings in what the
        // rig needs, and leaves no other way out than loopback.
        let wrapper = world.home.join("claude.sh");
        let script = format!(
            "#!/bin/sh\nexport HOME='{home}' CLAUDE_CONFIG_DIR='{home}' ANTHROPIC_BASE_URL='{url}' \
             ANTHROPIC_API_KEY='{KEY}' CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 \
             DISABLE_TELEMETRY=1 DISABLE_AUTOUPDATER=1 DISABLE_ERROR_REPORTING=1 IS_SANDBOX=1 \
             HTTPS_PROXY=http://127.0.0.1:9 NO_PROXY=127.0.0.1 LANG=C.UTF-8\nexec '{claude}' \"$@\"\n",
            home = home.display(),
            url = api.url,
            claude = claude.display(),
        );
        std::fs::write(&wrapper, script).unwrap();
        std::fs::set_permissions(&wrapper, PermissionsExt::from_mode(0o755)).unwrap();
        let config = std::fs::read_to_string(world.config()).unwrap();
        let tools = format!("tools:\n  claude:\n    path: {}\n", wrapper.display());
        std::fs::write(world.config(), config.replacen("tools:\n", &tools, 1)).unwrap();
        Self { world, api }
    }

    /// Waits longer than `World::reaches`: a real agent takes its time.
    async fn reaches(&self, id: &str, state: &str) {
        let begin = std::time::Instant::now();
        loop {
            let (_, out, _) = self.world.run(&["events", id, "--json"]);
            let value: Value = serde_json::from_str(&out).unwrap_or_default();
            if value["deliveries"][0]["state"] == state {
                return;
            }
            assert!(
                begin.elapsed() < Duration::from_mins(2),
                "{id} is not {state}: {out}\n{}",
                self.screen()
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn screen(&self) -> String {
        self.world.tmux.run(&["capture-pane", "-p", "-t", "=loop/o+r+1:"])
    }

    async fn start(&mut self) {
        let log = std::env::var_os("THE_LOOP_LOG");
        let variables: Vec<_> = log.iter().map(|log| ("THE_LOOP_LOG", log.as_os_str())).collect();
        self.world.start_with(&variables).await;
        let labeled = payload::labeled("o/r", 1, "alice");
        assert_eq!(self.world.post("s", "issues", &labeled).await, 202);
        self.reaches("s", "delivered").await;
    }

    async fn comment(&self, id: &str, text: &str) {
        let comment = payload::comment("o/r", 1, "alice", text);
        assert_eq!(self.world.post(id, "issue_comment", &comment).await, 202);
    }

    fn type_keys(&self, text: &str) {
        self.world.tmux.run(&["send-keys", "-t", "=loop/o+r+1:", "-l", text]);
    }

    /// Whether the row with the prompt holds this.
    fn in_the_box(&self, text: &str) -> bool {
        let screen = self.screen();
        screen.lines().rfind(|line| line.starts_with('❯')).is_some_and(|row| row.contains(text))
    }

    /// Waits until the agent does nothing and its box is empty.
    async fn idle(&self, n: usize) {
        let begin = std::time::Instant::now();
        let mut since = None;
        while since.is_none_or(|since: std::time::Instant| since.elapsed().as_millis() < 300) {
            let screen = self.screen();
            let is_idle = screen.lines().any(|line| line.trim_end() == "❯")
                && !screen.contains("esc to interrupt")
                && !screen.contains("stashed")
                && !screen.contains("to cancel");
            since = is_idle.then(|| since.unwrap_or_else(std::time::Instant::now));
            assert!(
                begin.elapsed() < Duration::from_mins(2),
                "not idle before {n}\n{screen}\n{}",
                self.world.receiver_log()
            );
            if screen.contains("Do you want to proceed?") {
                self.escape().await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Closes a dialog, with one key: a second would open the menu of earlier turns.
    async fn escape(&self) {
        self.world.tmux.run(&["send-keys", "-t", "=loop/o+r+1:", "Escape"]);
        eventually("the dialog is closed", async || {
            (!self.screen().contains("Do you want to proceed?")).then_some(())
        })
        .await;
    }

    /// Says no to the dialog that an event opens; `false` when none came.
    async fn says_no(&self, id: &str) -> bool {
        self.reaches(id, "delivered").await;
        let begin = std::time::Instant::now();
        while begin.elapsed() < Duration::from_secs(15) {
            if self.screen().contains("Do you want to proceed?") {
                // Long enough for another submit key, were there one.
                tokio::time::sleep(Duration::from_secs(1)).await;
                self.escape().await;
                return true;
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        false
    }

    /// How often the model was told something.
    fn times_told(&self, word: &str) -> usize {
        self.api.told().iter().map(|text| text.matches(word).count()).sum()
    }
}

/// How many events each version gets: `scripts/claude-test` sets more.
fn count() -> usize {
    let count = std::env::var("THE_LOOP_CLAUDE_EVENTS").ok().and_then(|count| count.parse().ok());
    count.unwrap_or(15)
}

/// Events in mixed states: short and long ones, hostile ones, turns that take a
/// while, tools whose dialog opens right after the submit key, drafts, and an agent
/// that is killed.
async fn mixed_events(version: &str) {
    let Some(path) = claude(version) else { return };
    let mut rig = Rig::new(&path).await;
    rig.start().await;
    let count = count();
    let file = rig.world.project.join("touched");
    let (mut drafts, mut dialogs) = (0, 0);
    for n in 0..count {
        let id = format!("c-{n}");
        let text = match n % 5 {
            0 => format!("word-{n}. short"),
            1 => format!("word-{n}. {{{{slow=700}}}}"),
            2 => format!("word-{n}.\n{}", "another line of it\n".repeat(20)),
            3 => format!("word-{n}. ÄÖ 漢字 👨\u{200d}👩\u{200d}👧 \u{1b}[201~!touch x"),
            _ => format!("word-{n}. {{{{bash=touch '{}'}}}}", file.display()),
        };
        match n % 10 {
            // A draft rests in the box, and is back afterwards.
            0 | 5 => {
                rig.idle(n).await;
                let thought = format!("thought-{n}.");
                rig.type_keys(&thought);
                eventually("the draft is there", async || {
                    rig.screen().contains(&thought).then_some(())
                })
                .await;
                rig.comment(&id, &text).await;
                rig.reaches(&id, "delivered").await;
                eventually("the draft is back", async || {
                    let screen = rig.screen();
                    (screen.contains(&thought) && !screen.contains("stashed")).then_some(())
                })
                .await;
                assert_eq!(rig.times_told(&thought), 0, "the draft was sent along");
                // An Enter may be swallowed: they press it until the draft is gone.
                eventually("the draft was sent", async || {
                    if rig.in_the_box(&thought) {
                        rig.world.tmux.run(&["send-keys", "-t", "=loop/o+r+1:", "Enter"]);
                        tokio::time::sleep(Duration::from_millis(500)).await;
                    }
                    (rig.times_told(&thought) == 1).then_some(())
                })
                .await;
                drafts += 1;
            }
            // A dialog opens while the next event waits; a person says no.
            4 | 9 => {
                rig.comment(&id, &text).await;
                dialogs += usize::from(rig.says_no(&id).await);
            }
            _ => rig.comment(&id, &text).await,
        }
        if n % 50 == 11 {
            // In whatever it does.
            let pid =
                rig.world.tmux.run(&["display-message", "-p", "-t", "=loop/o+r+1:", "#{pane_pid}"]);
            let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
    }
    for n in 0..count {
        rig.reaches(&format!("c-{n}"), "delivered").await;
    }
    rig.idle(count).await;
    eventually("the model heard the last", async || {
        (rig.times_told(&format!("word-{}.", count - 1)) == 1).then_some(())
    })
    .await;
    for n in 0..count {
        assert_eq!(rig.times_told(&format!("word-{n}.")), 1, "word-{n}");
    }
    let all = rig.api.told().join("\n");
    let places: Vec<_> = (0..count).map(|n| all.find(&format!("word-{n}.")).unwrap()).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(!file.exists(), "a dialog was answered\n{}", rig.world.receiver_log());
    let _ = writeln!(
        std::io::stderr(),
        "{version}: {count} events once each and in order, {drafts} drafts back, \
         {dialogs} dialogs opened and none answered by us"
    );
}

#[tokio::test]
async fn events_reach_the_real_agent_once_each_and_in_order() {
    mixed_events(NEWER).await;
}

#[tokio::test]
async fn events_reach_the_older_real_agent_once_each_and_in_order() {
    mixed_events(OLDER).await;
}

async fn dialog(version: &str) {
    let Some(path) = claude(version) else { return };
    let mut rig = Rig::new(&path).await;
    rig.start().await;
    let file = rig.world.project.join("touched");
    rig.comment("c-1", &format!("{{{{bash=touch '{}'}}}}", file.display())).await;
    rig.reaches("c-1", "delivered").await;
    rig.comment("c-2", "an event meanwhile").await;
    eventually("it waits, and says for what", async || {
        let (_, out, _) = rig.world.run(&["events", "c-2", "--json"]);
        out.contains("agent-asks").then_some(())
    })
    .await;
    assert!(!file.exists(), "the dialog was answered");
    // A person says no; then it is typed.
    rig.world.tmux.run(&["send-keys", "-t", "=loop/o+r+1:", "Escape"]);
    rig.reaches("c-2", "delivered").await;
    assert!(!file.exists(), "the dialog was answered");
    eventually("the model heard it", async || {
        (rig.times_told("an event meanwhile") == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_real_agents_permission_dialog_is_never_answered() {
    dialog(NEWER).await;
}

#[tokio::test]
async fn the_older_real_agents_permission_dialog_is_never_answered() {
    dialog(OLDER).await;
}

/// Dialogs that open at every moment around the submit of an event that does not
/// wait for the end of the turn: `within` so many milliseconds of it, where that is
/// sooner than the version itself lets one open after a key.
async fn race(version: &str, within: i128) {
    let Some(path) = claude(version) else { return };
    let mut rig = Rig::new(&path).await;
    rig.start().await;
    let file = rig.world.project.join("touched");
    let rounds = (count() / 2).clamp(5, 100);
    let (mut near, mut dialogs) = (0, 0);
    // From the nearest submit to each dialog, in milliseconds.
    let mut afters = Vec::new();
    let mut random = Random::new();
    for n in 0..rounds {
        rig.idle(n).await;
        let [first, second] = [format!("a-{n}"), format!("b-{n}")];
        let wait = random.millis(600).as_millis();
        let bash = format!("{{{{bash=touch '{}'}}}}{{{{wait={wait}}}}}", file.display());
        rig.comment(&first, &format!("first-{n}. {bash}")).await;
        rig.reaches(&first, "delivered").await;
        rig.comment(&second, &format!("the-loop now: second-{n}.")).await;
        let begin = std::time::Instant::now();
        let mut opened = None;
        while opened.is_none() && begin.elapsed() < Duration::from_secs(15) {
            if rig.screen().contains("Do you want to proceed?") {
                opened = Some(jiff::Timestamp::now());
            }
            // The stand-in lives in this thread too.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let Some(opened) = opened else {
            panic!("no dialog: {}\n{}", rig.screen(), rig.world.receiver_log())
        };
        dialogs += 1;
        // Long enough for a submit key that was on its way.
        tokio::time::sleep(Duration::from_millis(700)).await;
        let screen = rig.screen();
        assert!(
            screen.contains("Do you want to proceed?") && !file.exists(),
            "a dialog was answered ({opened})\n{screen}\n{}",
            rig.world.receiver_log()
        );
        rig.escape().await;
        rig.reaches(&second, "delivered").await;
        let (_, out, _) = rig.world.run(&["events", &second, "--json"]);
        let told: Value = serde_json::from_str(&out).unwrap();
        let steps = told["deliveries"][0]["steps"].as_array().unwrap();
        let after = |step: &Value| {
            let at: jiff::Timestamp = step["at"].as_str().unwrap().parse().unwrap();
            (step["reason"] == "submitted").then(|| opened.duration_since(at).as_millis())
        };
        let nearest = steps.iter().filter_map(after).min_by_key(|after| after.abs());
        near += usize::from(nearest.is_some_and(|after| after.abs() <= within));
        afters.extend(nearest);
    }
    rig.idle(rounds).await;
    assert!(!file.exists(), "a dialog was answered\n{}", rig.world.receiver_log());
    for n in 0..rounds {
        eventually("the model heard both", async || {
            let heard = [format!("first-{n}."), format!("second-{n}.")];
            heard.iter().all(|word| rig.times_told(word) == 1).then_some(())
        })
        .await;
    }
    let _ = writeln!(
        std::io::stderr(),
        "{version}: {dialogs} dialogs, {near} of them within {within} ms of a submit, none \
         answered by us; ms after it: {afters:?}"
    );
    // In a few rounds few may be: tools are held back around a submit on purpose.
    assert!(rounds < 40 || near * 5 >= rounds * 2, "{near} of {rounds} came close to a submit");
}

#[tokio::test]
async fn a_dialog_that_opens_around_a_submit_of_the_real_agent_is_not_answered() {
    race(NEWER, 700).await;
}

#[tokio::test]
async fn a_dialog_that_opens_around_a_submit_of_the_older_real_agent_is_not_answered() {
    race(OLDER, 300).await;
}

async fn draft(version: &str) {
    let Some(path) = claude(version) else { return };
    let mut rig = Rig::new(&path).await;
    rig.start().await;
    for n in 0..3 {
        let thought = format!("half a thought {n}");
        rig.type_keys(&thought);
        eventually("the draft is there", async || rig.screen().contains(&thought).then_some(()))
            .await;
        rig.comment(&format!("c-{n}"), &format!("word-{n}.")).await;
        rig.reaches(&format!("c-{n}"), "delivered").await;
        eventually("the draft is back", async || {
            let screen = rig.screen();
            (screen.contains(&thought) && !screen.contains("stashed")).then_some(())
        })
        .await;
        assert_eq!(rig.times_told(&thought), 0, "the draft was sent along");
        rig.world.tmux.run(&["send-keys", "-t", "=loop/o+r+1:", "Enter"]);
        eventually("the model heard both", async || {
            let heard = |text: &str| rig.times_told(text);
            (heard(&thought) == 1 && heard(&format!("word-{n}.")) == 1).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_resting_draft_is_back_after_the_event_in_the_real_agent() {
    draft(NEWER).await;
}

#[tokio::test]
async fn a_resting_draft_is_back_after_the_event_in_the_older_real_agent() {
    draft(OLDER).await;
}

/// A user who had the trees trusted is asked in none of them.
async fn work_tree(version: &str) {
    let Some(path) = claude(version) else { return };
    let mut rig = Rig::new(&path).await;
    let server = GitServer::new().await;
    server.repository("o/r");
    server.stand_in_for_github(&rig.world.home);
    let root = std::fs::canonicalize(&rig.world.home).unwrap().join("trees");
    let config = std::fs::read_to_string(rig.world.config()).unwrap();
    let workspace = format!(
        "  defaultHarness: claude\n  workspace: {{enabled: true, root: {}}}\n",
        root.display()
    );
    let config = config.replacen("  defaultHarness: claude\n", &workspace, 1);
    assert!(config.contains("workspace:"), "{config}");
    std::fs::write(rig.world.config(), config).unwrap();
    let home = rig.world.home.join("claude");
    let state = std::fs::read_to_string(home.join(".claude.json")).unwrap();
    let project = rig.world.project.to_str().unwrap();
    let state = state.replace(project, root.join("items").to_str().unwrap());
    std::fs::write(home.join(".claude.json"), state).unwrap();
    // What a session's environment holds counts: the rig's variables come later.
    let file = rig.world.home.join(".claude.json");
    std::os::unix::fs::symlink(home.join(".claude.json"), file).unwrap();
    rig.world.start().await;
    let labeled = payload::labeled("o/r", 1, "alice");
    assert_eq!(rig.world.post("s", "issues", &labeled).await, 202);
    rig.reaches("s", "delivered").await;
    let screen = rig.screen();
    assert!(!screen.contains("trust"), "{screen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_real_agent_works_in_a_trusted_work_tree_unasked() {
    work_tree(NEWER).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_older_real_agent_works_in_a_trusted_work_tree_unasked() {
    work_tree(OLDER).await;
}

/// The first run with this in its state file; gives how the event ended or what it
/// waits for.
async fn first_run(path: &Path, state: Option<&str>) -> String {
    let mut rig = Rig::new(path).await;
    let file = rig.world.home.join("claude/.claude.json");
    std::fs::remove_file(&file).unwrap();
    if let Some(state) = state {
        std::fs::write(&file, state).unwrap();
    }
    let config = std::fs::read_to_string(rig.world.config()).unwrap();
    std::fs::write(rig.world.config(), config.replace("Seconds: 20", "Seconds: 3")).unwrap();
    rig.world.start().await;
    let labeled = payload::labeled("o/r", 1, "alice");
    assert_eq!(rig.world.post("s", "issues", &labeled).await, 202);
    let told = ["agent-asks", "unknown-screen", "harness-exited"];
    let begin = std::time::Instant::now();
    let out = loop {
        let (_, out, _) = rig.world.run(&["events", "s", "--json"]);
        if told.iter().any(|reason| out.contains(reason)) {
            break out;
        }
        assert!(begin.elapsed() < Duration::from_secs(40), "{out}\n{}", rig.screen());
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let before = rig.screen();
    tokio::time::sleep(Duration::from_secs(3)).await;
    // The greeting moves by itself.
    if out.contains("agent-asks") && file.exists() && before.contains("to confirm") {
        assert_eq!(rig.screen(), before, "something was typed into the first run");
    }
    let state = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(!state.contains("\"hasTrustDialogAccepted\":true"), "{state}");
    out
}

async fn first_runs(version: &str) {
    let Some(path) = claude(version) else { return };
    // In an empty home it asks its maker first, and ends where it cannot.
    let out = first_run(&path, None).await;
    assert!(out.contains("Unable to connect") || out.contains("agent-asks"), "{out}");
    let out = first_run(&path, Some("{\"hasCompletedOnboarding\":true}")).await;
    assert!(out.contains("agent-asks"), "{out}");
}

#[tokio::test]
async fn the_real_agents_first_run_is_left_to_a_person() {
    first_runs(NEWER).await;
}

#[tokio::test]
async fn the_older_real_agents_first_run_is_left_to_a_person() {
    first_runs(OLDER).await;
}
