//! Text that comes into a page by other ways than the keys, and a page whose
//! terminal cannot be shown.

use serde_json::json;

use crate::browser::Browser;
use crate::support::{World, eventually};
use crate::web_client::ttyd_path;
use crate::web_pages::{SCREEN, at, prompts, session, world};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_pasted_is_text_whatever_was_copied() {
    let Some((world, browser)) = world(&json!({})).await else { return };
    session(&world, 1).await;
    browser.open(&at(&world, "s/o+r+1/")).await;
    browser.shows(SCREEN, "? for shortcuts").await;
    // The end of a paste, then what would be keys.
    browser
        .js("const data = new DataTransfer();
             data.setData('text/plain', 'one\\x1b[201~\\u009b201~two\\x03\\nthree\\ttabs');
             const options = { clipboardData: data, bubbles: true, cancelable: true };
             const paste = new ClipboardEvent('paste', options);
             document.querySelector('.xterm-helper-textarea').dispatchEvent(paste);")
        .await;
    browser.shows(SCREEN, "three").await;
    assert_eq!(prompts(&world).len(), 1, "it was submitted");
    browser.keys("\u{e007}").await;
    eventually("the agent took it", async || {
        // The fake makes spaces of a tab.
        let text = "one[201~201~two\nthree    tabs";
        prompts(&world).iter().any(|prompt| prompt == text).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_that_comes_without_keys_is_typed_once() {
    let Some((world, browser)) = world(&json!({})).await else { return };
    session(&world, 1).await;
    browser.open(&at(&world, "s/o+r+1/")).await;
    browser.shows(SCREEN, "? for shortcuts").await;
    // As from a picker of emoji or from dictation; then keys, which are typed once too.
    for text in ["😀", "漢字 ", "dictated "] {
        browser.cdp("Input.insertText", &json!({ "text": text })).await;
    }
    browser.keys("typed\u{e007}").await;
    eventually("the agent took it", async || {
        // The fake takes what is typed byte by byte.
        let text: String = "😀漢字 dictated typed".bytes().map(char::from).collect();
        prompts(&world).contains(&text).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_that_cannot_be_shown_says_why_and_comes_back() {
    let Some(browser) = Browser::start().await else { return };
    let mut world = World::new("");
    let ttyd = world.home.join("ttyd");
    std::fs::copy(ttyd_path(), &ttyd).unwrap();
    world.configure(
        "defaultHarness: demo\nwebTerminal:\n  enabled: true\n  port: 0",
        &format!("  ttyd:\n    path: {}\n", ttyd.display()),
    );
    world.start().await;
    session(&world, 1).await;
    std::fs::rename(&ttyd, world.home.join("away")).unwrap();
    browser.open(&at(&world, "s/o+r+1/")).await;
    browser.shows("#connection", "cannot be shown now").await;
    browser.shows("#connection", "`the-loop doctor --only ttyd`").await;
    std::fs::rename(world.home.join("away"), &ttyd).unwrap();
    browser.shows("#connection", "connected").await;
    browser.shows(SCREEN, "demo").await;
    let said = world.receiver_log();
    assert_eq!(said.matches("a terminal was not opened").count(), 1, "{said}");
}
