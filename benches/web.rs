//! What the web terminal's relay costs: the time from a key to its echo, and bulk
//! output, against the same ttyd without it; and the memory of each viewer.
//! `cargo bench --bench web`. It needs the tmux and the ttyd of the tests.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    dead_code,
    unreachable_pub,
    reason = "a bench measures from outside with what the tests share, and stops at the first surprise"
)]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::{eventually, tmux_path};
use web_client::{Terminal, Web, ttyd_path};

#[path = "../tests/it/support.rs"]
mod support;
#[path = "../tests/it/web_client.rs"]
mod web_client;

/// With the four that mark a round they are half a line.
const KEYS: usize = 46;
const ROUNDS: usize = 40;
const FLOODS: usize = 5;
const LINES: &str = "200000";
const VIEWERS: u64 = 50;

fn main() {
    // `cargo test` may build and start this too.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    let web = Web::start().await;
    let (_, file) = web.recorder("o/r#1").await;
    let script = format!("while read x; do seq 1 {LINES}; echo the end $x; done");
    web.session("o/r#2", &script).await;
    let mut direct = Direct::start(&web, "loop/o+r+1");
    let mut bulky = Direct::start(&web, "loop/o+r+2");
    // One at a time: tmux writes for all who look.
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let mut relayed = web.terminal("/s/o+r+1/ws").await;
        with.extend(echoes(&mut relayed, &format!("Q{round:03}")).await);
        drop(relayed);
        let mut straight = direct.terminal().await;
        without.extend(echoes(&mut straight, &format!("W{round:03}")).await);
    }
    assert_eq!(std::fs::read(file).unwrap().len(), 2 * ROUNDS * (KEYS + 4));
    for (name, share, limit) in [("p50", 0.5, 1.3), ("p99", 0.99, 1.5)] {
        let (ours, theirs) = (quantile(&mut with, share), quantile(&mut without, share));
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        println!("key to echo {name}: {ours:?}, without {theirs:?}: {ratio:.2} (at most {limit})");
    }

    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..FLOODS {
        let mut relayed = web.terminal("/s/o+r+2/ws").await;
        ours.push(bulk(&mut relayed, &format!("a{round}")).await);
        drop(relayed);
        let mut straight = bulky.terminal().await;
        theirs.push(bulk(&mut straight, &format!("b{round}")).await);
    }
    let (ours, theirs) = (quantile(&mut ours, 0.5), quantile(&mut theirs, 0.5));
    let ratio = theirs.as_secs_f64() / ours.as_secs_f64();
    println!("{LINES} lines: {ours:?}, without {theirs:?}: {ratio:.2} (at least 0.8)");

    let mut first = web.terminal("/v/o+r+1/ws").await;
    // What was typed last.
    first.shows("xyzXYZxy").await;
    let before = resident(web.world.pid());
    let mut viewers = Vec::new();
    for _ in 0..VIEWERS {
        let mut viewer = web.terminal("/v/o+r+1/ws").await;
        viewer.shows("xyzXYZxy").await;
        viewers.push(viewer);
    }
    let each = resident(web.world.pid()).saturating_sub(before) / VIEWERS;
    println!("memory of each of {VIEWERS} viewers: {each} KiB (at most 64)");
    drop(viewers);
    eventually("they are gone", async || (web.processes().len() < 10).then_some(())).await;
}

/// The time of each key until it is on the screen, once the terminal is open and has
/// drawn it: `own` is on no screen before.
async fn echoes(terminal: &mut Terminal, own: &str) -> Vec<Duration> {
    let mut times = Vec::new();
    // Until the screen begins to come, a key has nowhere to go.
    terminal.shows("\u{1b}[H").await;
    terminal.types(own.as_bytes()).await;
    terminal.shows(own).await;
    for number in 0..KEYS {
        // Letters that are in no escape sequence of a redraw.
        let key = [b"xyzXYZ"[number % 6]];
        terminal.output.clear();
        let begin = Instant::now();
        terminal.types(&key).await;
        terminal.shows(std::str::from_utf8(&key).unwrap()).await;
        times.push(begin.elapsed());
        // A person is slower than the pace that is kept.
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
    times
}

/// The time until a lot of output has ended, once the terminal is open.
async fn bulk(terminal: &mut Terminal, word: &str) -> Duration {
    terminal.shows("\u{1b}[H").await;
    // The last words of the output before may still be on their way.
    tokio::time::sleep(Duration::from_millis(100)).await;
    terminal.output.clear();
    let begin = Instant::now();
    terminal.types(format!("{word}\r").as_bytes()).await;
    terminal.shows(&format!("the end {word}")).await;
    begin.elapsed()
}

fn quantile(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index of some thousand"
    )]
    let at = ((times.len() - 1) as f64 * share).round() as usize;
    times[at]
}

/// The memory of a process, in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A ttyd without a relay, on a port of loopback.
struct Direct {
    child: std::process::Child,
    host: String,
}

impl Drop for Direct {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Direct {
    fn start(web: &Web, session: &str) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(ttyd_path())
            .args(["-i", "127.0.0.1", "-p", &port.to_string(), "-W"])
            // As we start ours: the client here answers no ping.
            .args(["-P", "300", "--"])
            .arg(tmux_path())
            .args(["-u", "-S"])
            .arg(&web.world.tmux.socket)
            .args(["attach-session", "-f", "ignore-size", "-t", &format!("={session}")])
            .env_remove("TMUX")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, host: format!("127.0.0.1:{port}") }
    }

    async fn terminal(&mut self) -> Terminal {
        let host = self.host.as_str();
        eventually("ttyd listens", async || {
            tokio::net::TcpStream::connect(host).await.is_ok().then_some(())
        })
        .await;
        let head = [("Sec-WebSocket-Protocol", "tty")];
        let mut terminal = Terminal::open(host, "/ws", &head).await.ok().unwrap();
        terminal.is_direct = true;
        // With the line that a status line takes.
        terminal.frame(2, br#"{"AuthToken":"","columns":100,"rows":31}"#).await;
        terminal
    }
}
