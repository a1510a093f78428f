//! The keys of a terminal's page in a real Chromium: a keyboard alone is enough,
//! a phone has the keys that its own has not, and none goes where it should not.

use std::path::Path;

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::support::eventually;
use crate::web_client::{Web, content};
use crate::web_pages::SCREEN;

const ENTER: &str = "\u{e007}";
const TAB: &str = "\u{e004}";
const SHIFT: char = '\u{e008}';
const CONTROL: char = '\u{e009}';
const F6: char = '\u{e036}';
const RIGHT: &str = "\u{e014}";

/// A browser before the page of a session whose agent records what it reads.
async fn recorder() -> Option<(Web, Browser, std::path::PathBuf)> {
    let browser = Browser::start().await?;
    let web = Web::start().await;
    let (_, file) = web.recorder("o/r#1").await;
    Some((web, browser, file))
}

async fn reads(file: &Path, bytes: &[u8]) {
    let read = content(file, bytes.len()).await;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(text(&read), text(bytes));
}

async fn focus(browser: &Browser) -> Value {
    let what = "const { activeElement: at } = document;
        return at.dataset.key ?? at.className.split(' ')[0] + (at.closest('header') ? 'in the header' : '');";
    browser.js(what).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keyboard_alone_reaches_everything_and_is_never_caught() {
    let Some((web, browser, file)) = recorder().await else { return };
    browser.open(&format!("http://{}/", web.host)).await;
    browser.shows("[data-slug] .lines", "ready").await;
    // The first stop is the session, and it leads to its terminal.
    browser.keys(TAB).await;
    browser.keys(ENTER).await;
    browser.until("location.pathname === '/s/o+r+1/'").await;
    browser.shows(SCREEN, "ready").await;
    assert_eq!(focus(&browser).await, "xterm-helper-textarea");
    // There the Tab key and the control key are the agent's.
    browser.keys("a\u{e004}").await;
    browser.chord(&[CONTROL], 'b').await;
    reads(&file, b"a\t\x02").await;
    assert_eq!(focus(&browser).await, "xterm-helper-textarea");
    // One key leaves it, also for who does not see the hint.
    browser.chord(&[SHIFT], F6).await;
    assert_eq!(focus(&browser).await, "escape");
    browser.keys(RIGHT).await;
    assert_eq!(focus(&browser).await, "tab");
    browser.keys(RIGHT).await;
    browser.keys(ENTER).await;
    reads(&file, b"a\t\x02\x1b[Z").await;
    assert_eq!(focus(&browser).await, "backtab", "who came by the keyboard stays");
    browser.chord(&[SHIFT], '\u{e004}').await;
    assert_eq!(focus(&browser).await, "xterm-helper-textarea");
    // Who watches has the Tab key for the page.
    browser.open(&format!("http://{}/v/o+r+1/", web.host)).await;
    browser.shows(SCREEN, "ready").await;
    for _ in 0..3 {
        browser.keys(TAB).await;
        assert!(focus(&browser).await.as_str().unwrap().ends_with("in the header"));
    }
    browser.keys(TAB).await;
    assert_eq!(browser.value("document.activeElement.id").await, "frame");
    assert_eq!(content(&file, 3).await.len(), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_phone_has_a_row_of_keys_and_a_terminal_that_can_be_read() {
    let Some((web, browser, file)) = recorder().await else { return };
    browser.be_a_phone(390, 700).await;
    browser.open(&format!("http://{}/s/o+r+1/", web.host)).await;
    browser.shows(SCREEN, "ready").await;
    let mut read = Vec::new();
    for (key, bytes) in [
        ("escape", "\x1b"),
        ("tab", "\t"),
        ("backtab", "\x1b[Z"),
        ("left", "\x1b[D"),
        ("up", "\x1b[A"),
        ("down", "\x1b[B"),
        ("right", "\x1b[C"),
        ("enter", "\r"),
    ] {
        browser.click(&format!("[data-key={key}]")).await;
        read.extend_from_slice(bytes.as_bytes());
        reads(&file, &read).await;
        assert_eq!(focus(&browser).await, "xterm-helper-textarea", "{key} closes the keyboard");
    }
    // The control key is for one key.
    browser.click("[data-key=control]").await;
    browser.until("document.querySelector('[data-key=control]').ariaPressed === 'true'").await;
    browser.keys("cc").await;
    read.extend_from_slice(b"\x03c");
    reads(&file, &read).await;
    // All keys are on the screen, the letters can be read, and only the terminal
    // scrolls sideways.
    let page = browser
        .js("const keys = [...document.querySelectorAll('#keys button')];
             const box = keys.map((key) => key.getBoundingClientRect());
             const frame = document.getElementById('frame');
             return {
               outside: box.filter((one) => one.left < 0 || one.right > innerWidth
                 || one.bottom > innerHeight).length,
               small: box.filter((one) => one.height < 40).length,
               page: document.documentElement.scrollWidth > innerWidth,
               frame: frame.scrollWidth > frame.clientWidth,
               cell: document.querySelector('.xterm-screen').offsetWidth / 100 > 5,
             };")
        .await;
    let wanted = json!({ "outside": 0, "small": 0, "page": false, "frame": true, "cell": true });
    assert_eq!(page, wanted);
    let size = web.world.tmux.run(&["display", "-p", "-t", "=loop/o+r+1:", "#{window_width}"]);
    assert_eq!(size.trim(), "100");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_wheel_scrolls_the_page_and_presses_no_key() {
    let Some((web, browser, file)) = recorder().await else { return };
    let window = json!({ "width": 900, "height": 300, "deviceScaleFactor": 1, "mobile": false });
    browser.cdp("Emulation.setDeviceMetricsOverride", &window).await;
    browser.open(&format!("http://{}/s/o+r+1/", web.host)).await;
    browser.shows(SCREEN, "ready").await;
    browser.js("document.getElementById('frame').scrollTo(0, 0)").await;
    browser.wheel("#frame", 120).await;
    browser.until("document.getElementById('frame').scrollTop > 0").await;
    browser.wheel("#frame", -120).await;
    browser.keys("x").await;
    reads(&file, b"x").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_types_can_end_the_mode_in_which_keys_are_dropped() {
    let Some((web, browser, file)) = recorder().await else { return };
    browser.open(&format!("http://{}/s/o+r+1/", web.host)).await;
    browser.shows(SCREEN, "ready").await;
    browser.until("document.getElementById('mode').hidden").await;
    web.world.tmux.run(&["copy-mode", "-t", "=loop/o+r+1:"]);
    browser.shows("#mode", "keys do not reach the agent").await;
    browser.keys("q").await;
    browser.click("#leave").await;
    browser.until("document.getElementById('mode').hidden").await;
    browser.keys("x").await;
    reads(&file, b"x").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_has_what_scrolled_away_with_its_colours() {
    let Some(browser) = Browser::start().await else { return };
    let web = Web::start().await;
    let script = "i=1; while [ $i -le 200 ]; do \
        printf '\\033[32mline %d\\033[0m of \\033[38;2;255;0;0m200\\033[0m\\n' $i; i=$((i+1)); done; \
        printf 'the end'; exec cat";
    web.session("o/r#1", script).await;
    eventually("all is shown", async || {
        let shown = web.world.tmux.run(&["capture-pane", "-p", "-t", "=loop/o+r+1:"]);
        shown.contains("the end").then_some(())
    })
    .await;
    browser.open(&format!("http://{}/v/o+r+1/history", web.host)).await;
    let shown = browser.text(".history").await;
    assert!(shown.starts_with("line 1 of 200\nline 2 of 200\n") && shown.ends_with("the end"));
    assert_eq!(shown.lines().count(), 201);
    let colours = "[...document.querySelectorAll('.history span')].slice(0, 2)
        .map((it) => getComputedStyle(it).color)";
    browser.prefer("dark").await;
    let dark = browser.value(colours).await;
    browser.prefer("light").await;
    let light = browser.value(colours).await;
    assert_ne!(dark, light);
    assert_eq!(dark[0], "rgb(140, 194, 107)");
    browser
        .until("scrollY > 0 && scrollY + innerHeight >= document.documentElement.scrollHeight - 1")
        .await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}
