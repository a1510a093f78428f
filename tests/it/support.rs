//! What the tests share: private tmux servers that end with their test.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use the_loop::base::env::Env;

/// A directory with a short path, so that a socket in it fits.
pub fn short_dir() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("tl").tempdir_in("/tmp").unwrap()
}

/// Surroundings that show nothing of the machine's user.
pub fn env(home: &Path) -> Env {
    Env::fixed(
        [
            ("HOME", home.as_os_str()),
            ("PATH", "/usr/local/bin:/usr/bin:/bin".as_ref()),
            ("LANG", "C.UTF-8".as_ref()),
            ("TERM", "xterm-256color".as_ref()),
            ("SHELL", "/bin/sh".as_ref()),
        ],
        home,
        env!("CARGO_BIN_EXE_the-loop"),
    )
}

/// The tmux that the tests use: the host's, or the one that
/// `THE_LOOP_TEST_TMUX` names.
pub fn tmux_path() -> PathBuf {
    if let Some(path) = std::env::var_os("THE_LOOP_TEST_TMUX") {
        return Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    }
    let path = std::env::var_os("PATH").unwrap();
    let found =
        std::env::split_paths(&path).map(|dir| dir.join("tmux")).find(|path| path.is_file());
    found.expect("the tests need tmux: run scripts/test")
}

/// A private tmux server's socket; the server ends when this is dropped.
pub struct TmuxServer {
    pub socket: PathBuf,
    pub dir: tempfile::TempDir,
}

impl TmuxServer {
    pub fn new() -> Self {
        let dir = short_dir();
        Self { socket: dir.path().join("t"), dir }
    }

    /// Runs a tmux command of the test's own on this server.
    pub fn run(&self, args: &[&str]) -> String {
        let output = std::process::Command::new(tmux_path())
            .args(["-u", "-f", "/dev/null", "-S"])
            .arg(&self.socket)
            .args(args)
            .env_remove("TMUX")
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for TmuxServer {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

/// What was said on standard error, with each failure on one line: where its lines are
/// broken depends on the length of the paths in it.
pub fn unbroken(err: &str) -> String {
    let mut out = String::new();
    let mut is_failure = false;
    for line in err.lines() {
        let text = line.trim_start();
        let goes_on = line.starts_with("  ") && !text.starts_with("caused by: ");
        if is_failure && goes_on && !text.starts_with('|') {
            out.truncate(out.trim_end().len());
            out.push(' ');
            out.push_str(text);
        } else {
            is_failure = line.starts_with("error: ") || text.starts_with("caused by: ");
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

/// Waits until `check` gives a value; panics with `what` after 20 seconds.
pub async fn eventually<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = check().await {
            return value;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "did not happen: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A project with a configuration, a private tmux server, and a receiver that
/// runs as a process of its own.
pub struct World {
    pub tmux: TmuxServer,
    pub home: PathBuf,
    pub project: PathBuf,
    /// What programs started here find on their `PATH`.
    pub path: String,
    receiver: Option<Receiver>,
}

struct Receiver {
    child: std::process::Child,
    url: String,
}

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

pub const SECRET: &str = "a secret of the tests";

impl World {
    /// A world whose configuration is the usual one with `changes` below
    /// `routing:`.
    pub fn new(changes: &str) -> Self {
        let tmux = TmuxServer::new();
        let home = tmux.dir.path().join("h");
        let project = home.join("project");
        std::fs::create_dir_all(project.join(".the-loop")).unwrap();
        let world = Self { tmux, home, project, path: PATH.to_owned(), receiver: None };
        world.configure(changes, "");
        world
    }

    /// Writes the configuration: `routing` goes below its key, `tools` too.
    pub fn configure(&self, routing: &str, tools: &str) {
        self.configure_runner("tmux", routing, tools);
    }

    /// Writes the configuration with this `routing.runner`.
    pub fn configure_runner(&self, runner: &str, routing: &str, tools: &str) {
        let socket = self.tmux.socket.display();
        let indented = routing.lines().flat_map(|line| ["  ", line, "\n"]).collect::<String>();
        let text = format!(
            "tools:\n  tmux:\n    path: {}\n{tools}routing:\n  runner: {runner}\n  spawnOnUnmatched: labeled\n  \
             autoExecuteLabel: go\n  authorizedUsers: [alice]\n{indented}  \
             tmux:\n    socket: {socket}\n    readyTimeoutSeconds: 20\n\
             webhooks:\n  ghWebhook:\n    port: 0\n",
            tmux_path().display()
        );
        std::fs::write(self.config(), text).unwrap();
    }

    pub fn config(&self) -> PathBuf {
        self.project.join(".the-loop/config.yaml")
    }

    /// A command line of the program in this world.
    pub fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_the-loop"));
        command
            .args(args)
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", &self.path)
            .env("LANG", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh")
            .env("COLUMNS", "80")
            .env("THE_LOOP_GH_WEBHOOK_SECRET", SECRET)
            .current_dir(&self.project)
            .stdin(std::process::Stdio::null());
        command
    }

    /// Runs the program to its end: exit code, standard output, standard error with
    /// each failure on one line.
    pub fn run(&self, args: &[&str]) -> (i32, String, String) {
        let output = self.command(args).output().unwrap();
        (
            output.status.code().unwrap_or(-1),
            String::from_utf8_lossy(&output.stdout).into_owned(),
            unbroken(&String::from_utf8_lossy(&output.stderr)),
        )
    }

    /// Starts the receiver and waits until it answers.
    pub async fn start(&mut self) {
        self.start_with(&[]).await;
    }

    /// The same with more variables.
    pub async fn start_with(&mut self, variables: &[(&str, &std::ffi::OsStr)]) {
        self.start_as(&["gh-webhook", "start"], variables).await;
    }

    /// The same, and every session in tmux is resumed.
    pub async fn start_resuming(&mut self) {
        self.start_as(&["gh-webhook", "start", "--resume-all"], &[]).await;
    }

    async fn start_as(&mut self, args: &[&str], variables: &[(&str, &std::ffi::OsStr)]) {
        let log = self.home.join("receiver.log");
        let mut child = self.spawn(args, variables);
        let pid = child.id();
        let url = eventually("the receiver answers", async || {
            let ended = child.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "the receiver ended: {}",
                std::fs::read_to_string(&log).unwrap_or_default()
            );
            let (_, out, _) = self.run(&["gh-webhook", "status", "--json"]);
            let status: serde_json::Value = serde_json::from_str(&out).ok()?;
            (status["pid"] == pid).then(|| status["url"].as_str().unwrap().to_owned())
        })
        .await;
        self.receiver = Some(Receiver { child, url });
    }

    fn spawn(&self, args: &[&str], variables: &[(&str, &std::ffi::OsStr)]) -> std::process::Child {
        let log = self.home.join("receiver.log");
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        self.command(args)
            .envs(variables.iter().copied())
            .stdout(std::process::Stdio::null())
            .stderr(file)
            .spawn()
            .unwrap()
    }

    /// Starts a receiver that may not come to answer.
    pub fn start_unanswered(&mut self, variables: &[(&str, &std::ffi::OsStr)]) {
        let child = self.spawn(&["gh-webhook", "start"], variables);
        self.receiver = Some(Receiver { child, url: String::new() });
    }

    /// Ends the receiver with a signal and waits until it is gone.
    pub fn end(&mut self, signal: rustix::process::Signal) -> std::process::ExitStatus {
        let mut receiver = self.receiver.take().unwrap();
        let pid = rustix::process::Pid::from_child(&receiver.child);
        rustix::process::kill_process(pid, signal).unwrap();
        receiver.child.wait().unwrap()
    }

    /// Waits for the end of a receiver that was asked to end.
    pub fn wait_for_end(&mut self) -> std::process::ExitStatus {
        self.receiver.take().unwrap().child.wait().unwrap()
    }

    /// What the receivers of this world said.
    pub fn receiver_log(&self) -> String {
        std::fs::read_to_string(self.home.join("receiver.log")).unwrap_or_default()
    }

    /// The address and the path that deliveries are posted to.
    pub fn url(&self) -> &str {
        &self.receiver.as_ref().unwrap().url
    }

    /// The receiver's process.
    pub fn pid(&self) -> u32 {
        self.receiver.as_ref().unwrap().child.id()
    }

    /// Posts a signed delivery and gives the status code.
    pub async fn post(&self, id: &str, event: &str, body: &serde_json::Value) -> u16 {
        post(self.url(), id, event, serde_json::to_vec(body).unwrap()).await
    }

    /// The prompts that a session's agent said it took, in order.
    pub fn taken(&self, slug: &str) -> Vec<String> {
        let dir = self.state_dir().join("spool").join(slug);
        let entries = the_loop::state::spool::read_after(&dir, None).unwrap_or_default();
        let prompts =
            entries.into_iter().filter(|entry| entry.raw["hook_event_name"] == "UserPromptSubmit");
        prompts.map(|entry| entry.raw["prompt"].as_str().unwrap().to_owned()).collect()
    }

    /// Each event that a session's agent said it took, in order: those that waited
    /// together came in one prompt.
    pub fn told(&self, slug: &str) -> Vec<String> {
        events(&self.taken(slug))
    }

    /// The directory that holds the inbox of this world.
    pub fn state_dir(&self) -> PathBuf {
        let root = self.home.join(".local/state/the-loop");
        let mut dirs = std::fs::read_dir(root).unwrap();
        dirs.next().unwrap().unwrap().path()
    }

    /// Waits until a delivery stands where it is expected to; gives its events.
    pub async fn reaches(&self, id: &str, state: &str) -> String {
        eventually(&format!("{id} is {state}"), async || {
            let (_, out, _) = self.run(&["events", id, "--json"]);
            let value: serde_json::Value = serde_json::from_str(&out).ok()?;
            (value["deliveries"][0]["state"] == state).then_some(out)
        })
        .await
    }

    /// The names of the live tmux sessions.
    pub fn sessions(&self) -> Vec<String> {
        let out = self.tmux.run(&["list-sessions", "-F", "#{session_name}"]);
        out.lines().map(str::to_owned).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(receiver) = &mut self.receiver {
            receiver.child.kill().unwrap();
            receiver.child.wait().unwrap();
        }
    }
}

/// The events in prompts: those that waited together came in one.
pub fn events(prompts: &[String]) -> Vec<String> {
    const BEGIN: &str = "[the-loop event ";
    let all = prompts.join("\n");
    all.split(BEGIN).skip(1).map(|event| format!("{BEGIN}{event}")).collect()
}

/// Letters and digits that nobody can pack: the same each time.
pub fn noise(length: usize) -> String {
    let mut seed = length as u64;
    let letters = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Six bits of it.
        let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        char::from(letters[usize::try_from(seed >> 58).unwrap()])
    });
    letters.take(length).collect()
}

/// The signature of a body under the tests' secret.
pub fn sign(body: &[u8]) -> String {
    use hmac::{KeyInit, Mac};
    let mut mac = hmac::Hmac::<sha2::Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(body);
    format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
}

/// Posts a signed body to a URL of loopback and gives the status code.
pub async fn post(url: &str, id: &str, event: &str, body: Vec<u8>) -> u16 {
    try_post(url, id, event, body).await.unwrap().expect("an answer")
}

/// The same to one that may end before it answers.
pub async fn try_post(
    url: &str,
    id: &str,
    event: &str,
    body: Vec<u8>,
) -> std::io::Result<Option<u16>> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let rest = url.strip_prefix("http://").unwrap();
    let (address, path) = rest.split_at(rest.find('/').unwrap());
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nx-github-event: {event}\r\n\
         x-github-delivery: {id}\r\nx-hub-signature-256: {}\r\n\r\n",
        body.len(),
        sign(&body)
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.split(' ').nth(1).and_then(|status| status.parse().ok()))
}

/// Deliveries as GitHub makes them, with no more in them than is needed.
pub mod payload {
    use serde_json::{Value, json};

    pub fn user(login: &str) -> Value {
        json!({ "login": login, "type": "User" })
    }

    fn repository(name: &str) -> Value {
        let (owner, repo) = name.split_once('/').unwrap();
        json!({
            "name": repo, "full_name": name, "owner": user(owner),
            "html_url": format!("https://github.com/{name}"),
        })
    }

    fn issue(repo: &str, number: u64, author: &str, labels: &[&str]) -> Value {
        let labels: Vec<_> = labels.iter().map(|name| json!({ "name": name })).collect();
        json!({
            "number": number, "title": format!("Issue {number}"), "body": "Please do it.",
            "html_url": format!("https://github.com/{repo}/issues/{number}"),
            "user": user(author), "labels": labels, "state": "open",
        })
    }

    /// `sender` puts the label `go` on an issue of alice's.
    pub fn labeled(repo: &str, number: u64, sender: &str) -> Value {
        json!({
            "action": "labeled", "label": { "name": "go" }, "sender": user(sender),
            "issue": issue(repo, number, "alice", &["go"]), "repository": repository(repo),
        })
    }

    /// `author` comments on an issue.
    pub fn comment(repo: &str, number: u64, author: &str, text: &str) -> Value {
        json!({
            "action": "created", "sender": user(author), "repository": repository(repo),
            "issue": issue(repo, number, "alice", &["go"]),
            "comment": {
                "id": 1, "user": user(author), "body": text,
                "html_url": format!("https://github.com/{repo}/issues/{number}#issuecomment-1"),
            },
        })
    }

    /// `sender` closes an issue.
    pub fn closed(repo: &str, number: u64, sender: &str) -> Value {
        json!({
            "action": "closed", "sender": user(sender), "repository": repository(repo),
            "issue": issue(repo, number, "alice", &["go"]),
        })
    }
}
