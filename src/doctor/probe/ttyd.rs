//! Lets ttyd do what the web terminal needs of it: serve on a private unix
//! socket, answer HTTP there, and open a terminal over a WebSocket. Its log says "listening" also when it is not,
//! so that only a connection counts.

use std::io::Read;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use fs_err as fs;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::scratch::{Doomed, Scratch, wait_for};
use super::{SHOWN, Unchecked};
use crate::base::failure::bare;
use crate::base::process::{ExecError, Output, ending};
use crate::base::runtime::more;
use crate::base::text::{cap, visible};
use crate::doctor::tool::Tool;
use crate::doctor::trouble::Trouble;

/// How long it may take until it answers.
const DEADLINE: Duration = Duration::from_secs(5);
/// How long it may take to be gone after it was told to end.
const END_DEADLINE: Duration = Duration::from_secs(2);

/// ttyd takes a path for a socket only when it ends like this.
const SOCKET: &str = "t.sock";
/// Where what it says is kept, and how much of that is read.
const SAID: &str = "said";
const SAID_MAX: u64 = 64 * 1024;
/// How long after a connection broke the one at its other end may take to be gone.
const CLOSING: Duration = Duration::from_millis(200);
const REQUEST: &[u8] = b"GET /token HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// What a browser sends to open a terminal, and then in it. Without an origin
/// of its own host ttyd refuses it.
const UPGRADE: &[u8] = b"GET /ws HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n\
    Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Protocol: tty\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const HELLO: &[u8] = b"{\"AuthToken\":\"\",\"columns\":80,\"rows\":24}";

/// Probes a ttyd. `Ok(Some(_))` when this host gave no room for the probe.
pub(super) async fn probe(tool: &Tool) -> Result<Option<Unchecked>, Trouble> {
    let dir = match Scratch::new(tool, SOCKET) {
        Ok(dir) => dir,
        Err(why) => return Ok(Some(Unchecked { check: "serves", why })),
    };
    let socket = dir.path().join(SOCKET);
    let invocation =
        tool.invocation().arg("-i").arg(&socket).args(["-O", "--", "/bin/cat"]).cwd(dir.path());
    let said = dir.path().join(SAID);
    let log = || fs::OpenOptions::new().create(true).append(true).open(&said);
    let (out, err) = match (log(), log()) {
        (Ok(out), Ok(err)) => (out.into_file(), err.into_file()),
        (Err(error), _) | (_, Err(error)) => {
            let why = format!("no temporary file can be kept there: {}", bare(&error));
            return Ok(Some(Unchecked { check: "serves", why }));
        }
    };
    let mut child =
        invocation.start(Stdio::null(), out.into(), err.into()).map_err(|error| match error {
            ExecError::NotStarted { source, .. } if more(&source).is_some() => {
                Trouble::Unreadable { source }
            }
            error => Trouble::Misbehaved { probe: "serves", what: error.to_string() },
        })?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    let doomed = Doomed::new(pid);
    let mut ended = None;
    let answer = tokio::select! {
        answer = wait_for(DEADLINE, async || ask(&socket).await) => answer,
        status = child.wait() => { ended = status.ok(); None }
    };
    let terminal = match &answer {
        Some(answer) if is_token(answer) => greet(&socket).await,
        _ => Ok(()),
    };
    // One that ended over it has closed the connection a moment before.
    if terminal.is_err() && ended.is_none() {
        ended = tokio::time::timeout(CLOSING, child.wait()).await.ok().and_then(Result::ok);
    }
    // Asks it to end; the wait below reaps it.
    drop(doomed);
    if tokio::time::timeout(END_DEADLINE, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
    let found = match answer {
        _ if ended.is_some() => Err(tell_end(ended.unwrap_or_default(), &said)),
        Some(answer) if is_token(&answer) => terminal,
        Some(answer) => {
            Err(format!("answered on a private socket with `{}`", cap(&visible(&answer), SHOWN)))
        }
        None => Err(format!("did not answer on a private socket within {} s", DEADLINE.as_secs())),
    };
    dir.judged("serves", found.map_err(|what| Trouble::Misbehaved { probe: "serves", what }))
}

/// How one that ended by itself is told, with what it said last.
fn tell_end(status: ExitStatus, said: &Path) -> String {
    let mut stdout = Vec::new();
    let read = fs::File::open(said).and_then(|file| file.take(SAID_MAX).read_to_end(&mut stdout));
    let complaint = read.map(|_| Output { status, stdout, stderr: Vec::new() }.complaint());
    let complaint = complaint.ok().filter(|text| !text.is_empty());
    let complaint = complaint.map(|text| format!(": {text}")).unwrap_or_default();
    format!("did not serve on a private socket: it ended with {}{complaint}", ending(status))
}

fn is_token(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 200") && answer.contains("\"token\"")
}

/// Opens a terminal as a browser does, and waits for the first frame.
async fn greet(socket: &Path) -> Result<(), String> {
    let work = async {
        let mut stream = UnixStream::connect(socket).await?;
        stream.write_all(UPGRADE).await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") && head.len() < 4096 {
            head.push(stream.read_u8().await?);
        }
        if !head.starts_with(b"HTTP/1.1 101") {
            let said = String::from_utf8_lossy(&head).into_owned();
            return Ok(Err(said));
        }
        // A client's text frame: its length, a mask of zeros, the text as it is.
        let length = u8::try_from(HELLO.len()).expect("the greeting is short");
        stream.write_all(&[&[0x81, 0x80 | length, 0, 0, 0, 0], HELLO].concat()).await?;
        let first = stream.read_u8().await?;
        std::io::Result::Ok(if first == 0x82 { Ok(()) } else { Err(format!("{first:#x}")) })
    };
    match tokio::time::timeout(DEADLINE, work).await {
        Ok(Ok(Ok(()))) => Ok(()),
        Ok(Ok(Err(said))) => {
            Err(format!("opened no terminal, but answered `{}`", cap(&visible(&said), SHOWN)))
        }
        Ok(Err(error)) => Err(format!("opened no terminal: {error}")),
        Err(_) => Err(format!("opened no terminal within {} s", DEADLINE.as_secs())),
    }
}

async fn ask(socket: &Path) -> Option<String> {
    let work = async {
        let mut stream = UnixStream::connect(socket).await?;
        stream.write_all(REQUEST).await?;
        let mut answer = Vec::new();
        stream.take(16 * 1024).read_to_end(&mut answer).await?;
        std::io::Result::Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    tokio::time::timeout(DEADLINE, work).await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

    use super::*;
    use crate::base::env::Env;
    use crate::doctor::tool::Origin;

    /// What is told of a ttyd that does this instead of serving; and how long it took.
    async fn told(does: &str) -> (String, Duration) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ttyd");
        fs::write(&path, format!("#!/bin/sh\n{does}\n")).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
        let env = Env::fixed([("PATH", "/usr/bin:/bin")], "/", "/bin/the-loop");
        let tool = Tool::candidate("ttyd", &path, Origin::System, &env);
        let start = Instant::now();
        let why = probe(&tool).await.unwrap_err();
        (why.to_string(), start.elapsed())
    }

    #[tokio::test]
    async fn one_that_ends_is_told_at_once_with_how_and_what_it_said() {
        let begins = "did not serve on a private socket: it ended with ";
        for (does, how) in [
            (
                "echo 'E: lws_create_context: failed' >&2; exit 1",
                "exit code 1: E: lws_create_context: failed",
            ),
            ("kill -SEGV $$", "signal 11 (SIGSEGV)"),
            ("exit 0", "exit code 0"),
        ] {
            let (said, took) = told(does).await;
            assert_eq!(said, format!("{begins}{how}"));
            assert!(took < DEADLINE, "{took:?}");
        }
    }

    #[tokio::test]
    async fn one_that_hangs_is_told_as_that() {
        let (said, _) = told("exec sleep 30").await;
        assert_eq!(said, "did not answer on a private socket within 5 s");
    }
}
