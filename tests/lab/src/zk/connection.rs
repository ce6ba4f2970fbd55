//! One connection to a ZooKeeper server, frame by frame.
//!
//! [`ZkConnection`] numbers requests and matches replies to them. It never reconnects and has no assertions. The client
//! distinguishes a server that sends nothing for [`SILENCE`] from one that has closed the connection.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use holdfast_zkwire::{
    ConnectRequest, ConnectResponse, ReplyHeader, ReplyKind, Request, Response, WatchedEvent,
    decode_event, decode_reply, decode_reply_header, encode_request, frame_len, xid,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A server that sends nothing for this long is silent.
pub const SILENCE: Duration = Duration::from_secs(20);
/// The longest frame that is read, in bytes.
const FRAME_MAX: usize = 64 << 20;

/// What a server sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZkIncoming {
    /// A reply to a request.
    Reply {
        /// The request's number, as returned by [`ZkConnection::send`].
        number: usize,
        header: ReplyHeader,
        /// `None` for an error.
        body: Option<Response>,
        /// Numbers of earlier requests that were not answered.
        passed: Vec<usize>,
    },
    /// A watch event.
    Event { header: ReplyHeader, event: WatchedEvent },
    /// A frame that is neither, with the error.
    Unreadable(String),
    /// The server has closed the connection.
    Closed,
    /// Nothing, for [`SILENCE`].
    Silence,
}

/// A connection.
#[derive(Debug)]
pub struct ZkConnection {
    socket: TcpStream,
    sent: usize,
    pending: VecDeque<(usize, i32, ReplyKind)>,
}

impl ZkConnection {
    /// Connects and opens a session. The response is `None` if the server closes the connection instead.
    ///
    /// # Errors
    /// The server cannot be reached, is silent, or sends something else than a response.
    pub async fn open(
        address: SocketAddr,
        request: &ConnectRequest,
    ) -> Result<(Self, Option<ConnectResponse>), String> {
        let socket = TcpStream::connect(address).await;
        let socket = socket.map_err(|error| format!("{address}: {error}"))?;
        Self::open_on(socket, request).await.map_err(|error| format!("{address}: {error}"))
    }

    /// Opens a session on a connected socket, as [`ZkConnection::open`] does.
    ///
    /// # Errors
    /// The server is silent, or sends something else than a response.
    pub async fn open_on(
        mut socket: TcpStream,
        request: &ConnectRequest,
    ) -> Result<(Self, Option<ConnectResponse>), String> {
        socket.set_nodelay(true).map_err(|error| error.to_string())?;
        // If the server closes early, the read below returns no response.
        drop(socket.write_all(&request.encode()).await);
        let frame = tokio::time::timeout(SILENCE, frame(&mut socket)).await;
        let frame = frame.map_err(|_| "no response to the first frame")?;
        let response = frame.map(ConnectResponse::decode).transpose();
        let response = response.map_err(|error| error.to_string())?;
        Ok((Self { socket, sent: 0, pending: VecDeque::new() }, response))
    }

    /// Sends a request without waiting; returns its number, from 1.
    pub async fn send(&mut self, request: &Request) -> usize {
        self.sent += 1;
        let xid = match request {
            Request::Ping => xid::PING,
            Request::Auth { .. } => xid::AUTH,
            Request::SetWatches(_) => xid::SET_WATCHES,
            _ => i32::try_from(self.sent).unwrap_or(i32::MAX),
        };
        self.pending.push_back((self.sent, xid, request.reply_kind()));
        let frame = encode_request(xid, request).unwrap_or_default();
        // The next read reports a closed connection.
        drop(self.socket.write_all(&frame).await);
        self.sent
    }

    /// Sends raw bytes; the next read reports a closed connection.
    pub async fn send_raw(&mut self, bytes: &[u8]) {
        drop(self.socket.write_all(bytes).await);
    }

    /// Expects a reply with this `xid` to a request that was sent raw.
    pub fn expect_reply(&mut self, xid: i32, kind: ReplyKind) {
        self.sent += 1;
        self.pending.push_back((self.sent, xid, kind));
    }

    /// The next thing that the server sends.
    pub async fn next(&mut self) -> ZkIncoming {
        match tokio::time::timeout(SILENCE, frame(&mut self.socket)).await {
            Ok(Some(frame)) => {
                let read = self.read(frame);
                read.unwrap_or_else(|error| ZkIncoming::Unreadable(error.to_string()))
            }
            Ok(None) => ZkIncoming::Closed,
            Err(_) => ZkIncoming::Silence,
        }
    }

    fn read(&mut self, frame: Bytes) -> Result<ZkIncoming, Box<dyn std::error::Error>> {
        let header = decode_reply_header(&frame)?;
        if header.xid == xid::EVENT {
            let (header, event) = decode_event(frame)?;
            return Ok(ZkIncoming::Event { header, event });
        }
        let at = self.pending.iter().position(|(_, xid, _)| *xid == header.xid);
        let at = at.ok_or_else(|| format!("a reply to nothing: {header:?}"))?;
        let passed = self.pending.drain(..at).map(|(number, _, _)| number).collect();
        let (number, _, kind) = self.pending.pop_front().ok_or("a reply to nothing")?;
        let (header, body) = decode_reply(kind, frame)?;
        Ok(ZkIncoming::Reply { number, header, body, passed })
    }
}

/// The next frame; none if the connection is closed.
async fn frame(socket: &mut TcpStream) -> Option<Bytes> {
    let mut header = [0; 4];
    socket.read_exact(&mut header).await.ok()?;
    let mut frame = vec![0; frame_len(header, FRAME_MAX).ok()?];
    socket.read_exact(&mut frame).await.ok()?;
    Some(Bytes::from(frame))
}
