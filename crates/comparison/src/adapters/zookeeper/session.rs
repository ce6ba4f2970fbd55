//! A session of `ZooKeeper`: one connection, the requests that the recipes need, watches, and signs of life.
//!
//! Owns the task that reads and writes the socket. Refuses to reconnect: when the connection ends, so does the client, and
//! the session some time later. Replies come in the order of requests; events wait in a queue of [`crate::WAKEUPS_MAX`],
//! and what does not fit is dropped: one wake-up is as good as many.

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

use crate::lock::UsageCounter;
use crate::{Deadline, LockError, LockUsage, WAKEUPS_MAX};

const CONNECT: Duration = Duration::from_secs(10);
/// Requests under way.
const PENDING_MAX: usize = 64;

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZooKeeperError {
    /// The node is there already.
    Exists,
    /// There is no such node.
    Missing,
    /// Anything else.
    Other(LockError),
}

impl From<ZooKeeperError> for LockError {
    fn from(trouble: ZooKeeperError) -> Self {
        match trouble {
            ZooKeeperError::Exists => Self::Refused("the node is there already".to_owned()),
            ZooKeeperError::Missing => Self::Lost("there is no such node".to_owned()),
            ZooKeeperError::Other(trouble) => trouble,
        }
    }
}

type Caller = oneshot::Sender<Result<Response, ZooKeeperError>>;
type Asked = (Request, Caller);

/// A session. Dropping it closes the connection, not the session: that ends by its timeout.
#[derive(Debug)]
pub struct Session {
    requests: mpsc::Sender<Asked>,
    events: mpsc::Receiver<()>,
    task: AbortHandle,
    pub(super) counter: Arc<UsageCounter>,
}

impl Session {
    /// Opens one at a node.
    ///
    /// # Errors
    /// [`LockError::Unreachable`] if it does not answer.
    pub async fn open(node: SocketAddr, timeout: Duration) -> Result<Self, LockError> {
        let opened = tokio::time::timeout(CONNECT, open(node, timeout)).await;
        let (reader, writer, agreed) =
            opened.map_err(|_| gone("no answer to the first frame"))??;
        let (requests, asked) = mpsc::channel(PENDING_MAX);
        let (told, events) = mpsc::channel(WAKEUPS_MAX);
        let line = Line { reader, writer, told, pending: VecDeque::new(), sent: 0 };
        let task = tokio::spawn(line.serve(asked, agreed / 3)).abort_handle();
        Ok(Self { requests, events, task, counter: Arc::default() })
    }

    /// Makes a node, and answers its path.
    ///
    /// # Errors
    /// [`ZooKeeperError::Exists`], or [`ZooKeeperError::Missing`] if its parent is.
    pub async fn create(&self, path: &str, mode: CreateMode) -> Result<String, ZooKeeperError> {
        let (path, acl) = (path.to_owned(), vec![Acl::open()]);
        let create = Create { op: CreateOp::Create, path, data: Some(Bytes::new()), acl, mode };
        let Response::Created { path } = self.ask(Request::Create(create)).await? else {
            return Err(unexpected());
        };
        Ok(path)
    }

    /// Makes the persistent parents of a lock, if they are not there.
    ///
    /// # Errors
    /// As for any request.
    pub async fn create_parents(&self, path: &str) -> Result<(), ZooKeeperError> {
        for (at, _) in path.match_indices('/').skip(1) {
            let parent = path.get(..at).unwrap_or_default();
            match self.create(parent, CreateMode::Persistent).await {
                Ok(_) | Err(ZooKeeperError::Exists) => {}
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(())
    }

    /// Deletes a node, whatever its version.
    ///
    /// # Errors
    /// [`ZooKeeperError::Missing`].
    pub async fn delete(&self, path: &str) -> Result<(), ZooKeeperError> {
        self.ask(Request::Delete { path: path.to_owned(), version: -1 }).await.map(drop)
    }

    /// Whether a node is there; leaves a watch either way.
    ///
    /// # Errors
    /// As for any request.
    pub async fn watch(&self, path: &str) -> Result<bool, ZooKeeperError> {
        match self.ask(Request::Exists { path: path.to_owned(), watch: true }).await {
            Ok(_) => Ok(true),
            Err(ZooKeeperError::Missing) => Ok(false),
            Err(trouble) => Err(trouble),
        }
    }

    /// Reads a node, so that a watch is left only if it is there; whether it is.
    ///
    /// # Errors
    /// As for any request.
    pub async fn watch_data(&self, path: &str) -> Result<bool, ZooKeeperError> {
        match self.ask(Request::GetData { path: path.to_owned(), watch: true }).await {
            Ok(_) => Ok(true),
            Err(ZooKeeperError::Missing) => Ok(false),
            Err(trouble) => Err(trouble),
        }
    }

    /// Names of a node's children.
    ///
    /// # Errors
    /// [`ZooKeeperError::Missing`].
    pub async fn children(&self, path: &str) -> Result<Vec<String>, ZooKeeperError> {
        let request = Request::GetChildren { path: path.to_owned(), watch: false };
        let Response::Children(names) = self.ask(request).await? else { return Err(unexpected()) };
        Ok(names)
    }

    /// Waits until a watch fires, or until patience ends; whether one did.
    ///
    /// # Errors
    /// [`LockError::Unreachable`] if the connection has ended.
    pub async fn hear(&mut self, patience: Deadline) -> Result<bool, LockError> {
        match tokio::time::timeout(patience.left(), self.events.recv()).await {
            Ok(Some(())) => {
                self.counter.wakeup();
                Ok(true)
            }
            Ok(None) => Err(gone("the connection has ended")),
            Err(_) => Ok(false),
        }
    }

    /// Ends the connection alone, as a cut cable does: the session ends by its timeout.
    pub fn cut(&self) {
        self.task.abort();
    }

    /// Ends the session, and with it what it has.
    ///
    /// # Errors
    /// As for any request.
    pub async fn close(self) -> Result<(), LockError> {
        Ok(self.ask(Request::CloseSession).await.map(drop)?)
    }

    /// What was done so far.
    pub fn usage(&self) -> LockUsage {
        self.counter.usage()
    }

    /// The same, to be asked when somebody else has the session.
    pub fn usage_reader(&self) -> impl Fn() -> LockUsage + Send + Sync + use<> {
        let counter = Arc::clone(&self.counter);
        move || counter.usage()
    }

    async fn ask(&self, request: Request) -> Result<Response, ZooKeeperError> {
        let (answer, answered) = oneshot::channel();
        self.counter.round_trip();
        let ended = || ZooKeeperError::Other(gone("the connection has ended"));
        self.requests.send((request, answer)).await.map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Frames = FramedRead<OwnedReadHalf, LengthDelimitedCodec>;

/// The connection, with what was asked and not answered.
struct Line {
    reader: Frames,
    writer: OwnedWriteHalf,
    told: mpsc::Sender<()>,
    pending: VecDeque<(ReplyKind, Option<Caller>)>,
    sent: i32,
}

impl Line {
    /// Until either end closes, or something cannot be read.
    async fn serve(mut self, mut asked: mpsc::Receiver<Asked>, ping_every: Duration) {
        let mut pings = tokio::time::interval(ping_every);
        loop {
            let going_on = tokio::select! {
                frame = self.reader.next() => match frame {
                    Some(Ok(frame)) => self.receive(frame.freeze()).is_some(),
                    Some(Err(_)) | None => false,
                },
                asked = asked.recv() => match asked {
                    Some((request, answer)) => self.send(&request, Some(answer)).await.is_some(),
                    None => false,
                },
                _ = pings.tick() => self.send(&Request::Ping, None).await.is_some(),
            };
            if !going_on {
                return;
            }
        }
    }

    async fn send(&mut self, request: &Request, answer: Option<Caller>) -> Option<()> {
        self.sent = self.sent.wrapping_add(1).max(1);
        let number = if answer.is_some() { self.sent } else { xid::PING };
        let frame = encode_request(number, request).ok()?;
        self.pending.push_back((request.reply_kind(), answer));
        self.writer.write_all(&frame).await.ok()
    }

    /// Pings are answered in their turn like everything else.
    fn receive(&mut self, frame: Bytes) -> Option<()> {
        let header = decode_reply_header(&frame).ok()?;
        if header.xid == xid::EVENT {
            // A full queue holds a wake-up already.
            let _ = self.told.try_send(());
            return Some(());
        }
        let (kind, answer) = self.pending.pop_front()?;
        let (header, body) = decode_reply(kind, frame).ok()?;
        if let Some(answer) = answer {
            // Whoever asked may have gone.
            drop(answer.send(outcome(header.err, body)));
        }
        Some(())
    }
}

fn outcome(err: i32, body: Option<Response>) -> Result<Response, ZooKeeperError> {
    if err == 0 {
        return body.ok_or_else(unexpected);
    }
    Err(match ErrorCode::from_code(err) {
        Some(ErrorCode::NodeExists) => ZooKeeperError::Exists,
        Some(ErrorCode::NoNode) => ZooKeeperError::Missing,
        Some(ErrorCode::ConnectionLoss | ErrorCode::SessionExpired) => {
            ZooKeeperError::Other(gone("the session has ended"))
        }
        _ => ZooKeeperError::Other(LockError::Refused(format!("error {err}"))),
    })
}

async fn open(
    node: SocketAddr,
    timeout: Duration,
) -> Result<(Frames, OwnedWriteHalf, Duration), LockError> {
    let socket = TcpStream::connect(node).await.map_err(gone)?;
    socket.set_nodelay(true).map_err(gone)?;
    let (reader, mut writer) = socket.into_split();
    let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    let hello = ConnectRequest {
        timeout_ms,
        password: Some([0; 16]),
        read_only: Some(false),
        ..ConnectRequest::default()
    };
    writer.write_all(&hello.encode()).await.map_err(gone)?;
    let mut reader = LengthDelimitedCodec::builder().new_read(reader);
    let frame = reader.next().await.ok_or_else(|| gone("closed before its first frame"))?;
    let answer = ConnectResponse::decode(frame.map_err(gone)?.freeze()).map_err(gone)?;
    if answer.session_id == 0 {
        return Err(LockError::Refused("no session".to_owned()));
    }
    let agreed = u64::try_from(answer.timeout_ms).unwrap_or(1).max(3);
    Ok((reader, writer, Duration::from_millis(agreed)))
}

fn gone(error: impl std::fmt::Display) -> LockError {
    LockError::Unreachable(error.to_string())
}

fn unexpected() -> ZooKeeperError {
    ZooKeeperError::Other(LockError::Refused("an answer of another kind".to_owned()))
}
