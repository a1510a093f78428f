//! What an install says: to a person at a terminal, to a program, and when it
//! does not work.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::doctor::{Place, SYSTEM, result, test_tool, wait_until, words};
use crate::file_server::{Reply, Server};
use crate::support::{TmuxServer, eventually};

const INSTALL: &[&str] = &["doctor", "--install", "ttyd"];
const PATH: &str = "/tsl0922/ttyd/releases/download/1.7.7/ttyd.x86_64";

/// Runs an install from a mirror that fails; gives what it said.
async fn said(url: &str) -> String {
    let place = Place::new();
    let mirror = [("THE_LOOP_MIRROR", url), ("THE_LOOP_DOWNLOAD_TIMEOUT", "1")];
    let url = mirror.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let output = tokio::task::spawn_blocking(move || {
        let more: Vec<_> =
            url.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        place.run(SYSTEM, INSTALL, &more)
    });
    let output = output.await.unwrap();
    let said = words(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    // Nothing of what only a programmer understands.
    for word in ["os error", "client error", "(Connect)"] {
        assert!(!said.contains(word), "{word}: {said}");
    }
    said
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_that_fails_says_what_happened_and_what_helps() {
    let server = Server::start(|_, _| Reply::status("404 Not Found")).await;
    let gone = said(&format!("{}/m", server.url)).await;
    assert!(gone.contains("was answered with status 404 (Not Found)"), "{gone}");
    assert!(gone.contains(&format!("hint: the mirror must hold {PATH}")), "{gone}");
    assert!(!gone.contains("cut off"), "{gone}");

    let server = Server::start(|_, _| Reply::status("403 Forbidden")).await;
    let refused = said(&server.url).await;
    assert!(refused.contains("status 403 (Forbidden)"), "{refused}");
    assert!(refused.contains("wants to know who asks"), "{refused}");

    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = said(&format!("http://{free}")).await;
    assert!(nobody.contains(&format!("no connection to {free}: Connection refused")), "{nobody}");
    assert!(nobody.contains("hint: is THE_LOOP_MIRROR right? Then run it again\n"), "{nobody}");

    let page = b"\n<!DOCTYPE html>\n<title>Sign in</title>";
    let server = Server::start(move |_, _| Reply::whole(page, page.len())).await;
    let page = said(&server.url).await;
    assert!(page.contains("is not the pinned file, but a web page: its SHA-256 is "), "{page}");
    assert!(page.contains("hint: a proxy or a network may want a login first"), "{page}");
}

/// Runs an install with these variables; gives its exit code and what it said.
fn install(place: &Place, more: &[(&str, &str)]) -> (Option<i32>, String) {
    let output = place.run(SYSTEM, INSTALL, more);
    (output.status.code(), words(&output.stderr))
}

#[test]
fn a_proxy_is_asked_for_what_is_elsewhere_and_named_when_it_refuses() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let proxy = format!("http://me:s3cret@{address}");
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        stream.write_all(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n").unwrap();
        line
    });
    let more = [("THE_LOOP_MIRROR", "https://mirror.invalid"), ("HTTPS_PROXY", proxy.as_str())];
    let (code, said) = install(&Place::new(), &more);
    assert_eq!(asked.join().unwrap(), "CONNECT mirror.invalid:443 HTTP/1.1\r\n");
    assert_eq!(code, Some(1));
    assert!(said.contains(&format!("through the proxy {address} (HTTPS_PROXY): ")), "{said}");
    assert!(said.contains("hint: is HTTPS_PROXY right?"), "{said}");
    assert!(!said.contains("MIRROR right") && !said.contains("trying again"), "{said}");
    assert!(!said.contains("s3cret"), "{said}");
}

#[test]
fn a_certificate_counts_when_its_authority_is_trusted_here() {
    let place = Place::new();
    let dir = place.path("tls");
    let served = dir.join(&PATH[1..]);
    std::fs::create_dir_all(served.parent().unwrap()).unwrap();
    std::fs::copy(test_tool("ttyd"), &served).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // An authority, and a server that it vouches for.
    let script = format!(
        "set -e
        new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
        openssl req -x509 $new -keyout ca.key -out ca.pem -days 2 -subj /CN=authority
        openssl req $new -keyout key.pem -out request.pem -subj /CN=localhost
        echo subjectAltName=DNS:localhost > extensions
        openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
            -extfile extensions -out cert.pem
        exec openssl s_server -quiet -accept {port} -cert cert.pem -key key.pem -WWW"
    );
    let spawned = Command::new("sh")
        .args(["-c", &script])
        .current_dir(&dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut server = spawned.unwrap();
    wait_until("the server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let mirror = format!("https://localhost:{port}");
    let ca = dir.join("ca.pem").display().to_string();
    let unknown = install(&place, &[("THE_LOOP_MIRROR", mirror.as_str())]);
    let trusted = [("THE_LOOP_MIRROR", mirror.as_str()), ("SSL_CERT_FILE", ca.as_str())];
    let known = install(&place, &trusted);
    server.kill().unwrap();
    server.wait().unwrap();
    // The authority's own certificate, shown by a server.
    let script = format!("exec openssl s_server -quiet -accept {port} -cert ca.pem -key ca.key");
    let spawned = Command::new("sh")
        .args(["-c", &script])
        .current_dir(&dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut server = spawned.unwrap();
    wait_until("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let own = install(&Place::new(), &trusted);
    server.kill().unwrap();
    server.wait().unwrap();
    let is_plain = own.1.contains("it is an authority's own, and a server needs one of its own");
    assert!(is_plain && own.1.contains("basicConstraints=CA:FALSE"), "{}", own.1);
    assert_eq!(unknown.0, Some(1));
    let said = unknown.1;
    assert!(said.contains("the certificate of localhost is not trusted: UnknownIssuer"), "{said}");
    assert!(said.contains("hint: SSL_CERT_FILE names"), "{said}");
    assert!(!said.contains("trying again"), "{said}");
    assert_eq!(known.0, Some(0), "{}", known.1);
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_of_a_mirror_is_sent_and_never_printed() {
    let server = Server::start(|_, _| Reply::status("404 Not Found")).await;
    let told = said(&format!("{}/a/?token=s3cret", server.url)).await;
    assert_eq!(*server.paths.lock().unwrap(), [format!("/a{PATH}?token=s3cret")]);
    assert!(told.contains(&format!("/a{PATH}?…")) && !told.contains("s3cret"), "{told}");
}

#[test]
fn a_time_out_that_is_none_is_a_fault_of_the_call() {
    let place = Place::new();
    let output = place.run(SYSTEM, INSTALL, &[("THE_LOOP_DOWNLOAD_TIMEOUT", "garbage")]);
    assert_eq!(output.status.code(), Some(2));
    let said = words(&output.stderr);
    let fault = "THE_LOOP_DOWNLOAD_TIMEOUT is `garbage`, and not a number of seconds";
    assert!(said.contains(fault), "{said}");
}

#[test]
fn a_place_where_nothing_can_be_made_is_named_once() {
    let folder = test_tool("ttyd").parent().unwrap().to_str().unwrap().to_owned();
    let args = [INSTALL, &["--offline", &folder]].concat();
    let output = Place::new().run(SYSTEM, &args, &[("THE_LOOP_HOME", "/dev/null")]);
    assert_eq!(output.status.code(), Some(1));
    let said = words(&output.stderr);
    let place = "`/dev/null/data/tools/ttyd`: Not a directory\n";
    assert!(said.contains(place) && said.matches("/dev/null").count() == 1, "{said}");
    assert!(said.contains("hint: set THE_LOOP_HOME to a directory of yours"), "{said}");
}

#[test]
fn one_that_cannot_be_removed_keeps_no_other() {
    let place = Place::new();
    let folder = test_tool("ttyd").parent().unwrap().to_str().unwrap().to_owned();
    let install = ["doctor", "--json", "--install", "ttyd,tmux@3.6a", "--offline", &folder];
    let installed = result(&place.run(SYSTEM, &install, &[]));
    assert_eq!(installed["installed"][1]["version"], "3.6a");
    let list = result(&place.run(SYSTEM, &["doctor", "--list", "--json"], &[]));
    assert_eq!(list["installed"].as_array().unwrap().len(), 2);

    let args = ["doctor", "--json", "--uninstall", "tmux@9.9,ttyd,tmux@9.8,tmux"];
    let output = place.run(SYSTEM, &args, &[]);
    assert_eq!(output.status.code(), Some(1));
    let removed = result(&output);
    let ids = |key: &str| {
        let items = removed[key].as_array().unwrap().iter();
        items.map(|item| item["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (ids("removed"), ids("failed")),
        (vec!["ttyd".into(), "tmux".into()], vec!["tmux".into(), "tmux".into()])
    );
    let said = words(&output.stderr);
    assert!(said.contains("tmux@9.9 was not removed: tmux 9.9 is not installed"), "{said}");
    assert!(said.contains("error: tmux@9.9 and tmux@9.8 were not removed"), "{said}");
    let list = result(&place.run(SYSTEM, &["doctor", "--list", "--json"], &[]));
    assert_eq!(list["installed"].as_array().unwrap().len(), 0);
    let checks = result(&place.run(SYSTEM, &["doctor", "--list-checks", "--json"], &[]));
    assert!(checks["checks"].as_array().unwrap().len() > 30);
    let failed = result(&place.run(SYSTEM, &["doctor", "--json", "--install", "ttyd@9"], &[]));
    assert_eq!(failed["failed"][0]["id"], "ttyd");
}

/// Half of the file, then silence; the other half to whoever asks for it.
async fn halting() -> Server {
    let file = std::fs::read(test_tool("ttyd")).unwrap();
    let half = file.len() / 2;
    Server::start(move |number, range| match number {
        1 => Reply { stalls: true, ..Reply::whole(&file, half) },
        _ => Reply::range(&file, range, file.len()),
    })
    .await
}

/// Starts an install in a session of this name; gives its pane. What it came to is
/// shown at its end.
fn in_pane(tmux: &TmuxServer, name: &str, place: &Place, mirror: &str, more: &str) -> String {
    let line = format!(
        "trap : INT; THE_LOOP_HOME='{}' THE_LOOP_MIRROR={mirror} {more} '{}' doctor --install \
         ttyd; echo code $?; exec cat",
        place.path(name).display(),
        env!("CARGO_BIN_EXE_the-loop"),
    );
    let size = ["-x", "80", "-y", "24"];
    let start = [&["new-session", "-d", "-s", name][..], &size, &["/bin/sh", "-c", &line]];
    tmux.run(&start.concat());
    format!("={name}:")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bar_is_shown_on_a_terminal_and_leaves_nothing_there() {
    let (place, server, tmux) = (Place::new(), halting().await, TmuxServer::new());
    let start = |name: &str, seconds: &str| {
        let more = format!("THE_LOOP_DOWNLOAD_TIMEOUT={seconds}");
        in_pane(&tmux, name, &place, &server.url, &more)
    };
    let screen = |pane: &str| tmux.run(&["capture-pane", "-p", "-t", pane]);
    let is_bar = |text: &str| text.contains("[====") && text.contains(" MiB, ");
    let pane = start("whole", "2");
    let bar =
        eventually("a bar is shown", async || Some(screen(&pane)).filter(|text| is_bar(text)));
    let bar = bar.await;
    assert!(bar.contains("of 1.30 MiB"), "{bar}");
    let ended = async |pane: &str| {
        let text = async || Some(screen(pane)).filter(|text| text.contains("code "));
        eventually("it ended", text).await
    };
    let end = ended(&pane).await;
    assert!(end.contains("code 0") && end.contains("installed: "), "{end}");
    assert!(end.contains("timed out") && !end.contains("[="), "{end}");

    // An interrupt in the middle of it.
    let (server, place) = (halting().await, Place::new());
    let pane = in_pane(&tmux, "cut", &place, &server.url, "");
    eventually("a bar is shown", async || is_bar(&screen(&pane)).then_some(())).await;
    tmux.run(&["send-keys", "-t", &pane, "C-c"]);
    let end = ended(&pane).await;
    assert!(end.contains("code 130") && !end.contains("[="), "{end}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn elsewhere_than_on_a_terminal_there_are_plain_lines() {
    let server = halting().await;
    let url = server.url.clone();
    let run = tokio::task::spawn_blocking(move || {
        let place = Place::new();
        let more = [("THE_LOOP_MIRROR", url.as_str()), ("THE_LOOP_DOWNLOAD_TIMEOUT", "1")];
        place.run(SYSTEM, INSTALL, &more)
    });
    let output = tokio::time::timeout(Duration::from_secs(30), run).await.unwrap().unwrap();
    let said = words(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.starts_with("downloading http://127.0.0.1:"), "{said}");
    assert!(!said.contains(['\r', '\x1b']) && !said.contains("[="), "{said:?}");
}
