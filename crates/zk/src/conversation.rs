//! One connection after its handshake: requests in, in order; replies and watch events out, in the outbox's order.
//!
//! Owns the pairing of requests with their replies, and the reasons why a conversation ends. Two loops share one task:
//! `listen` looks at one request after the other and asks the service (writes that arrived together in one go), `speak`
//! writes whatever the outbox holds, as much
//! as there is with one call. Refuses to know what requests mean (`plan.rs`) and what answers look like (`reply.rs`).
//!
//! Bounds: what was asked and not yet written is bounded by the outbox, which makes `listen` wait, so that the socket
//! is not read; what is being written, by one reply and [`CHUNK`].

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use holdfast_service::{Ended, Outbox, Outgoing, Stream, StreamReply};
use holdfast_types::Multi;
use holdfast_zkwire::{
    DecodeError, ErrorCode, FrameError, Request, RequestHeader, append_event, append_reply,
    decode_request, op, xid,
};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use crate::ZkMetrics;
use crate::frames::{Broken, Frames};
use crate::kind::Kind;
use crate::ledger::Seat;
use crate::plan::{Known, Plan, Question, plan};
use crate::reply::{Shape, Told, told};
use crate::values;

/// Replies and events are written together until there is this much, bytes.
const CHUNK: usize = 64 * 1024;
/// Writes that are asked together.
const RUN_MAX: usize = 64;
/// The zxid of what has none, as `ZooKeeper` 3.8 sends it: of events, and of the reply to an unknown operation.
const NO_ZXID: i64 = -1;

/// Why a conversation is over.
#[derive(Debug)]
pub(crate) enum End {
    /// The client has closed the connection.
    Left,
    /// Nothing was heard for as long as the session lives.
    Silent,
    /// The client takes nothing.
    Stuck,
    /// The socket failed.
    Socket(io::Error),
    /// A length that is not to be trusted.
    Frame(FrameError),
    /// A frame without even a header.
    Header(DecodeError),
    /// The client was told an error that ends the connection.
    Parted(ErrorCode),
    /// What became of a request is not known, or this node cannot do it.
    Unable,
    /// The stream is over.
    Stream(Ended),
}

impl End {
    /// One word for the log.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Left => "closed",
            Self::Silent => "timeout",
            Self::Stuck => "stuck",
            Self::Socket(_) => "socket",
            Self::Frame(_) => "frame",
            Self::Header(_) => "header",
            Self::Parted(_) => "error",
            Self::Unable => "unavailable",
            Self::Stream(_) => "session",
        }
    }
}

impl From<Broken> for End {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Closed => Self::Left,
            Broken::Socket(error) => Self::Socket(error),
            Broken::Frame(error) => Self::Frame(error),
        }
    }
}

/// A request whose reply has not been written.
#[derive(Debug)]
struct Pending {
    tag: i64,
    xid: i32,
    kind: Kind,
    began: Instant,
}

/// What both loops know.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pending: Mutex<VecDeque<(Pending, Shape)>>,
    /// Told when a reply was taken from the outbox.
    taken: Notify,
}

/// The loop that reads.
pub(crate) struct Listener<'a, R> {
    pub(crate) frames: &'a mut Frames<R>,
    pub(crate) stream: &'a Stream,
    pub(crate) known: Known,
    pub(crate) shared: &'a Shared,
    pub(crate) seat: &'a Seat,
    /// How long nothing may be heard.
    pub(crate) silence_max: Duration,
    /// Of the request heard last.
    pub(crate) last_tag: i64,
}

impl<R: AsyncRead + Unpin> Listener<'_, R> {
    /// Asks what the client asks, until it stops.
    pub(crate) async fn listen(&mut self) -> End {
        self.stream.identify(self.known.identities.as_slice().to_vec());
        loop {
            let next = tokio::time::timeout(self.silence_max, self.frames.next());
            let followed = match next.await {
                Ok(Ok(frame)) => self.follow(frame).await,
                Ok(Err(broken)) => Err(broken.into()),
                Err(_) => Err(End::Silent),
            };
            if let Err(end) = followed {
                return end;
            }
        }
    }

    /// Reads what a client sends before it learns that another connection has taken its session over, up to so many
    /// bytes. Nothing of it is done but the end of the session.
    pub(crate) async fn farewell(&mut self, bytes_max: usize) {
        let mut left = bytes_max;
        while let Ok(frame) = self.frames.next().await {
            let Some(rest) = left.checked_sub(frame.len()) else { return };
            left = rest;
            match decode_request(frame) {
                Ok((_, Ok(Request::CloseSession))) => {
                    return self.stream.close(self.last_tag).await;
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    /// Asks one request, or all the writes that have arrived together.
    async fn follow(&mut self, frame: Bytes) -> Result<(), End> {
        let mut run = Vec::new();
        let mut heard = self.hear(frame)?;
        let end = loop {
            let (pending, Plan { question, shape }) = heard;
            let Question::Write(multi) = question else {
                self.write(run).await;
                self.ask(pending, question, shape).await;
                return Ok(());
            };
            run.push((pending.tag, multi));
            self.shared.pending.lock().push_back((pending, shape));
            if run.len() >= RUN_MAX {
                break Ok(());
            }
            let next = match self.frames.try_next() {
                Ok(Some(frame)) => self.hear(frame),
                Ok(None) => break Ok(()),
                Err(broken) => Err(broken.into()),
            };
            match next {
                Ok(next) => heard = next,
                Err(end) => break Err(end),
            }
        };
        self.write(run).await;
        end
    }

    fn hear(&mut self, frame: Bytes) -> Result<(Pending, Plan), End> {
        let (header, request) = decode_request(frame).map_err(End::Header)?;
        self.seat.received();
        self.last_tag += 1;
        let (tag, kind, began) = (self.last_tag, Kind::of(header.op), Instant::now());
        let plan = self.understand(header, request);
        Ok((Pending { tag, xid: echoed(header), kind, began }, plan))
    }

    fn understand(&self, header: RequestHeader, request: Result<Request, DecodeError>) -> Plan {
        match request {
            Ok(request) => plan(request, &self.known),
            Err(error) => {
                tracing::info!(
                    session = format_args!("{:#x}", self.stream.session_id().0),
                    op = Kind::of(header.op).name(), %error,
                    "a ZooKeeper request could not be read"
                );
                Plan::known(Err(ErrorCode::MarshallingError))
            }
        }
    }

    fn prove(&mut self, scheme: &str, proof: &[u8]) -> Shape {
        let proved = self.known.identities.prove(scheme, proof);
        self.stream.identify(self.known.identities.as_slice().to_vec());
        match proved {
            Ok(()) => Shape::Fixed(Ok(holdfast_zkwire::Response::Empty)),
            Err(_) => Shape::Parting(ErrorCode::AuthFailed),
        }
    }

    async fn ask(&mut self, pending: Pending, question: Question, mut shape: Shape) {
        if let Question::Prove(scheme, proof) = &question {
            shape = self.prove(scheme, proof);
        }
        let (stream, tag) = (self.stream, pending.tag);
        let parts = matches!(shape, Shape::Parting(_));
        self.shared.pending.lock().push_back((pending, shape));
        match question {
            Question::Nothing | Question::Prove(..) => stream.ping(tag).await,
            Question::Read(read, watch) => stream.read(tag, read, watch).await,
            Question::ReadMany(reads) => stream.read_many(tag, reads).await,
            Question::Sync => stream.sync(tag).await,
            Question::AddWatch(path, mode) => stream.add_watch(tag, path, mode).await,
            Question::CheckWatches(path, kind) => stream.check_watches(tag, path, kind).await,
            Question::RemoveWatches(path, kind) => stream.remove_watches(tag, path, kind).await,
            Question::SetWatches(since, set) => stream.set_watches(tag, since, set).await,
            Question::Close => stream.close(tag).await,
            Question::Write(multi) => self.write(vec![(tag, multi)]).await,
        }
        if parts {
            self.taken(tag).await;
        }
    }

    async fn write(&self, run: Vec<(i64, Multi)>) {
        let Some((last, _)) = run.last() else { return };
        let last = *last;
        self.stream.write_run(run).await;
        self.taken(last).await;
    }

    /// Resolves when the replies up to this one have been looked at: a write that failed may have ended the conversation, and then
    /// nothing that was sent behind it may be done.
    async fn taken(&self, tag: i64) {
        loop {
            let taken = self.shared.taken.notified();
            if self.shared.pending.lock().front().is_none_or(|(first, _)| first.tag > tag) {
                return;
            }
            taken.await;
        }
    }
}

/// Pings are answered under the number of pings, everything else under its own.
fn echoed(header: RequestHeader) -> i32 {
    if header.op == op::PING { xid::PING } else { header.xid }
}

/// The loop that writes.
pub(crate) struct Speaker<'a, W> {
    pub(crate) sink: &'a mut W,
    pub(crate) outbox: Outbox,
    pub(crate) shared: &'a Shared,
    pub(crate) seat: &'a Seat,
    pub(crate) metrics: &'a ZkMetrics,
    pub(crate) write_timeout: Duration,
    pub(crate) buffer: BytesMut,
    /// Set when nothing is to be written after what is in the buffer.
    pub(crate) end: Option<End>,
}

impl<W: AsyncWrite + Unpin> Speaker<'_, W> {
    /// Writes what goes out, until there is nothing to come. Dropping the future loses nothing.
    pub(crate) async fn speak(&mut self) -> End {
        loop {
            if self.buffer.is_empty() && self.end.is_none() {
                let item = self.outbox.next().await;
                self.take(item);
            }
            self.gather();
            if let Err(end) = self.write().await {
                return end;
            }
            if let Some(end) = self.end.take() {
                return end;
            }
        }
    }

    /// Writes what is there and no more, for a conversation that ended otherwise.
    pub(crate) async fn finish(&mut self) {
        loop {
            self.gather();
            if self.buffer.is_empty() || self.write().await.is_err() {
                return;
            }
        }
    }

    fn gather(&mut self) {
        while self.end.is_none() && self.buffer.len() < CHUNK {
            match self.outbox.try_next() {
                Some(item) => self.take(item),
                None => return,
            }
        }
    }

    async fn write(&mut self) -> Result<(), End> {
        while !self.buffer.is_empty() {
            let written = tokio::select! {
                biased;
                written = self.sink.write_buf(&mut self.buffer) => written,
                () = self.outbox.overflowed() => return Err(End::Stream(Ended::Overflow)),
                () = tokio::time::sleep(self.write_timeout) => return Err(End::Stuck),
            };
            match written {
                Ok(0) => return Err(End::Socket(io::ErrorKind::WriteZero.into())),
                Ok(_) => {}
                Err(error) => return Err(End::Socket(error)),
            }
        }
        Ok(())
    }

    fn take(&mut self, item: Outgoing) {
        match item {
            Outgoing::Reply(reply) => self.reply(reply),
            Outgoing::Notice(notice) => {
                append_event(&mut self.buffer, NO_ZXID, &values::event(&notice));
                self.seat.notified();
                self.metrics.notices().inc();
            }
            Outgoing::Ended(reason) => self.stream_ended(reason),
        }
    }

    fn reply(&mut self, reply: StreamReply) {
        let StreamReply { tag, revision, result } = reply;
        let Some((pending, shape)) = self.pending(tag) else { return };
        let zxid = if pending.kind == Kind::of(op::AUTH) { 0 } else { values::zxid(revision) };
        match told(shape, result) {
            Told::Done(response) => {
                append_reply(&mut self.buffer, pending.xid, zxid, Ok(&response));
                self.count(&pending, zxid, false);
            }
            Told::Failed(code) => self.fail(&pending, zxid, code),
            Told::Parting(code) => {
                // `ZooKeeper` answers an operation that it does not know before it looks at its state.
                let zxid = if code == ErrorCode::Unimplemented { NO_ZXID } else { zxid };
                self.fail(&pending, zxid, code);
                self.end = Some(End::Parted(code));
            }
            Told::Nothing => self.end = Some(End::Unable),
        }
    }

    fn fail(&mut self, pending: &Pending, zxid: i64, code: ErrorCode) {
        append_reply(&mut self.buffer, pending.xid, zxid, Err(code));
        self.count(pending, zxid, true);
    }

    fn count(&self, pending: &Pending, zxid: i64, failed: bool) {
        let took = pending.began.elapsed();
        self.seat.answered(pending.kind, pending.xid, zxid, took);
        self.metrics.answered(pending.kind, failed, took);
    }

    /// The request that this is the reply to.
    fn pending(&self, tag: i64) -> Option<(Pending, Shape)> {
        let mut open = self.shared.pending.lock();
        let at = open.iter().position(|(pending, _)| pending.tag == tag)?;
        let found = open.remove(at);
        drop(open);
        self.shared.taken.notify_one();
        found
    }

    /// A client that was overtaken by its own new connection, or whose session is over, learns it from every request
    /// that is still open, unless that was to change something.
    fn stream_ended(&mut self, reason: Ended) {
        let code = match reason {
            Ended::Moved => Some(ErrorCode::SessionMoved),
            Ended::Expired => Some(ErrorCode::SessionExpired),
            Ended::Closed
            | Ended::Overflow
            | Ended::Diverged
            | Ended::CutOff
            | Ended::Unknown
            | Ended::ShuttingDown => None,
        };
        if let Some(code) = code {
            let open = std::mem::take(&mut *self.shared.pending.lock());
            // A change may have been done before the end: its client must not be told that it was not.
            let certain = |shape: &Shape| !matches!(shape, Shape::Write(_) | Shape::Multi(_));
            for (pending, _) in open.into_iter().filter(|(_, shape)| certain(shape)) {
                self.fail(&pending, 0, code);
            }
        }
        self.end = Some(End::Stream(reason));
    }
}
