//! What the tests of the web terminal share: a receiver with it, sessions whose
//! agent is a recorder, and a browser's side of HTTP and WebSocket, made by hand
//! so that it can do what no browser does.

use std::path::{Path, PathBuf};
use std::time::Duration;

use the_loop::base::dirs::Dirs;
use the_loop::base::ids::WorkItem;
use the_loop::core::config::{Config, HarnessName, RunnerKind, Tools};
use the_loop::core::session::{RecordedItem, SessionRecord, SessionStatus};
use the_loop::doctor::{self, ToolId};
use the_loop::host::tmux::{NewSession, Pane, Server, Tmux};
use the_loop::state::paths::StatePaths;
use the_loop::state::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{World, env, eventually, tmux_path};

/// How long a frame may take to come.
const SOON: Duration = Duration::from_secs(10);

/// A receiver with its web terminal, on a free port.
pub struct Web {
    pub world: World,
    pub tmux: Tmux,
    /// `127.0.0.1:PORT`
    pub host: String,
    pub registry: Registry,
}

pub fn ttyd_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(".tools/ttyd")
}

/// A world that is configured for the web terminal, with more keys of it.
pub fn configured(keys: &str) -> World {
    let world = World::new("");
    let tools = format!("  ttyd:\n    path: {}\n", ttyd_path().display());
    let web = format!("defaultHarness: demo\nwebTerminal:\n  enabled: true\n  port: 0\n{keys}");
    world.configure(&web, &tools);
    world
}

impl Web {
    pub async fn start() -> Self {
        Self::of(configured("")).await
    }

    /// Starts the receiver of a world.
    pub async fn of(mut world: World) -> Self {
        world.start().await;
        let host = Self::host(&world);
        let (mut web, _) = Self::around(world).await;
        web.host = host;
        web
    }

    /// The same without a receiver, and where its state would be.
    pub async fn around(world: World) -> (Self, StatePaths) {
        let env = env(&world.home);
        // What the program finds by its `HOME`.
        let state = world.home.join(".local/state/the-loop");
        let dirs = Dirs { config: state.clone(), data: state.clone(), state };
        let mut tools = Tools::default();
        tools.tmux.path = Some(tmux_path());
        let tool = doctor::find(ToolId::Tmux, &env, &dirs, &tools).await.unwrap();
        let config = world.config().canonicalize().unwrap();
        let paths = StatePaths::new(&config, &Config::default(), &dirs);
        let server = Server::Socket(world.tmux.socket.clone());
        let tmux = Tmux::new(tool, server, paths.instance());
        let registry = Registry::of(&paths);
        (Self { world, tmux, host: String::new(), registry }, paths)
    }

    /// The host and port that the receiver says.
    pub fn host(world: &World) -> String {
        let (_, out, _) = world.run(&["gh-webhook", "status", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&out).unwrap();
        let url = status["webUrl"].as_str().unwrap_or_default();
        url.trim_start_matches("http://").trim_end_matches('/').to_owned()
    }

    /// A session whose agent runs a shell's script.
    pub async fn session(&self, reference: &str, script: &str) -> Pane {
        let item: WorkItem = reference.parse().unwrap();
        let recorded = RecordedItem { reference: item.clone(), title: None, url: None };
        let mut record = SessionRecord::new(
            recorded,
            HarnessName::Demo,
            "c-1".parse().unwrap(),
            self.world.project.clone(),
            RunnerKind::Tmux,
            "2026-01-01T00:00:00Z".parse().unwrap(),
        );
        record.status = SessionStatus::Active;
        self.registry.save(&record).unwrap();
        let new = NewSession {
            name: &item.slug().tmux_name(),
            item: &item,
            conversation: "c-1",
            size: (100, 30),
            cwd: &self.world.project,
            command: ["/bin/sh", "-c", script].map(Into::into).to_vec(),
        };
        self.tmux.new_session(&new).await.unwrap()
    }

    /// A session whose agent writes every byte that it reads to a file, and to its
    /// screen.
    pub async fn recorder(&self, reference: &str) -> (Pane, PathBuf) {
        let slug = reference.parse::<WorkItem>().unwrap().slug();
        let file = self.world.home.join(slug.as_str());
        let script = format!("stty raw -echo; printf ready; exec tee '{}'", file.display());
        let pane = self.session(reference, &script).await;
        eventually("the recorder is ready", async || {
            self.tmux.look(&pane).await.unwrap().screen.contains("ready").then_some(())
        })
        .await;
        (pane, file)
    }

    /// A terminal, as a page of ours opens it.
    pub async fn terminal(&self, path: &str) -> Terminal {
        let origin = format!("http://{}", self.host);
        let head = [("Origin", origin.as_str()), ("Sec-WebSocket-Protocol", "tty")];
        Terminal::open(&self.host, path, &head).await.expect("a terminal")
    }

    /// Asks for a path; the whole answer.
    pub async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> String {
        ask(&self.host, method, path, headers).await
    }

    /// The size of a pane's window.
    pub fn size(&self, pane: &Pane) -> String {
        let format = "#{window_width}x#{window_height}";
        let out = self.world.tmux.run(&["display-message", "-p", "-t", &pane.pane_id, format]);
        out.trim().to_owned()
    }

    /// The processes that run with this receiver's state: ttyds, their keepers, and
    /// the clients of tmux.
    pub fn processes(&self) -> Vec<String> {
        let mark = self.world.home.display().to_string();
        let socket = format!("-S {}", self.world.tmux.socket.display());
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Ok(line) = std::fs::read(entry.path().join("cmdline")) else { continue };
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let is_ttyd = line.contains("ttyd") && line.contains(&mark);
            let is_keeper = line.trim_end().ends_with("the-loop keep")
                && std::fs::read(entry.path().join("environ"))
                    .is_ok_and(|env| String::from_utf8_lossy(&env).contains(&mark));
            let is_client = line.contains(&socket) && line.contains("attach-session");
            if is_ttyd || is_keeper || is_client {
                found.push(format!("{} {line}", entry.file_name().display()));
            }
        }
        found
    }
}

/// Asks for a path, by a connection of its own; the whole answer.
pub async fn ask(host: &str, method: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let mut stream = TcpStream::connect(host).await.unwrap();
    let line = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    stream.write_all(head(line, host, headers).as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(SOON, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// A request's head, with the host unless the headers have one.
fn head(first: String, host: &str, headers: &[(&str, &str)]) -> String {
    let has_host = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host"));
    let host = [("Host", host)];
    let all = host[usize::from(has_host)..].iter().chain(headers);
    all.fold(first, |head, (name, value)| head + name + ": " + value + "\r\n") + "\r\n"
}

/// The status of an answer.
pub fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_default()
}

/// A frame that came.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    Text(String),
    Binary(Vec<u8>),
    Ping,
    Close(u16),
}

/// The browser's side of a terminal.
pub struct Terminal {
    stream: TcpStream,
    /// What the terminal wrote until now.
    pub output: String,
    /// What the page was told until now.
    pub notices: Vec<serde_json::Value>,
    /// Whether it is a ttyd's own, which also sends titles and preferences.
    pub is_direct: bool,
}

impl Terminal {
    /// Opens a WebSocket; the answer when that is none.
    pub async fn open(host: &str, path: &str, headers: &[(&str, &str)]) -> Result<Self, String> {
        let mut stream = TcpStream::connect(host).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let line = format!(
            "GET {path} HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        );
        stream.write_all(head(line, host, headers).as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            match tokio::time::timeout(SOON, stream.read_u8()).await.unwrap() {
                Ok(byte) => answer.push(byte),
                Err(_) => break,
            }
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        if status(&answer) == 101 {
            Ok(Self { stream, output: String::new(), notices: Vec::new(), is_direct: false })
        } else {
            Err(answer)
        }
    }

    /// Sends a frame, masked with zeros. `false` when nobody takes it any more.
    pub async fn frame(&mut self, opcode: u8, payload: &[u8]) -> bool {
        self.raw(0x80 | opcode, payload.len() as u64, payload).await
    }

    /// Sends a frame whose head says a length of its own.
    pub async fn raw(&mut self, first: u8, length: u64, payload: &[u8]) -> bool {
        let mut bytes = vec![first];
        match length {
            0..=125 => bytes.push(0x80 | u8::try_from(length).unwrap()),
            126..=0xffff => {
                bytes.push(0xfe);
                bytes.extend(u16::try_from(length).unwrap().to_be_bytes());
            }
            _ => {
                bytes.push(0xff);
                bytes.extend(length.to_be_bytes());
            }
        }
        bytes.extend([0; 4]);
        bytes.extend(payload);
        self.stream.write_all(&bytes).await.is_ok()
    }

    /// Types.
    pub async fn types(&mut self, keys: &[u8]) {
        assert!(self.frame(2, &[b"0", keys].concat()).await, "the terminal has ended");
    }

    /// The next frame; nothing when the connection has ended.
    pub async fn next(&mut self) -> Option<Frame> {
        let work = async {
            let head = self.stream.read_u16().await?;
            let length = match head & 0x7f {
                126 => u64::from(self.stream.read_u16().await?),
                127 => self.stream.read_u64().await?,
                length => u64::from(length),
            };
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            self.stream.read_exact(&mut payload).await?;
            std::io::Result::Ok(match (head >> 8) & 0x0f {
                1 => Frame::Text(String::from_utf8(payload).unwrap()),
                2 => Frame::Binary(payload),
                8 => Frame::Close(u16::from_be_bytes([payload[0], payload[1]])),
                _ => Frame::Ping,
            })
        };
        let frame = tokio::time::timeout(SOON, work)
            .await
            .unwrap_or_else(|_| {
                panic!("no frame in time, after {:?} {:?}", self.notices, self.output)
            })
            .ok()?;
        match &frame {
            Frame::Text(text) => self.notices.push(serde_json::from_str(text).unwrap()),
            Frame::Binary(data) => {
                let is_output = data[0] == b'0';
                assert!(is_output || self.is_direct, "only output is passed on");
                self.output += &String::from_utf8_lossy(&data[1..]);
            }
            Frame::Ping | Frame::Close(_) => {}
        }
        Some(frame)
    }

    /// Waits until the terminal has written a text.
    pub async fn shows(&mut self, text: &str) {
        while !self.output.contains(text) {
            let frame = self.next().await;
            let is_open = !matches!(frame, None | Some(Frame::Close(_)));
            assert!(is_open, "ended before `{text}`: {:?} {:?}", self.notices, self.output);
        }
    }

    /// Waits until the page was told what `is_it` finds.
    pub async fn is_told(
        &mut self,
        what: &str,
        is_it: impl Fn(&serde_json::Value) -> bool,
    ) -> serde_json::Value {
        loop {
            if let Some(notice) = self.notices.iter().rev().find(|notice| is_it(notice)) {
                return notice.clone();
            }
            let frame = self.next().await;
            assert!(frame.is_some(), "ended before it was told {what}: {:?}", self.notices);
        }
    }

    /// Reads until the connection has ended; the code of the close frame.
    pub async fn ends(&mut self) -> Option<u16> {
        let mut code = None;
        while let Some(frame) = self.next().await {
            if let Frame::Close(closed) = frame {
                code = Some(closed);
                self.frame(8, &closed.to_be_bytes()).await;
            }
        }
        code
    }
}

/// What a recorder's file holds, when it holds so much.
pub async fn content(file: &Path, bytes: usize) -> Vec<u8> {
    eventually("the bytes arrive", async || {
        std::fs::read(file).ok().filter(|content| content.len() >= bytes)
    })
    .await
}
