//! The demo: from nothing to a comment in an agent's session, and back to
//! nothing, however it ends.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{eventually, short_dir, tmux_path};

struct Demo {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    said: Vec<String>,
    _home: tempfile::TempDir,
}

impl Demo {
    fn start(args: &[&str]) -> Self {
        let home = short_dir();
        let mut child = Command::new(env!("CARGO_BIN_EXE_the-loop"))
            .arg("demo")
            .args(args)
            .env_clear()
            .env("HOME", home.path())
            .env("PATH", tmux_path().parent().unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines, said: Vec::new(), _home: home }
    }

    /// Reads on until a line holds `word`; gives what follows it.
    fn until(&mut self, word: &str) -> String {
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            self.said.push(line.clone());
            if let Some((_, rest)) = line.split_once(word) {
                return rest.trim().to_owned();
            }
        }
        panic!("the demo never said `{word}`: {:#?}", self.said);
    }

    fn dir(&mut self) -> PathBuf {
        let dir = PathBuf::from(self.until("Everything of it is in"));
        assert!(dir.is_dir());
        dir
    }

    fn end(mut self) -> (Option<i32>, Vec<String>) {
        self.said.extend(self.lines.by_ref().map(Result::unwrap));
        (self.child.wait().unwrap().code(), self.said)
    }
}

/// The processes whose command line names the directory.
fn processes_of(dir: &Path) -> Vec<String> {
    let output = Command::new("ps").args(["-eo", "stat=,pid=,args="]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let name = dir.to_str().unwrap();
    text.lines().filter(|l| l.contains(name) && !l.starts_with('Z')).map(str::to_owned).collect()
}

async fn nothing_is_left_of(dir: &Path) {
    assert!(!dir.exists());
    eventually("every process of the demo is gone", async || {
        processes_of(dir).is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn it_shows_the_whole_path_and_cleans_up() {
    let mut demo = Demo::start(&[]);
    let dir = demo.dir();
    let (code, said) = demo.end();
    assert_eq!(code, Some(0), "{said:#?}");
    let text = said.join("\n");
    for part in [
        "tmux works",
        "answers 202",
        "loop/octocat+hello-world+1",
        "Say hello",
        "Please greet in the user's own language.",
        "delivered",
        "gone again",
        "What to type next",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(said.iter().all(|line| line.chars().count() <= 80), "{text}");
    nothing_is_left_of(&dir).await;
}

#[tokio::test]
async fn interrupted_anywhere_it_cleans_up_too() {
    for (word, signal, code) in [
        ("2. A receiver", Signal::INT, 130),
        ("3. GitHub tells", Signal::TERM, 143),
        ("4. GitHub tells", Signal::HUP, 129),
    ] {
        let mut demo = Demo::start(&[]);
        // The directory is named only once the receiver runs; find it by the process.
        demo.until(word);
        let pid = Pid::from_child(&demo.child);
        kill_process(pid, signal).unwrap();
        let (ended, said) = demo.end();
        assert_eq!(ended, Some(code), "{said:#?}");
        let dir = said.iter().find_map(|line| line.split_once("Everything of it is in "));
        if let Some((_, dir)) = dir {
            nothing_is_left_of(Path::new(dir)).await;
        }
        assert!(said.iter().any(|line| line.contains("gone again")), "{said:#?}");
    }
}

#[tokio::test]
async fn kept_it_goes_on_and_its_own_words_end_it() {
    let mut demo = Demo::start(&["--keep"]);
    let dir = demo.dir();
    let (code, said) = demo.end();
    assert_eq!(code, Some(0), "{said:#?}");
    assert!(dir.is_dir());
    assert!(!processes_of(&dir).is_empty());
    let end = said.iter().find(|line| line.contains("gh-webhook stop")).unwrap();
    let bin = Path::new(env!("CARGO_BIN_EXE_the-loop")).parent().unwrap();
    let status = Command::new("/bin/sh")
        .args(["-c", end])
        .current_dir(&dir)
        .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    nothing_is_left_of(&dir).await;
}

#[test]
fn without_tmux_it_says_what_to_install() {
    let home = short_dir();
    let output = Command::new(env!("CARGO_BIN_EXE_the-loop"))
        .arg("demo")
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", home.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("tmux was not found") && said.contains("run: "), "{said}");
}
