//! `the-loop web`, and the addresses in what other commands print.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::World;
use crate::web_client::{Web, configured, ttyd_path};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_prints_the_address_of_the_list_and_of_a_session() {
    let web = Web::start().await;
    web.session("o/r#1", "exec cat").await;
    let base = format!("http://{}/", web.host);
    for (args, url) in [
        (&["web"][..], base.clone()),
        (&["web", "1"], format!("{base}s/o+r+1/")),
        (&["web", "o/r#1", "--watch"], format!("{base}v/o+r+1/")),
    ] {
        let (code, out, err) = web.world.run(args);
        assert_eq!((code, out.trim_end(), err.as_str()), (0, url.as_str(), ""), "{args:?}");
    }
    let page = format!("{base}s/o+r+1/");
    let (_, out, _) = web.world.run(&["sessions", "list", "--json"]);
    let list: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(list["sessions"][0]["webUrl"], page);
    let (_, out, _) = web.world.run(&["sessions", "show", "1", "--json"]);
    let one: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(one["webUrl"], page);
    let (_, out, _) = web.world.run(&["sessions", "show", "1"]);
    assert!(out.contains(&page), "{out}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_opens_the_address_with_what_the_desktop_has_for_that() {
    let world = configured("");
    let bin = world.home.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let mut web = Web::of(world).await;
    web.world.path = format!("{}:/nonexistent", bin.display());
    let opened = web.world.home.join("opened");
    if cfg!(target_os = "linux") {
        let (code, out, err) = web.world.run(&["web", "--open"]);
        assert_eq!((code, out.trim_end()), (1, &*format!("http://{}/", web.host)));
        assert!(err.contains("xdg-open") && err.contains("hint:"), "{err}");
        let script = format!("#!/bin/sh\nprintf '%s' \"$#$1\" > '{}'\n", opened.display());
        let opener = bin.join("xdg-open");
        std::fs::write(&opener, script).unwrap();
        std::fs::set_permissions(&opener, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let (code, _, err) = web.world.run(&["web", "--open"]);
        assert_eq!((code, err.as_str()), (0, ""));
        let told = std::fs::read_to_string(&opened).unwrap();
        assert_eq!(told, format!("1http://{}/", web.host));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nothing_is_served_it_says_what_to_do() {
    let mut world = World::new("defaultHarness: demo");
    let (code, out, err) = world.run(&["web"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("no receiver runs") && err.contains("gh-webhook start"), "{err}");
    world.start().await;
    let (code, out, err) = world.run(&["web"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("routing.webTerminal.enabled"), "{err}");
    let (_, out, _) = world.run(&["sessions", "list", "--json"]);
    assert!(!out.contains("http"), "{out}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_socket_the_addresses_are_those_of_the_proxy_before_it() {
    let mut world = World::new("");
    for url in ["https://box.example", "https://box.example:8443/"] {
        let socket = world.home.join("web.sock");
        let web = format!(
            "defaultHarness: demo\nwebTerminal:\n  enabled: true\n  socket: {}\n  publicUrl: {url}",
            socket.display()
        );
        world.configure(&web, &format!("  ttyd:\n    path: {}\n", ttyd_path().display()));
        world.start().await;
        world.run(&["sessions", "register", "o/r#1"]);
        let base = url.trim_end_matches('/');
        assert_eq!(world.run(&["web"]).1.trim_end(), format!("{base}/"));
        let page = format!("{base}/s/o+r+1/");
        assert_eq!(world.run(&["web", "1"]).1.trim_end(), page);
        let (_, out, _) = world.run(&["sessions", "list", "--json"]);
        let list: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(list["sessions"][0]["webUrl"], page);
        assert!(tokio::task::block_in_place(|| world.end(Signal::TERM)).success());
    }
}
