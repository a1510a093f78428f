//! Nothing that a browser types leads out of the agent's pane, whatever a person
//! has in his tmux.conf; and no browser changes what he has there.

use crate::support::eventually;
use crate::web_client::{Web, configured, content};

/// Settings of a person by which a key, or a mouse, could leave the pane.
const TRAPS: &str = "\
set -g prefix C-a
set -g prefix2 C-b
set -g mouse on
bind -n F5 run-shell 'touch MARK'
bind -n C-t new-window 'touch MARK; cat'
bind -n Any run-shell 'touch MARK'
bind -n WheelUpPane copy-mode -e
bind -n MouseDown1Pane run-shell 'touch MARK'
bind -n MouseDown3Pane display-menu x x 'run-shell \"touch MARK\"'
bind -n DoubleClick1Pane kill-server
bind x kill-session
bind -T copy-mode q run-shell 'touch MARK'
bind -T copy-mode-vi q run-shell 'touch MARK'
bind -T prefix q run-shell 'touch MARK'
set -g status on
set -g detach-on-destroy off
set -g destroy-unattached off
set -s escape-time 0
";

fn trapped(conf: &str) -> (crate::support::World, std::path::PathBuf) {
    let world = configured("");
    let mark = world.home.join("mark");
    let conf = conf.replace("MARK", &mark.display().to_string());
    std::fs::write(world.home.join(".tmux.conf"), conf).unwrap();
    (world, mark)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_and_no_mouse_of_a_browser_leaves_the_pane_whatever_tmux_conf_says() {
    let (world, mark) = trapped(TRAPS);
    let web = Web::of(world).await;
    let (pane, file) = web.recorder("o/r#1").await;
    let mut terminal = web.terminal("/s/o+r+1/ws").await;
    terminal.shows("ready").await;
    let keys: [&[u8]; 13] = [
        b"\x01",
        b"\x02",
        b"\x02:",
        b"\x01x",
        b"\x02)",
        b"\x02s",
        b"\x02[",
        b"\x01q",
        b"\x14",
        b"\x1b[15~",
        b"\x1bx",
        b"q",
        b"plain",
    ];
    for key in keys {
        terminal.types(key).await;
    }
    // A click, a double click, a menu's click and a wheel, in each of the encodings.
    for mouse in
        ["\x1b[<0;5;5M", "\x1b[<0;5;5m", "\x1b[<2;5;5M", "\x1b[<64;5;5M", "\x1b[M !!", "\x1b[M`!!"]
    {
        terminal.types(mouse.as_bytes()).await;
        terminal.types(mouse.as_bytes()).await;
    }
    terminal.types(b"END").await;
    let typed = eventually("all is typed", async || {
        std::fs::read(&file).ok().filter(|typed| typed.ends_with(b"END"))
    })
    .await;
    // The mouse is tmux's own language: the agent has not asked for it.
    assert_eq!(typed, [keys.concat(), b"END".to_vec()].concat());
    let state = web.world.tmux.run(&[
        "display-message",
        "-p",
        "-t",
        &pane.pane_id,
        "#{pane_in_mode} #{session_windows} #{window_panes}",
    ]);
    assert_eq!(state.trim(), "0 1 1");
    assert_eq!(web.size(&pane), "100x30");
    assert!(!mark.exists(), "a command ran");
    assert_eq!(web.world.sessions().len(), 2, "{:?}", web.world.sessions());
    // A person at the keyboard keeps all of it.
    let own = |option: &str| {
        let target = format!("{}:", pane.session_id);
        web.world.tmux.run(&["show-options", "-A", "-v", "-t", &target, option]).trim().to_owned()
    };
    assert_eq!(own("prefix"), "C-a");
    assert_eq!(own("prefix2"), "C-b");
    assert_eq!(own("mouse"), "on");
    assert_eq!(own("status"), "on");
    assert_eq!(own("key-table"), "root");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_person_scrolls_a_browsers_keys_are_dropped_and_it_is_told() {
    let (world, mark) = trapped(TRAPS);
    let web = Web::of(world).await;
    let (pane, file) = web.recorder("o/r#1").await;
    let mut terminal = web.terminal("/s/o+r+1/ws").await;
    terminal.shows("ready").await;
    terminal.types(b"before").await;
    content(&file, 6).await;
    for mode in [&["copy-mode"][..], &["clock-mode"], &["choose-tree"]] {
        terminal.notices.clear();
        web.world.tmux.run(&[mode, &["-t", &pane.pane_id]].concat());
        terminal.is_told("of the mode", |notice| notice["inMode"] == true).await;
        for key in [&b"q"[..], b"\x1b", b"\x03", b"x", b"y", b":kill-server\r", b"\r"] {
            terminal.types(key).await;
        }
        // The relay takes frame by frame: after the answer to this all were dropped.
        assert!(terminal.frame(9, b"").await);
        while terminal.next().await != Some(crate::web_client::Frame::Ping) {}
        let state = ["display-message", "-p", "-t", &pane.pane_id, "#{pane_in_mode}"];
        assert_eq!(web.world.tmux.run(&state).trim(), "1", "{mode:?}");
        web.tmux.leave_mode(&pane).await.unwrap();
        terminal.is_told("of its end", |notice| notice["inMode"] == false).await;
    }
    terminal.types(b" after").await;
    assert_eq!(content(&file, 12).await, b"before after");
    assert!(!mark.exists(), "a command ran");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_reach_the_agents_pane_and_no_other_that_a_person_puts_in_front() {
    let web = Web::start().await;
    let (pane, file) = web.recorder("o/r#1").await;
    let mut terminal = web.terminal("/s/o+r+1/ws").await;
    terminal.shows("ready").await;
    // A shell of his own beside the agent, and a window of his own.
    let mark = web.world.home.join("mark");
    web.world.tmux.run(&["split-window", "-t", &pane.pane_id, "/bin/sh"]);
    terminal.is_told("that it is behind", |notice| notice["behind"] == true).await;
    terminal.types(format!("touch {}\r", mark.display()).as_bytes()).await;
    assert!(terminal.frame(9, b"").await);
    while terminal.next().await != Some(crate::web_client::Frame::Ping) {}
    terminal.notices.clear();
    web.world.tmux.run(&["select-pane", "-t", &pane.pane_id]);
    terminal.is_told("that it is not", |notice| notice["behind"] == false).await;
    web.world.tmux.run(&["new-window", "-t", &format!("{}:", pane.session_id), "/bin/sh"]);
    terminal.types(b"for the agent").await;
    assert_eq!(content(&file, 13).await, b"for the agent");
    assert!(!mark.exists(), "a shell took the keys");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_changes_the_agents_size_under_no_setting() {
    for setting in ["latest", "smallest", "largest", "manual"] {
        let (world, _) = trapped(&format!("set -g window-size {setting}\n"));
        let web = Web::of(world).await;
        let (pane, _) = web.recorder("o/r#1").await;
        let mut typist = web.terminal("/s/o+r+1/ws").await;
        let mut watcher = web.terminal("/v/o+r+1/ws").await;
        for terminal in [&mut typist, &mut watcher] {
            terminal.shows("ready").await;
            for size in ["20", "400", "65535"] {
                let frame = format!("1{{\"columns\":{size},\"rows\":{size}}}");
                terminal.frame(2, frame.as_bytes()).await;
            }
        }
        typist.types(b"typed").await;
        watcher.shows("typed").await;
        assert_eq!(web.size(&pane), "100x30", "{setting}");
        // A person may: then every browser is told.
        web.world.tmux.run(&["resize-window", "-t", &pane.pane_id, "-x", "70", "-y", "20"]);
        for terminal in [&mut typist, &mut watcher] {
            let is_new = |notice: &serde_json::Value| notice["columns"] == 70;
            let notice = terminal.is_told("the new size", is_new).await;
            assert_eq!(notice["lines"], 20);
        }
        let set = web.world.tmux.run(&["show-options", "-gwv", "window-size"]);
        assert_eq!(set.trim(), setting, "a person's own setting");
        drop((typist, watcher));
        eventually("the viewers' session is gone", async || {
            (web.world.sessions() == ["loop/o+r+1"]).then_some(())
        })
        .await;
        assert_eq!(web.size(&pane), "70x20", "{setting}");
    }
}

/// A pane whose program asks for modes of the terminal and keeps what it reads.
async fn keeper(web: &Web, reference: &str, modes: &str) -> std::path::PathBuf {
    let file = web.world.home.join(reference.replace(['/', '#'], "-"));
    let script = format!("stty raw -echo; printf '{modes}ready'; exec cat >'{}'", file.display());
    let pane = web.session(reference, &script).await;
    eventually("it is ready", async || {
        web.tmux.look(&pane).await.unwrap().screen.contains("ready").then_some(())
    })
    .await;
    file
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_comes_as_the_program_wants_it_and_not_as_the_page_sends_it() {
    let web = Web::start().await;
    let plain = keeper(&web, "o/r#1", "").await;
    let modal = keeper(&web, "o/r#2", "\\033[?1h\\033[?2004h").await;
    let mut one = web.terminal("/s/o+r+1/ws").await;
    let mut two = web.terminal("/s/o+r+2/ws").await;
    // Sent; read without modes; read with cursor keys and pastes of their own.
    for (sent, without, with) in [
        ("\x1bOA", "\x1b[A", "\x1bOA"),
        ("\x1b[B", "\x1b[B", "\x1bOB"),
        ("\x1b[1;5C", "\x1b[1;5C", "\x1b[1;5C"),
        ("\x1b[1;4D", "\x1b[1;4D", "\x1b[1;4D"),
        ("\x1bOH", "\x1b[1~", "\x1b[1~"),
        ("\x1b[3~", "\x1b[3~", "\x1b[3~"),
        ("\x1b[6;5~", "\x1b[6;5~", "\x1b[6;5~"),
        ("\x1bOP", "\x1bOP", "\x1bOP"),
        ("\x1b[24~", "\x1b[24~", "\x1b[24~"),
        ("\x1b[Z", "\x1b[Z", "\x1b[Z"),
        ("\x1b", "\x1b", "\x1b"),
        ("\x1b\r", "\x1b\r", "\x1b\r"),
        ("é ✓ \u{1f600}", "é ✓ \u{1f600}", "é ✓ \u{1f600}"),
        ("';\"{}#$\\~%", "';\"{}#$\\~%", "';\"{}#$\\~%"),
        ("\x1b[200~a\rb\x1b[201~", "a\rb", "\x1b[200~a\rb\x1b[201~"),
        // What the page answers by itself goes to nobody.
        ("\x1b[I\x1b[O\x1b[?1;2c\x1b[12;40R\x1b]11;rgb:1/2/3\x1b\\\x1bP>|x\x1b\\.", ".", "."),
    ] {
        for (terminal, file, wanted) in [(&mut one, &plain, without), (&mut two, &modal, with)] {
            std::fs::write(file, "").unwrap();
            terminal.types(sent.as_bytes()).await;
            let read = content(file, wanted.len()).await;
            // The program's own place in the file has not moved.
            let read = read.iter().skip_while(|byte| **byte == 0).copied().collect::<Vec<_>>();
            assert_eq!(String::from_utf8_lossy(&read), wanted, "{sent:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_control_character_and_each_key_with_alt_arrives_as_it_is() {
    let web = Web::start().await;
    let (_, file) = web.recorder("o/r#1").await;
    let mut terminal = web.terminal("/s/o+r+1/ws").await;
    terminal.shows("ready").await;
    let mut sent = Vec::new();
    for byte in 0..=0x7f {
        terminal.types(&[byte]).await;
        sent.push(byte);
    }
    for byte in (0x20..0x7f).filter(|byte| !b"[O]PX^_".contains(byte)) {
        terminal.types(&[0x1b, byte]).await;
        sent.extend([0x1b, byte]);
    }
    let long = vec![b'x'; 20_000];
    for part in long.chunks(8_000) {
        terminal.types(part).await;
    }
    sent.extend(&long);
    assert_eq!(content(&file, sent.len()).await, sent);
}
