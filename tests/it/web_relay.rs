//! The web terminal's relay, with a real ttyd and a real tmux behind it and a
//! client made by hand before it: what it passes on, what it drops, and that one
//! who harms his own terminal harms nobody else's.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use the_loop::base::clock::Clock;
use the_loop::base::dirs::Dirs;
use the_loop::core::config::{Config, LiveConfig, Tools};
use the_loop::doctor::{self, Tool, ToolId};
use the_loop::host::agents::Agents;
use the_loop::serve::web::{Bound, Parts};
use the_loop::state::inbox::Inbox;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::support::{env, eventually};
use crate::web_client::{Web, configured, content, ttyd_path};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_typed_reaches_the_agent_and_what_it_shows_the_browser() {
    let web = Web::start().await;
    let (_, file) = web.recorder("o/r#1").await;
    let mut terminal = web.terminal("/s/o+r+1/ws").await;
    terminal.shows("ready").await;
    assert_eq!(terminal.notices[0]["kind"], "size");
    assert_eq!(terminal.notices[0]["columns"], 100);
    assert_eq!(terminal.notices[1]["inMode"], false);
    terminal.types("hello ✓".as_bytes()).await;
    terminal.shows("hello ✓").await;
    assert_eq!(content(&file, 9).await, "hello ✓".as_bytes());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_browsers_and_a_local_terminal_see_the_same_and_all_may_type() {
    let web = Web::start().await;
    let (pane, file) = web.recorder("o/r#1").await;
    let mut one = web.terminal("/s/o+r+1/ws").await;
    let mut other = web.terminal("/s/o+r+1/ws").await;
    let mut watcher = web.terminal("/v/o+r+1/ws").await;
    one.types(b"one ").await;
    content(&file, 4).await;
    other.types(b"two ").await;
    content(&file, 8).await;
    web.world.tmux.run(&["send-keys", "-t", &pane.pane_id, "-l", "local"]);
    assert_eq!(content(&file, 13).await, b"one two local");
    for terminal in [&mut one, &mut other, &mut watcher] {
        terminal.shows("local").await;
        assert!(terminal.output.contains("one"), "{}", terminal.output);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_watches_cannot_type_paste_or_resize_by_frames_of_any_kind() {
    let web = Web::start().await;
    let (pane, file) = web.recorder("o/r#1").await;
    let mut watcher = web.terminal("/v/o+r+1/ws").await;
    watcher.shows("ready").await;
    for opcode in [1, 2] {
        for payload in [
            "0typed",
            "0\x1b[200~pasted\x1b[201~",
            "0\x02",
            "1{\"columns\":20,\"rows\":5}",
            "{\"AuthToken\":\"\",\"columns\":20,\"rows\":5}",
            "0",
            "2x",
            "9unknown",
            "\0",
        ] {
            assert!(watcher.frame(opcode, payload.as_bytes()).await);
        }
    }
    // In two parts, the first of them empty.
    assert!(watcher.raw(0x02, 0, b"").await);
    assert!(watcher.raw(0x80, 6, b"0parts").await);
    // He is still there, and so are they who may type.
    let mut typist = web.terminal("/s/o+r+1/ws").await;
    typist.types(b"allowed").await;
    watcher.shows("allowed").await;
    assert_eq!(content(&file, 7).await, b"allowed");
    assert_eq!(web.size(&pane), "100x30");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_frame_and_an_endless_size_end_nothing() {
    let web = Web::start().await;
    let (pane, file) = web.recorder("o/r#1").await;
    let mut terminal = web.terminal("/s/o+r+1/ws").await;
    let mut other = web.terminal("/s/o+r+1/ws").await;
    terminal.shows("ready").await;
    other.shows("ready").await;
    let before = web.processes();
    for opcode in [1, 2] {
        assert!(terminal.frame(opcode, b"").await);
        for size in ["65535", "1", "0", "-1", "99999999999", "1e99"] {
            let frame = format!("1{{\"columns\":{size},\"rows\":{size}}}");
            assert!(terminal.frame(opcode, frame.as_bytes()).await);
            let hello = format!("{{\"columns\":{size},\"rows\":{size}}}");
            assert!(terminal.frame(opcode, hello.as_bytes()).await);
        }
    }
    terminal.types(b"one").await;
    other.types(b"two").await;
    assert_eq!(content(&file, 6).await.len(), 6);
    assert_eq!(web.size(&pane), "100x30");
    assert_eq!(web.processes(), before, "nothing was started again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_without_an_end_is_refused_by_its_head_and_others_go_on() {
    let web = Web::start().await;
    let (_, file) = web.recorder("o/r#1").await;
    let mut other = web.terminal("/s/o+r+1/ws").await;
    let before = resident(web.world.pid());
    // Nothing above 64 KiB is waited for.
    let mut one = web.terminal("/s/o+r+1/ws").await;
    one.raw(0x82, (64 << 10) + 1, b"0begin").await;
    assert_eq!(one.ends().await, Some(1008));
    // One frame of 100 MB, and 100 MB in frames that are each small enough.
    let mut one = web.terminal("/s/o+r+1/ws").await;
    one.raw(0x82, 100 << 20, b"0begin").await;
    assert_eq!(one.ends().await, Some(1008));
    let mut one = web.terminal("/s/o+r+1/ws").await;
    let part = vec![b'0'; 32 << 10];
    one.raw(0x02, part.len() as u64, &part).await;
    for _ in 0..3200 {
        if !one.raw(0x00, part.len() as u64, &part).await {
            break;
        }
    }
    drop(one);
    other.types(b"fine").await;
    assert_eq!(content(&file, 4).await, b"fine");
    let grown = resident(web.world.pid()).saturating_sub(before);
    assert!(grown < 16 << 10, "{grown} KiB more than before");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_frames_is_slowed_and_loses_no_key_and_others_do_not_feel_it() {
    let web = Web::start().await;
    let (_, flooded) = web.recorder("o/r#1").await;
    let (_, quiet) = web.recorder("o/r#2").await;
    let mut one = web.terminal("/s/o+r+1/ws").await;
    let mut other = web.terminal("/s/o+r+2/ws").await;
    one.shows("ready").await;
    other.shows("ready").await;
    let flood = async {
        let begin = Instant::now();
        for number in 0..2000 {
            one.types(format!("{number:04}").as_bytes()).await;
        }
        let typed = content(&flooded, 8000).await;
        (typed, begin.elapsed())
    };
    let calm = async {
        let mut slowest = Duration::ZERO;
        for number in 0..20 {
            let begin = Instant::now();
            let word = format!("<{number}>");
            other.types(word.as_bytes()).await;
            other.shows(&word).await;
            slowest = slowest.max(begin.elapsed());
        }
        slowest
    };
    let ((typed, took), slowest) = tokio::join!(flood, calm);
    let expected = (0..2000).flat_map(|number| format!("{number:04}").into_bytes());
    assert!(typed.iter().copied().eq(expected), "{}", String::from_utf8_lossy(&typed));
    assert!(took > Duration::from_secs(3), "{took:?}: nothing was slowed");
    assert!(slowest < Duration::from_secs(1), "{slowest:?} for an echo");
    assert!(std::fs::read(&quiet).unwrap().ends_with(b"<19>"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_who_break_off_leave_nothing_open() {
    let web = Web::start().await;
    let (_, file) = web.recorder("o/r#1").await;
    let mut stays = web.terminal("/s/o+r+1/ws").await;
    stays.shows("ready").await;
    web.terminal("/v/o+r+1/ws").await.shows("ready").await;
    let clients = async || web.processes().len();
    let settled = eventually("the first watcher is gone", async || {
        // A ttyd and a follower with their keepers, and the one who stays.
        Some(clients().await).filter(|number| *number == 5)
    })
    .await;
    let open = descriptors(web.world.pid());
    for number in 0..200 {
        let path = if number % 2 == 0 { "/s/o+r+1/ws" } else { "/v/o+r+1/ws" };
        let mut terminal = web.terminal(path).await;
        match number % 4 {
            0 => {}
            1 => {
                terminal.frame(2, b"0half").await;
            }
            2 => {
                terminal.next().await;
            }
            _ => {
                terminal.raw(0x82, 40, b"0 and no more").await;
            }
        }
    }
    eventually("the clients of tmux are gone", async || (clients().await == settled).then_some(()))
        .await;
    eventually("the descriptors are closed", async || {
        (descriptors(web.world.pid()) <= open).then_some(())
    })
    .await;
    stays.types(b"fine").await;
    stays.shows("fine").await;
    assert!(content(&file, 4).await.ends_with(b"fine"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_look_at_one_session_and_all_see_it() {
    let web = Web::start().await;
    let (pane, _) = web.recorder("o/r#1").await;
    let mut typist = web.terminal("/s/o+r+1/ws").await;
    let mut watchers = Vec::new();
    for _ in 0..50 {
        watchers.push(web.terminal("/v/o+r+1/ws").await);
    }
    typist.types(b"seen by all").await;
    for watcher in &mut watchers {
        watcher.shows("seen by all").await;
    }
    assert_eq!(web.size(&pane), "100x30");
    drop(watchers);
    eventually("the clients of tmux are gone", async || (web.processes().len() == 5).then_some(()))
        .await;
    typist.types(b" and now").await;
    typist.shows("and now").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ttyd_that_is_killed_comes_back_under_its_browsers() {
    let web = Web::start().await;
    let (_, file) = web.recorder("o/r#1").await;
    web.recorder("o/r#2").await;
    let mut one = web.terminal("/s/o+r+1/ws").await;
    let mut other = web.terminal("/s/o+r+2/ws").await;
    one.shows("ready").await;
    other.shows("ready").await;
    for round in 0..3 {
        // A third one is about to become a client of tmux.
        let ttyds = eventually("there are two ttyds", async || {
            let all = web.processes().into_iter().filter(|line| line.contains(".sock"));
            Some(all.collect::<Vec<_>>()).filter(|all| all.len() == 2)
        })
        .await;
        // Of both sessions: which is whose does not show.
        for line in &ttyds {
            kill_process(pid_of(line), Signal::KILL).unwrap();
        }
        for terminal in [&mut one, &mut other] {
            terminal.notices.clear();
            terminal.is_told("its size again", |notice| notice["kind"] == "size").await;
            let word = format!("again{round}");
            terminal.types(word.as_bytes()).await;
            terminal.shows(&word).await;
        }
    }
    assert_eq!(content(&file, 18).await, b"again0again1again2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_one_session_is_told_and_the_viewers_of_another_stay_where_they_are() {
    let web = Web::start().await;
    let (pane, _) = web.recorder("o/r#1").await;
    web.recorder("o/r#2").await;
    web.world.tmux.run(&["set-option", "-g", "detach-on-destroy", "off"]);
    let mut one = web.terminal("/s/o+r+1/ws").await;
    let mut watcher = web.terminal("/v/o+r+1/ws").await;
    let mut other = web.terminal("/s/o+r+2/ws").await;
    other.types(b"a secret of the other").await;
    other.shows("a secret of the other").await;
    one.shows("ready").await;
    watcher.shows("ready").await;
    web.world.tmux.run(&["kill-session", "-t", &pane.session_id]);
    for terminal in [&mut one, &mut watcher] {
        assert_eq!(terminal.ends().await, Some(1000));
        let last = terminal.notices.last().unwrap();
        assert_eq!(
            (&last["kind"], &last["how"]),
            (&"ended".into(), &"its tmux session is gone".into())
        );
        assert!(!terminal.output.contains("secret"), "{}", terminal.output);
    }
    let panes = web.world.tmux.run(&["list-panes", "-a", "-F", "#{pane_id}"]);
    assert!(!panes.lines().any(|line| line == pane.pane_id), "the agent lives on: {panes}");
    other.types(b" goes on").await;
    other.shows("goes on").await;
    // And who comes later is told at once.
    let mut late = web.terminal("/s/o+r+1/ws").await;
    assert_eq!(late.ends().await, Some(1000));
    assert_eq!(late.notices[0]["kind"], "ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_an_agent_ended_is_told_after_its_last_words() {
    let web = Web::start().await;
    let fifo = web.world.home.join("go");
    // Like most agents it asks to be told of the focus.
    let script = format!(
        "printf '\\033[?1004h'; mkfifo '{0}'; read x < '{0}'; printf '\n\nlast words'; exit 7",
        fifo.display()
    );
    web.session("o/r#1", &script).await;
    web.session("o/r#2", "read x").await;
    let mut terminal = web.terminal("/v/o+r+1/ws").await;
    terminal.is_told("its size", |notice| notice["kind"] == "size").await;
    eventually("the agent waits", async || fifo.exists().then_some(())).await;
    std::fs::write(&fifo, "go\n").unwrap();
    assert_eq!(terminal.ends().await, Some(1000));
    let last = terminal.notices.last().unwrap();
    assert_eq!(last["how"], "the agent has ended: exit code 7");
    assert!(terminal.output.contains("last words"), "{:?}", terminal.output);
    eventually("nobody looks any more", async || {
        (web.world.sessions() == ["loop/o+r+1", "loop/o+r+2"]).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_a_session_ends_its_agent_under_the_eyes_of_its_viewers() {
    let web = Web::start().await;
    let (pane, _) = web.recorder("o/r#1").await;
    let mut terminal = web.terminal("/s/o+r+1/ws").await;
    terminal.shows("ready").await;
    // A person's own session of its group would keep the pane.
    web.world.tmux.run(&["new-session", "-d", "-t", &pane.session_id, "-s", "mine"]);
    let (code, out, err) = web.world.run(&["sessions", "close", "o/r#1"]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(terminal.ends().await, Some(1000));
    let panes = web.world.tmux.run(&["list-panes", "-a", "-F", "#{pane_id}"]);
    assert!(!panes.lines().any(|line| line == pane.pane_id), "the agent lives on: {panes}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_ends_says_good_bye_and_one_that_is_killed_leaves_no_process() {
    for signal in [Signal::TERM, Signal::KILL] {
        let mut web = Web::start().await;
        let (pane, _) = web.recorder("o/r#1").await;
        let mut one = web.terminal("/s/o+r+1/ws").await;
        let mut watcher = web.terminal("/v/o+r+1/ws").await;
        one.shows("ready").await;
        watcher.shows("ready").await;
        let sockets = sockets(&web);
        assert_eq!(sockets.len(), 1);
        eventually("all is set up", async || (web.processes().len() == 6).then_some(())).await;
        let begin = Instant::now();
        let end = tokio::task::block_in_place(|| web.world.end(signal));
        if signal == Signal::TERM {
            assert!(end.success(), "{end}");
            assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
            assert_eq!(one.ends().await, Some(1012));
            assert_eq!(watcher.ends().await, Some(1012));
        }
        eventually("no process is left", async || {
            eprintln!("{signal:?} {:#?}", web.processes());
            web.processes().is_empty().then_some(())
        })
        .await;
        assert_eq!(self::sockets(&web), Vec::<String>::new());
        eventually("only the agent's session is left", async || {
            (web.world.sessions() == ["loop/o+r+1"]).then_some(())
        })
        .await;
        assert_eq!(web.size(&pane), "100x30");
        // The next one serves it again.
        web.world.start().await;
        web.host = Web::host(&web.world);
        let mut again = web.terminal("/s/o+r+1/ws").await;
        again.types(b"again").await;
        again.shows("again").await;
    }
}

/// The sockets of the ttyds.
fn sockets(web: &Web) -> Vec<String> {
    let entries = std::fs::read_dir(web.world.state_dir().join("web")).unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The open descriptors of a process.
fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// The memory of a process, in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn pid_of(line: &str) -> Pid {
    Pid::from_raw(line.split(' ').next().unwrap().parse().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ttyd_that_nobody_looks_through_ends_and_the_next_who_comes_has_one_again() {
    let (mut web, paths) = Web::around(configured("")).await;
    let env = env(&web.world.home);
    let dirs = Dirs::new(&env.clone().with_var("THE_LOOP_HOME", "/nonexistent")).unwrap();
    let mut tools = Tools::default();
    tools.ttyd.path = Some(ttyd_path());
    let mut config = Config::default().routing.web_terminal;
    config.port = 0;
    let bound = Bound::bind(&config).await.unwrap();
    bound.url().trim_start_matches("http://").trim_end_matches('/').clone_into(&mut web.host);
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    paths.prepare().unwrap();
    let served = the_loop::serve::web::Web::new(Parts {
        registry: web.registry.clone(),
        inbox: Inbox::open(&paths.inbox(), Clock::System).unwrap(),
        tmux: web.tmux.clone(),
        ttyd: doctor::find(ToolId::Ttyd, &env, &dirs, &tools).await.unwrap(),
        program: Tool::this_program(&env),
        agents: Agents::new(&Config::default(), Tool::this_program(&env), env.clone(), dirs),
        home: None,
        config: LiveConfig::new(Config::default()),
        paths,
        clock: Clock::System,
        tasks: tasks.clone(),
        stop: stop.clone(),
        url: bound.url().to_owned(),
        idle: Duration::from_millis(400),
    });
    let serving = tokio::spawn(bound.serve(served));
    web.recorder("o/r#1").await;
    for round in 0..2 {
        let mut terminal = web.terminal("/s/o+r+1/ws").await;
        terminal.shows("ready").await;
        drop(terminal);
        eventually("the viewers' session ends at once", async || {
            (web.world.sessions() == ["loop/o+r+1"]).then_some(())
        })
        .await;
        if round == 0 {
            // Somebody came back in time: it is the same one.
            let ttyds = async || web.processes().len();
            assert_eq!(ttyds().await, 2, "{:?}", web.processes());
            web.terminal("/s/o+r+1/ws").await.shows("ready").await;
        }
        eventually("nothing runs any more", async || web.processes().is_empty().then_some(()))
            .await;
    }
    stop.cancel();
    serving.await.unwrap();
    tasks.close();
    tasks.wait().await;
}
