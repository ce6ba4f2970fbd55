//! A client that says exactly what a test wants said, frame by frame.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use holdfast_zkwire::{
    Acl, ConnectRequest, ConnectResponse, Create, CreateMode, CreateOp, ReplyHeader, ReplyKind,
    Request, Response, Stat, WatchEventType, WatchedEvent, decode_event, decode_reply,
    encode_request, frame_len, xid,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Long enough for a loaded machine, short enough for a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A connection with a session.
pub(crate) struct Client {
    socket: TcpStream,
    pub(crate) hello: ConnectResponse,
    last_xid: i32,
    /// Asked and not answered yet.
    asked: VecDeque<(i32, ReplyKind)>,
    /// Events that came before a reply that was waited for.
    events: VecDeque<WatchedEvent>,
}

/// A reply: its header, and what it says if it is no error.
pub(crate) type Reply = (ReplyHeader, Option<Response>);

/// What came.
#[derive(Debug)]
pub(crate) enum Incoming {
    Reply(Reply),
    Event(WatchedEvent),
}

/// A first frame for a new session.
pub(crate) fn hello(timeout_ms: i32) -> ConnectRequest {
    ConnectRequest {
        timeout_ms,
        password: Some([0; 16]),
        read_only: Some(false),
        ..ConnectRequest::default()
    }
}

impl Client {
    /// Opens a session of ten seconds.
    pub(crate) async fn open(address: SocketAddr) -> Self {
        Self::connect(address, &hello(10_000)).await.expect("a session")
    }

    /// Takes over the session of another connection.
    pub(crate) async fn take_over(address: SocketAddr, other: &ConnectResponse) -> Self {
        let again = ConnectRequest {
            session_id: other.session_id,
            password: Some(other.password),
            ..hello(other.timeout_ms)
        };
        Self::connect(address, &again).await.expect("the session")
    }

    /// Says the first frame; none if the server closes without an answer.
    pub(crate) async fn connect(address: SocketAddr, hello: &ConnectRequest) -> Option<Self> {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(&hello.encode()).await.unwrap();
        let frame = frame(&mut socket).await?;
        let hello = ConnectResponse::decode(frame).unwrap();
        let (asked, events) = (VecDeque::new(), VecDeque::new());
        Some(Self { socket, hello, last_xid: 0, asked, events })
    }

    /// The session's number as nodes of it carry it.
    pub(crate) fn session(&self) -> i64 {
        self.hello.session_id
    }

    /// Sends a request without waiting.
    pub(crate) async fn send(&mut self, request: &Request) -> i32 {
        self.last_xid += 1;
        let xid = if matches!(request, Request::Ping) {
            xid::PING
        } else if matches!(request, Request::Auth { .. }) {
            xid::AUTH
        } else if matches!(request, Request::SetWatches(_)) {
            xid::SET_WATCHES
        } else {
            self.last_xid
        };
        self.asked.push_back((xid, request.reply_kind()));
        self.raw(&encode_request(xid, request).unwrap()).await;
        xid
    }

    /// Sends bytes as they are.
    pub(crate) async fn raw(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).await.unwrap();
    }

    /// Says that a reply will come to something sent raw.
    pub(crate) fn expect(&mut self, xid: i32, kind: ReplyKind) {
        self.asked.push_back((xid, kind));
    }

    /// Whatever comes next; none if the server closes.
    pub(crate) async fn incoming(&mut self) -> Option<Incoming> {
        let frame = frame(&mut self.socket).await?;
        if let Ok((_, event)) = decode_event(frame.clone()) {
            return Some(Incoming::Event(event));
        }
        let (xid, kind) = self.asked.pop_front().expect("a reply to nothing");
        let (header, body) = decode_reply(kind, frame).unwrap();
        assert_eq!(header.xid, xid, "replies leave in the order of the requests");
        Some(Incoming::Reply((header, body)))
    }

    /// The next reply; events before it are kept.
    pub(crate) async fn reply(&mut self) -> Option<Reply> {
        loop {
            match self.incoming().await? {
                Incoming::Reply(reply) => return Some(reply),
                Incoming::Event(event) => self.events.push_back(event),
            }
        }
    }

    /// Sends a request and waits for its reply.
    pub(crate) async fn call(&mut self, request: Request) -> Reply {
        self.send(&request).await;
        self.reply().await.unwrap_or_else(|| panic!("closed without a reply to {request:?}"))
    }

    /// The error of a request, 0 for none.
    pub(crate) async fn error(&mut self, request: Request) -> i32 {
        self.call(request).await.0.err
    }

    /// What a request that succeeds is told.
    pub(crate) async fn done(&mut self, request: Request) -> Response {
        let (header, body) = self.call(request.clone()).await;
        assert_eq!(header.err, 0, "{request:?}");
        body.unwrap()
    }

    /// The next watch event.
    pub(crate) async fn event(&mut self) -> (WatchEventType, String) {
        let event = match self.events.pop_front() {
            Some(event) => event,
            None => match self.incoming().await {
                Some(Incoming::Event(event)) => event,
                other => panic!("an event was expected, not {other:?}"),
            },
        };
        (event.kind, event.path)
    }

    /// Everything announced up to now: a ping's reply comes behind it.
    pub(crate) async fn events(&mut self) -> Vec<(WatchEventType, String)> {
        self.done(Request::Ping).await;
        self.events.drain(..).map(|event| (event.kind, event.path)).collect()
    }

    /// Waits for the server to close the connection.
    pub(crate) async fn closed(&mut self) {
        while self.incoming().await.is_some() {}
    }

    /// Creates a node with the mode's flags.
    pub(crate) async fn create(&mut self, path: &str, flags: i32) -> String {
        let said = self.done(create(path, flags)).await;
        let Response::Created { path } = said else { panic!("{said:?}") };
        path
    }

    /// A node's stat, if it is there.
    pub(crate) async fn stat(&mut self, path: &str) -> Option<Stat> {
        match self.call(exists(path, false)).await {
            (_, Some(Response::Stat(stat))) => Some(stat),
            (header, _) => {
                assert_eq!(header.err, -101);
                None
            }
        }
    }

    /// A node's data.
    pub(crate) async fn data(&mut self, path: &str) -> Vec<u8> {
        let said = self.done(get(path, false)).await;
        let Response::Data { data, .. } = said else { panic!("{said:?}") };
        data.unwrap_or_default().to_vec()
    }

    /// The names of a node's children.
    pub(crate) async fn children(&mut self, path: &str) -> Vec<String> {
        let said = self.done(children(path, false)).await;
        let Response::Children(names) = said else { panic!("{said:?}") };
        names
    }
}

/// The next frame; none if the connection is closed.
async fn frame(socket: &mut TcpStream) -> Option<Bytes> {
    let read = async {
        let mut header = [0; 4];
        socket.read_exact(&mut header).await.ok()?;
        let mut frame = vec![0; frame_len(header, 64 << 20).unwrap()];
        socket.read_exact(&mut frame).await.ok()?;
        Some(Bytes::from(frame))
    };
    tokio::time::timeout(PATIENCE, read).await.expect("neither a frame nor an end")
}

/// A node everybody may use, without data.
pub(crate) fn create(path: &str, flags: i32) -> Request {
    create_with(path, flags, b"", vec![Acl::open()])
}

pub(crate) fn create_with(path: &str, flags: i32, data: &[u8], acl: Vec<Acl>) -> Request {
    create_by(CreateOp::Create, path, flags, data, acl)
}

pub(crate) fn create_by(
    op: CreateOp,
    path: &str,
    flags: i32,
    data: &[u8],
    acl: Vec<Acl>,
) -> Request {
    let (path, data) = (path.to_owned(), Some(Bytes::copy_from_slice(data)));
    Request::Create(Create { op, path, data, acl, mode: CreateMode::from_flags(flags, 60_000) })
}

pub(crate) fn delete(path: &str, version: i32) -> Request {
    Request::Delete { path: path.to_owned(), version }
}

pub(crate) fn exists(path: &str, watch: bool) -> Request {
    Request::Exists { path: path.to_owned(), watch }
}

pub(crate) fn get(path: &str, watch: bool) -> Request {
    Request::GetData { path: path.to_owned(), watch }
}

pub(crate) fn set(path: &str, data: &[u8], version: i32) -> Request {
    let data = Some(Bytes::copy_from_slice(data));
    Request::SetData { path: path.to_owned(), data, version }
}

pub(crate) fn children(path: &str, watch: bool) -> Request {
    Request::GetChildren { path: path.to_owned(), watch }
}
