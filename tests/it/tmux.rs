//! The tmux driver, on the real tmux.

use the_loop::base::dirs::Dirs;
use the_loop::base::ids::{Marker, WorkItem};
use the_loop::core::config::{SubmitKey, Tools};
use the_loop::doctor::{self, ToolId};
use the_loop::host::tmux::{NewSession, Pane, PaneState, Server, Tmux, TmuxError, UNKNOWN_STATUS};

use crate::support::{TmuxServer, env, eventually};

struct World {
    server: TmuxServer,
    tmux: Tmux,
}

async fn world() -> World {
    let server = TmuxServer::new();
    let tool = tmux_tool(&env(server.dir.path())).await;
    let tmux = Tmux::new(tool, Server::Socket(server.socket.clone()), "me".to_owned());
    World { server, tmux }
}

async fn tmux_tool(env: &the_loop::base::env::Env) -> doctor::Tool {
    let dirs = Dirs::new(&env.clone().with_var("THE_LOOP_HOME", "/nonexistent")).unwrap();
    let mut tools = Tools::default();
    tools.tmux.path = Some(crate::support::tmux_path());
    doctor::find(ToolId::Tmux, env, &dirs, &tools).await.expect("the tests need a tmux")
}

fn item(text: &str) -> WorkItem {
    text.parse().unwrap()
}

fn marker(byte: u8) -> Marker {
    Marker::new([byte; 16])
}

impl World {
    async fn start(&self, reference: &str, script: &str) -> Result<Pane, TmuxError> {
        let item = item(reference);
        let command = ["/bin/sh", "-c", script].map(Into::into).to_vec();
        self.tmux
            .new_session(&NewSession {
                name: &item.slug().tmux_name(),
                item: &item,
                conversation: "c-1",
                size: (100, 30),
                cwd: self.server.dir.path(),
                command,
            })
            .await
    }

    /// A pane that writes what it reads, byte for byte, into a file.
    async fn recorder(&self, reference: &str) -> (Pane, std::path::PathBuf) {
        let file = self.server.dir.path().join(item(reference).slug().as_str());
        let script =
            format!("stty raw -echo; printf '\\033[?2004hready'; exec cat > '{}'", file.display());
        let pane = self.start(reference, &script).await.unwrap();
        eventually("the recorder is ready", async || {
            self.tmux.look(&pane).await.unwrap().screen.contains("ready").then_some(())
        })
        .await;
        (pane, file)
    }
}

async fn content(file: &std::path::Path, bytes: usize) -> Vec<u8> {
    eventually("the bytes arrive", async || {
        std::fs::read(file).ok().filter(|content| content.len() >= bytes)
    })
    .await
}

#[tokio::test]
async fn a_paste_arrives_byte_for_byte_and_the_submit_key_alone() {
    let world = world().await;
    let (pane, file) = world.recorder("o/r#1").await;
    let text = "first ÄÖ ✓ 漢\n\t!x\n/exit; 'q' \"d\" $(id) #{pid}\nend";
    world.tmux.paste(&pane, &marker(1), text).await.unwrap();
    world.tmux.submit(&pane, &marker(1), SubmitKey::Enter).await.unwrap();
    let expected = format!("\x1b[200~{text}\x1b[201~\r");
    assert_eq!(content(&file, expected.len()).await, expected.as_bytes());
    assert_eq!(world.server.run(&["list-buffers"]), "", "a buffer was left behind");
}

#[tokio::test]
async fn a_submit_key_of_another_name_arrives_as_what_a_terminal_sends_for_it() {
    let world = world().await;
    let (pane, file) = world.recorder("o/r#1").await;
    let mut expected = String::new();
    for name in ["C-m", "M-Enter", "S-Enter", "C-Enter", "C-j", "Tab"] {
        let key: SubmitKey = name.parse().unwrap();
        world.tmux.submit(&pane, &marker(1), key).await.unwrap();
        expected += &key.bytes();
        assert_eq!(content(&file, expected.len()).await, expected.as_bytes(), "{name}");
    }
    assert_eq!(expected, "\r\x1b\r\x1b[13;2u\x1b[13;5u\n\t");
}

#[tokio::test]
async fn sizes_from_one_byte_to_a_megabyte_arrive_whole() {
    let world = world().await;
    let (pane, file) = world.recorder("o/r#1").await;
    let mut sum = 0;
    for size in [1, 1_000, 20_000, 1_000_000] {
        world.tmux.paste(&pane, &marker(1), &"x".repeat(size)).await.unwrap();
        sum += size + 12;
        assert_eq!(content(&file, sum).await.len(), sum);
    }
}

#[tokio::test]
async fn a_name_that_begins_another_reaches_only_itself() {
    let world = world().await;
    let (ten, file) = world.recorder("o/r#10").await;
    assert_eq!(world.tmux.find("loop/o+r+1").await.unwrap(), None);
    let (one, _) = world.recorder("o/r#1").await;
    world.tmux.end(&one).await.unwrap();
    assert!(matches!(
        world.tmux.paste(&one, &marker(1), "for one").await,
        Err(TmuxError::NotLive { .. })
    ));
    assert!(matches!(world.tmux.look(&one).await, Err(TmuxError::Absent { .. })));
    world.tmux.paste(&ten, &marker(2), "for ten").await.unwrap();
    assert_eq!(content(&file, 19).await, b"\x1b[200~for ten\x1b[201~");
}

#[tokio::test]
async fn a_dead_pane_is_typed_into_by_nobody_and_its_server_lives() {
    let world = world().await;
    let (other, _) = world.recorder("o/r#2").await;
    let pane = world.start("o/r#1", "echo last words; exit 3").await.unwrap();
    eventually("it is dead", async || {
        let state = world.tmux.look(&pane).await.unwrap().state;
        matches!(state, PaneState::Dead(_)).then_some(())
    })
    .await;
    assert!(matches!(
        world.tmux.paste(&pane, &marker(1), "x").await,
        Err(TmuxError::NotLive { .. })
    ));
    assert!(matches!(
        world.tmux.submit(&pane, &marker(1), SubmitKey::Enter).await,
        Err(TmuxError::NotLive { .. })
    ));
    assert_eq!(world.tmux.last_lines(&pane, 5).await.unwrap(), ["last words"]);
    assert_eq!(world.tmux.look(&other).await.unwrap().state, PaneState::Live);
    assert_eq!(world.server.run(&["list-buffers"]), "");
}

#[tokio::test]
async fn the_last_words_of_a_full_screen_are_the_programs_own() {
    let world = world().await;
    world.recorder("o/r#2").await;
    // A person's own wording for dead panes does not come in between.
    world.server.run(&["set-option", "-gw", "remain-on-exit-format", "#[fg=red]it was"]);
    let full = "n=0; while [ $n -lt 50 ]; do echo line $n; n=$((n+1)); done";
    // What comes in a program's last instant is lost in 3.3a (docs/tmux.md), and not
    // asked for here.
    for (number, end, said, how) in [
        (3, "printf 'the last words'; exit 3", "the last words", "exit code 3"),
        (4, "echo 'the last words'; exit 0", "the last words", "exit code 0"),
        (5, "printf 'Pane is dead, said'; exit 255", "Pane is dead, said", "exit code 255"),
        (6, "printf 'the last words'; kill -9 $$", "the last words", "signal "),
    ] {
        let item = format!("o/r#{number}");
        let pane = world
            .start(&item, &format!("{full}; {}", end.replace("; ", "; sleep 0.3; ")))
            .await
            .unwrap();
        let told =
            eventually("it is dead", async || match world.tmux.look(&pane).await.unwrap().state {
                PaneState::Dead(told) => Some(told).filter(|told| told != UNKNOWN_STATUS),
                _ => None,
            })
            .await;
        assert!(told.starts_with(how), "{told}");
        let lines = world.tmux.last_lines(&pane, 3).await.unwrap();
        assert_eq!(lines, ["line 48", "line 49", said]);
    }
    // What a living program says is its own.
    let pane = world.start("o/r#7", "printf 'Pane is dead (no)'; exec sleep 600").await.unwrap();
    eventually("it has spoken", async || {
        let lines = world.tmux.last_lines(&pane, 3).await.unwrap();
        (lines == ["Pane is dead (no)"]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn in_copy_mode_nothing_is_pasted_but_a_submit_key_reaches_the_program() {
    let world = world().await;
    let (pane, file) = world.recorder("o/r#1").await;
    world.server.run(&["copy-mode", "-t", &pane.pane_id]);
    assert_eq!(world.tmux.look(&pane).await.unwrap().state, PaneState::CopyMode);
    assert!(world.tmux.paste(&pane, &marker(1), "x").await.is_err());
    world.tmux.submit(&pane, &marker(1), SubmitKey::Enter).await.unwrap();
    assert_eq!(content(&file, 1).await, b"\r");
}

#[tokio::test]
async fn a_session_keeps_its_size_and_its_program_is_the_panes_own() {
    let world = world().await;
    let (pane, _) = world.recorder("o/r.x#1").await;
    assert_eq!(pane.name, "loop/o+r++x+1");
    assert_eq!(world.tmux.look(&pane).await.unwrap().columns, 100);
    let shown = world.server.run(&[
        "display-message",
        "-p",
        "-t",
        &pane.pane_id,
        "#{pane_current_command} #{window_height} #{remain-on-exit} #{window-size}",
    ]);
    assert_eq!(shown.trim(), "cat 30 on manual");
}

#[tokio::test]
async fn a_strangers_session_of_our_name_is_left_alone() {
    let world = world().await;
    world.server.run(&["new-session", "-d", "-s", "loop/o+r+1", "sleep", "600"]);
    assert!(matches!(world.start("o/r#1", "cat").await, Err(TmuxError::NotOurs { .. })));
    assert!(world.server.run(&["ls"]).contains("loop/o+r+1"));
}

#[tokio::test]
async fn a_session_that_a_person_renamed_is_found_typed_into_and_named_again() {
    let world = world().await;
    let (pane, file) = world.recorder("o/r#1").await;
    let slug = item("o/r#1").slug();
    world.server.run(&["rename-session", "-t", &pane.session_id, "mine | now"]);
    let found = world.tmux.find_of(&slug).await.unwrap().unwrap();
    assert!(found.is_the_same_as(&pane) && found.name == "mine | now", "{found:?}");
    // One that is being typed into when it is renamed goes on.
    assert_eq!(world.tmux.look(&pane).await.unwrap().state, PaneState::Live);
    world.tmux.paste(&pane, &marker(1), "x").await.unwrap();
    content(&file, 13).await;
    // Somebody else's session has the name meanwhile: ours keeps what it has.
    world.server.run(&["new-session", "-d", "-s", "loop/o+r+1", "sleep", "600"]);
    let found = world.tmux.rename_back(found, &slug).await;
    assert_eq!(found.name, "mine | now");
    assert!(world.tmux.find_of(&slug).await.unwrap().unwrap().is_the_same_as(&pane));
    world.server.run(&["kill-session", "-t", "=loop/o+r+1"]);
    let found = world.tmux.rename_back(found, &slug).await;
    assert_eq!(found.name, "loop/o+r+1");
    assert!(world.tmux.find("loop/o+r+1").await.unwrap().unwrap().is_the_same_as(&pane));
}

#[tokio::test]
async fn options_of_the_user_that_end_sessions_are_noticed() {
    let world = world().await;
    world.server.run(&["new-session", "-d", "-s", "mine", "sleep", "600"]);
    world.server.run(&["set-hook", "-g", "session-created", "kill-session"]);
    let error = world.start("o/r#1", "cat").await.unwrap_err();
    assert!(matches!(error, TmuxError::Vanished { .. } | TmuxError::Failed { .. }), "{error:?}");
}

#[tokio::test]
async fn without_a_server_there_are_no_panes() {
    let world = world().await;
    assert_eq!(world.tmux.panes().await.unwrap(), []);
}

#[tokio::test]
async fn how_a_program_ended_is_known_also_where_tmux_missed_it() {
    let world = world().await;
    // Its terminal is closed, and tmux busy with that, when it ends.
    for number in 1..=8 {
        let end = "exec 0<&- 1>&- 2>&-; exit 7";
        let pane = world.start(&format!("o/r#{number}"), end).await.unwrap();
        eventually("its end is known", async || {
            let state = world.tmux.look(&pane).await.unwrap().state;
            (state == PaneState::Dead("exit code 7".to_owned())).then_some(())
        })
        .await;
    }
    let panes = world.tmux.panes().await.unwrap();
    assert!(panes.iter().all(|pane| pane.state == PaneState::Dead("exit code 7".to_owned())));
}

#[tokio::test]
async fn a_server_without_a_session_has_no_panes_and_takes_one() {
    let world = world().await;
    // As one is that has just begun, or that a person keeps.
    world.server.run(&["start-server", ";", "set-option", "-g", "exit-empty", "off"]);
    assert_eq!(world.tmux.panes().await.unwrap(), []);
    let pane = world.start("o/r#1", "cat").await.unwrap();
    world.tmux.end(&pane).await.unwrap();
    // And again, after the last one went.
    assert_eq!(world.tmux.panes().await.unwrap(), []);
    world.tmux.end(&pane).await.unwrap();
}

#[tokio::test]
async fn two_hundred_pastes_at_once_never_cross() {
    let world = world().await;
    let (one, first) = world.recorder("octo-a/b#1").await;
    let (two, second) = world.recorder("octo/a-b#1").await;
    let pastes = (0..100_u8).flat_map(|n| [(&one, n, "one"), (&two, n + 100, "two")]);
    let work: Vec<_> = pastes
        .map(|(pane, n, text)| {
            let (tmux, pane) = (world.tmux.clone(), pane.clone());
            tokio::task::spawn(async move { tmux.paste(&pane, &marker(n), text).await.unwrap() })
        })
        .collect();
    for task in work {
        task.await.unwrap();
    }
    let paste = |text| format!("\x1b[200~{text}\x1b[201~").repeat(100);
    assert_eq!(content(&first, 1_500).await, paste("one").as_bytes());
    assert_eq!(content(&second, 1_500).await, paste("two").as_bytes());
}

#[tokio::test]
async fn who_looks_at_an_agent_that_has_ended_ends_no_other() {
    let world = world().await;
    let other = world.start("o/r#2", "read x").await.unwrap();
    // Like most agents it asks to be told of the focus.
    let script = "i=1; while [ $i -lt 40 ]; do echo line $i; i=$((i+1)); done; \
                  printf '\\033[?1004hlast words\\n'; exit 3";
    let pane = world.start("o/r#1", script).await.unwrap();
    eventually("it has ended", async || {
        let look = world.tmux.look(&pane).await.unwrap();
        (look.state == PaneState::Dead("exit code 3".to_owned())).then_some(())
    })
    .await;
    let person = TmuxServer::new();
    let tmux = crate::support::tmux_path();
    let socket = world.server.socket.to_str().unwrap();
    let name = format!("={}", pane.name);
    for _ in 0..2 {
        person.run(
            &[
                &["new-session", "-d", "-s", "p", "-x", "100", "-y", "31", "--"],
                &["env", "-u", "TMUX", tmux.to_str().unwrap(), "-u", "-S", socket][..],
                &["attach", "-t", &name],
            ]
            .concat(),
        );
        eventually("the last words are seen", async || {
            let screen = person.run(&["capture-pane", "-p", "-t", "p"]);
            (screen.contains("line 39\nlast words")).then_some(())
        })
        .await;
        // They go as a person does.
        person.run(&["send-keys", "-t", "p", "C-b", "d"]);
        eventually("they are gone", async || {
            world.server.run(&["list-clients"]).is_empty().then_some(())
        })
        .await;
    }
    assert_eq!(world.tmux.look(&other).await.unwrap().state, PaneState::Live);
    let said = world.tmux.last_lines(&pane, 3).await.unwrap();
    assert_eq!(said, ["line 38", "line 39", "last words"]);
}
