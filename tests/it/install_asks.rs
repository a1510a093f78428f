//! What a download does with servers, proxies and authorities that are of no
//! use: it names whose fault it is, holds nobody up, and asks nobody else instead.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use the_loop::doctor::install::InstallError;

use crate::doctor::{Place, SYSTEM, result, test_tool, words};
use crate::file_server::{Reply, Server};
use crate::install::active;
use crate::install_faults::{build, install_it};

const INSTALL: &[&str] = &["doctor", "--install", "ttyd"];

/// Runs an install of ttyd with these variables: what it said, after a failure.
fn refused(place: &Place, more: &[(&str, &str)]) -> String {
    let quick = [more, &[("THE_LOOP_DOWNLOAD_TIMEOUT", "1")]].concat();
    let output = place.run(SYSTEM, INSTALL, &quick);
    let said = words(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(active(place, "ttyd"), Vec::<String>::new(), "{said}");
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_drips_is_given_up_and_the_lock_let_go() {
    let (file, pin) = build("3.9");
    let whole = Arc::new(file.clone());
    for (name, in_head) in [("body", false), ("head", true)] {
        let place = Place::new();
        let served = whole.clone();
        let server = Server::start(move |_, _| Reply {
            drips: true,
            ..if in_head { Reply::head_alone(&served) } else { Reply::whole(&served, 10) }
        })
        .await;
        let begin = Instant::now();
        let error = install_it(&place, &pin, &server.source()).await.unwrap_err().to_string();
        let said = if in_head { "did not go on in time" } else { "127.0.0.1 is too slow: " };
        assert!(error.contains(said), "{name}: {error}");
        assert!(begin.elapsed() < Duration::from_secs(15), "{name}: {:?}", begin.elapsed());
        // The next one need not wait.
        let served = whole.clone();
        let good = Server::start(move |_, range| Reply::range(&served, range, served.len())).await;
        install_it(&place, &pin, &good.source()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_ends_as_a_whole_however_often_a_little_comes() {
    let (file, pin) = build("3.9");
    // Enough each time to be a step forward, and the end is far.
    let step = 2048;
    let server = Server::start(move |_, range| {
        let start = range.unwrap_or(0);
        let end = (start + step).min(file.len());
        Reply { stalls: true, ..Reply::range(&file, range, end) }
    })
    .await;
    let place = Place::new();
    let begin = Instant::now();
    let error = install_it(&place, &pin, &server.source()).await.unwrap_err().to_string();
    assert!(error.contains("it was not over within 20 s"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(25), "{:?}", begin.elapsed());
}

#[test]
fn a_proxy_that_cannot_be_used_is_named_and_nothing_goes_past_it() {
    let place = Place::new();
    let mirror = ("THE_LOOP_MIRROR", "https://mirror.invalid");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for (variable, value, said) in [
        ("HTTPS_PROXY", "junk://p:1", "HTTPS_PROXY is `junk://p:1`, no URL of an HTTP proxy"),
        ("https_proxy", "socks5://p:1", "https_proxy is `socks5://p:1`, a SOCKS proxy"),
        ("ALL_PROXY", "http://", "ALL_PROXY is no URL of an HTTP proxy"),
        ("HTTPS_PROXY", nobody.as_str(), "(HTTPS_PROXY): Connection refused"),
    ] {
        let told = refused(&place, &[mirror, (variable, value)]);
        assert!(told.contains(said), "{value}: {told}");
        assert!(told.contains("hint: ") && told.contains(variable), "{told}");
        assert!(!told.contains("is THE_LOOP_MIRROR right"), "{value}: {told}");
        assert!(!told.contains("no connection to mirror.invalid"), "{value}: {told}");
    }
    // What is excepted goes without it, and fails for its own reasons.
    let told =
        refused(&place, &[mirror, ("HTTPS_PROXY", "junk://p:1"), ("NO_PROXY", "mirror.invalid")]);
    assert!(told.contains("no connection to mirror.invalid:443: "), "{told}");
}

#[test]
fn authorities_that_cannot_be_read_are_no_fault_of_the_server() {
    let place = Place::new();
    let empty = place.path("empty.pem");
    std::fs::write(&empty, "").unwrap();
    for (variable, path, said) in [
        ("SSL_CERT_FILE", "/nowhere/ca.pem", "which cannot be read: No such file"),
        ("SSL_CERT_FILE", empty.to_str().unwrap(), "which holds no certificate"),
        ("SSL_CERT_DIR", "/nowhere/certs", "which is no directory"),
    ] {
        let mirror = ("THE_LOOP_MIRROR", "https://mirror.invalid");
        let told = refused(&place, &[mirror, (variable, path)]);
        let named = format!("{variable} names `{path}`, {said}");
        assert!(told.contains(&named), "{told}");
        assert!(told.contains(&format!("or unset {variable}")), "{told}");
        assert!(!told.contains("mirror.invalid:443"), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_answers_is_told_as_what_it_is() {
    let (file, pin) = build("3.9");
    let redirect =
        |to: &str| format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
    let long = pin.size.unwrap_or(64 << 20) + 1;
    for (name, head, said) in [
        ("file", redirect("file:///etc/passwd"), "`file:///etc/passwd`, which is a URL that is not https"),
        ("elsewhere", redirect("http://192.0.2.1/x"), "which is a URL that is not https"),
        ("bad port", redirect("http://a.b:port/"), "redirects to `http://a.b:port/`, which is no URL"),
        ("control", redirect("http://[::1/\u{9b}31m"), "which is no URL"),
        ("nowhere", redirect(""), "redirects to ``, which is no URL"),
        ("not modified", "HTTP/1.1 304 Not Modified\r\n\r\n".to_owned(), "status 304 (Not Modified)"),
        (
            "no place",
            "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
            "status 302 (Found)",
        ),
        ("no HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n".to_owned(), "gave an answer that is not HTTP"),
        (
            "a part unasked",
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 5-9/10\r\nContent-Length: 0\r\n\r\n"
                .to_owned(),
            "a part came that says `bytes 5-9/10`",
        ),
        (
            "a part of nothing",
            "HTTP/1.1 206 Partial Content\r\nContent-Length: 0\r\n\r\n".to_owned(),
            "a part came that says `no range`",
        ),
        (
            "too long",
            format!("HTTP/1.1 200 OK\r\nContent-Length: {long}\r\n\r\n"),
            "is not the pinned file: it is larger than",
        ),
    ] {
        let place = Place::new();
        let server =
            Server::start(move |_, _| Reply { head: head.clone(), ..Reply::whole(&[], 0) }).await;
        let error = install_it(&place, &pin, &server.source()).await.unwrap_err();
        let told = error.to_string();
        assert!(told.contains(said), "{name}: {told}");
        assert!(!told.contains("cut the connection"), "{name}: {told}");
        assert!(!told.contains(char::is_control), "{name}: {told:?}");
        if let InstallError::TooLarge { expected, .. } = &error {
            assert!(told.contains(expected) && *expected == pin.sha256, "{told}");
        }
        assert_eq!(active(&place, "tmux"), Vec::<String>::new(), "{name}");
    }
    // A wrong part of what was asked for: the whole is asked for then.
    let place = Place::new();
    let half = file.len() / 2;
    let served = file.clone();
    let server = Server::start(move |number, range| match (number, range) {
        (1, _) => Reply::whole(&served, half),
        (_, Some(start)) => Reply::range(&served, Some(start / 2), served.len()),
        (_, None) => Reply::whole(&served, served.len()),
    })
    .await;
    install_it(&place, &pin, &server.source()).await.unwrap();
    assert_eq!(server.asked(), [None, Some(half), None]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirects_end() {
    let server = Server::start(|number, _| Reply {
        head: format!("HTTP/1.1 302 Found\r\nLocation: /{number}\r\nContent-Length: 0\r\n\r\n"),
        ..Reply::whole(&[], 0)
    })
    .await;
    let (_, pin) = build("3.9");
    let error = install_it(&Place::new(), &pin, &server.source()).await.unwrap_err().to_string();
    assert!(error.contains("/6`, which is one redirect too many"), "{error}");
    assert_eq!(server.asked().len(), 6);
}

/// Puts something in the way.
type Put = fn(&std::path::Path);

/// Runs the command that a hint gives behind `label`.
fn obey(said: &str, label: &str) {
    let command = said.split(&format!("hint: {label}")).nth(1).expect(said).lines().next().unwrap();
    let done = std::process::Command::new("sh").args(["-c", command]).status().unwrap();
    assert!(done.success(), "{command}");
}

#[test]
fn what_stands_in_the_way_is_moved_by_the_command_that_is_given() {
    let folder = test_tool("ttyd").parent().unwrap().to_str().unwrap().to_owned();
    let args = [INSTALL, &["--offline", &folder]].concat();
    let file: Put = |path| std::fs::write(path, "precious").unwrap();
    let pipe: Put = |path| {
        rustix::fs::mkfifoat(rustix::fs::CWD, path, 0o600.into()).unwrap();
    };
    let link: Put = |path| std::os::unix::fs::symlink("/nowhere/x", path).unwrap();
    let dir: Put = |path| std::fs::create_dir_all(path.join("deep")).unwrap();
    for (name, at, put, label) in [
        ("a file for tools", "tools", file, "move it away: "),
        ("a pipe for tools", "tools", pipe, "move it away: "),
        ("a link for tools", "tools", link, "move it away: "),
        ("a file for the tool", "tools/ttyd", file, "move it away: "),
        ("a pipe for the tool", "tools/ttyd", pipe, "move it away: "),
        ("a directory for the lock", "tools/ttyd/.lock", dir, "remove it: "),
        ("a pipe for the lock", "tools/ttyd/.lock", pipe, "remove it: "),
    ] {
        let place = Place::new();
        let at = place.path("home/data").join(at);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        put(&at);
        let output = place.run(SYSTEM, &args, &[]);
        let said = words(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {said}");
        assert!(!said.contains("os error"), "{name}: {said}");
        if label == "move it away: " {
            // The doctor says the same.
            let report = result(&place.run(SYSTEM, &["doctor", "--json", "--only", "disk"], &[]));
            let told = report.to_string();
            assert!(told.contains(&format!("mv {} {}.away", at.display(), at.display())), "{told}");
        }
        obey(&said, label);
        let output = place.run(SYSTEM, &args, &[]);
        assert!(output.status.success(), "{name}: {}", words(&output.stderr));
        if name.starts_with("a file") {
            let kept = std::fs::read(at.with_extension("away")).unwrap();
            assert_eq!(kept, b"precious", "{name}");
        }
    }
}

#[test]
fn a_folder_that_is_not_there_is_told_with_what_it_must_hold() {
    let place = Place::new();
    let offline = [INSTALL, &["--offline", "/nonexist"]].concat();
    let mirror = [("THE_LOOP_MIRROR", "file:///nonexist")];
    for output in [place.run(SYSTEM, &offline, &[]), place.run(SYSTEM, INSTALL, &mirror)] {
        let said = words(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("no file can be taken from `/nonexist`: No such file"), "{said}");
        assert!(said.contains("hint: name a directory that holds ttyd."), "{said}");
        assert!(said.contains("hint: get it from https://github.com/tsl0922/ttyd/"), "{said}");
        assert!(!said.contains("--only disk"), "{said}");
    }
}

#[test]
fn json_comes_also_where_nothing_could_be_done() {
    let place = Place::new();
    for (args, more, code) in [
        (&["doctor"][..], ("HOME", "relative"), 3),
        (&["doctor", "--fix"], ("HOME", "relative"), 3),
        (&["doctor", "--list"], ("HOME", "relative"), 1),
        (&["doctor", "--install", "ttyd"], ("HOME", "relative"), 1),
        (&["doctor", "--uninstall", "ttyd"], ("HOME", "relative"), 1),
        (INSTALL, ("THE_LOOP_MIRROR", "junk"), 2),
        (INSTALL, ("THE_LOOP_MIRROR", "http://mirror.invalid"), 2),
        (INSTALL, ("THE_LOOP_DOWNLOAD_TIMEOUT", "soon"), 2),
        (&["doctor", "--only", "nothing"], ("X", "x"), 2),
        (&["doctor", "--list", "--fix"], ("X", "x"), 2),
    ] {
        let args = [args, &["--json"]].concat();
        let output = place.run(SYSTEM, &args, &[more]);
        assert_eq!(output.status.code(), Some(code), "{args:?} {more:?}");
        let told = result(&output);
        assert_eq!(told["exitCode"], code, "{told}");
        let said = words(&output.stderr);
        let error = told["error"].as_str().unwrap();
        assert!(said.contains(error), "{error} in {said}");
        for hint in told["hints"].as_array().unwrap() {
            assert!(said.contains(hint.as_str().unwrap()), "{hint} in {said}");
        }
    }
    // One that fails later says it in the same form as one that does not.
    let output = place.run(SYSTEM, &["doctor", "--json", "--install", "ttyd@9"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(result(&output)["failed"][0]["id"], "ttyd");
    assert!(words(&output.stderr).starts_with("error: "), "{}", words(&output.stderr));
}
