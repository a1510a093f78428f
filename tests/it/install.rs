//! Managed installs: the real ttyd with its real pin out of a folder and from a
//! server, and archives that are wrong in every way.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Redirect};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};
use the_loop::base::failure::chain;
use the_loop::core::platform::{Arch, Format, Os, Pin};
use the_loop::doctor::ToolId;
use the_loop::doctor::install::source::Source;
use the_loop::doctor::install::store::Store;
use the_loop::doctor::install::{Done, InstallError, Progress, install};

use crate::doctor::{Place, test_tool, text, words};

pub(crate) const GOOD: &[u8] = b"#!/bin/sh\necho tmux 3.9\n";

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// A pin for a file that a test made.
pub(crate) fn pin(file: &[u8], member: Option<&str>) -> Pin {
    Pin {
        version: "3.9".into(),
        os: Os::Linux,
        arch: Arch::X86_64,
        url: "https://example.invalid/releases/v3.9/tmux-3.9.tar.gz".into(),
        format: if member.is_some() { Format::TarGz } else { Format::Binary },
        member: member.map(str::to_owned),
        sha256: sha256(file),
        binary_sha256: None,
        size: None,
        minimum_os: None,
        sources: 2,
    }
}

pub(crate) fn header(kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o755);
    header.set_size(size);
    header
}

/// An archive of regular files. A name is written as it is, however wrong.
pub(crate) fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, content) in members {
        let mut header = header(EntryType::Regular, content.len() as u64);
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

/// An archive with one member that is no regular file.
pub(crate) fn odd(kind: EntryType, target: &str) -> Vec<u8> {
    let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut header = header(kind, 0);
    builder.append_link(&mut header, "tmux", target).unwrap();
    builder.into_inner().unwrap().finish().unwrap()
}

#[derive(Default)]
pub(crate) struct Said(Mutex<Vec<String>>);

impl Progress for Said {
    fn say(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

pub(crate) async fn install_pin(
    place: &Place,
    pin: &Pin,
    source: &Source,
) -> Result<Done, InstallError> {
    let path = "/usr/bin:/bin";
    let store = Store::new(&place.dirs(path));
    install(&place.env(path), ToolId::Tmux, pin, &store, source, &Said::default()).await
}

/// A folder with one file under the pin's name, as a source.
pub(crate) fn folder(place: &Place, pin: &Pin, file: &[u8]) -> Source {
    let folder = place.path("folder");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(pin.file_name()), file).unwrap();
    Source::Folder(folder)
}

/// What is in the tool's folder but its lock, the link to the version
/// in use, and a download to go on with.
pub(crate) fn active(place: &Place, tool: &str) -> Vec<String> {
    let dir = place.path("home/data/tools").join(tool);
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_beside =
        |name: &str| [".lock", "current"].contains(&name) || name.starts_with(".partial-");
    names.filter(|name| !is_beside(name)).collect()
}

pub(crate) fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn install_ttyd(place: &Place, folder: &Path) -> std::process::Output {
    let folder = folder.to_str().unwrap();
    place.run("/usr/bin:/bin", &["doctor", "--install", "ttyd", "--offline", folder], &[])
}

#[test]
fn the_real_ttyd_is_installed_from_a_folder_and_then_used() {
    let place = Place::new();
    let real = test_tool("ttyd");
    let output = install_ttyd(&place, real.parent().unwrap());
    assert!(output.status.success(), "{}", words(&output.stderr));
    let path = place.path("home/data/tools/ttyd/1.7.7/ttyd");
    assert_eq!(text(&output.stdout), format!("ttyd 1.7.7 installed: {}\n", path.display()));
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&real).unwrap());
    assert_eq!(mode(&path), 0o755);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(active(&place, "ttyd"), ["1.7.7"]);

    let again = install_ttyd(&place, Path::new("/nowhere"));
    let said = format!("ttyd 1.7.7 is already installed: {}\n", path.display());
    assert_eq!(text(&again.stdout), said);

    let report = text(&place.run("/usr/bin:/bin", &["doctor", "--for", "web"], &[]).stdout);
    assert!(report.contains("ttyd 1.7.7-40e79c7, managed:"), "{report}");
}

#[test]
fn a_damaged_install_is_not_taken_for_a_good_one() {
    let place = Place::new();
    let real = test_tool("ttyd");
    assert!(install_ttyd(&place, real.parent().unwrap()).status.success());
    let path = place.path("home/data/tools/ttyd/1.7.7/ttyd");
    std::fs::write(&path, b"cut off").unwrap();
    let output = install_ttyd(&place, real.parent().unwrap());
    assert!(text(&output.stdout).contains(" installed: "), "{}", words(&output.stderr));
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&real).unwrap());
    assert_eq!(active(&place, "ttyd"), ["1.7.7"]);
}

#[test]
fn a_program_that_lost_its_execute_bit_is_mended_by_install_and_by_fix() {
    let place = Place::new();
    let folder = test_tool("ttyd");
    let folder = folder.parent().unwrap();
    assert!(install_ttyd(&place, folder).status.success());
    let path = place.path("home/data/tools/ttyd/1.7.7/ttyd");
    let break_it =
        || std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    break_it();
    let output = install_ttyd(&place, folder);
    assert!(text(&output.stdout).contains(" installed: "), "{}", words(&output.stderr));
    assert_eq!(mode(&path), 0o755);
    break_it();
    let fix = ["doctor", "--for", "web", "--only", "ttyd", "--fix"];
    let output = place.run("/usr/bin:/bin", &fix, &[]);
    assert!(output.status.success(), "{}", words(&output.stderr));
    assert_eq!(mode(&path), 0o755);
    // A repair that does not come about is said, and no success.
    std::fs::write(&path, b"cut off").unwrap();
    let nowhere = [&fix[..], &["--offline", "/nowhere"]].concat();
    let output = place.run("/usr/bin:/bin", &nowhere, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(words(&output.stderr).contains("not fixed: "), "{}", words(&output.stderr));
}

#[test]
fn one_install_that_fails_takes_no_other_along() {
    let place = Place::new();
    let folder = test_tool("ttyd");
    let folder = folder.parent().unwrap().to_str().unwrap();
    let install = |what: &str| {
        let args = ["doctor", "--install", what, "--offline", folder, "--json"];
        let output = place.run("/usr/bin:/bin", &args, &[]);
        assert_eq!(output.status.code(), Some(1), "{}", words(&output.stderr));
        let done: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (done, words(&output.stderr))
    };
    let (done, said) = install("tmux@9.9,ttyd");
    assert_eq!(done["installed"][0]["id"], "ttyd");
    assert_eq!(done["failed"][0]["id"], "tmux");
    assert!(said.contains("no build of tmux 9.9"), "{said}");
    let (done, said) = install("tmux@9.9,ttyd@9.9");
    assert_eq!(done["installed"], serde_json::json!([]));
    assert!(said.contains("tmux 9.9") && said.contains("ttyd 9.9"), "{said}");
    assert!(said.contains("tmux@9.9 and ttyd@9.9 were not installed"), "{said}");
}

#[test]
fn a_wrong_file_is_refused_with_both_digests_and_nothing_is_lost() {
    let place = Place::new();
    let pinned = ToolId::Ttyd.data().pins[0].clone();
    let mut bytes = std::fs::read(test_tool("ttyd")).unwrap();
    bytes[1000] ^= 1;
    folder(&place, &pinned, &bytes);
    let output = install_ttyd(&place, &place.path("folder"));
    assert_eq!(output.status.code(), Some(1));
    let said = words(&output.stderr);
    assert!(said.contains(&pinned.sha256) && said.contains(&sha256(&bytes)), "{said}");
    assert_eq!(active(&place, "ttyd"), Vec::<String>::new());
    assert!(place.path("folder").join(pinned.file_name()).exists(), "the user's file is theirs");
}

#[test]
fn a_folder_without_the_file_says_where_to_get_it() {
    let place = Place::new();
    let output = install_ttyd(&place, &place.path("tmp"));
    assert_eq!(output.status.code(), Some(1));
    let said = words(&output.stderr);
    assert!(said.contains("has no `ttyd.") && said.contains("https://github.com/"), "{said}");
}

#[tokio::test]
async fn a_good_archive_is_found_by_its_digest_under_any_name() {
    let place = Place::new();
    let file = archive(&[("tmux", GOOD)]);
    let folder = place.path("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("download (1)"), &file).unwrap();
    let done =
        install_pin(&place, &pin(&file, Some("tmux")), &Source::Folder(folder)).await.unwrap();
    assert!(!done.was_there);
    assert_eq!(std::fs::read(done.installed.path).unwrap(), GOOD);
}

#[tokio::test]
async fn the_bare_program_is_as_good_as_the_archive_when_its_digest_is_pinned() {
    let place = Place::new();
    let mut pin = pin(b"never seen", Some("tmux"));
    pin.binary_sha256 = Some(sha256(GOOD));
    let source = folder(&place, &pin, GOOD);
    install_pin(&place, &pin, &source).await.unwrap();
    assert_eq!(active(&place, "tmux"), ["3.9"]);
}

/// Archives that are wrong, each with what is said of it.
pub(crate) fn bad_archives() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let good = archive(&[("tmux", GOOD)]);
    vec![
        ("symlink", odd(EntryType::Symlink, "/bin/sh"), "not a regular file"),
        ("hard link", odd(EntryType::Link, "/bin/sh"), "not a regular file"),
        ("device", odd(EntryType::Char, "x"), "not a regular file"),
        ("block device", odd(EntryType::Block, "x"), "not a regular file"),
        ("named pipe", odd(EntryType::Fifo, "x"), "not a regular file"),
        ("directory", odd(EntryType::Directory, "x"), "not a regular file"),
        ("sparse", odd(EntryType::GNUSparse, "x"), "not a regular file"),
        ("contiguous", odd(EntryType::Continuous, "x"), "not a regular file"),
        ("long name", odd(EntryType::GNULongName, "x"), "not a regular file"),
        ("two members", archive(&[("tmux", GOOD), ("tmux2", GOOD)]), "a second member"),
        ("the same twice", archive(&[("tmux", GOOD), ("tmux", GOOD)]), "a second member"),
        ("escape", archive(&[("../../tmux", GOOD)]), "holds `../../tmux` and not `tmux`"),
        ("absolute", archive(&[("/tmp/tmux", GOOD)]), "holds `/tmp/tmux`"),
        ("wrong name", archive(&[("tmux.sh", GOOD)]), "holds `tmux.sh`"),
        ("empty", archive(&[]), "is empty"),
        ("no archive", b"<html>not found</html>".to_vec(), "cannot be read"),
        ("cut off", good[..good.len() - 20].to_vec(), "cannot be read"),
    ]
}

#[tokio::test]
async fn an_archive_holds_one_regular_member_of_the_right_name_or_is_refused() {
    for (name, file, said) in bad_archives() {
        let place = Place::new();
        let pin = pin(&file, Some("tmux"));
        let error = install_pin(&place, &pin, &folder(&place, &pin, &file)).await.unwrap_err();
        assert!(error.to_string().contains(said), "{name}: {error}");
        assert_eq!(active(&place, "tmux"), Vec::<String>::new(), "{name}");
    }
}

#[tokio::test]
async fn the_program_inside_must_have_its_digest_run_and_tell_its_version() {
    for (program, inner, said) in [
        (GOOD, Some(sha256(b"another")), "is not the pinned file"),
        (b"#!/bin/sh\nexit 9\n", None, "exit code 9"),
        (b"#!/bin/sh\necho tmux 3.8\n", None, "says that it is version 3.8"),
        (b"#!/no/such/sh\n", None, "needs `/no/such/sh`"),
    ] {
        let place = Place::new();
        let file = archive(&[("tmux", program)]);
        let mut pin = pin(&file, Some("tmux"));
        pin.binary_sha256 = inner;
        let error = install_pin(&place, &pin, &folder(&place, &pin, &file)).await.unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!(active(&place, "tmux"), Vec::<String>::new());
    }
}

#[tokio::test]
async fn what_a_killed_install_left_is_cleared_away() {
    let place = Place::new();
    let litter = place.path("home/data/tools/tmux/.work-dead/3.9");
    std::fs::create_dir_all(&litter).unwrap();
    let file = archive(&[("tmux", GOOD)]);
    let pin = pin(&file, Some("tmux"));
    install_pin(&place, &pin, &folder(&place, &pin, &file)).await.unwrap();
    assert_eq!(active(&place, "tmux"), ["3.9"]);
}

/// What the server answers.
#[derive(Clone)]
enum Answer {
    File(Vec<u8>),
    Status(StatusCode),
    To(String),
    /// Announces more than it sends.
    Cut(Vec<u8>),
}

/// A server on this machine that counts its requests.
struct Server {
    url: String,
    asked: Arc<AtomicUsize>,
    paths: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    async fn start(answer: Answer) -> Self {
        let asked = Arc::new(AtomicUsize::new(0));
        let paths = Arc::new(Mutex::new(Vec::new()));
        let (counted, listed) = (asked.clone(), paths.clone());
        let app = Router::new().fallback(move |uri: axum::http::Uri| {
            counted.fetch_add(1, Ordering::SeqCst);
            listed.lock().unwrap().push(uri.path().to_owned());
            let answer = answer.clone();
            async move {
                match answer {
                    Answer::File(bytes) => bytes.into_response(),
                    Answer::Status(status) => status.into_response(),
                    Answer::To(url) => Redirect::temporary(&url).into_response(),
                    Answer::Cut(bytes) => {
                        let length = bytes.len() + 100;
                        ([(header::CONTENT_LENGTH, length)], Body::from(bytes)).into_response()
                    }
                }
            }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, asked, paths, task }
    }

    fn source(&self) -> Source {
        Source::Mirror(self.url.clone())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_real_ttyd_comes_from_a_mirror_by_its_upstream_path() {
    let server = Server::start(Answer::File(std::fs::read(test_tool("ttyd")).unwrap())).await;
    let place = Place::new();
    let mirror = [("THE_LOOP_MIRROR", server.url.as_str()), ("HTTP_PROXY", "http://127.0.0.1:1")];
    let output = place.run("/usr/bin:/bin", &["doctor", "--install", "ttyd"], &mirror);
    assert!(output.status.success(), "{}", words(&output.stderr));
    let paths = server.paths.lock().unwrap().clone();
    assert_eq!(paths.len(), 1);
    assert!(paths[0].starts_with("/tsl0922/ttyd/releases/download/1.7.7/ttyd."), "{paths:?}");
    assert_eq!(active(&place, "ttyd"), ["1.7.7"]);
}

#[tokio::test]
async fn a_bad_download_activates_nothing() {
    let file = archive(&[("tmux", GOOD)]);
    let pin = Pin { size: Some(file.len() as u64), ..pin(&file, Some("tmux")) };
    let mut longer = file.clone();
    longer.push(0);
    let elsewhere = "http://192.0.2.1/tmux".to_owned();
    for (name, answer, said) in [
        ("absent", Answer::Status(StatusCode::NOT_FOUND), "status 404"),
        ("html", Answer::File(b"<html></html>".to_vec()), "is not the pinned file"),
        ("too long", Answer::File(longer), "is larger than"),
        ("cut", Answer::Cut(file[..file.len() / 2].to_vec()), "could not download"),
        ("downgrade", Answer::To(elsewhere), "a URL that is not https"),
    ] {
        let place = Place::new();
        let server = Server::start(answer).await;
        let error = install_pin(&place, &pin, &server.source()).await.unwrap_err();
        let error = chain(&error);
        assert!(error.contains(said), "{name}: {error}");
        assert_eq!(active(&place, "tmux"), Vec::<String>::new(), "{name}");
    }
}

#[tokio::test]
async fn a_redirect_within_this_machine_is_followed() {
    let file = archive(&[("tmux", GOOD)]);
    let real = Server::start(Answer::File(file.clone())).await;
    let first = Server::start(Answer::To(format!("{}/x", real.url))).await;
    let place = Place::new();
    install_pin(&place, &pin(&file, Some("tmux")), &first.source()).await.unwrap();
    assert_eq!(active(&place, "tmux"), ["3.9"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_installs_at_once_make_one_download_and_all_succeed() {
    let file = archive(&[("tmux", GOOD)]);
    let server = Server::start(Answer::File(file.clone())).await;
    let place = Arc::new(Place::new());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let (place, pin, source) = (place.clone(), pin(&file, Some("tmux")), server.source());
        tasks.spawn(async move { install_pin(&place, &pin, &source).await.unwrap() });
    }
    let done = tasks.join_all().await;
    assert_eq!(done.iter().filter(|done| !done.was_there).count(), 1);
    assert_eq!(server.asked.load(Ordering::SeqCst), 1);
    assert_eq!(active(&place, "tmux"), ["3.9"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_processes_at_once_make_one_download_and_all_succeed() {
    let server = Server::start(Answer::File(std::fs::read(test_tool("ttyd")).unwrap())).await;
    let place = Place::new();
    let start = |_| {
        let mut command = place.command("/usr/bin:/bin", &["doctor", "--install", "ttyd"]);
        command.env("THE_LOOP_MIRROR", &server.url).stderr(std::process::Stdio::null());
        command.stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    let started: Vec<_> = (0..10).map(start).collect();
    for mut child in started {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(server.asked.load(Ordering::SeqCst), 1);
    assert_eq!(active(&place, "ttyd"), ["1.7.7"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_waits_says_for_whom() {
    let file = archive(&[("tmux", GOOD)]);
    let pin = pin(&file, Some("tmux"));
    let place = Place::new();
    let source = folder(&place, &pin, &file);
    let dir = place.path("home/data/tools/tmux");
    std::fs::create_dir_all(&dir).unwrap();
    let mut lock = std::fs::File::create(dir.join(".lock")).unwrap();
    lock.lock().unwrap();
    lock.write_all(b"pid 42").unwrap();
    let lock = Mutex::new(Some(lock));
    let said = Unlocks { said: Said::default(), lock: &lock };
    let path = "/usr/bin:/bin";
    let store = Store::new(&place.dirs(path));
    install(&place.env(path), ToolId::Tmux, &pin, &store, &source, &said).await.unwrap();
    let said = said.said.0.into_inner().unwrap();
    assert_eq!(said[0], "waiting for pid 42, at work in the folder of tmux");
}

#[test]
fn an_install_that_waits_can_be_interrupted() {
    let place = Place::new();
    let dir = place.path("home/data/tools/ttyd");
    std::fs::create_dir_all(&dir).unwrap();
    let lock = std::fs::File::create(dir.join(".lock")).unwrap();
    lock.lock().unwrap();
    let args = ["doctor", "--install", "ttyd", "--offline", "/nowhere"];
    let mut child =
        place.command("/usr/bin:/bin", &args).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "waiting for another process, at work in the folder of ttyd\n");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// Lets the lock go when it is told that somebody waits.
struct Unlocks<'a> {
    said: Said,
    lock: &'a Mutex<Option<std::fs::File>>,
}

impl Progress for Unlocks<'_> {
    fn say(&self, text: &str) {
        self.said.say(text);
        drop(self.lock.lock().unwrap().take());
    }
}

#[test]
fn a_mirror_elsewhere_must_be_https() {
    let place = Place::new();
    let mirror = [("THE_LOOP_MIRROR", "http://mirror.example.invalid")];
    let output = place.run("/usr/bin:/bin", &["doctor", "--install", "ttyd"], &mirror);
    assert_eq!(output.status.code(), Some(2));
    assert!(words(&output.stderr).contains("https only"), "{}", words(&output.stderr));
}

#[test]
fn what_is_not_pinned_is_refused_with_advice() {
    let place = Place::new();
    let args = ["doctor", "--install", "tmux@9.9"];
    let output = place.run("/usr/bin:/bin", &args, &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = words(&output.stderr);
    assert!(
        said.contains("no build of tmux 9.9 is pinned") && said.contains("3.7c, 3.6a"),
        "{said}"
    );
}

#[test]
fn the_fetched_test_tools_have_the_digests_that_are_shipped() {
    let known = |id: ToolId| -> Vec<String> {
        id.data().pins.iter().filter_map(|pin| pin.binary_sha256.clone()).collect()
    };
    let digest = |path: PathBuf| sha256(&std::fs::read(path).unwrap());
    assert!(known(ToolId::Ttyd).contains(&digest(test_tool("ttyd"))));
    assert!(known(ToolId::Tmux).contains(&digest(test_tool("tmux-3.6a"))));
}
