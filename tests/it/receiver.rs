//! The receiver over real HTTP: what it answers, in which order it checks, and
//! that nobody can hold it up. Clients write raw bytes, as strangers do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tempfile::TempDir;
use the_loop::base::clock::Clock;
use the_loop::base::http::{self, Listener};
use the_loop::core::outcome::{Reason, State};
use the_loop::serve::receiver::{MAX_BODY, Receiver, Refusals, Secret};
use the_loop::state::inbox::{DeliveryKind, Inbox, Step};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const SECRET: &[u8] = b"It's a Secret to Everybody";
const BODY: &str = r#"{"action":"opened","emoji":"\ud83d\ude00 é"}"#;
const SOON: Duration = Duration::from_secs(20);

pub struct Server {
    dir: TempDir,
    pub inbox: Inbox,
    arrived: Arc<Notify>,
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Server {
    pub async fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), Duration::from_secs(30)).await
    }

    async fn start_in(dir: TempDir, body_timeout: Duration) -> Self {
        let inbox = Inbox::open(&dir.path().join("inbox.db"), Clock::System).unwrap();
        let arrived = Arc::new(Notify::new());
        let receiver = Receiver {
            inbox: inbox.clone(),
            secret: Some(Secret::new(SECRET, "the test").unwrap()),
            path: "/gh-webhook".to_owned(),
            arrived: Arc::clone(&arrived),
            refused: Arc::new(Refusals::new(Clock::System)),
        };
        let listener = http::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let app = receiver.router_with(body_timeout);
        let task = tokio::spawn(http::serve(Listener::Tcp(listener), app, stop.clone()));
        Self { dir, inbox, arrived, address, stop, task }
    }

    pub async fn stop(self) -> TempDir {
        self.stop.cancel();
        timeout(SOON, self.task).await.unwrap().unwrap();
        self.inbox.close();
        self.dir
    }

    pub async fn connect(&self) -> TcpStream {
        timeout(SOON, TcpStream::connect(self.address)).await.unwrap().unwrap()
    }

    /// Sends bytes and returns everything that comes back.
    async fn raw(&self, request: &[u8]) -> String {
        let mut stream = self.connect().await;
        // Whoever is refused early may not get to send everything.
        let _ = stream.write_all(request).await;
        answer(&mut stream).await
    }

    async fn send(&self, request: Request) -> u16 {
        status(&self.raw(&request.bytes()).await)
    }
}

pub async fn answer(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let _ = timeout(SOON, stream.read_to_end(&mut text)).await.expect("an answer in time");
    String::from_utf8_lossy(&text).into_owned()
}

fn status(answer: &str) -> u16 {
    answer
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .ok_or(answer)
        .expect("a status line")
}

pub fn sign(body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET).unwrap();
    mac.update(body);
    format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
}

/// A delivery as GitHub sends it, and what a test changes about it.
#[derive(Clone)]
pub struct Request {
    method: &'static str,
    path: &'static str,
    pub headers: Vec<(&'static str, Vec<u8>)>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn new(id: &str) -> Self {
        Self {
            method: "POST",
            path: "/gh-webhook",
            headers: vec![
                ("host", b"localhost".to_vec()),
                ("connection", b"close".to_vec()),
                ("content-type", b"application/json".to_vec()),
                ("x-github-event", b"issues".to_vec()),
                ("x-github-delivery", id.as_bytes().to_vec()),
            ],
            body: Vec::new(),
        }
        .body(BODY)
    }

    /// Another body, rightly signed.
    pub fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = body.as_ref().to_vec();
        let (length, signature) = (self.body.len().to_string(), sign(&self.body));
        self.with("content-length", length).with("x-hub-signature-256", signature)
    }

    pub fn with(mut self, name: &'static str, value: impl Into<Vec<u8>>) -> Self {
        self = self.without(name);
        self.headers.push((name, value.into()));
        self
    }

    pub fn twice(mut self, name: &'static str) -> Self {
        let header = self.headers.iter().find(|header| header.0 == name).unwrap().clone();
        self.headers.push(header);
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|header| header.0 != name);
        self
    }

    fn method(self, method: &'static str) -> Self {
        Self { method, ..self }
    }

    fn path(self, path: &'static str) -> Self {
        Self { path, ..self }
    }

    pub fn head(&self) -> Vec<u8> {
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, self.path).into_bytes();
        for (name, value) in &self.headers {
            bytes.extend_from_slice(format!("{name}: ").as_bytes());
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"\r\n");
        bytes
    }

    fn bytes(&self) -> Vec<u8> {
        [self.head(), self.body.clone()].concat()
    }
}

#[tokio::test]
async fn each_check_comes_before_the_next() {
    let server = Server::start().await;
    // Each request fails every check from its own on.
    let all_wrong = Request::new("x").body(vec![b'x'; MAX_BODY + 1]);
    let all_wrong = all_wrong.without("x-hub-signature-256").without("x-github-delivery");
    let small = |request: Request| Request { body: b"[]".to_vec(), ..request };
    let small = small(all_wrong.clone()).with("content-length", "2");
    let signed = small.clone().with("x-hub-signature-256", sign(b"[]"));
    let named = signed.clone().with("x-github-delivery", "x");
    let right = named.clone().body(BODY);
    for (code, request) in [
        (404, all_wrong.clone().path("/other").method("PUT")),
        (405, all_wrong.clone().method("PUT")),
        (413, all_wrong),
        (401, small),
        (400, signed.clone()),
        (400, signed.with("x-github-delivery", "x").without("x-github-event")),
        (400, named),
        (202, right.clone()),
        (200, right),
    ] {
        let text = String::from_utf8_lossy(&request.head()).into_owned();
        assert_eq!(server.send(request).await, code, "{text}");
    }
    server.stop().await;
}

#[tokio::test]
async fn what_it_answers_tells_nothing_of_the_inside() {
    let server = Server::start().await;
    let answer =
        server.raw(&Request::new("a").with("x-hub-signature-256", "sha256=0").bytes()).await;
    assert!(answer.ends_with("\r\n\r\nwrong signature\n"), "{answer}");
    assert!(!answer.to_lowercase().contains("server:"), "{answer}");
    let answer = server.raw(&Request::new("a").method("GET").bytes()).await;
    assert!(answer.to_lowercase().contains("\r\nallow: post\r\n"), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn any_garbage_signature_is_401() {
    let server = Server::start().await;
    let right = sign(BODY.as_bytes());
    let request = Request::new("a");
    for (name, request) in [
        ("none", request.clone().without("x-hub-signature-256")),
        ("empty", request.clone().with("x-hub-signature-256", "")),
        (
            "sha1 only",
            request.clone().without("x-hub-signature-256").with("x-hub-signature", "sha1=00"),
        ),
        ("short", request.clone().with("x-hub-signature-256", &right.as_bytes()[..70])),
        ("not ASCII", request.clone().with("x-hub-signature-256", b"sha256=\xff\xe9".to_vec())),
        ("two", request.clone().twice("x-hub-signature-256")),
        ("of another body", request.clone().with("x-hub-signature-256", sign(b"{}"))),
    ] {
        assert_eq!(server.send(request).await, 401, "{name}");
    }
    let upper = format!("sha256={}", right[7..].to_uppercase());
    assert_eq!(server.send(request.with("x-hub-signature-256", upper)).await, 202);
    server.stop().await;
}

#[tokio::test]
async fn a_body_is_one_json_object_or_a_form_that_holds_one() {
    let server = Server::start().await;
    let form = "application/x-www-form-urlencoded";
    for (code, content_type, body) in [
        (202, "application/json", b"{}".as_slice()),
        (202, "Application/JSON; charset=utf-8", b" {\"a\":\"\\ud83d\"}\n"),
        (202, form, b"payload=%7B%22a%22%3A+1%7D"),
        (400, "application/json", b""),
        (400, "application/json", b"[{}]"),
        (400, "application/json", b"{\"a\":\"\xff\"}"),
        (400, "application/json", b"\xef\xbb\xbf{}"),
        (400, "application/json", b"{\"a\":1"),
        (400, form, b"{}"),
        (400, form, b"payload=[]"),
        (400, "text/plain", b"{}"),
        (400, "", b"{}"),
    ] {
        let request = Request::new(&format!("d-{}", body.len() + content_type.len()));
        let request = request.body(body).with("content-type", content_type);
        assert_eq!(server.send(request).await, code, "{content_type} {}", body.escape_ascii());
    }
    let stored = server.inbox.to_route(10).unwrap();
    let bodies: Vec<_> = stored.iter().map(|d| d.body.escape_ascii().to_string()).collect();
    assert_eq!(bodies, ["{}", r#" {\"a\":\"\\ud83d\"}\n"#, r#"{\"a\": 1}"#]);
    assert!(stored.iter().all(|d| d.kind == DeliveryKind::Github && d.event == "issues"));
    server.stop().await;
}

#[tokio::test]
async fn names_that_are_no_names_are_400() {
    let server = Server::start().await;
    let request = Request::new("a");
    let long = "a".repeat(65);
    for (name, request) in [
        ("no id", request.clone().without("x-github-delivery")),
        ("two ids", request.clone().twice("x-github-delivery")),
        ("a path", request.clone().with("x-github-delivery", "../a")),
        ("a long id", request.clone().with("x-github-delivery", long)),
        ("no event", request.clone().without("x-github-event")),
        ("not an event", request.clone().with("x-github-event", "Issues; rm")),
        ("not ASCII", request.clone().with("x-github-event", b"issu\xe9s".to_vec())),
    ] {
        assert_eq!(server.send(request).await, 400, "{name}");
    }
    assert!(server.inbox.recent(1).unwrap().is_empty());
    server.stop().await;
}

#[tokio::test]
async fn the_largest_body_is_stored_and_one_byte_more_is_413() {
    let server = Server::start().await;
    let mut body = vec![b' '; MAX_BODY];
    body[0] = b'{';
    body[MAX_BODY - 1] = b'}';
    assert_eq!(server.send(Request::new("max").body(&body)).await, 202);
    assert_eq!(server.inbox.to_route(1).unwrap()[0].body.len(), MAX_BODY);
    body.push(b' ');
    assert_eq!(server.send(Request::new("more").body(&body)).await, 413);
    // Without a declared length, and with one that nobody would wait for.
    let chunked = Request::new("more").body(&body).without("content-length");
    let chunked = chunked.with("transfer-encoding", "chunked");
    let mut bytes = chunked.head();
    for chunk in body.chunks(1 << 20) {
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    assert_eq!(status(&server.raw(&bytes).await), 413);
    let huge = Request::new("more").with("content-length", "99999999999");
    assert_eq!(server.send(huge).await, 413);
    server.stop().await;
}

#[tokio::test]
async fn a_length_that_is_wrong_is_no_delivery() {
    let server = Server::start().await;
    for length in ["-1", "1x", "99999999999999999999999"] {
        assert_eq!(server.send(Request::new("a").with("content-length", length)).await, 400);
    }
    let mut stream = server.connect().await;
    let request = Request::new("a").with("content-length", "5000");
    stream.write_all(&request.bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let answer = answer(&mut stream).await;
    assert!(answer.is_empty() || status(&answer) == 400, "{answer}");
    assert!(server.inbox.recent(1).unwrap().is_empty());
    server.stop().await;
}

#[tokio::test]
async fn a_repeat_is_200_across_restarts_unless_it_failed() {
    let server = Server::start().await;
    for id in ["done", "failed"] {
        assert_eq!(server.send(Request::new(id)).await, 202);
        assert_eq!(server.send(Request::new(id)).await, 200);
    }
    let step = Step {
        delivery: "failed".parse().unwrap(),
        state: State::Failed,
        reason: Reason::StartFailed,
        detail: None,
        route: None,
    };
    server.inbox.record(vec![step]).await.unwrap();
    let dir = server.stop().await;

    let server = Server::start_in(dir, SOON).await;
    assert_eq!(server.send(Request::new("done")).await, 200);
    assert_eq!(server.send(Request::new("failed")).await, 202);
    assert_eq!(server.send(Request::new("failed")).await, 200);
    server.stop().await;
}

#[tokio::test]
async fn whoever_routes_is_told_of_what_is_new() {
    let server = Server::start().await;
    server.send(Request::new("a")).await;
    timeout(SOON, server.arrived.notified()).await.unwrap();
    server.send(Request::new("a")).await;
    assert!(timeout(Duration::from_millis(50), server.arrived.notified()).await.is_err());
    server.stop().await;
}

#[tokio::test]
async fn a_full_disk_is_503_until_there_is_room() {
    let server = Server::start().await;
    let health = || Request::new("a").path("/healthz").method("GET").body("");
    assert_eq!(server.send(health()).await, 200);
    server.inbox.limit_pages(1).await.unwrap();
    let large = Request::new("large").body(format!("{{{}}}", " ".repeat(1 << 20)));
    assert_eq!(server.send(large.clone()).await, 503);
    assert_eq!(server.send(health()).await, 503);
    server.inbox.limit_pages(1 << 20).await.unwrap();
    assert_eq!(server.send(health()).await, 200);
    assert_eq!(server.send(large).await, 202);
    let answer = server.raw(&health().bytes()).await;
    assert!(answer.ends_with("\r\n\r\n"), "no detail: {answer}");
    server.stop().await;
}

#[tokio::test]
async fn nobody_holds_a_connection_by_saying_half_a_header_or_nothing() {
    let server = Server::start().await;
    let whole = Request::new("a").without("connection").bytes();
    let (whole, begin) = (String::from_utf8(whole).unwrap(), Instant::now());
    let half = "POST /gh-webhook HTTP/1.1\r\nhost: x\r\nx-half";
    let both = format!("{whole}{half}");
    let say = async |text: &str| {
        let mut stream = server.connect().await;
        stream.write_all(text.as_bytes()).await.unwrap();
        (answer(&mut stream).await, begin.elapsed())
    };
    for (answer, took) in <[_; 4]>::from(tokio::join!(say(half), say(""), say(&whole), say(&both)))
    {
        let codes: Vec<_> = answer.lines().filter(|line| line.starts_with("HTTP/")).collect();
        assert!(codes.len() <= 1, "{codes:?}");
        assert!(took >= http::HEADER_TIMEOUT && took < http::HEADER_TIMEOUT * 2, "{took:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_header_without_end_is_431() {
    let server = Server::start().await;
    let request = Request::new("a").with("x-long", vec![b'x'; http::MAX_HEADER]);
    assert_eq!(server.send(request).await, 431);
    server.stop().await;
}

#[tokio::test]
async fn a_connection_can_be_upgraded() {
    use axum::Router;
    use axum::body::Body;
    use axum::http::Response;
    use hyper_util::rt::TokioIo;

    let echo = async |mut request: axum::extract::Request| {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut stream = TokioIo::new(upgrade.await.unwrap());
            let mut word = [0; 4];
            stream.read_exact(&mut word).await.unwrap();
            stream.write_all(&word).await.unwrap();
        });
        let switch = Response::builder().status(101).header("upgrade", "echo");
        switch.header("connection", "upgrade").body(Body::empty()).unwrap()
    };
    let listener = http::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let stop = CancellationToken::new();
    let app = Router::new().fallback(echo);
    let task = tokio::spawn(http::serve(Listener::Tcp(listener), app, stop.clone()));
    let request = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\nping";
    stream.write_all(request).await.unwrap();
    let answer = answer(&mut stream).await;
    assert_eq!(status(&answer), 101);
    assert!(answer.ends_with("\r\n\r\nping"), "{answer}");
    stop.cancel();
    timeout(SOON, task).await.unwrap().unwrap();
}

const CHILD: &str = "THE_LOOP_TEST_DESCRIPTORS";

/// Not a test: what the next one runs, because the limit is the whole process's.
#[tokio::test]
async fn serves_again_after_having_had_no_descriptors() {
    use rustix::process::{Resource, Rlimit, setrlimit};

    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let server = Server::start().await;
    let mut stream = server.connect().await;
    // A whole answer first, so that everything that is opened late is open.
    assert_eq!(server.send(Request::new("before")).await, 202);
    let mut held = vec![std::fs::File::open("/dev/null").unwrap()];
    setrlimit(Resource::Nofile, Rlimit { current: Some(100), maximum: Some(100) }).unwrap();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        held.push(file);
    }
    held.pop();
    // It takes the last descriptor; the server has none to accept it with.
    let mut late = server.connect().await;
    late.write_all(&Request::new("late").bytes()).await.unwrap();
    let waits = timeout(Duration::from_millis(200), late.read_u8()).await;
    assert!(waits.is_err(), "{waits:?}");
    // The one that it has already is served all the same.
    stream.write_all(&Request::new("early").bytes()).await.unwrap();
    assert_eq!(status(&answer(&mut stream).await), 202);
    held.clear();
    assert_eq!(status(&answer(&mut late).await), 202);
    server.stop().await;
}

#[test]
fn no_descriptors_left_is_survived() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["receiver::serves_again_after_having_had_no_descriptors", "--exact"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[tokio::test]
async fn a_body_that_never_ends_is_408() {
    let server = Server::start_in(tempfile::tempdir().unwrap(), Duration::from_millis(300)).await;
    let mut stream = server.connect().await;
    let request = Request::new("slow");
    stream.write_all(&request.head()).await.unwrap();
    stream.write_all(&request.body[..3]).await.unwrap();
    assert_eq!(status(&answer(&mut stream).await), 408);
    server.stop().await;
}

#[tokio::test]
async fn five_hundred_at_once_are_all_answered() {
    let server = Arc::new(Server::start().await);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..500 {
        let server = Arc::clone(&server);
        tasks.spawn(async move { server.send(Request::new(&format!("d-{number}"))).await });
    }
    while let Some(code) = tasks.join_next().await {
        assert_eq!(code.unwrap(), 202);
    }
    assert_eq!(server.inbox.counts().unwrap()[&State::Received], 500);
    Arc::into_inner(server).unwrap().stop().await;
}

#[tokio::test]
async fn a_stop_finishes_what_is_under_way_and_frees_the_port_at_once() {
    let server = Server::start().await;
    let mut idle = server.connect().await;
    let mut stream = server.connect().await;
    let request = Request::new("under-way");
    stream.write_all(&request.head()).await.unwrap();
    // Answered only once it is being served: the order of the accepts is known.
    assert_eq!(server.send(Request::new("before")).await, 202);

    server.stop.cancel();
    let rebound = async {
        loop {
            match http::bind(server.address).await {
                Ok(listener) => break listener,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    let rebound = timeout(SOON, rebound).await.unwrap();
    stream.write_all(&request.body).await.unwrap();
    assert_eq!(status(&answer(&mut stream).await), 202);
    assert_eq!(answer(&mut idle).await, "");
    drop(rebound);
    server.stop().await;
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_client_that_dawdles() {
    let server = Server::start().await;
    let mut stream = server.connect().await;
    stream.write_all(&Request::new("slow").head()).await.unwrap();
    assert_eq!(server.send(Request::new("before")).await, 202);
    let begin = Instant::now();
    server.stop().await;
    let took = begin.elapsed();
    assert!(took < http::STOP_GRACE + Duration::from_secs(1), "{took:?}");
}

#[tokio::test]
async fn a_command_talks_to_a_socket_and_is_told_when_nobody_is_there() {
    use axum::Router;
    use axum::routing::post;

    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("control.sock");
    let error = http::request_unix(&socket, "GET", "/", Vec::new()).await.unwrap_err();
    assert!(error.to_string().contains(socket.to_str().unwrap()), "{error}");

    let app = Router::new().route("/echo", post(|body: String| async move { body }));
    let listener = UnixListener::bind(&socket).unwrap();
    let stop = CancellationToken::new();
    let task = tokio::spawn(http::serve(Listener::Unix(listener), app, stop.clone()));
    let body = vec![b'x'; 100_000];
    let answer = http::request_unix(&socket, "POST", "/echo", body.clone()).await.unwrap();
    assert_eq!(answer, (200, body));
    let (code, _) = http::request_unix(&socket, "GET", "/nothing", Vec::new()).await.unwrap();
    assert_eq!(code, 404);
    stop.cancel();
    timeout(SOON, task).await.unwrap().unwrap();
}
