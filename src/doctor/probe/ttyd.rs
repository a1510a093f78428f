//! Lets ttyd do what the web terminal needs of it: serve on a private unix
//! socket, answer HTTP there, and open a terminal over a WebSocket. Its log says "listening" also when it is not,
//! so that only a connection counts.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::scratch::{Doomed, Scratch, wait_for};
use super::{SHOWN, Unchecked};
use crate::base::text::{cap, visible};
use crate::doctor::tool::Tool;
use crate::doctor::trouble::Trouble;

/// How long it may take until it answers.
const DEADLINE: Duration = Duration::from_secs(5);
/// How long it may take to be gone after it was told to end.
const END_DEADLINE: Duration = Duration::from_secs(2);

/// ttyd takes a path for a socket only when it ends like this.
const SOCKET: &str = "t.sock";
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
    let mut child = invocation
        .start(Stdio::null(), Stdio::null(), Stdio::null())
        .map_err(|error| Trouble::Misbehaved { probe: "serves", what: error.to_string() })?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    let doomed = Doomed::new(pid);
    let answer = wait_for(DEADLINE, async || ask(&socket).await).await;
    let terminal = match &answer {
        Some(answer) if is_token(answer) => greet(&socket).await,
        _ => Ok(()),
    };
    // Asks it to end; the wait below reaps it.
    drop(doomed);
    if tokio::time::timeout(END_DEADLINE, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
    let found = match answer {
        Some(answer) if is_token(&answer) => terminal,
        Some(answer) => {
            Err(format!("answered on a private socket with `{}`", cap(&visible(&answer), SHOWN)))
        }
        None => Err(format!("did not answer on a private socket within {} s", DEADLINE.as_secs())),
    };
    dir.judged("serves", found.map_err(|what| Trouble::Misbehaved { probe: "serves", what }))
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
