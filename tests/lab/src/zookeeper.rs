//! The `ZooKeeper` door as a client sees it: the few requests that the tests need, written from the protocol's
//! description, so that no mistake of ours is on both ends of the wire.
//!
//! Owns one connection and what it has been told. Reconnects never by itself: where a session goes on is what the
//! tests are about. Events that come before a reply are kept in order.

use std::collections::VecDeque;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::until::DEADLINE;

/// Permissions, scheme and id of a list that lets everybody do everything.
const OPEN: (i32, &str, &str) = (31, "world", "anyone");

/// What a session is known by, on any node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZkSession {
    /// 0 asks for a new one.
    pub id: i64,
    /// What shows that it is ours.
    pub password: [u8; 16],
    /// Milliseconds that it lives without a word.
    pub timeout_ms: i32,
    /// The newest change that the client knows of.
    pub seen: i64,
}

impl ZkSession {
    /// A session to be opened.
    pub fn new(timeout_ms: i32) -> Self {
        Self { timeout_ms, ..Self::default() }
    }
}

/// Why a request was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZkError {
    /// The node said so.
    Code(i32),
    /// The connection ended before a reply.
    Closed,
}

/// What a watch told: 1 created, 2 deleted, 3 changed, 4 children changed; and where.
pub type ZkEvent = (i32, String);

/// One connection.
#[derive(Debug)]
pub struct Zk {
    socket: TcpStream,
    xid: i32,
    /// The session, with what was seen up to now.
    pub session: ZkSession,
    events: VecDeque<ZkEvent>,
}

impl Zk {
    /// Opens or takes over a session. None if the node closes without an answer, or cannot be reached.
    pub async fn connect(address: SocketAddr, session: ZkSession) -> Option<Self> {
        let mut socket = TcpStream::connect(address).await.ok()?;
        let mut hello = Body::default();
        hello.int(0).long(session.seen).int(session.timeout_ms).long(session.id);
        hello.buffer(&session.password).byte(0);
        socket.write_all(&hello.framed()).await.ok()?;
        let mut answer = Answer(frame(&mut socket).await?);
        let _version = answer.int();
        let timeout_ms = answer.int();
        let id = answer.long();
        let password = answer.buffer().try_into().expect("a password of 16 bytes");
        let session = ZkSession { id, password, timeout_ms, ..session };
        Some(Self { socket, xid: 0, session, events: VecDeque::new() })
    }

    /// The same, and panics with what came if there is no session.
    pub async fn open(address: SocketAddr, session: ZkSession) -> Self {
        let zk = Self::connect(address, session).await.expect("an answer of the node");
        assert_ne!(zk.session.id, 0, "the session is refused");
        zk
    }

    /// Creates a node: flags 0 persistent, 1 ephemeral, 2 and 3 the same with a number, 4 container.
    ///
    /// # Errors
    /// [`ZkError`] as for every request.
    pub async fn create(&mut self, path: &str, flags: i32) -> Result<String, ZkError> {
        let (perms, scheme, id) = OPEN;
        let mut body = Body::default();
        body.text(path).buffer(b"").int(1).int(perms).text(scheme).text(id).int(flags);
        Ok(self.call(1, body).await?.text())
    }

    /// Deletes a node, whatever its version.
    ///
    /// # Errors
    /// [`ZkError`] as for every request.
    pub async fn delete(&mut self, path: &str) -> Result<(), ZkError> {
        let mut body = Body::default();
        body.text(path).int(-1);
        self.call(2, body).await.map(drop)
    }

    /// The owner of a node, 0 if it stays; leaves a watch if wished.
    ///
    /// # Errors
    /// [`ZkError`] as for every request.
    pub async fn owner(&mut self, path: &str, watch: bool) -> Result<i64, ZkError> {
        let mut body = Body::default();
        body.text(path).byte(watch.into());
        let mut stat = self.call(3, body).await?;
        // Four longs and three ints stand before it.
        stat.skip(4 * 8 + 3 * 4);
        Ok(stat.long())
    }

    /// A node's data; leaves a watch if wished.
    ///
    /// # Errors
    /// [`ZkError`] as for every request.
    pub async fn data(&mut self, path: &str, watch: bool) -> Result<Vec<u8>, ZkError> {
        let mut body = Body::default();
        body.text(path).byte(watch.into());
        Ok(self.call(4, body).await?.buffer())
    }

    /// Replaces a node's data, whatever its version.
    ///
    /// # Errors
    /// [`ZkError`] as for every request.
    pub async fn set(&mut self, path: &str, data: &[u8]) -> Result<(), ZkError> {
        let mut body = Body::default();
        body.text(path).buffer(data).int(-1);
        self.call(5, body).await.map(drop)
    }

    /// The names of a node's children; leaves a watch if wished.
    ///
    /// # Errors
    /// [`ZkError`] as for every request.
    pub async fn children(&mut self, path: &str, watch: bool) -> Result<Vec<String>, ZkError> {
        let mut body = Body::default();
        body.text(path).byte(watch.into());
        let mut names = self.call(8, body).await?;
        Ok((0..names.int()).map(|_| names.text()).collect())
    }

    /// Waits until this node has caught up with what was acknowledged anywhere.
    ///
    /// # Errors
    /// [`ZkError`] as for every request.
    pub async fn sync(&mut self) -> Result<(), ZkError> {
        let mut body = Body::default();
        body.text("/");
        self.call(9, body).await.map(drop)
    }

    /// A sign of life.
    ///
    /// # Errors
    /// [`ZkError`] as for every request.
    pub async fn ping(&mut self) -> Result<(), ZkError> {
        self.call(11, Body::default()).await.map(drop)
    }

    /// Sets watches again, relative to what the session has seen: on data, on existence, on children.
    ///
    /// # Errors
    /// [`ZkError`] as for every request.
    pub async fn set_watches(&mut self, lists: [&[&str]; 3]) -> Result<(), ZkError> {
        let mut body = Body::default();
        body.long(self.session.seen);
        for list in lists {
            body.int(i32::try_from(list.len()).expect("a short list"));
            for path in list {
                body.text(path);
            }
        }
        self.call(101, body).await.map(drop)
    }

    /// Ends the session.
    ///
    /// # Errors
    /// [`ZkError`] as for every request.
    pub async fn close(mut self) -> Result<(), ZkError> {
        self.call(-11, Body::default()).await.map(drop)
    }

    /// Everything that watches have told up to now, in order.
    ///
    /// # Errors
    /// [`ZkError`] if the connection is gone.
    pub async fn events(&mut self) -> Result<Vec<ZkEvent>, ZkError> {
        self.ping().await?;
        Ok(self.events.drain(..).collect())
    }

    /// The next thing that a watch tells.
    ///
    /// # Errors
    /// [`ZkError`] if the connection is gone.
    pub async fn event(&mut self) -> Result<ZkEvent, ZkError> {
        while self.events.is_empty() {
            let frame = frame(&mut self.socket).await.ok_or(ZkError::Closed)?;
            self.note(frame);
        }
        Ok(self.events.pop_front().expect("not empty"))
    }

    /// Waits until the node closes the connection.
    pub async fn closed(mut self) {
        while frame(&mut self.socket).await.is_some() {}
    }

    async fn call(&mut self, op: i32, body: Body) -> Result<Answer, ZkError> {
        self.xid = match op {
            11 => -2,
            101 => -8,
            _ => self.xid.max(0) + 1,
        };
        let mut request = Body::default();
        request.int(self.xid).int(op).0.extend(body.0);
        let sent = self.socket.write_all(&request.framed()).await;
        sent.map_err(|_| ZkError::Closed)?;
        loop {
            let frame = frame(&mut self.socket).await.ok_or(ZkError::Closed)?;
            if let Some((code, answer)) = self.note(frame) {
                return if code == 0 { Ok(answer) } else { Err(ZkError::Code(code)) };
            }
        }
    }

    /// Keeps an event; or answers the error and the body of a reply.
    fn note(&mut self, frame: Vec<u8>) -> Option<(i32, Answer)> {
        let mut answer = Answer(frame);
        let (xid, seen, code) = (answer.int(), answer.long(), answer.int());
        self.session.seen = self.session.seen.max(seen);
        if xid == -1 {
            let (kind, _state) = (answer.int(), answer.int());
            self.events.push_back((kind, answer.text()));
            return None;
        }
        assert_eq!(xid, self.xid, "replies come in the order of requests");
        Some((code, answer))
    }
}

/// Asks a four-letter word.
pub async fn four_letter_word(address: SocketAddr, word: &str) -> String {
    let mut socket = TcpStream::connect(address).await.expect("a connection");
    socket.write_all(word.as_bytes()).await.expect("the word is sent");
    let mut text = String::new();
    let read = tokio::time::timeout(DEADLINE, socket.read_to_string(&mut text)).await;
    read.expect("the answer ends").expect("text");
    text
}

/// The next frame; none if the connection is closed.
async fn frame(socket: &mut TcpStream) -> Option<Vec<u8>> {
    let read = async {
        let len = socket.read_u32().await.ok()?;
        assert!(len < 16 << 20, "a frame of {len} bytes");
        let mut frame = vec![0; usize::try_from(len).expect("a short frame")];
        socket.read_exact(&mut frame).await.ok()?;
        Some(frame)
    };
    tokio::time::timeout(DEADLINE, read).await.expect("a frame or the end of the connection")
}

/// What is sent.
#[derive(Default)]
struct Body(Vec<u8>);

impl Body {
    fn byte(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    fn int(&mut self, value: i32) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn long(&mut self, value: i64) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn buffer(&mut self, value: &[u8]) -> &mut Self {
        self.int(i32::try_from(value.len()).expect("a short buffer"));
        self.0.extend(value);
        self
    }

    fn text(&mut self, value: &str) -> &mut Self {
        self.buffer(value.as_bytes())
    }

    fn framed(&self) -> Vec<u8> {
        let mut frame = Self::default();
        frame.buffer(&self.0);
        frame.0
    }
}

/// What is received.
struct Answer(Vec<u8>);

impl Answer {
    fn skip(&mut self, count: usize) -> Vec<u8> {
        assert!(count <= self.0.len(), "the answer is too short");
        let rest = self.0.split_off(count);
        std::mem::replace(&mut self.0, rest)
    }

    fn int(&mut self) -> i32 {
        i32::from_be_bytes(self.skip(4).try_into().expect("four bytes"))
    }

    fn long(&mut self) -> i64 {
        i64::from_be_bytes(self.skip(8).try_into().expect("eight bytes"))
    }

    /// Null is the empty one.
    fn buffer(&mut self) -> Vec<u8> {
        let len = usize::try_from(self.int()).unwrap_or(0);
        self.skip(len)
    }

    fn text(&mut self) -> String {
        String::from_utf8(self.buffer()).expect("text")
    }
}
