//! The README's commands, run as a reader pastes them.

use std::process::{Command, Stdio};

use crate::support::{eventually, short_dir, tmux_path};

/// The shell blocks of the README that play GitHub, made to use a directory, a
/// home and a port of their own, and the program that was built for the tests.
fn blocks(dir: &str, port: u16) -> (String, String) {
    let root = env!("CARGO_MANIFEST_DIR");
    let readme = std::fs::read_to_string(format!("{root}/README.md")).unwrap();
    let part = readme.split("## Send it real deliveries").nth(1).unwrap();
    let part = part.split("\n## ").next().unwrap();
    let mut blocks = part.split("```sh\n").skip(1).map(|text| text.split("```").next().unwrap());
    let first = blocks.next().unwrap();
    let last = blocks.next().unwrap();
    assert_eq!(blocks.next(), None);
    let first = first
        .lines()
        .filter(|line| !line.starts_with("cargo build") && !line.contains("sessions attach"))
        .collect::<Vec<_>>()
        .join("\n")
        .replace("/tmp/hello", dir)
        .replace("127.0.0.1:8787", &format!("127.0.0.1:{port}"));
    let webhooks = format!("YAML\nprintf 'webhooks: {{ghWebhook: {{port: {port}}}}}\\n'");
    let first = first.replace("\nYAML\n", &format!("\n{webhooks} >> .the-loop/config.yaml\n"));
    assert!(first.contains(&format!("port: {port}")) && first.contains("deliver status"));
    (first, last.to_owned())
}

#[tokio::test]
async fn its_deliveries_do_what_it_says() {
    let place = short_dir();
    let home = place.path().join("h");
    std::fs::create_dir(&home).unwrap();
    let hello = place.path().join("hello");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (begin, end) = blocks(hello.to_str().unwrap(), port);
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_the-loop")).parent().unwrap();
    let tmux = tmux_path();
    let shell = |script: &str, dir: &std::path::Path| {
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", script])
            .current_dir(dir)
            .env_clear()
            .env("HOME", &home)
            // The user's own tmux server is another one than here.
            .env("TMUX_TMPDIR", &home)
            .env("LANG", "C.UTF-8")
            .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    };
    let said = shell(&begin, env!("CARGO_MANIFEST_DIR").as_ref());
    assert_eq!(said.matches("202 ").count(), 11, "{said}");
    assert!(said.contains("202 ping\n"), "{said}");
    assert!(said.contains("last ping      20"), "{said}");
    let events = eventually("everything came to its end", async || {
        let events = shell("the-loop events --json", &hello);
        (!events.contains("\"state\": \"queued\"") && !events.contains("\"injecting\""))
            .then_some(events)
    })
    .await;
    let events: serde_json::Value = serde_json::from_str(&events).unwrap();
    let outcome = |event: &str| {
        let all = events["deliveries"].as_array().unwrap();
        let found = all.iter().filter(|delivery| delivery["event"] == event);
        let word = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        found.map(|one| word(&one["state"]) + " " + &word(&one["reason"])).collect::<Vec<_>>()
    };
    for (event, expected) in [
        ("ping", &["done ping"][..]),
        ("issues", &["delivered accepted", "delivered accepted"]),
        ("issue_comment", &["delivered accepted"]),
        ("pull_request", &["ignored not-armed"]),
        ("pull_request_review", &["ignored empty-text"]),
        ("pull_request_review_comment", &["ignored not-armed"]),
        ("check_run", &["ignored no-session"]),
        ("check_suite", &["ignored event-not-routed"]),
        ("workflow_run", &["ignored check-not-failed"]),
        ("status", &["ignored check-not-failed"]),
    ] {
        assert_eq!(outcome(event), expected, "{event}");
    }
    let list = format!("'{}' list-sessions -F '#{{session_name}}'", tmux.display());
    assert_eq!(shell(&list, &hello), "loop/codertocat+hello-world+1\n");
    let screen =
        format!("'{}' capture-pane -p -S - -t '=loop/codertocat+hello-world+1:'", tmux.display());
    let screen = shell(&screen, &hello);
    assert!(screen.contains("You are totally right! I'll get this fixed right away."), "{screen}");
    shell(&end, &hello);
    let list = format!("'{}' list-sessions 2>&1 || true", tmux.display());
    assert!(!shell(&list, &hello).contains("loop/"));
}
