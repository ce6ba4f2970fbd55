//! A session of ZooKeeper: one connection, the requests that the recipes need, watches, and pings.
//!
//! One task reads and writes the socket. The session never reconnects: after the end of the connection the client
//! ends, and its session ends after the timeout. Replies arrive in the order of requests; at most [`PENDING_MAX`]
//! requests wait for the task. Events wait in a queue of [`WAKEUPS_MAX`]; a full queue drops events, because one
//! wake-up is sufficient.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use holdfast_zkwire::{
    Acl, ConnectRequest, ConnectResponse, Create, CreateMode, CreateOp, ErrorCode, ReplyKind,
    Request, Response, decode_reply, decode_reply_header, encode_request, xid,
};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio_util::codec::{FramedRead, LengthDelimitedCodec};

use crate::WAKEUPS_MAX;
use crate::lock::{LoadUsage, LockError, UsageCounter};
use crate::wait::Deadline;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const PENDING_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZooKeeperError {
    /// The node exists.
    Exists,
    /// The node or its parent does not exist.
    Missing,
    Other(LockError),
}

impl From<ZooKeeperError> for LockError {
    fn from(error: ZooKeeperError) -> Self {
        match error {
            ZooKeeperError::Exists => Self::Rejected("the node exists".to_owned()),
            ZooKeeperError::Missing => Self::Lost("the node does not exist".to_owned()),
            ZooKeeperError::Other(error) => error,
        }
    }
}

type ReplySender = oneshot::Sender<Result<Response, ZooKeeperError>>;

struct SentRequest {
    request: Request,
    reply: ReplySender,
}

/// A session. Dropping it closes the connection; the server ends the session after its timeout.
#[derive(Debug)]
pub struct ZooKeeperSession {
    requests: mpsc::Sender<SentRequest>,
    events: mpsc::Receiver<()>,
    task: AbortHandle,
    counter: Arc<UsageCounter>,
}

impl ZooKeeperSession {
    /// # Errors
    /// [`LockError::Unreachable`] if the node does not reply.
    pub async fn open(node: SocketAddr, timeout: Duration) -> Result<Self, LockError> {
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, handshake(node, timeout)).await;
        let (reader, writer, agreed) =
            opened.map_err(|_| unreachable("no reply to the first frame"))??;
        let (requests, queue) = mpsc::channel(PENDING_MAX);
        let (event_sender, events) = mpsc::channel(WAKEUPS_MAX);
        let connection =
            SessionConnection { reader, writer, event_sender, pending: VecDeque::new(), sent: 0 };
        let task = tokio::spawn(connection.run(queue, agreed / 3)).abort_handle();
        Ok(Self { requests, events, task, counter: Arc::default() })
    }

    /// Creates a node without data; returns its path.
    ///
    /// # Errors
    /// [`ZooKeeperError::Exists`], or [`ZooKeeperError::Missing`] if its parent is missing.
    pub async fn create(&self, path: &str, mode: CreateMode) -> Result<String, ZooKeeperError> {
        let (path, acl) = (path.to_owned(), vec![Acl::open()]);
        let create = Create { op: CreateOp::Create, path, data: Some(Bytes::new()), acl, mode };
        let reply = self.request(Request::Create(create)).await?;
        let Response::Created { path } = reply else { return Err(unexpected_reply()) };
        Ok(path)
    }

    /// Creates the missing persistent parents of a path.
    pub async fn create_parents(&self, path: &str) -> Result<(), ZooKeeperError> {
        for (at, _) in path.match_indices('/').skip(1) {
            let parent = path.get(..at).unwrap_or_default();
            match self.create(parent, CreateMode::Persistent).await {
                Ok(_) | Err(ZooKeeperError::Exists) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Deletes a node of any version.
    ///
    /// # Errors
    /// [`ZooKeeperError::Missing`].
    pub async fn delete(&self, path: &str) -> Result<(), ZooKeeperError> {
        self.request(Request::Delete { path: path.to_owned(), version: -1 }).await.map(drop)
    }

    /// Returns `true` if a node exists, and sets a watch in both cases.
    pub async fn watch(&self, path: &str) -> Result<bool, ZooKeeperError> {
        exists(self.request(Request::Exists { path: path.to_owned(), watch: true }).await)
    }

    /// Returns `true` if a node exists, and sets a watch only on an existing node.
    pub async fn watch_data(&self, path: &str) -> Result<bool, ZooKeeperError> {
        exists(self.request(Request::GetData { path: path.to_owned(), watch: true }).await)
    }

    /// Returns the names of a node's children.
    ///
    /// # Errors
    /// [`ZooKeeperError::Missing`].
    pub async fn children(&self, path: &str) -> Result<Vec<String>, ZooKeeperError> {
        let request = Request::GetChildren { path: path.to_owned(), watch: false };
        let reply = self.request(request).await?;
        let Response::Children(names) = reply else { return Err(unexpected_reply()) };
        Ok(names)
    }

    /// Waits until a watch fires.
    ///
    /// # Errors
    /// [`LockError::Busy`] after the deadline.
    pub async fn next_event(&mut self, deadline: Deadline) -> Result<(), LockError> {
        match tokio::time::timeout(deadline.remaining(), self.events.recv()).await {
            Ok(Some(())) => {
                self.counter.wakeup();
                Ok(())
            }
            Ok(None) => Err(unreachable("the connection has ended")),
            Err(_) => Err(LockError::Busy),
        }
    }

    /// Closes only the connection, like a network partition.
    pub fn disconnect(&self) {
        self.task.abort();
    }

    pub fn usage(&self) -> LoadUsage {
        self.counter.usage()
    }

    /// Returns a reader of the usage, for use after the session has moved into a client.
    pub fn usage_reader(&self) -> impl Fn() -> LoadUsage + Send + Sync + use<> {
        let counter = Arc::clone(&self.counter);
        move || counter.usage()
    }

    async fn request(&self, request: Request) -> Result<Response, ZooKeeperError> {
        let (reply, receiver) = oneshot::channel();
        self.counter.round_trip();
        let ended = || ZooKeeperError::Other(unreachable("the connection has ended"));
        let sent = self.requests.send(SentRequest { request, reply }).await;
        sent.map_err(|_| ended())?;
        receiver.await.map_err(|_| ended())?
    }
}

impl Drop for ZooKeeperSession {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn exists(reply: Result<Response, ZooKeeperError>) -> Result<bool, ZooKeeperError> {
    match reply {
        Ok(_) => Ok(true),
        Err(ZooKeeperError::Missing) => Ok(false),
        Err(error) => Err(error),
    }
}

type ReplyReader = FramedRead<OwnedReadHalf, LengthDelimitedCodec>;

/// The connection, with the requests that have no reply yet.
struct SessionConnection {
    reader: ReplyReader,
    writer: OwnedWriteHalf,
    event_sender: mpsc::Sender<()>,
    pending: VecDeque<(ReplyKind, Option<ReplySender>)>,
    sent: i32,
}

impl SessionConnection {
    /// Runs until either end closes or a frame cannot be decoded.
    async fn run(mut self, mut queue: mpsc::Receiver<SentRequest>, ping_every: Duration) {
        let mut pings = tokio::time::interval(ping_every);
        loop {
            let done = tokio::select! {
                frame = self.reader.next() => match frame {
                    Some(Ok(frame)) => self.receive(frame.freeze()),
                    Some(Err(_)) | None => None,
                },
                pending = queue.recv() => match pending {
                    Some(SentRequest { request, reply }) => self.send(&request, Some(reply)).await,
                    None => None,
                },
                _ = pings.tick() => self.send(&Request::Ping, None).await,
            };
            if done.is_none() {
                return;
            }
        }
    }

    async fn send(&mut self, request: &Request, reply: Option<ReplySender>) -> Option<()> {
        self.sent = self.sent.wrapping_add(1).max(1);
        let number = if reply.is_some() { self.sent } else { xid::PING };
        let frame = encode_request(number, request).ok()?;
        self.pending.push_back((request.reply_kind(), reply));
        self.writer.write_all(&frame).await.ok()
    }

    /// The reply to a ping arrives in the order of requests.
    fn receive(&mut self, frame: Bytes) -> Option<()> {
        let header = decode_reply_header(&frame).ok()?;
        if header.xid == xid::EVENT {
            // A full queue already holds a wake-up.
            let _ = self.event_sender.try_send(());
            return Some(());
        }
        let (kind, reply) = self.pending.pop_front()?;
        let (header, body) = decode_reply(kind, frame).ok()?;
        if let Some(reply) = reply {
            // The caller may have been dropped.
            drop(reply.send(result(header.err, body)));
        }
        Some(())
    }
}

fn result(err: i32, body: Option<Response>) -> Result<Response, ZooKeeperError> {
    if err == 0 {
        return body.ok_or_else(unexpected_reply);
    }
    Err(match ErrorCode::from_code(err) {
        Some(ErrorCode::NodeExists) => ZooKeeperError::Exists,
        Some(ErrorCode::NoNode) => ZooKeeperError::Missing,
        Some(ErrorCode::ConnectionLoss | ErrorCode::SessionExpired) => {
            ZooKeeperError::Other(unreachable("the session has ended"))
        }
        _ => ZooKeeperError::Other(LockError::Rejected(format!("error {err}"))),
    })
}

/// Connects and opens a session; the third value is the timeout chosen by the server.
async fn handshake(
    node: SocketAddr,
    timeout: Duration,
) -> Result<(ReplyReader, OwnedWriteHalf, Duration), LockError> {
    let socket = TcpStream::connect(node).await.map_err(unreachable)?;
    socket.set_nodelay(true).map_err(unreachable)?;
    let (reader, mut writer) = socket.into_split();
    let request = ConnectRequest {
        timeout_ms: i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX),
        password: Some([0; 16]),
        read_only: Some(false),
        ..ConnectRequest::default()
    };
    writer.write_all(&request.encode()).await.map_err(unreachable)?;
    let mut reader = LengthDelimitedCodec::builder().new_read(reader);
    let frame = reader.next().await.ok_or_else(|| unreachable("closed before its first frame"))?;
    let frame = frame.map_err(unreachable)?.freeze();
    let response = ConnectResponse::decode(frame).map_err(unreachable)?;
    if response.session_id == 0 {
        return Err(LockError::Rejected("no session".to_owned()));
    }
    let agreed = u64::try_from(response.timeout_ms).unwrap_or(1).max(3);
    Ok((reader, writer, Duration::from_millis(agreed)))
}

fn unreachable(error: impl std::fmt::Display) -> LockError {
    LockError::Unreachable(error.to_string())
}

fn unexpected_reply() -> ZooKeeperError {
    ZooKeeperError::Other(LockError::Rejected("a reply to another request".to_owned()))
}
