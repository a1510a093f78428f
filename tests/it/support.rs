//! What the tests share: private tmux servers that end with their test.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use the_loop::base::env::Env;

/// A directory with a short path, so that a socket in it fits.
pub fn short_dir() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("tl").tempdir_in("/tmp").unwrap()
}

/// Surroundings that show nothing of the machine's user.
pub fn env(home: &Path) -> Env {
    Env::fixed(
        [
            ("HOME", home.as_os_str()),
            ("PATH", "/usr/local/bin:/usr/bin:/bin".as_ref()),
            ("LANG", "C.UTF-8".as_ref()),
            ("TERM", "xterm-256color".as_ref()),
            ("SHELL", "/bin/sh".as_ref()),
        ],
        home,
        env!("CARGO_BIN_EXE_the-loop"),
    )
}

/// A private tmux server's socket; the server ends when this is dropped.
pub struct TmuxServer {
    pub socket: PathBuf,
    pub dir: tempfile::TempDir,
}

impl TmuxServer {
    pub fn new() -> Self {
        let dir = short_dir();
        Self { socket: dir.path().join("t"), dir }
    }

    /// Runs a tmux command of the test's own on this server.
    pub fn run(&self, args: &[&str]) -> String {
        let output = std::process::Command::new("tmux")
            .args(["-u", "-f", "/dev/null", "-S"])
            .arg(&self.socket)
            .args(args)
            .env_remove("TMUX")
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for TmuxServer {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

/// Waits until `check` gives a value; panics with `what` after 20 seconds.
pub async fn eventually<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = check().await {
            return value;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "did not happen: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
