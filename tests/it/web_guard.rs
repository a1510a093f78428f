//! Who may ask the web terminal, where it listens, and what stands on every
//! answer: over real HTTP. The whole table is beside the decision itself.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;

use rustix::process::Signal;

use crate::support::World;
use crate::web_client::{Terminal, Web, ask, configured, status, ttyd_path};

const PATHS: [&str; 7] =
    ["/", "/events", "/assets/none.js", "/s/o+r+1/", "/v/o+r+1/", "/v/o+r+1/history", "/nothing"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_route_answers_another_name_another_origin_or_another_site() {
    let web = Web::start().await;
    let (_, file) = web.recorder("o/r#1").await;
    let own = format!("http://{}", web.host);
    let (_, port) = web.host.split_once(':').unwrap();
    let neighbour = format!("http://127.0.0.1:{}", port.parse::<u16>().unwrap() ^ 1);
    let rebound = format!("evil.example:{port}");
    let rebound_origin = format!("http://{rebound}");
    let refused: &[(u16, &[(&str, &str)])] = &[
        (421, &[("Host", &rebound)]),
        (421, &[("Host", &rebound), ("Origin", &rebound_origin)]),
        (400, &[("Host", &web.host), ("Host", "evil.example")]),
        (403, &[("Origin", "http://evil.example")]),
        (403, &[("Origin", &neighbour)]),
        (403, &[("Origin", "null")]),
        (403, &[("Origin", ""), ("Sec-Fetch-Site", "same-origin")]),
        (403, &[("Sec-Fetch-Site", "cross-site")]),
        (403, &[("Sec-Fetch-Site", "same-site"), ("Sec-Fetch-Mode", "no-cors")]),
        (
            403,
            &[
                ("Sec-Fetch-Site", "cross-site"),
                ("Sec-Fetch-Mode", "navigate"),
                ("Sec-Fetch-Dest", "iframe"),
            ],
        ),
    ];
    for path in PATHS {
        for (code, head) in refused {
            let answer = web.ask("GET", path, head).await;
            assert_eq!(status(&answer), *code, "{path} {head:?}");
            hardened(&answer);
        }
        for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
            assert_eq!(status(&web.ask(method, path, &[]).await), 403, "{method} {path}");
        }
    }
    let tty = ("Sec-WebSocket-Protocol", "tty");
    for path in ["/s/o+r+1/ws", "/v/o+r+1/ws"] {
        for (code, head) in refused {
            let head = [*head, &[tty]].concat();
            let answer = Terminal::open(&web.host, path, &head).await.err().unwrap();
            assert_eq!(status(&answer), *code, "{path} {head:?}");
        }
        let answer = Terminal::open(&web.host, path, &[tty]).await.err().unwrap();
        assert_eq!(status(&answer), 403, "{path} without an origin");
        let head = [("Origin", own.as_str())];
        let answer = Terminal::open(&web.host, path, &head).await.err().unwrap();
        assert_eq!(status(&answer), 400, "{path} without a subprotocol");
    }
    let leave = "/s/o+r+1/leave-mode";
    assert_eq!(status(&web.ask("POST", leave, &[]).await), 403);
    assert_eq!(status(&web.ask("POST", leave, &[("Origin", &neighbour)]).await), 403);
    // Its own page may all that.
    let head = [("Origin", own.as_str()), tty, ("Sec-Fetch-Site", "same-origin")];
    let mut terminal = Terminal::open(&web.host, "/s/o+r+1/ws", &head).await.ok().unwrap();
    terminal.types(b"own").await;
    terminal.shows("own").await;
    assert_eq!(std::fs::read(file).unwrap(), b"own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_is_exact_and_a_query_changes_nothing() {
    let web = Web::start().await;
    web.recorder("o/r#1").await;
    let own = format!("http://{}", web.host);
    let head = [("Origin", own.as_str()), ("Sec-WebSocket-Protocol", "tty")];
    for path in [
        "/ws",
        "/s/ws",
        "/s//ws",
        "/s/o+r+1/ws/",
        "/s/o+r+1/w",
        "/s/o+r+1/wss",
        "/x/o+r+1/ws",
        "/s/o+r+2/ws",
        "/s/..%2fo+r+1/ws",
        "/s/o+r+1%00/ws",
        "/S/o+r+1/ws",
        "/s/o+r+1/../o+r+1/ws",
    ] {
        let answer = Terminal::open(&web.host, path, &head).await.err().unwrap_or_default();
        assert_eq!(status(&answer), 404, "{path}");
    }
    let query = "/v/o+r+1/ws?arg=%3b&arg=kill-server&arg==loop/o+r+1&fontSize=1";
    let mut terminal = Terminal::open(&web.host, query, &head).await.ok().unwrap();
    terminal.shows("ready").await;
}

/// What a browser must hold to stands on an answer.
fn hardened(answer: &str) {
    let head = answer.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
    for line in [
        "x-content-type-options: nosniff",
        "x-frame-options: deny",
        "cache-control: no-store",
        "cross-origin-resource-policy: same-origin",
    ] {
        assert!(head.contains(line), "no {line}: {head}");
    }
    let policy = head.lines().find_map(|line| line.strip_prefix("content-security-policy: "));
    let policy = policy.unwrap_or_default();
    for part in ["default-src 'none'", "script-src 'self';", "frame-ancestors 'none'"] {
        assert!(policy.contains(part), "no {part}: {policy}");
    }
    assert!(!head.contains("access-control-"), "{head}");
    assert!(!head.contains("\r\nserver:"), "{head}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_listens_on_a_socket_that_only_its_user_can_open() {
    let mut world = configured("");
    let socket = world.home.join("web.sock");
    let tools = format!("  ttyd:\n    path: {}\n", ttyd_path().display());
    let web = format!(
        "defaultHarness: demo\nwebTerminal:\n  enabled: true\n  socket: {}\n",
        socket.display()
    );
    world.configure(&web, &tools);
    // What is no socket is left alone.
    std::fs::write(&socket, "mine").unwrap();
    let (code, _, err) = world.run(&["gh-webhook", "start"]);
    assert_eq!(code, 1);
    assert!(err.contains("something else is there"), "{err}");
    assert!(err.contains("hint: name another file"), "{err}");
    assert_eq!(std::fs::read_to_string(&socket).unwrap(), "mine");
    std::fs::remove_file(&socket).unwrap();

    for signal in [Signal::KILL, Signal::TERM] {
        world.start().await;
        let metadata = std::fs::metadata(&socket).unwrap();
        assert!(metadata.file_type().is_socket());
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        for (host, code) in [("localhost:7681", 200), ("127.0.0.1", 200), ("evil.example", 421)] {
            assert_eq!(over(&socket, host), code, "{host}");
        }
        tokio::task::block_in_place(|| world.end(signal));
        // One that was killed leaves it; the next takes its place.
        assert_eq!(socket.exists(), signal == Signal::KILL);
    }
}

/// The status of `/` over a socket.
fn over(socket: &std::path::Path, host: &str) -> u16 {
    use std::io::{Read, Write};
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    match status(&answer) {
        // The page itself is not this test's matter.
        501 => 200,
        code => code,
    }
}

fn refused(world: &World, web: &str) -> String {
    let tools = format!("  ttyd:\n    path: {}\n", ttyd_path().display());
    world.configure(
        &format!("defaultHarness: demo\nwebTerminal:\n  enabled: true\n  port: 0\n{web}"),
        &tools,
    );
    let (code, _, err) = world.run(&["gh-webhook", "start"]);
    assert_eq!(code, 1, "{err}");
    err
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_listens_on_a_network_interface_by_its_name() {
    let world = configured("");
    let err = refused(&world, "  host: nosuch0\n");
    assert!(err.contains("this host has no network interface `nosuch0`"), "{err}");
    assert!(err.contains("it has `lo`"), "{err}");
    let (code, _, err) = world.run(&["config", "check"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("`nosuch0` (`routing.webTerminal.host`)"), "{err}");
    let tools = format!("  ttyd:\n    path: {}\n", ttyd_path().display());
    world.configure(
        "defaultHarness: demo\nwebTerminal:\n  enabled: true\n  port: 0\n  host: lo\n  allowedHosts: [box.example.net]\n",
        &tools,
    );
    let web = Web::of(world).await;
    assert!(web.host.starts_with("127.0.0.1:"), "{}", web.host);
    for (host, is_allowed) in [("box.example.net", true), ("localhost", true), ("other", false)] {
        let answer = ask(&web.host, "GET", "/", &[("Host", host)]).await;
        assert_eq!(status(&answer) != 421, is_allowed, "{host}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loopback_has_more_names_than_one() {
    for host in ["localhost", "\"::ffff:127.0.0.1\""] {
        let web = Web::of(configured(&format!("  host: {host}\n"))).await;
        assert!(web.host.starts_with("127.0.0.1:"), "{host}: {}", web.host);
        assert_eq!(status(&web.ask("GET", "/", &[]).await), 200, "{host}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_by_a_wrong_name_or_without_a_slash_is_told_what_to_do() {
    let web = Web::start().await;
    web.recorder("o/r#1").await;
    let answer = web.ask("GET", "/", &[("Host", "box.example.net:81")]).await;
    assert_eq!(status(&answer), 421);
    assert!(answer.contains("`box.example.net:81` is none of the names"), "{answer}");
    assert!(answer.contains("`routing.webTerminal.allowedHosts`"), "{answer}");
    for path in ["/s/o+r+1", "/v/o+r+1"] {
        let answer = web.ask("GET", path, &[]).await;
        assert_eq!(status(&answer), 308, "{answer}");
        assert!(answer.contains(&format!("location: {path}/\r\n")), "{answer}");
    }
    for path in ["/s/o+r+2", "/s/evil.example%2f..", "//evil.example", "/s//evil.example"] {
        assert_eq!(status(&web.ask("GET", path, &[]).await), 404, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_that_is_taken_is_said_with_its_key() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let world = configured("");
    let tools = format!("  ttyd:\n    path: {}\n", ttyd_path().display());
    world.configure(
        &format!("defaultHarness: demo\nwebTerminal:\n  enabled: true\n  port: {port}\n"),
        &tools,
    );
    let (code, _, err) = world.run(&["gh-webhook", "start"]);
    assert_eq!(code, 1);
    let said = err.split_whitespace().collect::<Vec<_>>().join(" ");
    let own = std::process::id();
    let what = format!("the web terminal cannot listen on 127.0.0.1:{port}: process {own} (");
    assert!(said.contains(&what), "{err}");
    assert!(err.contains("`routing.webTerminal.port`"), "{err}");
}
