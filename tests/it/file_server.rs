//! A server of files that cuts, stalls and lies as it is told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use the_loop::doctor::install::source::Source;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// What a server sends for one request.
pub(crate) struct Reply {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Sends nothing more and keeps the connection.
    pub(crate) stalls: bool,
    /// Sends a byte now and then, for as long as somebody listens.
    pub(crate) drips: bool,
}

impl Reply {
    /// The whole file announced, and the bytes up to `end` of it sent.
    pub(crate) fn whole(file: &[u8], end: usize) -> Self {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", file.len());
        Self { head, body: file[..end].to_vec(), stalls: false, drips: false }
    }

    /// What a server that knows ranges sends.
    pub(crate) fn range(file: &[u8], start: Option<usize>, end: usize) -> Self {
        let Some(start) = start else { return Self::whole(file, end) };
        let head = format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {start}-{}/{}\r\n\
             Content-Length: {}\r\n\r\n",
            file.len() - 1,
            file.len(),
            file.len() - start,
        );
        Self { head, body: file[start..end].to_vec(), stalls: false, drips: false }
    }

    /// A head that does not end.
    pub(crate) fn head_alone(file: &[u8]) -> Self {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nX: ", file.len());
        Self { head, body: Vec::new(), stalls: false, drips: false }
    }

    pub(crate) fn status(line: &str) -> Self {
        let head = format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\n\r\n");
        Self { head, body: Vec::new(), stalls: false, drips: false }
    }
}

/// A server that does as told, request by request, and remembers the ranges
/// that it was asked for.
pub(crate) struct Server {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Option<usize>>>>,
    /// The paths that it was asked for.
    pub(crate) paths: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(
        script: impl Fn(usize, Option<usize>) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let paths = Arc::new(Mutex::new(Vec::new()));
        let (seen, path, script) = (asked.clone(), paths.clone(), Arc::new(script));
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (seen, paths, script) = (seen.clone(), path.clone(), script.clone());
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        let Ok(byte) = stream.read_u8().await else { return };
                        head.push(byte);
                    }
                    let head = String::from_utf8(head).unwrap().to_lowercase();
                    paths.lock().unwrap().extend(head.split(' ').nth(1).map(str::to_owned));
                    let range = head.lines().find_map(|line| {
                        line.strip_prefix("range: bytes=")?.strip_suffix('-')?.parse().ok()
                    });
                    let number = {
                        let mut seen = seen.lock().unwrap();
                        seen.push(range);
                        seen.len()
                    };
                    let reply = script(number, range);
                    let _ = stream.write_all(reply.head.as_bytes()).await;
                    let _ = stream.write_all(&reply.body).await;
                    while reply.drips && stream.write_all(b"x").await.is_ok() {
                        tokio::time::sleep(Duration::from_millis(200)).await;
                    }
                    if reply.stalls {
                        std::future::pending::<()>().await;
                    }
                });
            }
        });
        Self { url, asked, paths, task }
    }

    pub(crate) fn source(&self) -> Source {
        Source::Mirror(self.url.clone())
    }

    pub(crate) fn asked(&self) -> Vec<Option<usize>> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}
