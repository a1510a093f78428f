//! What comes from elsewhere, in a real Chromium: pages of other origins get
//! nothing, texts of others are text, and our pages ask nobody else.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::browser::Browser;
use crate::support::{eventually, payload};
use crate::web_client::Web;
use crate::web_pages::{SCREEN, at, pane, world};

/// Serves an empty page on a port of its own until the test ends.
async fn other_origin() -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            // A browser also opens connections that it may need later, and says nothing
            // on them.
            tokio::spawn(async move {
                let mut buffer = vec![0; 4096];
                let _ = stream.read(&mut buffer).await;
                let page = "<!doctype html><title>other</title>";
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\
                     connection: close\r\n\r\n{page}",
                    page.len()
                );
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_origin_gets_nothing() {
    let rebound = "--host-resolver-rules=MAP rebound.example 127.0.0.1";
    let Some(browser) = Browser::start_with(&[rebound]).await else { return };
    let web = Web::start().await;
    let (_, file) = web.recorder("o/r#1").await;
    let port = other_origin().await;
    for place in [format!("127.0.0.1:{port}"), format!("localhost:{port}")] {
        browser.open(&format!("http://{place}/")).await;
        let host = &web.host;
        let got = browser
            .js(&format!(
                "const socket = (path) => new Promise((done) => {{
                   const one = new WebSocket('ws://{host}' + path, 'tty');
                   one.onopen = () => {{
                     one.send(new TextEncoder().encode('0by a stranger'));
                     done('opened');
                   }};
                   one.onerror = () => done('refused');
                 }});
                 const text = (path, init) => fetch('http://{host}' + path, init)
                   .then((answer) => answer.type === 'opaque' ? 'refused' : answer.text())
                   .catch(() => 'refused');
                 const stream = new Promise((done) => {{
                   const one = new EventSource('http://{host}/events');
                   one.onopen = () => done('opened');
                   one.onerror = () => done('refused');
                 }});
                 const script = new Promise((done) => {{
                   const one = document.createElement('script');
                   one.src = 'http://{host}/events';
                   one.onload = () => done('loaded');
                   one.onerror = () => done('refused');
                   document.head.append(one);
                 }});
                 return Promise.all([
                   socket('/s/o+r+1/ws'), socket('/v/o+r+1/ws'), text('/'), text('/events'),
                   text('/v/o+r+1/history'), text('/v/o+r+1/history', {{ mode: 'no-cors' }}),
                   text('/s/o+r+1/leave-mode', {{ method: 'POST' }}),
                   text('/s/o+r+1/leave-mode', {{ method: 'POST', mode: 'no-cors' }}),
                   stream, script,
                 ]);"
            ))
            .await;
        assert_eq!(got, json!(vec!["refused"; 10]), "{place}");
        // In a frame it is not shown either.
        browser
            .js(&format!(
                "return new Promise((done) => {{
                   const frame = document.createElement('iframe');
                   frame.onload = done;
                   frame.src = 'http://{host}/s/o+r+1/';
                   document.body.append(frame);
                 }});"
            ))
            .await;
    }
    // A name that leads here, and is none of ours.
    let port = web.host.rsplit_once(':').unwrap().1;
    browser.open(&format!("http://rebound.example:{port}/")).await;
    let text = browser.text("body").await;
    assert!(text.contains("allowedHosts"), "{text}");
    // Nobody has looked, and nothing was typed.
    let sessions = web.world.sessions();
    assert_eq!(sessions, ["loop/o+r+1"], "{sessions:?}");
    assert_eq!(std::fs::read(file).unwrap(), b"");
}

/// What would show, run or load something, were it taken for markup; and what
/// turns the order of a line around.
const HOSTILE: &str = "<script>window.hit=1</script><img src=//evil.example/x onerror=window.hit=2>\
     \" onmouseover=\"window.hit=3\" ' & \u{202e}desrever\u{2066}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_wrote_is_text_on_every_page_and_nobody_else_is_asked() {
    let Some((world, browser)) = world(&json!({})).await else { return };
    let mut labeled = payload::labeled("o/r", 1, "alice");
    labeled["issue"]["title"] = Value::from(HOSTILE);
    labeled["issue"]["html_url"] = Value::from("javascript:window.hit=4");
    assert_eq!(world.post("s-1", "issues", &labeled).await, 202);
    world.reaches("s-1", "delivered").await;
    let typed = HOSTILE.replace(['\u{202e}', '\u{2066}'], "");
    world.tmux.run(&["send-keys", "-t", "=loop/o+r+1:", "-l", &typed]);
    eventually("it is in the pane", async || pane(&world).contains("window.hit=2").then_some(()))
        .await;
    let visible = "<script>window.hit=1</script>";
    browser.open(&at(&world, "")).await;
    browser.shows("[data-slug] .title", visible).await;
    browser.shows("[data-slug] .title", "\\u{202e}desrever\\u{2066}").await;
    browser.shows("[data-slug] .lines", visible).await;
    let inert = async |page: &str| {
        let found = browser
            .value(
                "({ hit: window.hit ?? null, made: document.querySelectorAll('img, iframe, [onerror], [onmouseover]').length,
                    links: [...document.links].map((link) => link.protocol).filter((it) => !/^https?:$/.test(it)) })",
            )
            .await;
        assert_eq!(found, json!({ "hit": null, "made": 0, "links": [] }), "{page}");
    };
    inert("the list").await;
    for page in ["s/o+r+1/", "v/o+r+1/"] {
        browser.open(&at(&world, page)).await;
        browser.shows("h1", visible).await;
        browser.shows(SCREEN, visible).await;
        inert(page).await;
    }
    browser.open(&at(&world, "v/o+r+1/history")).await;
    browser.shows("h1", visible).await;
    browser.shows(".history", visible).await;
    inert("the history").await;
    let (host, requests) = (Web::host(&world), browser.requests().await);
    assert!(requests.len() > 20, "{requests:?}");
    for url in requests {
        let (scheme, rest) = url.split_once(':').unwrap();
        // Of its own making: what it begins with.
        assert!(scheme == "data" || rest.starts_with(&format!("//{host}/")), "{url} was asked for");
    }
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}
