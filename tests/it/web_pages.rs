//! The pages of the web terminal in a real Chromium, on real ttyd and tmux.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::support::{TmuxServer, World, eventually, payload, tmux_path};
use crate::web_client::{Web, ttyd_path};

/// A world that serves the web terminal, whose agent is the fake that `script`
/// tells what to do; `None` where there is no browser.
pub async fn world(script: &Value) -> Option<(World, Browser)> {
    let browser = Browser::start().await?;
    let mut world = World::new("");
    configure(&world, script, 0);
    world.start().await;
    Some((world, browser))
}

fn configure(world: &World, script: &Value, port: u16) {
    let fake = env!("CARGO_BIN_EXE_fake-harness");
    world.configure(
        &format!("defaultHarness: claude\nwebTerminal:\n  enabled: true\n  port: {port}"),
        &format!("  claude:\n    path: {fake}\n  ttyd:\n    path: {}\n", ttyd_path().display()),
    );
    let mut script = script.clone();
    script["prompts"] = json!(world.home.join("prompts"));
    std::fs::write(world.project.join("fake-harness.json"), script.to_string()).unwrap();
}

/// The prompts that the fake took, in order.
pub fn prompts(world: &World) -> Vec<String> {
    let text = std::fs::read_to_string(world.home.join("prompts")).unwrap_or_default();
    let notes = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    notes.filter_map(|note| Some(note["prompt"].as_str()?.to_owned())).collect()
}

/// The address of a page.
pub fn at(world: &World, path: &str) -> String {
    format!("http://{}/{path}", Web::host(world))
}

pub async fn session(world: &World, number: u64) {
    let id = format!("s-{number}");
    let labeled = payload::labeled("o/r", number, "alice");
    assert_eq!(world.post(&id, "issues", &labeled).await, 202);
    world.reaches(&id, "delivered").await;
}

/// What the page's terminal shows.
pub const SCREEN: &str = ".xterm-rows";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_shows_a_session_within_a_second_of_its_start() {
    let Some((world, browser)) = world(&json!({})).await else { return };
    browser.open(&at(&world, "")).await;
    browser.shows("#empty", "no sessions").await;
    // The entry is what a start begins with.
    let labeled = payload::labeled("o/r", 1, "alice");
    assert_eq!(world.post("s-1", "issues", &labeled).await, 202);
    let entry = world.project.join(".the-loop/sessions/o+r+1.json");
    eventually("the session is recorded", async || entry.exists().then_some(())).await;
    let began = Instant::now();
    browser.until("document.querySelector('[data-slug=\"o+r+1\"]') !== null").await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    browser.shows("[data-slug] .item", "o/r#1").await;
    browser.shows("[data-slug] .title", "Issue 1").await;
    world.reaches("s-1", "delivered").await;
    browser.shows("[data-slug] .state", "idle").await;
    browser.shows("[data-slug] .lines", "? for shortcuts").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    world.run(&["sessions", "close", "1"]);
    browser.shows("[data-slug] .state", "closed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_typed_reaches_the_agent_and_an_event_meanwhile_is_seen() {
    let Some((world, browser)) = world(&json!({})).await else { return };
    session(&world, 1).await;
    browser.open(&at(&world, "s/o+r+1/")).await;
    browser.shows(SCREEN, "? for shortcuts").await;
    browser.keys("from the page").await;
    browser.shows(SCREEN, "from the page").await;
    browser.keys("\u{e007}").await;
    eventually("the agent took it", async || {
        prompts(&world).iter().any(|prompt| prompt == "from the page").then_some(())
    })
    .await;
    let comment = payload::comment("o/r", 1, "alice", "An event meanwhile.");
    assert_eq!(world.post("c-1", "issue_comment", &comment).await, 202);
    browser.shows(SCREEN, "An event meanwhile.").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

/// Keeps a picture where the documents show it, when that was asked for.
fn keep(name: &str, picture: &[u8]) {
    assert!(picture.starts_with(b"\x89PNG"), "{name} is no picture");
    if std::env::var_os("THE_LOOP_UPDATE").is_some() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/images");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(name), picture).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_pages_are_pictured_on_a_desk_and_on_a_phone_in_the_dark_and_in_the_light() {
    let Some((world, browser)) = world(&json!({})).await else { return };
    for number in 1..=3 {
        session(&world, number).await;
    }
    let comment = payload::comment("o/r", 1, "alice", "Please also fix the typo in the README.");
    assert_eq!(world.post("c-1", "issue_comment", &comment).await, 202);
    world.reaches("c-1", "delivered").await;
    for (device, scheme) in [("desktop", "dark"), ("desktop", "light"), ("phone", "dark")] {
        if device == "phone" {
            browser.be_a_phone(390, 760).await;
        } else {
            let desk = json!({ "width": 1280, "height": 900, "deviceScaleFactor": 1,
                "mobile": false });
            browser.cdp("Emulation.setDeviceMetricsOverride", &desk).await;
        }
        browser.prefer(scheme).await;
        browser.open(&at(&world, "")).await;
        browser
            .until("document.querySelectorAll('[data-slug][data-state=idle]').length === 3")
            .await;
        let ground =
            browser.value("getComputedStyle(document.documentElement).backgroundColor").await;
        assert_eq!(ground == "rgb(255, 255, 255)", scheme == "light", "{ground}");
        let name = |page: &str| match scheme {
            "dark" => format!("{page}-{device}.png"),
            _ => format!("{page}-{device}-{scheme}.png"),
        };
        keep(&name("list"), &browser.screenshot().await);
        browser.open(&at(&world, "s/o+r+1/")).await;
        browser.shows(SCREEN, "? for shortcuts").await;
        keep(&name("terminal"), &browser.screenshot().await);
        let wide = browser.value("document.documentElement.scrollWidth <= innerWidth").await;
        assert_eq!(wide, true, "{device}: the page itself scrolls sideways");
    }
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

/// What tmux says that the agent's pane shows.
pub fn pane(world: &World) -> String {
    world.tmux.run(&["capture-pane", "-p", "-t", "=loop/o+r+1:"])
}

async fn pane_shows(world: &World, text: &str) {
    eventually(&format!("the pane shows {text}"), async || {
        pane(world).contains(text).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_browsers_and_an_attached_terminal_see_the_same() {
    let Some((world, browser)) = world(&json!({})).await else { return };
    let Some(other) = Browser::start().await else { return };
    session(&world, 1).await;
    let own = TmuxServer::new();
    let attach = format!(
        "env -u TMUX {} -u -S {} attach-session -t =loop/o+r+1",
        tmux_path().display(),
        world.tmux.socket.display()
    );
    own.run(&["new-session", "-d", "-s", "own", "-x", "160", "-y", "49", &attach]);
    let list = browser.handle().await;
    browser.open(&at(&world, "")).await;
    let typing = browser.tab(&at(&world, "s/o+r+1/")).await;
    other.open(&at(&world, "v/o+r+1/")).await;
    for page in [&browser, &other] {
        page.shows(SCREEN, "? for shortcuts").await;
    }
    browser.keys("seen by all").await;
    for page in [&browser, &other] {
        page.shows(SCREEN, "seen by all").await;
    }
    eventually("the terminal shows it", async || {
        own.run(&["capture-pane", "-p", "-t", "own"]).contains("seen by all").then_some(())
    })
    .await;
    own.run(&["send-keys", "-t", "own", "-l", " and back"]);
    for page in [&browser, &other] {
        page.shows(SCREEN, "seen by all and back").await;
    }
    browser.front(&list).await;
    for text in ["1 terminal", "1 browser typing", "1 browser watching"] {
        browser.shows("[data-slug] .facts", text).await;
    }
    browser.front(&typing).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_watches_cannot_type_paste_or_resize() {
    let Some((world, browser)) = world(&json!({})).await else { return };
    session(&world, 1).await;
    let size = || {
        world.tmux.run(&["display", "-p", "-t", "=loop/o+r+1:", "#{window_width}x#{window_height}"])
    };
    browser.open(&at(&world, "v/o+r+1/")).await;
    browser.shows(SCREEN, "? for shortcuts").await;
    let before = (pane(&world), size());
    assert_eq!(browser.value("document.querySelector('#keys')").await, Value::Null);
    browser.click("#frame").await;
    browser.keys("not for you\u{e007}").await;
    browser
        .js("const data = new DataTransfer(); data.setData('text/plain', 'nor this');
             const paste = new ClipboardEvent('paste', { clipboardData: data, bubbles: true });
             document.querySelector('.xterm-helper-textarea').dispatchEvent(paste);")
        .await;
    // Frames that no page of ours sends, then an event to know when they are through.
    browser
        .js(
            "const socket = new WebSocket(location.href.replace('http', 'ws') + 'ws', 'tty');
             socket.binaryType = 'arraybuffer';
             return new Promise((done) => {
               socket.onmessage = ({ data }) => {
                 if (typeof data === 'string') return;
                 for (const text of ['0by hand\\r', '1{\"columns\":20,\"rows\":5}', '{\"columns\":20,\"rows\":5}'])
                   socket.send(new TextEncoder().encode(text));
                 socket.onmessage = null;
                 setTimeout(done, 300);
               };
             });",
        )
        .await;
    browser
        .cdp(
            "Emulation.setDeviceMetricsOverride",
            &json!({ "width": 500, "height": 400, "deviceScaleFactor": 1, "mobile": false }),
        )
        .await;
    browser.until("document.querySelector('.xterm-screen').offsetWidth > innerWidth").await;
    assert_eq!((pane(&world), size()), before);
    assert_eq!(prompts(&world).len(), 1);
    let comment = payload::comment("o/r", 1, "alice", "It is still there.");
    assert_eq!(world.post("c-1", "issue_comment", &comment).await, 202);
    browser.shows(SCREEN, "It is still there.").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_pages_come_back_by_themselves_after_a_restart() {
    let Some((mut world, browser)) = world(&json!({})).await else { return };
    session(&world, 1).await;
    let port = at(&world, "").trim_end_matches('/').rsplit_once(':').unwrap().1.parse().unwrap();
    let list = browser.handle().await;
    browser.open(&at(&world, "")).await;
    browser.shows("#connection", "live").await;
    let terminal = browser.tab(&at(&world, "s/o+r+1/")).await;
    browser.shows(SCREEN, "? for shortcuts").await;
    browser.value("window.untouched = true").await;
    world.end(rustix::process::Signal::KILL);
    browser.shows("#connection", "reconnecting").await;
    configure(&world, &json!({}), port);
    world.start().await;
    browser.shows("#connection", "connected").await;
    browser.keys("after the restart").await;
    browser.shows(SCREEN, "after the restart").await;
    pane_shows(&world, "after the restart").await;
    assert_eq!(browser.value("window.untouched").await, true, "the page was not loaded anew");
    browser.front(&list).await;
    browser.shows("#connection", "live").await;
    session(&world, 2).await;
    browser.until("document.querySelector('[data-slug=\"o+r+2\"]') !== null").await;
    browser.front(&terminal).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_ended_says_how_and_shows_what_was() {
    let Some((world, browser)) = world(&json!({ "inline": true })).await else { return };
    session(&world, 1).await;
    browser.open(&at(&world, "s/o+r+1/")).await;
    browser.shows(SCREEN, "? for shortcuts").await;
    // Its program ends: the page that is open says so.
    let pid = world.tmux.run(&["display", "-p", "-t", "=loop/o+r+1:", "#{pane_pid}"]);
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    browser.shows("#ended", "signal").await;
    browser.shows("#connection", "ended").await;
    // Nothing is left of what it was before.
    for what in ["keys", "state", "facts"] {
        browser.until(&format!("document.getElementById('{what}').hidden")).await;
    }
    // The page that is opened now says it too, with what was shown.
    browser.open(&at(&world, "s/o+r+1/")).await;
    browser.shows("#ended", "The agent has ended: ").await;
    browser.shows(".history", "Please do it.").await;
    // The next event starts it again, and the page finds its terminal.
    let comment = payload::comment("o/r", 1, "alice", "Once more.");
    assert_eq!(world.post("c-1", "issue_comment", &comment).await, 202);
    browser.shows(SCREEN, "Once more.").await;
    world.run(&["sessions", "close", "1"]);
    browser.shows("#ended", "closed").await;
    browser.open(&at(&world, "v/o+r+1/")).await;
    browser.shows("#ended", "The session was closed.").await;
    browser.shows(".history", "Once more.").await;
    browser.open(&at(&world, "v/o+r+7/")).await;
    browser.shows("h1", "There is no such session").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn going_from_page_to_page_in_haste_harms_no_session() {
    let Some((world, browser)) = world(&json!({})).await else { return };
    session(&world, 1).await;
    let server = || world.tmux.run(&["display", "-p", "-t", "=loop/o+r+1:", "#{pid} #{pane_id}"]);
    let before = server();
    for round in 0..5 {
        for page in ["s/o+r+1/", "v/o+r+1/", "v/o+r+1/history", "s/o+r+1/"] {
            browser.open(&at(&world, page)).await;
        }
        assert_eq!(server(), before, "round {round}");
    }
    browser.shows(SCREEN, "? for shortcuts").await;
}
