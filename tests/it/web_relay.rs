//! The web terminal's relay, with a real ttyd and a real tmux behind it and a
//! client made by hand before it.

use crate::web_client::{Web, content};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_typed_reaches_the_agent_and_what_it_shows_the_browser() {
    let web = Web::start().await;
    let (_, file) = web.recorder("o/r#1").await;
    let mut terminal = web.terminal("/s/o+r+1/ws").await;
    terminal.shows("ready").await;
    assert_eq!(terminal.notices[0]["kind"], "size");
    assert_eq!(terminal.notices[0]["columns"], 100);
    assert_eq!(terminal.notices[1]["inMode"], false);
    terminal.types("hello ✓".as_bytes()).await;
    terminal.shows("hello ✓").await;
    assert_eq!(content(&file, 9).await, "hello ✓".as_bytes());
}
