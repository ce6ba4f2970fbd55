//! A session on one connection: each call returns its result, and panics on anything else.
//!
//! The client never reconnects, because tests control the node of a session. The client queues events that arrive
//! before a reply, in order and without a bound; tests are short.

use std::collections::VecDeque;
use std::net::SocketAddr;

use holdfast_zkwire::{
    ConnectRequest, ConnectResponse, ReplyHeader, ReplyKind, Request, Response, SetWatches, Stat,
    WatchEventType, WatchedEvent,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::requests::{children, create, exists, get, new_session, set};
use super::{ZkConnection, ZkIncoming};
use crate::until::DEADLINE;

const NO_NODE: i32 = -101;

/// A reply: its header, and its body unless it is an error.
pub type ZkReply = (ReplyHeader, Option<Response>);

/// A connection with a session.
#[derive(Debug)]
pub struct ZkClient {
    connection: ZkConnection,
    /// The server's response; its session id is 0 if the session was refused.
    pub opened: ConnectResponse,
    last_zxid_seen: i64,
    events: VecDeque<WatchedEvent>,
}

impl ZkClient {
    /// Opens a session of this timeout.
    pub async fn open(address: SocketAddr, timeout_ms: i32) -> Self {
        Self::resume(address, &new_session(timeout_ms)).await
    }

    /// Opens a session or takes one over; panics on failure.
    pub async fn resume(address: SocketAddr, session: &ConnectRequest) -> Self {
        let client = Self::connect(address, session).await.expect("a response of the server");
        assert_ne!(client.session(), 0, "the session is refused");
        client
    }

    /// Opens a session or takes one over. `None` if the server cannot be reached or closes without a response.
    pub async fn connect(address: SocketAddr, session: &ConnectRequest) -> Option<Self> {
        let socket = TcpStream::connect(address).await.ok()?;
        let opened = ZkConnection::open_on(socket, session).await;
        let (connection, opened) = opened.unwrap_or_else(|error| panic!("{address}: {error}"));
        let last_zxid_seen = session.last_zxid_seen;
        Some(Self { connection, opened: opened?, last_zxid_seen, events: VecDeque::new() })
    }

    /// The session's id, which owns its ephemeral nodes; 0 if the session was refused.
    pub fn session(&self) -> i64 {
        self.opened.session_id
    }

    /// The request that continues this session on any node.
    pub fn resumption(&self) -> ConnectRequest {
        ConnectRequest {
            session_id: self.opened.session_id,
            password: Some(self.opened.password),
            last_zxid_seen: self.last_zxid_seen,
            ..new_session(self.opened.timeout_ms)
        }
    }

    /// Sends a request without waiting for the reply.
    pub async fn send(&mut self, request: &Request) {
        self.connection.send(request).await;
    }

    /// Sends raw bytes.
    pub async fn send_raw(&mut self, bytes: &[u8]) {
        self.connection.send_raw(bytes).await;
    }

    /// Expects a reply with this `xid` to a request that was sent raw.
    pub fn expect_reply(&mut self, xid: i32, kind: ReplyKind) {
        self.connection.expect_reply(xid, kind);
    }

    /// The next reply or event; `None` if the server closes the connection.
    pub async fn incoming(&mut self) -> Option<ZkIncoming> {
        let incoming = self.connection.next().await;
        match &incoming {
            ZkIncoming::Reply { header, passed, .. } => {
                assert!(passed.is_empty(), "replies leave in the order of the requests");
                self.last_zxid_seen = self.last_zxid_seen.max(header.zxid);
            }
            ZkIncoming::Event { .. } => {}
            ZkIncoming::Closed => return None,
            ZkIncoming::Unreadable(_) | ZkIncoming::Silence => panic!("{incoming:?}"),
        }
        Some(incoming)
    }

    /// The next reply; events before it are kept. `None` if the server closes the connection.
    pub async fn reply(&mut self) -> Option<ZkReply> {
        loop {
            match self.incoming().await? {
                ZkIncoming::Reply { header, body, .. } => return Some((header, body)),
                ZkIncoming::Event { event, .. } => self.events.push_back(event),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Sends a request and waits for its reply. `None` if the server closes the connection instead.
    pub async fn try_call(&mut self, request: &Request) -> Option<ZkReply> {
        self.send(request).await;
        self.reply().await
    }

    /// Sends a request and waits for its reply.
    pub async fn call(&mut self, request: Request) -> ZkReply {
        let reply = self.try_call(&request).await;
        reply.unwrap_or_else(|| panic!("closed without a reply to {request:?}"))
    }

    /// The error code of a request, 0 for none.
    pub async fn error(&mut self, request: Request) -> i32 {
        self.call(request).await.0.err
    }

    /// The body of the reply to a request that must succeed.
    pub async fn done(&mut self, request: Request) -> Response {
        let (header, body) = self.call(request.clone()).await;
        assert_eq!(header.err, 0, "{request:?}");
        body.expect("a reply without an error has a body")
    }

    /// The next watch event.
    pub async fn event(&mut self) -> (WatchEventType, String) {
        let event = match self.events.pop_front() {
            Some(event) => event,
            None => match self.incoming().await {
                Some(ZkIncoming::Event { event, .. }) => event,
                other => panic!("expected an event, got {other:?}"),
            },
        };
        (event.kind, event.path)
    }

    /// Returns every event that the server has sent before its reply to a ping.
    pub async fn events(&mut self) -> Vec<(WatchEventType, String)> {
        self.done(Request::Ping).await;
        self.events.drain(..).map(|event| (event.kind, event.path)).collect()
    }

    /// Waits until the server closes the connection.
    pub async fn closed(&mut self) {
        while self.incoming().await.is_some() {}
    }

    /// Creates a node without data. Flags: 1 ephemeral, 2 sequential, 4 container.
    pub async fn create(&mut self, path: &str, flags: i32) -> String {
        match self.done(create(path, flags)).await {
            Response::Created { path } => path,
            other => panic!("{other:?}"),
        }
    }

    /// A node's stat, if it exists.
    pub async fn stat(&mut self, path: &str) -> Option<Stat> {
        match self.call(exists(path, false)).await {
            (_, Some(Response::Stat(stat))) => Some(stat),
            (header, _) => {
                assert_eq!(header.err, NO_NODE);
                None
            }
        }
    }

    /// The session that owns a node: 0 for a persistent node, `None` without a node.
    pub async fn owner(&mut self, path: &str) -> Option<i64> {
        self.stat(path).await.map(|stat| stat.ephemeral_owner)
    }

    /// A node's data.
    pub async fn data(&mut self, path: &str) -> Vec<u8> {
        match self.done(get(path, false)).await {
            Response::Data { data, .. } => data.unwrap_or_default().to_vec(),
            other => panic!("{other:?}"),
        }
    }

    /// Replaces a node's data, whatever its version.
    pub async fn set(&mut self, path: &str, data: &[u8]) {
        self.done(set(path, data, -1)).await;
    }

    /// The names of a node's children.
    pub async fn children(&mut self, path: &str) -> Vec<String> {
        match self.done(children(path, false)).await {
            Response::Children(names) => names,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until the server has applied every change acknowledged by any server.
    pub async fn sync(&mut self) {
        self.done(Request::Sync { path: "/".to_owned() }).await;
    }

    /// Sets one-shot watches on data and children again, relative to the last change that the session has seen.
    pub async fn set_watches(&mut self, data: &[&str], child: &[&str]) {
        let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
        let watches = SetWatches {
            relative_zxid: self.last_zxid_seen,
            data: owned(data),
            child: owned(child),
            ..SetWatches::default()
        };
        self.done(Request::SetWatches(watches)).await;
    }

    /// Ends the session.
    pub async fn close(mut self) {
        self.done(Request::CloseSession).await;
    }
}

/// Sends a four-letter word, or anything else that opens no session, and returns everything that the server sends.
pub async fn four_letter_word(address: SocketAddr, word: &str) -> String {
    let mut socket = TcpStream::connect(address).await.expect("a connection");
    socket.write_all(word.as_bytes()).await.expect("the word is sent");
    let mut text = String::new();
    let read = tokio::time::timeout(DEADLINE, socket.read_to_string(&mut text)).await;
    read.expect("the server closes the connection").expect("text");
    text
}
