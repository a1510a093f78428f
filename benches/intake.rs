//! What the receiver promises of its intake: durable, and yet near the rate of a
//! receiver that writes nothing (Debian's `webhook`, in Go); small in memory;
//! quiet when idle; quick to explain a delivery out of a million.
//! `cargo bench --bench intake`; `THE_LOOP_BENCH_BIN` names another program,
//! `THE_LOOP_BENCH_RUNS` and `THE_LOOP_BENCH_SECONDS` shorten it.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench measures from outside, and stops at the first surprise"
)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use the_loop::base::clock::Clock;
use the_loop::state::inbox::Inbox;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CONNECTIONS: usize = 16;
const BODY: usize = 8 << 10;
const SECRET: &str = "a secret of the bench";
const DELIVERIES: usize = 100_000;
const LOGGED: u32 = 1_000_000;

fn main() {
    // `cargo test` may build and start this too.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let loop_home = LoopHome::new(home.path());
    explain(&loop_home);
    intake(&loop_home, home.path());
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// The directories of a receiver, and its commands.
struct LoopHome {
    home: PathBuf,
}

impl LoopHome {
    fn new(home: &Path) -> Self {
        let config = "routing:\n  defaultHarness: demo\n  authorizedUsers: [alice]\n\
                      webhooks:\n  ghWebhook:\n    port: 0\nstate:\n  dir: state\n";
        std::fs::write(home.join("config.yaml"), config).unwrap();
        Self { home: home.to_owned() }
    }

    fn command(&self, args: &[&str]) -> Command {
        let program = std::env::var_os("THE_LOOP_BENCH_BIN")
            .unwrap_or_else(|| env!("CARGO_BIN_EXE_the-loop").into());
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("LANG", "C.UTF-8")
            .env("THE_LOOP_CONFIG", self.home.join("config.yaml"))
            .env("THE_LOOP_GH_WEBHOOK_SECRET", SECRET)
            .current_dir(&self.home)
            .stdin(Stdio::null());
        command
    }

    fn inbox(&self) -> PathBuf {
        self.home.join("state/inbox.db")
    }

    fn status(&self) -> serde_json::Value {
        let output = self.command(&["gh-webhook", "status", "--json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// Waits until everything that came in was routed.
    fn settle(&self) {
        while self.status()["deliveries"]["received"].as_u64().unwrap_or(0) > 0 {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// A server that ends with its bench.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One delivery in a log of a million, by its id, as a whole process.
fn explain(home: &LoopHome) {
    std::fs::create_dir_all(home.home.join("state")).unwrap();
    drop(Inbox::open(&home.inbox(), Clock::System).unwrap());
    let raw = rusqlite::Connection::open(home.inbox()).unwrap();
    raw.execute_batch(&format!(
        "PRAGMA synchronous = OFF;
         BEGIN;
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {LOGGED})
         INSERT INTO deliveries (seq, id, kind, event, received_at, state, reason, changed_at)
             SELECT i, 'million-' || i, 'github', 'issue_comment', i, 'ignored', 'not-armed', i
             FROM n;
         INSERT INTO steps (seq, step, at, state, reason)
             SELECT seq, 1, seq, 'received', 'stored' FROM deliveries;
         INSERT INTO steps (seq, step, at, state, reason)
             SELECT seq, 2, seq, 'ignored', 'not-armed' FROM deliveries;
         COMMIT;"
    ))
    .unwrap();
    drop(raw);
    let id = format!("million-{}", LOGGED / 2);
    let ask = |args: &[&str]| {
        let begin = Instant::now();
        let output = home.command(args).output().unwrap();
        let took = begin.elapsed();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        took
    };
    let mut by_id: Vec<_> = (0..21).map(|_| ask(&["events", &id])).collect();
    let mut nothing: Vec<_> = (0..21).map(|_| ask(&["--version"])).collect();
    println!(
        "`events ID` in a log of {LOGGED}: {:.1} ms as a process (`--version`: {:.1} ms), limit 20 ms",
        median(&mut by_id).as_secs_f64() * 1000.0,
        median(&mut nothing).as_secs_f64() * 1000.0,
    );
    std::fs::remove_dir_all(home.home.join("state")).unwrap();
}

fn intake(home: &LoopHome, dir: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let own = Server(
        home.command(&["gh-webhook", "start"])
            .stderr(std::fs::File::create(dir.join("log")).unwrap())
            .spawn()
            .unwrap(),
    );
    let pid = own.0.id();
    let url = loop {
        let status = home.status();
        if status["pid"] == pid {
            break status["url"].as_str().unwrap().to_owned();
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let other = start_webhook(dir);
    let body = body();
    let seconds = Duration::from_secs(number("THE_LOOP_BENCH_SECONDS", 5));
    let mut sent = 0;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for run in 0..number("THE_LOOP_BENCH_RUNS", 5) {
        let result = runtime.block_on(load(&url, &body, &format!("r{run}"), seconds, usize::MAX));
        result.print("the-loop");
        sent += result.count();
        ours.push(result);
        home.settle();
        if let Some((_, url)) = &other {
            let result = runtime.block_on(load(url, &body, "w", seconds, usize::MAX));
            result.print("webhook");
            theirs.push(result);
        }
    }
    let (rate, p99) = (Load::median_rate(&ours), Load::median_p99(&ours));
    if theirs.is_empty() {
        println!("the-loop: {rate:.0} a second, p99 {p99:.1?}; webhook is not installed");
    } else {
        let (their_rate, their_p99) = (Load::median_rate(&theirs), Load::median_p99(&theirs));
        println!(
            "medians: {rate:.0} against {their_rate:.0} a second, ratio {:.2} (at least 0.7); \
             p99 {p99:.1?} against {their_p99:.1?}, ratio {:.2} (at most 1.5)",
            rate / their_rate,
            p99.as_secs_f64() / their_p99.as_secs_f64(),
        );
    }
    drop(other);
    if sent < DELIVERIES {
        let more = DELIVERIES - sent;
        sent += runtime.block_on(load(&url, &body, "m", Duration::MAX, more)).count();
    }
    home.settle();
    println!("{} MB resident after {sent} deliveries, limit 40 MB", resident(pid) / 1024);
    let before = switches(pid);
    let begin = Instant::now();
    std::thread::sleep(Duration::from_secs(10));
    let per_second = count(switches(pid) - before) / begin.elapsed().as_secs_f64();
    println!("{per_second:.2} wake-ups a second when idle, limit 1");
}

/// Debian's receiver, with a rule that never runs a program.
fn start_webhook(dir: &Path) -> Option<(Server, String)> {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let hooks = serde_json::json!([{
        "id": "bench",
        "execute-command": "/bin/false",
        "trigger-rule": { "and": [
            { "match": {
                "type": "payload-hmac-sha256", "secret": SECRET,
                "parameter": { "source": "header", "name": "X-Hub-Signature-256" },
            } },
            { "match": {
                "type": "value", "value": "never",
                "parameter": { "source": "payload", "name": "action" },
            } },
        ] },
    }]);
    let file = dir.join("hooks.json");
    std::fs::write(&file, hooks.to_string()).unwrap();
    let port = port.to_string();
    let child = Command::new("webhook")
        .args(["-ip", "127.0.0.1", "-port", &port, "-hooks"])
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let server = Server(child);
    while std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
    Some((server, format!("http://127.0.0.1:{port}/hooks/bench")))
}

/// A comment as GitHub posts it, of somebody who is not listed, on an issue that
/// nobody is assigned to. It is filled up to its size with words of no pattern: what
/// repeats itself would flatter whoever packs it.
fn body() -> Vec<u8> {
    let recorded = include_bytes!("../tests/fixtures/github/issue_comment.created.json");
    let mut body: serde_json::Value = serde_json::from_slice(recorded).unwrap();
    body["issue"]["milestone"] = serde_json::Value::Null;
    body["issue"]["assignee"] = serde_json::Value::Null;
    body["issue"]["assignees"] = serde_json::json!([]);
    // Addresses that say the same again and again go, so that it has its size.
    let repository = body["repository"].as_object_mut().unwrap();
    repository.retain(|key, _| key == "html_url" || !key.ends_with("_url"));
    body["comment"]["body"] = "".into();
    let missing = BODY - body.to_string().len();
    let mut seed = 1_u64;
    let mut words = String::new();
    while words.len() < missing {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let letter = b'a' + u8::try_from(seed >> 59).unwrap();
        words.push(if letter.is_ascii_lowercase() { letter.into() } else { ' ' });
    }
    body["comment"]["body"] = words.into();
    let bytes = body.to_string().into_bytes();
    assert_eq!(bytes.len(), BODY);
    bytes
}

/// As a number that can be divided.
fn count(number: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap())
}

/// What came of one load.
struct Load {
    latencies: Vec<Duration>,
    took: Duration,
    /// How much of a processor the client itself used.
    client: f64,
}

impl Load {
    fn count(&self) -> usize {
        self.latencies.len()
    }

    fn rate(&self) -> f64 {
        count(self.latencies.len() as u64) / self.took.as_secs_f64()
    }

    /// Latencies are sorted.
    fn p99(&self) -> Duration {
        self.latencies[self.latencies.len() * 99 / 100]
    }

    fn print(&self, name: &str) {
        println!(
            "  {name}: {:.0} a second, p50 {:.1?}, p99 {:.1?} (client: {:.0} % of a processor)",
            self.rate(),
            self.latencies[self.latencies.len() / 2],
            self.p99(),
            self.client * 100.0
        );
    }

    fn median_rate(loads: &[Self]) -> f64 {
        let mut rates: Vec<f64> = loads.iter().map(Self::rate).collect();
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    }

    fn median_p99(loads: &[Self]) -> Duration {
        median(&mut loads.iter().map(Self::p99).collect::<Vec<_>>())
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Posts on all connections, each one delivery after the other, for so long and
/// no more than so many. Everything but the id is made before.
async fn load(url: &str, body: &[u8], name: &str, time: Duration, most: usize) -> Load {
    let rest = url.strip_prefix("http://").unwrap();
    let (address, path) = rest.split_at(rest.find('/').unwrap());
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(body);
    let signature = hex::encode(mac.finalize().into_bytes());
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nx-github-event: issue_comment\r\n\
         x-hub-signature-256: sha256={signature}\r\nx-github-delivery: ",
        body.len()
    );
    let (begin, used) = (Instant::now(), processor_time());
    let tasks = (0..CONNECTIONS).map(|connection| {
        let (address, head) = (address.to_owned(), head.clone());
        let (body, name) = (body.to_vec(), format!("{name}-{connection}-"));
        let most = most / CONNECTIONS + usize::from(connection < most % CONNECTIONS);
        tokio::spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let mut latencies = Vec::new();
            let mut request = Vec::with_capacity(head.len() + body.len() + 64);
            let mut answer = vec![0; 4096];
            while latencies.len() < most && begin.elapsed() < time {
                request.clear();
                request.extend_from_slice(head.as_bytes());
                request.extend_from_slice(format!("{name}{}\r\n\r\n", latencies.len()).as_bytes());
                request.extend_from_slice(&body);
                let sent = Instant::now();
                stream.write_all(&request).await.unwrap();
                read_answer(&mut stream, &mut answer).await;
                latencies.push(sent.elapsed());
            }
            latencies
        })
    });
    let mut latencies = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        latencies.extend(task.await.unwrap());
    }
    let took = begin.elapsed();
    let client = processor_time().saturating_sub(used).as_secs_f64() / took.as_secs_f64();
    latencies.sort_unstable();
    Load { latencies, took, client }
}

/// Reads one answer to its end; it is a 2xx.
async fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) {
    let mut have = 0;
    loop {
        let read = stream.read(&mut buffer[have..]).await.unwrap();
        assert!(read > 0, "the connection was closed");
        have += read;
        let Some(end) = buffer[..have].windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let head = std::str::from_utf8(&buffer[..end]).unwrap();
        assert!(head.starts_with("HTTP/1.1 2"), "{head}");
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
        });
        if have >= end + 4 + length.unwrap_or(0_usize) {
            return;
        }
    }
}

/// What this process used of the processors.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

/// Kilobytes of memory.
fn resident(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// How often the threads of a process have gone to sleep.
fn switches(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks
        .map(|task| {
            let text = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            let line = text.lines().find(|line| line.starts_with("voluntary_ctxt_switches:"));
            line.unwrap().split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
        })
        .sum()
}
