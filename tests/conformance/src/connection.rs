//! One connection to a server, frame by frame.
//!
//! Owns the socket, numbers of requests, and which reply belongs to which. Refuses to reconnect and to judge. A server
//! that says nothing for [`PATIENCE`] is told from one that has closed.

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

/// Long enough for a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Frames of this many bytes are read.
const FRAME_MAX: usize = 64 << 20;

/// What comes from a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A reply to the request of this number; how many requests before it were passed over.
    Reply {
        /// As given by [`Connection::send`].
        number: usize,
        /// Its header.
        header: ReplyHeader,
        /// What it says, if it is no error.
        body: Option<Response>,
        /// Numbers of requests that were sent before, and not answered.
        passed: Vec<usize>,
    },
    /// A watch event.
    Event {
        /// Its header.
        header: ReplyHeader,
        /// What happened.
        event: WatchedEvent,
    },
    /// A frame that is neither, and why.
    Unreadable(String),
    /// The server has closed the connection.
    Closed,
    /// Nothing, for [`PATIENCE`].
    Silence,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    socket: TcpStream,
    sent: usize,
    pending: VecDeque<(usize, i32, ReplyKind)>,
}

impl Connection {
    /// Says the first frame; none instead of an answer if the server closes without one.
    ///
    /// # Errors
    /// What is wrong with the server: it does not listen, or its answer is none.
    pub async fn open(
        address: SocketAddr,
        hello: &ConnectRequest,
    ) -> Result<(Self, Option<ConnectResponse>), String> {
        let socket = TcpStream::connect(address).await;
        let mut socket = socket.map_err(|error| format!("{address}: {error}"))?;
        socket.set_nodelay(true).map_err(|error| error.to_string())?;
        // Whoever closes before it has read shows that by its answer, which is none.
        drop(socket.write_all(&hello.encode()).await);
        let frame = tokio::time::timeout(PATIENCE, frame(&mut socket)).await;
        let frame = frame.map_err(|_| format!("{address}: no answer to the first frame"))?;
        let answer = frame.map(ConnectResponse::decode).transpose();
        let answer = answer.map_err(|error| format!("{address}: {error}"))?;
        Ok((Self { socket, sent: 0, pending: VecDeque::new() }, answer))
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
        // A closed connection shows when it is read.
        drop(self.socket.write_all(&frame).await);
        self.sent
    }

    /// Whatever comes next.
    pub async fn next(&mut self) -> Incoming {
        match tokio::time::timeout(PATIENCE, frame(&mut self.socket)).await {
            Ok(Some(frame)) => {
                let read = self.read(frame);
                read.unwrap_or_else(|error| Incoming::Unreadable(error.to_string()))
            }
            Ok(None) => Incoming::Closed,
            Err(_) => Incoming::Silence,
        }
    }

    fn read(&mut self, frame: Bytes) -> Result<Incoming, Box<dyn std::error::Error>> {
        let header = decode_reply_header(&frame)?;
        if header.xid == xid::EVENT {
            let (header, event) = decode_event(frame)?;
            return Ok(Incoming::Event { header, event });
        }
        let at = self.pending.iter().position(|(_, xid, _)| *xid == header.xid);
        let at = at.ok_or_else(|| format!("a reply to nothing: {header:?}"))?;
        let passed = self.pending.drain(..at).map(|(number, _, _)| number).collect();
        let (number, _, kind) = self.pending.pop_front().ok_or("a reply to nothing")?;
        let (header, body) = decode_reply(kind, frame)?;
        Ok(Incoming::Reply { number, header, body, passed })
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
