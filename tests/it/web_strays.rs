//! What others do with tmux beside a browser: no command of theirs, and no key of
//! theirs, leads it or them astray, or takes a key of it.

use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{TmuxServer, eventually, tmux_path};
use crate::web_client::{Terminal, Web, configured, content};

const VIEWERS: &str = "loop-web/";

/// Two sessions with a browser before the first, and its file and that of the other.
async fn two() -> (Web, Terminal, std::path::PathBuf, std::path::PathBuf) {
    let web = Web::start().await;
    let (_, file) = web.recorder("o/r#1").await;
    let (other, other_file) = web.recorder("o/r#2").await;
    web.world.tmux.run(&["send-keys", "-t", &other.pane_id, "-l", "SECRET"]);
    content(&other_file, 6).await;
    let mut terminal = web.terminal("/s/o+r+1/ws").await;
    terminal.shows("ready").await;
    (web, terminal, file, other_file)
}

/// The clients: whether it is one in control mode, its name, its session.
fn clients(web: &Web) -> Vec<(bool, String, String)> {
    let format = "#{client_control_mode}|#{client_name}|#{session_name}";
    let rows = web.world.tmux.run(&["list-clients", "-F", format]);
    let row = |row: &str| {
        let mut fields = row.splitn(3, '|').map(str::to_owned);
        let control = fields.next()? == "1";
        Some((control, fields.next()?, fields.next()?))
    };
    rows.lines().filter_map(row).collect()
}

/// The name of the one client of a browser, at the first session's viewers.
async fn browsers_client(web: &Web) -> String {
    eventually("the browser has a client", async || {
        let all = clients(web).into_iter();
        let mut own = all.filter(|(control, _, at)| !control && at.starts_with(VIEWERS));
        let one = own.next()?.1;
        own.next().is_none().then_some(one)
    })
    .await
}

/// Begins a command that may wait for an answer.
fn begin(web: &Web, variables: &[(&str, String)], args: &[&str]) -> Child {
    let mut command = Command::new(tmux_path());
    command.args(["-u", "-f", "/dev/null", "-S"]).arg(&web.world.tmux.socket).args(args);
    command.env_remove("TMUX").envs(variables.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

const POPUP: &[&str] = &["display-popup", "echo POPUP; exec sleep 60"];
const MENU: &[&str] = &["display-menu", "-T", "MENU", "item", "x", "kill-server"];
const PROMPT: &[&str] = &["command-prompt", "-p", "PROMPT"];
const CONFIRM: &[&str] = &["confirm-before", "-p", "CONFIRM", "kill-server"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_names_no_client_takes_no_key_of_a_browser() {
    let (web, mut terminal, file, other) = two().await;
    let mut watcher = web.terminal("/v/o+r+1/ws").await;
    watcher.shows("ready").await;
    let server = web.world.tmux.run(&["display-message", "-p", "#{pid}"]);
    let pane = web.world.tmux.run(&["display-message", "-p", "-t", "=loop/o+r+1:", "#{pane_id}"]);
    // From a shell, and from the agent's own pane.
    let own = [
        ("TMUX", format!("{},{},0", web.world.tmux.socket.display(), server.trim())),
        ("TMUX_PANE", pane.trim().to_owned()),
    ];
    let lead = &["switch-client", "-t", "=loop/o+r+2"][..];
    for (round, variables) in [&[][..], &own].into_iter().enumerate() {
        for (number, command) in [POPUP, MENU, PROMPT, CONFIRM, lead].into_iter().enumerate() {
            let child = begin(&web, variables, command);
            let word = format!("y{round}{number}\r");
            terminal.types(word.as_bytes()).await;
            content(&file, 4 * (round * 5 + number + 1)).await;
            end(child);
        }
    }
    terminal.types(b"END").await;
    for terminal in [&mut terminal, &mut watcher] {
        terminal.shows("END").await;
    }
    eventually("both are where they belong", async || {
        let all = clients(&web);
        let at = |place: &str| all.iter().filter(|(_, _, at)| at.starts_with(place)).count();
        (at(VIEWERS) == 3 && at("loop/") == 0).then_some(())
    })
    .await;
    assert_eq!(std::fs::read(other).unwrap(), b"SECRET");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_that_is_led_away_by_name_comes_back_and_types_to_its_agent_all_the_while() {
    let (web, mut terminal, file, other) = two().await;
    let mut bytes = 0;
    for command in [
        &["switch-client", "-t", "=loop/o+r+2", "-c"][..],
        &["suspend-client", "-t"],
        &["detach-client", "-t"],
        &["switch-client", "-n", "-c"],
    ] {
        let client = browsers_client(&web).await;
        terminal.notices.clear();
        web.world.tmux.run(&[command, &[&client]].concat());
        let word = format!("<{bytes:03}>");
        terminal.types(word.as_bytes()).await;
        bytes += word.len();
        content(&file, bytes).await;
        terminal.is_told("its size again", |notice| notice["kind"] == "size").await;
        terminal.output.clear();
        // What is drawn now is its own session.
        terminal.shows(&word).await;
    }
    assert_eq!(std::fs::read(&file).unwrap().len(), bytes);
    assert_eq!(std::fs::read(other).unwrap(), b"SECRET");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_persons_hooks_do_not_run_for_a_browser() {
    let world = configured("");
    let mark = world.home.join("mark");
    let hooks = ["client-attached", "client-session-changed", "client-resized"];
    let conf = hooks
        .iter()
        .map(|hook| {
            format!(
                "set-hook -g {hook} 'run-shell \"touch {}\" ; switch-client -t loop/o+r+2'\n",
                mark.display()
            )
        })
        .collect::<Vec<_>>()
        .concat();
    std::fs::write(world.home.join(".tmux.conf"), conf).unwrap();
    let web = Web::of(world).await;
    let (_, file) = web.recorder("o/r#1").await;
    let (other, _) = web.recorder("o/r#2").await;
    web.world.tmux.run(&["send-keys", "-t", &other.pane_id, "-l", "SECRET"]);
    let mut terminal = web.terminal("/s/o+r+1/ws").await;
    terminal.types(b"for the agent").await;
    terminal.shows("for the agent").await;
    browsers_client(&web).await;
    assert_eq!(content(&file, 13).await, b"for the agent");
    assert!(!mark.exists(), "a hook ran");
    assert!(!terminal.output.contains("SECRET"), "{:?}", terminal.output);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_opened_on_a_browser_by_name_takes_no_key_and_popups_and_menus_close() {
    let (web, mut terminal, file, _) = two().await;
    let client = browsers_client(&web).await;
    let named = |command: &[&'static str], flag| {
        let (first, rest) = command.split_first().unwrap();
        [&[*first, flag, client.as_str()][..], rest].concat().into_iter().map(str::to_owned)
    };
    let mut bytes = 0;
    for (command, flag, closes) in
        [(POPUP, "-c", true), (MENU, "-c", true), (PROMPT, "-t", false), (CONFIRM, "-t", false)]
    {
        let args: Vec<_> = named(command, flag).collect();
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        terminal.output.clear();
        let mut child = begin(&web, &[], &args);
        let word = command.iter().find_map(|word| {
            ["POPUP", "MENU", "PROMPT", "CONFIRM"].into_iter().find(|name| word.contains(name))
        });
        terminal.shows(word.unwrap()).await;
        // What a menu or a question would take for its answer.
        terminal.types(b"xy").await;
        bytes += 2;
        assert!(content(&file, bytes).await.ends_with(b"xy"));
        if closes {
            terminal.output.clear();
            // All is drawn anew without it.
            terminal.shows("ready").await;
            eventually("the command has ended", async || child.try_wait().unwrap()).await;
        }
        end(child);
    }
    // Another terminal of the same browser has nothing of it.
    let mut again = web.terminal("/s/o+r+1/ws").await;
    again.shows("ready").await;
    assert!(!again.output.contains("CONFIRM"), "{:?}", again.output);
    assert_eq!(std::fs::read(&file).unwrap().len(), bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_who_page_through_the_sessions_pass_those_for_viewers() {
    let web = Web::start().await;
    web.recorder("o/r#1").await;
    web.recorder("o/r#2").await;
    web.world.tmux.run(&["new-session", "-d", "-s", "a", "exec cat"]);
    web.world.tmux.run(&["set-option", "-g", "detach-on-destroy", "off"]);
    let mut one = web.terminal("/s/o+r+1/ws").await;
    let mut two = web.terminal("/v/o+r+2/ws").await;
    one.shows("ready").await;
    two.shows("ready").await;
    // A person's terminal, which is a pane of another server.
    let person = TmuxServer::new();
    let tmux = tmux_path();
    let (tmux, socket) = (tmux.to_str().unwrap(), web.world.tmux.socket.to_str().unwrap());
    let attach = ["env", "-u", "TMUX", tmux, "-u", "-S", socket, "attach", "-t", "=a"];
    let new = ["new-session", "-d", "-s", "p", "-x", "100", "-y", "31", "--"];
    person.run(&[&new[..], &attach].concat());
    let his = |what: &str| {
        let format = format!("#{{client_control_mode}}#{{client_readonly}}|#{{{what}}}");
        let rows = web.world.tmux.run(&["list-clients", "-F", &format]);
        rows.lines().find_map(|row| row.strip_prefix("00|")).map(str::to_owned)
    };
    let (place, client) = (|| his("session_name"), || his("client_name").unwrap());
    let comes_to = async |wanted: &str, way: &str| {
        let what = format!("by {way} he is at {wanted}");
        eventually(&what, async || (place().as_deref() == Some(wanted)).then_some(())).await;
    };
    comes_to("a", "attach").await;
    for (key, way) in
        [(")", ["loop/o+r+1", "loop/o+r+2", "a"]), ("(", ["loop/o+r+2", "loop/o+r+1", "a"])]
    {
        for _ in 0..2 {
            for wanted in way {
                person.run(&["send-keys", "-t", "p", "C-b", key]);
                comes_to(wanted, key).await;
            }
        }
    }
    // By name, and when his session ends.
    let sessions = web.world.sessions();
    let viewers = sessions.iter().find(|name| name.starts_with(VIEWERS)).unwrap();
    let client = client();
    for command in
        [&["switch-client", "-c", &client, "-t", viewers][..], &["kill-session", "-t", "=a"]]
    {
        web.world.tmux.run(command);
        let at = eventually("he is at an agent's own session", async || {
            place().filter(|at| at.starts_with("loop/"))
        })
        .await;
        // With its prefix.
        person.run(&["send-keys", "-t", "p", "C-b", ")"]);
        eventually("he goes on", async || place().filter(|now| *now != at)).await;
        web.world.tmux.run(&["switch-client", "-c", &client, "-t", "=a"]);
    }
    // The browsers have stayed.
    for (terminal, name) in [(&mut one, "one"), (&mut two, "two")] {
        assert!(terminal.frame(9, b"").await, "{name} has ended");
    }
    one.types(b"fine").await;
    one.shows("fine").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keeper_that_is_killed_leaves_no_helper_and_the_terminal_goes_on() {
    let (web, mut terminal, file, _) = two().await;
    eventually("all is set up", async || (web.processes().len() == 5).then_some(())).await;
    let before = web.processes();
    for line in before.iter().filter(|line| line.trim_end().ends_with("the-loop keep")) {
        let pid = line.split(' ').next().unwrap().parse().ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }
    eventually("nothing that they kept is left", async || {
        let now = web.processes();
        now.iter().all(|line| !before.contains(line)).then_some(())
    })
    .await;
    terminal.types(b"again").await;
    content(&file, 5).await;
}
