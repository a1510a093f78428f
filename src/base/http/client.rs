//! One request to a socket in the file system: how a command talks to the
//! running daemon. One connection, one deadline, a bounded answer.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use axum::http::{Request, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

const DEADLINE: Duration = Duration::from_secs(10);
const MAX_ANSWER: usize = 16 << 20;

/// Why a request to a socket was not answered.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// Nobody listens there.
    #[error("could not connect to `{}`", socket.display())]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The request itself makes no sense.
    #[error("`{method} {path}` is not a request")]
    Request {
        /// The method.
        method: String,
        /// The path.
        path: String,
        /// Why.
        source: axum::http::Error,
    },
    /// The conversation broke off.
    #[error("no whole answer from `{}`", socket.display())]
    Exchange {
        /// The socket.
        socket: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The answer did not come in time.
    #[error("no answer from `{}` within {} s", socket.display(), DEADLINE.as_secs())]
    TimedOut {
        /// The socket.
        socket: PathBuf,
    },
}

/// Sends one request to the socket and returns the status and the body of the
/// answer. The body is sent as JSON; an empty one is not sent at all.
pub async fn request_unix(
    socket: &Path,
    method: &str,
    path: &str,
    body: Vec<u8>,
) -> Result<(u16, Vec<u8>), RequestError> {
    match tokio::time::timeout(DEADLINE, exchange(socket, method, path, body)).await {
        Ok(result) => result,
        Err(_) => Err(RequestError::TimedOut { socket: socket.to_path_buf() }),
    }
}

/// Posts `body` to a plain `http://` URL and returns the status and the body of
/// the answer. For a receiver on this machine: the demo's.
pub async fn post_tcp(
    url: &str,
    headers: &[(&str, String)],
    body: Vec<u8>,
) -> Result<(u16, Vec<u8>), RequestError> {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let (address, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let place = PathBuf::from(address);
    let mut request = Request::builder()
        .method("POST")
        .uri(path)
        .header(header::HOST, address)
        .header(header::CONTENT_TYPE, "application/json");
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let request = request.body(Full::new(Bytes::from(body))).map_err(|source| {
        RequestError::Request { method: "POST".to_owned(), path: path.to_owned(), source }
    })?;
    let work = async {
        let stream = TcpStream::connect(address)
            .await
            .map_err(|source| RequestError::Connect { socket: place.clone(), source })?;
        converse(stream, &place, request).await
    };
    match tokio::time::timeout(DEADLINE, work).await {
        Ok(result) => result,
        Err(_) => Err(RequestError::TimedOut { socket: place.clone() }),
    }
}

async fn exchange(
    socket: &Path,
    method: &str,
    path: &str,
    body: Vec<u8>,
) -> Result<(u16, Vec<u8>), RequestError> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|source| RequestError::Request {
            method: method.to_owned(),
            path: path.to_owned(),
            source,
        })?;
    let stream = UnixStream::connect(socket)
        .await
        .map_err(|source| RequestError::Connect { socket: socket.to_path_buf(), source })?;
    converse(stream, socket, request).await
}

/// Sends a request on an open connection and reads the whole answer.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    place: &Path,
    request: Request<Full<Bytes>>,
) -> Result<(u16, Vec<u8>), RequestError> {
    let broken = |source: Box<dyn std::error::Error + Send + Sync>| RequestError::Exchange {
        socket: place.to_path_buf(),
        source,
    };
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(error.into()))?;
    let mut connection = pin!(connection);
    let mut answer = pin!(async {
        let response = sender.send_request(request).await.map_err(|error| broken(error.into()))?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), MAX_ANSWER);
        let body = body.collect().await.map_err(broken)?;
        Ok((status, body.to_bytes().to_vec()))
    });
    tokio::select! {
        result = answer.as_mut() => return result,
        // The connection may end first; what it brought is still to be read.
        _ = connection.as_mut() => {}
    }
    answer.await
}
