//! Managed installs when something goes wrong on the way: servers that cut,
//! stall and lie, kills at every step, and versions that are in use.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType};
use the_loop::base::failure::chain;
use the_loop::core::config::Tools;
use the_loop::core::platform::Pin;
use the_loop::doctor::install::source::Source;
use the_loop::doctor::install::store::Store;
use the_loop::doctor::install::{Done, InstallError, Progress, install};
use the_loop::doctor::{ToolId, find};

use crate::doctor::{Place, SYSTEM, test_tool, text, wait_until, words};
use crate::file_server::{Reply, Server};
use crate::install::{active, archive, bad_archives, folder, header, pin, sha256};

struct Silent;

impl Progress for Silent {
    fn say(&self, _: &str) {}
}

pub(crate) async fn install_it(
    place: &Place,
    pin: &Pin,
    source: &Source,
) -> Result<Done, InstallError> {
    let path = "/usr/bin:/bin";
    let env = place.env(path).with_var("THE_LOOP_DOWNLOAD_TIMEOUT", "1");
    install(&env, ToolId::Tmux, pin, &Store::new(&place.dirs(path)), source, &Silent).await
}

/// An archive of a program of this version, and its pin.
pub(crate) fn build(version: &str) -> (Vec<u8>, Pin) {
    // Enough that does not compress to be cut in pieces.
    let noise: String =
        (0..2000_u32).map(|n| sha256(&n.to_le_bytes())).collect::<Vec<_>>().join("\n# ");
    let program = format!("#!/bin/sh\necho tmux {version}\nexit 0\n# {noise}\n");
    let file = archive(&[("tmux", program.as_bytes())]);
    let pin = Pin { version: version.to_owned(), ..pin(&file, Some("tmux")) };
    (file, pin)
}

pub(crate) fn tools(place: &Place) -> PathBuf {
    place.path("home/data/tools/tmux")
}

pub(crate) fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn current(place: &Place) -> String {
    let link = std::fs::read_link(tools(place).join("current")).unwrap();
    link.to_str().unwrap().to_owned()
}

/// Installs 3.8 first, so that there is something to lose.
async fn with_old() -> Place {
    let place = Place::new();
    let (file, pin) = build("3.8");
    install_it(&place, &pin, &folder(&place, &pin, &file)).await.unwrap();
    place
}

fn assert_old_works(place: &Place) {
    assert_eq!(current(place), "3.8");
    let binary = tools(place).join("current/tmux");
    let output = std::process::Command::new(binary).arg("-V").output().unwrap();
    assert_eq!(text(&output.stdout), "tmux 3.8\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_cut_at_any_tenth_goes_on_where_it_was_cut() {
    for tenth in 1..10 {
        let place = Place::new();
        let (file, pin) = build("3.9");
        let cut = file.len() * tenth / 10;
        let served = file.clone();
        let server = Server::start(move |number, range| {
            Reply::range(&served, range, if number == 1 { cut } else { served.len() })
        })
        .await;
        install_it(&place, &pin, &server.source()).await.unwrap();
        assert_eq!(server.asked(), [None, Some(cut)], "at {tenth} tenths");
        assert_eq!(names(&tools(&place)), [".lock", "3.9", "current"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_always_cuts_and_knows_no_ranges_changes_nothing() {
    let mut tasks = tokio::task::JoinSet::new();
    for tenth in 1..10 {
        tasks.spawn(async move {
            let place = with_old().await;
            let (file, pin) = build("3.9");
            let cut = file.len() * tenth / 10;
            let served = file.clone();
            let server = Server::start(move |_, _| Reply::whole(&served, cut)).await;
            let error = install_it(&place, &pin, &server.source()).await.unwrap_err();
            assert!(chain(&error).contains("could not download"), "{}", chain(&error));
            let asked = server.asked().len();
            assert!((4..=8).contains(&asked), "{asked}");
            assert_old_works(&place);
            let partial = format!(".partial-{}", pin.sha256);
            assert_eq!(names(&tools(&place)), [".lock", &partial, "3.8", "current"]);

            // What came is not fetched again when a server offers the rest.
            let served = file.clone();
            let server =
                Server::start(move |_, range| Reply::range(&served, range, served.len())).await;
            install_it(&place, &pin, &server.source()).await.unwrap();
            assert_eq!(server.asked(), [Some(cut)]);
            assert_eq!(names(&tools(&place)), [".lock", "3.8", "3.9", "current"]);
        });
    }
    tasks.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_of_another_file_is_thrown_away() {
    let place = with_old().await;
    let (file, pin) = build("3.9");
    std::fs::write(tools(&place).join(format!(".partial-{}", pin.sha256)), b"garbage").unwrap();
    let other = tools(&place).join(format!(".partial-{}", "0".repeat(64)));
    std::fs::write(&other, b"of an older pin").unwrap();
    let served = file.clone();
    let server = Server::start(move |_, range| Reply::range(&served, range, served.len())).await;
    install_it(&place, &pin, &server.source()).await.unwrap();
    assert_eq!(server.asked(), [Some(7), None]);
    assert_eq!(names(&tools(&place)), [".lock", "3.8", "3.9", "current"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_server_is_asked_again_after_the_pause_that_it_wants() {
    let (file, pin) = build("3.9");
    let served = file.clone();
    let server = Server::start(move |number, _| match number {
        1 => Reply::status("503 Service Unavailable\r\nRetry-After: 1"),
        _ => Reply::whole(&served, served.len()),
    })
    .await;
    let begin = Instant::now();
    let place = Place::new();
    install_it(&place, &pin, &server.source()).await.unwrap();
    assert!(begin.elapsed() >= Duration::from_secs(1));
    assert_eq!(server.asked().len(), 2);

    let server =
        Server::start(|_, _| Reply::status("429 Too Many Requests\r\nRetry-After: 3600")).await;
    let begin = Instant::now();
    let error = install_it(&Place::new(), &pin, &server.source()).await.unwrap_err();
    assert!(error.to_string().contains("status 429"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(30), "an hour is not waited for");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stalls_is_given_up() {
    let place = with_old().await;
    let (file, pin) = build("3.9");
    let server =
        Server::start(move |_, _| Reply { stalls: true, ..Reply::whole(&file, file.len() / 2) })
            .await;
    let begin = Instant::now();
    let error = install_it(&place, &pin, &server.source()).await.unwrap_err();
    assert!(chain(&error).contains("timed out"), "{}", chain(&error));
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert_old_works(&place);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_file_is_deleted_and_the_old_install_works() {
    let (file, pin) = build("3.9");
    let mut longer = file.clone();
    longer.extend(b"more");
    for (name, body, said) in [
        ("html", b"<html>sign in first</html>".to_vec(), "is not the pinned file"),
        ("longer", longer, "is larger than"),
        ("shorter", file[..file.len() - 1].to_vec(), "is not the pinned file"),
    ] {
        let place = with_old().await;
        let pin = Pin { size: Some(file.len() as u64), ..pin.clone() };
        let served = body.clone();
        let server = Server::start(move |_, _| Reply::whole(&served, served.len())).await;
        let error = install_it(&place, &pin, &server.source()).await.unwrap_err();
        assert!(error.to_string().contains(said), "{name}: {error}");
        if let InstallError::WrongDigest { found, expected, .. } = &error {
            assert_eq!((found, expected), (&sha256(&body), &pin.sha256));
        }
        assert_old_works(&place);
        assert_eq!(names(&tools(&place)), [".lock", "3.8", "current"], "{name}");
    }
}

#[tokio::test]
async fn whatever_is_wrong_with_an_archive_the_old_install_works_and_nothing_is_left() {
    for (name, file, said) in bad_archives() {
        let place = with_old().await;
        let pin = pin(&file, Some("tmux"));
        let error = install_it(&place, &pin, &folder(&place, &pin, &file)).await.unwrap_err();
        assert!(error.to_string().contains(said), "{name}: {error}");
        assert_old_works(&place);
        assert_eq!(names(&tools(&place)), [".lock", "3.8", "current"], "{name}");
    }
}

#[tokio::test]
async fn a_bomb_is_refused_before_it_unpacks() {
    type Archive = Builder<GzEncoder<Vec<u8>>>;
    let gz = |fill: &dyn Fn(&mut Archive)| {
        let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        fill(&mut builder);
        builder.into_inner().unwrap().finish().unwrap()
    };
    let zeros = |count: u64| std::io::Read::take(std::io::repeat(0), count);
    let size = 70 << 20;
    let member = gz(&|builder| {
        let mut head = header(EntryType::Regular, size);
        builder.append_data(&mut head, "tmux", zeros(size)).unwrap();
    });
    let name = gz(&|builder| {
        let mut head = header(EntryType::GNULongName, size);
        head.set_cksum();
        builder.append(&head, zeros(size)).unwrap();
    });
    let remark = gz(&|builder| {
        let mut head = header(EntryType::XHeader, size);
        head.set_cksum();
        builder.append(&head, zeros(size)).unwrap();
    });
    for (file, said) in
        [(member, "larger than"), (name, "not a regular file"), (remark, "not a regular file")]
    {
        assert!(file.len() < 1 << 20);
        let place = with_old().await;
        let pin = pin(&file, Some("tmux"));
        let error = install_it(&place, &pin, &folder(&place, &pin, &file)).await.unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
        assert_old_works(&place);
        assert_eq!(names(&tools(&place)), [".lock", "3.8", "current"]);
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[tokio::test]
async fn a_version_that_somebody_holds_is_not_pruned() {
    let place = Place::new();
    let put = async |version: &str| {
        let (file, pin) = build(version);
        install_it(&place, &pin, &folder(&place, &pin, &file)).await.unwrap();
    };
    // Only a pinned build is found.
    let pins = &ToolId::Tmux.data().pins;
    let is_ours = |pin: &&Pin| pin.version == "3.6a" && pin.url.ends_with("linux-x86_64.tar.gz");
    let source = Source::Folder(test_tool("tmux-3.6a").parent().unwrap().to_path_buf());
    install_it(&place, pins.iter().find(is_ours).unwrap(), &source).await.unwrap();
    let (env, dirs) = (place.env("/none"), place.dirs("/none"));
    let held = find(ToolId::Tmux, &env, &dirs, &Tools::default()).await.unwrap();
    assert_eq!(held.version().unwrap().to_string(), "3.6a");
    put("3.8").await;
    put("3.9").await;
    let versions = |place: &Place| {
        let mut found = active(place, "tmux");
        found.sort();
        found
    };
    assert_eq!(versions(&place), ["3.6a", "3.8", "3.9"]);
    drop(held);
    put("3.10").await;
    // The one in use before stays, for a shell may still be about to run it.
    assert_eq!(versions(&place), ["3.10", "3.9"]);
    assert_eq!(current(&place), "3.10");
}

#[tokio::test]
async fn going_back_to_an_older_version_is_a_switch() {
    let place = with_old().await;
    let (file, pin) = build("3.9");
    let source = folder(&place, &pin, &file);
    install_it(&place, &pin, &source).await.unwrap();
    assert_eq!(current(&place), "3.9");
    let (file, old) = build("3.8");
    let source = folder(&place, &old, &file);
    assert!(install_it(&place, &old, &source).await.unwrap().was_there);
    assert_old_works(&place);
}

#[test]
fn the_binary_of_a_running_server_is_neither_replaced_nor_removed() {
    let place = Place::new();
    let real = test_tool("tmux-3.6a");
    let folder = real.parent().unwrap().to_str().unwrap();
    let again =
        || place.run(SYSTEM, &["doctor", "--install", "tmux@3.6a", "--offline", folder], &[]);
    assert!(again().status.success());
    let dir = tools(&place).join("3.6a");
    let socket = place.path("s");
    let tmux = |args: &[&str]| {
        let mut command = std::process::Command::new(dir.join("tmux"));
        command.args(["-f", "/dev/null", "-S"]).arg(&socket).args(args).output().unwrap()
    };
    assert!(tmux(&["new-session", "-d", "cat"]).status.success());
    let listed = text(&place.run(SYSTEM, &["doctor", "--list"], &[]).stdout);
    assert!(listed.contains("3.6a") && listed.contains("used by process "), "{listed}");
    assert!(listed.contains(" (tmux"), "{listed}");

    let is_refused = |output: &std::process::Output| {
        let said = words(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("is in use by process "), "{said}");
        assert!(said.contains("hint: end what uses it, then run it again"), "{said}");
    };
    is_refused(&place.run(SYSTEM, &["doctor", "--uninstall", "tmux"], &[]));
    std::fs::remove_file(dir.join("receipt.json")).unwrap();
    is_refused(&again());
    // It is not run any more, and cannot be put right under the server.
    let listed = words(&place.run(SYSTEM, &["doctor", "--list"], &[]).stderr);
    assert!(listed.contains("tmux 3.6a is damaged: "), "{listed}");
    assert!(listed.contains("hint: it is used by process "), "{listed}");
    assert!(listed.contains(": end that first"), "{listed}");
    assert!(tmux(&["has-session"]).status.success());

    assert!(tmux(&["kill-server"]).status.success());
    wait_until("the server is gone", || {
        !text(&place.run(SYSTEM, &["doctor", "--list"], &[]).stdout).contains("used by")
    });
    assert!(again().status.success());
    let gone = place.run(SYSTEM, &["doctor", "--uninstall", "tmux@3.6a"], &[]);
    assert!(gone.status.success(), "{}", words(&gone.stderr));
    assert_eq!(names(&tools(&place)), [".lock"]);
    let nothing = place.run(SYSTEM, &["doctor", "--uninstall", "tmux"], &[]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(words(&nothing.stderr).contains("is not installed"), "{}", words(&nothing.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_step_leaves_what_the_next_run_puts_right() {
    let file = std::fs::read(test_tool("ttyd")).unwrap();
    let server = Server::start(move |_, range| Reply::range(&file, range, file.len())).await;
    let steps = [
        "locked",
        "prepared",
        "downloading",
        "fetched",
        "unpacked",
        "probed",
        "made room",
        "placed",
        "switched",
    ];
    for step in steps {
        let place = Place::new();
        let mark = place.path("tmp/parked");
        let mut parked = place
            .command("/usr/bin:/bin", &["doctor", "--install", "ttyd"])
            .env("THE_LOOP_MIRROR", &server.url)
            .env("THE_LOOP_TEST_PARK", step)
            .env("THE_LOOP_TEST_PARKED", &mark)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        crate::support::eventually(step, async || mark.exists().then_some(())).await;
        parked.kill().unwrap();
        parked.wait().unwrap();
        let mirror = [("THE_LOOP_MIRROR", server.url.as_str())];
        let next = place.run("/usr/bin:/bin", &["doctor", "--install", "ttyd"], &mirror);
        assert!(next.status.success(), "after {step}: {}", words(&next.stderr));
        let dir = place.path("home/data/tools/ttyd");
        assert_eq!(names(&dir), [".lock", "1.7.7", "current"], "after {step}");
        let real = std::fs::read(test_tool("ttyd")).unwrap();
        assert_eq!(std::fs::read(dir.join("current/ttyd")).unwrap(), real, "after {step}");
    }
}
