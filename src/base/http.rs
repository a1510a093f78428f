//! Serving HTTP on a listener of our own, and one small client for our own
//! control socket.
//!
//! Called by whoever has a face to show: the receiver, the control socket, the
//! web pages. Knows nothing of what is served. It exists because `axum::serve`
//! sets no time-out on a request's header (a client that sends half of one
//! holds its connection for ever) and cannot be stopped within a bound.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

mod client;

pub use client::{RequestError, post_tcp, request_unix};

/// How long a client may take to send a request's header, and how long a
/// connection may rest between two requests.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long requests that are under way may take once a stop was asked for.
pub const STOP_GRACE: Duration = Duration::from_secs(3);

/// How many connections are served at once; the others wait in the backlog.
pub const MAX_CONNECTIONS: usize = 1024;

/// How many connections the kernel keeps for us until we accept them. A burst
/// of deliveries that finds it full is reset, and GitHub does not try again.
pub const BACKLOG: u32 = 1024;

/// How long a request's header may be.
pub const MAX_HEADER: usize = 64 << 10;

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What connections arrive at.
#[derive(Debug)]
pub enum Listener {
    /// An address and a port.
    Tcp(TcpListener),
    /// A socket in the file system.
    Unix(UnixListener),
}

/// Listens on an address, with room for a burst of deliveries.
#[expect(clippy::unused_async, reason = "it needs a runtime, and says so by being async")]
pub async fn bind(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart takes its port back from connections that are still closing;
    // it does not take one that another process listens on.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

/// Serves `app` until `stop`. Then the listener is closed at once, requests that
/// are under way have [`STOP_GRACE`] to end, and what is left is cut.
///
/// A connection that was upgraded is in the hands of its handler from then on;
/// only the handler can end it.
pub async fn serve(listener: Listener, app: Router, stop: CancellationToken) {
    let connections = TaskTracker::new();
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let cut = CancellationToken::new();
    let mut pause = FIRST_PAUSE;
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = next(&listener, &room) => accepted,
        };
        match accepted {
            Ok((stream, permit)) => {
                pause = FIRST_PAUSE;
                let (app, stop, cut) = (app.clone(), stop.clone(), cut.clone());
                match stream {
                    Stream::Tcp(stream) => {
                        connections.spawn(connection(stream, app, stop, cut, permit));
                    }
                    Stream::Unix(stream) => {
                        connections.spawn(connection(stream, app, stop, cut, permit));
                    }
                }
            }
            // The client went away before its turn.
            Err(error) if is_the_clients(&error) => {}
            // No descriptors or no memory: connections that end give some back.
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections; trying again");
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = tokio::time::sleep(pause) => {}
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(STOP_GRACE, connections.wait()).await.is_err() {
        cut.cancel();
        connections.wait().await;
    }
}

enum Stream {
    Tcp(tokio::net::TcpStream),
    Unix(tokio::net::UnixStream),
}

async fn next(
    listener: &Listener,
    room: &Arc<Semaphore>,
) -> io::Result<(Stream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.map_err(io::Error::other)?;
    let stream = match listener {
        Listener::Tcp(listener) => {
            let stream = listener.accept().await?.0;
            // Answers are small: waiting to fill a packet only delays them.
            let _ = stream.set_nodelay(true);
            Stream::Tcp(stream)
        }
        Listener::Unix(listener) => Stream::Unix(listener.accept().await?.0),
    };
    Ok((stream, permit))
}

fn is_the_clients(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    app: Router,
    stop: CancellationToken,
    cut: CancellationToken,
    _permit: OwnedSemaphorePermit,
) {
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_header_size(MAX_HEADER)
            .max_buf_size(2 * MAX_HEADER)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app))
            .with_upgrades()
    );
    // What goes wrong here (a time-out, a reset, a malformed header) is the
    // client's, and hyper has answered it where an answer is possible.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        _ = connection.as_mut() => {}
        () = cut.cancelled() => {}
    }
}
