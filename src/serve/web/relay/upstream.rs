//! The side of ttyd: its protocol, and only so much of it as is needed.

use std::io;
use std::path::Path;
use std::time::Duration;

use axum::http::HeaderValue;
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use serde::Serialize;
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

/// How long ttyd may take to open a terminal, and to take a frame.
const OPENS_WITHIN: Duration = Duration::from_secs(5);
const TAKES_WITHIN: Duration = Duration::from_secs(30);
/// The longest frame that is taken from ttyd, which reads 64 KiB at a time.
const MAX_OUTPUT: usize = 1 << 20;
/// The most columns and lines that are asked for. 65,535 of each make tmux draw
/// until its memory is full.
const MAX_SIZE: (u16, u16) = (500, 200);

/// A terminal of a ttyd.
#[derive(Debug)]
pub(super) struct Upstream(WebSocketStream<UnixStream>);

/// The way to it.
#[derive(Debug)]
pub(super) struct Input(SplitSink<WebSocketStream<UnixStream>, Message>);

/// The way from it.
#[derive(Debug)]
pub(super) struct Output(SplitStream<WebSocketStream<UnixStream>>);

#[derive(Serialize)]
struct Hello {
    #[serde(rename = "AuthToken")]
    token: &'static str,
    columns: u16,
    rows: u16,
}

#[derive(Serialize)]
struct Size {
    columns: u16,
    rows: u16,
}

impl Size {
    fn clamped((columns, lines): (u16, u16)) -> Self {
        Self { columns: columns.clamp(1, MAX_SIZE.0), rows: lines.clamp(1, MAX_SIZE.1) }
    }
}

impl Upstream {
    /// Opens a terminal of the ttyd behind `socket`.
    pub(super) async fn open(socket: &Path, size: (u16, u16)) -> Result<Self, Error> {
        let work = async {
            let stream = UnixStream::connect(socket).await?;
            let mut request = "ws://localhost/ws".into_client_request()?;
            let headers = request.headers_mut();
            headers.insert("Sec-WebSocket-Protocol", HeaderValue::from_static("tty"));
            headers.insert("Origin", HeaderValue::from_static("http://localhost"));
            let config = WebSocketConfig::default()
                .read_buffer_size(8 << 10)
                .write_buffer_size(0)
                .max_message_size(Some(MAX_OUTPUT))
                .max_frame_size(Some(MAX_OUTPUT));
            let (mut stream, _) = client_async_with_config(request, stream, Some(config)).await?;
            let Size { columns, rows } = Size::clamped(size);
            let hello = Hello { token: "", columns, rows };
            let hello = serde_json::to_vec(&hello).map_err(io::Error::from)?;
            stream.send(Message::binary(hello)).await?;
            Ok(Self(stream))
        };
        tokio::time::timeout(OPENS_WITHIN, work).await.map_err(|_| too_late())?
    }

    pub(super) fn split(self) -> (Input, Output) {
        let (input, output) = self.0.split();
        (Input(input), Output(output))
    }
}

impl Input {
    /// Passes a frame on, which is not empty.
    pub(super) async fn pass(&mut self, frame: Bytes) -> Result<(), Error> {
        let sent = self.0.send(Message::Binary(frame));
        tokio::time::timeout(TAKES_WITHIN, sent).await.map_err(|_| too_late())?
    }

    /// Gives the terminal another size.
    pub(super) async fn resize(&mut self, size: (u16, u16)) -> Result<(), Error> {
        let mut frame = vec![b'1'];
        serde_json::to_writer(&mut frame, &Size::clamped(size)).map_err(io::Error::from)?;
        self.pass(frame.into()).await
    }
}

impl Output {
    /// The next output, with its mark; nothing when the terminal has ended.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.0.next().await? {
                Ok(Message::Binary(data)) if data.first() == Some(&b'0') => return Some(data),
                // The title names our command line, and the preferences are for a page
                // that is not served.
                Ok(Message::Binary(_) | Message::Text(_) | Message::Ping(_) | Message::Pong(_)) => {
                }
                Ok(Message::Close(_) | Message::Frame(_)) | Err(_) => return None,
            }
        }
    }
}

fn too_late() -> Error {
    Error::Io(io::ErrorKind::TimedOut.into())
}
