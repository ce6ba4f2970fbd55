//! The loop of a connection that reads requests and calls the service.
//!
//! Requests are taken in order. Writes that arrived together become one call of the service. A write is complete before
//! the next request is read: if it fails, the connection may end, and nothing behind it may be executed.
//!
//! Bounds: the outbox bounds the requests without a written reply. When it is full, the loop waits and the socket is not
//! read. So it does while the caller or its namespace is above its calls per second.

use std::pin::pin;
use std::time::{Duration, Instant};

use bytes::Bytes;
use holdfast_service::{ConnectionPlace, Principal, Service, SessionStream, StreamEnd};
use holdfast_trace::{Sampler, entry_span};
use holdfast_types::{Create, Multi, Op, ZnodePath};
use holdfast_zkwire::{DecodeError, ErrorCode, Request, RequestHeader, decode_request, op, xid};
use tokio::io::AsyncRead;
use tokio::sync::watch;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::connection_table::ConnectionGuard;
use crate::context::Shutdown;
use crate::errors::Disconnect;
use crate::frame_reader::FrameReader;
use crate::identity::{Identities, NotProved};
use crate::metrics::OpKind;
use crate::ops::{ReplyFormat, StreamCall, ZkOperation, translate};
use crate::reply_loop::{PendingRequest, PendingRequests, RequestInfo};

/// Writes in one call of the service.
const WRITES_MAX: usize = 64;
/// The interval of the activity of a client whose request waits for its rate.
const RENEW_EVERY: Duration = Duration::from_millis(500);

pub(crate) struct RequestLoop<'a, R> {
    pub(crate) frames: &'a mut FrameReader<R>,
    pub(crate) stream: &'a SessionStream,
    pub(crate) service: &'a Service,
    /// The service for the caller, who changes with `addauth`.
    pub(crate) caller: Service,
    pub(crate) identities: Identities,
    pub(crate) pending: &'a PendingRequests,
    pub(crate) guard: &'a ConnectionGuard,
    pub(crate) spans: EntrySpans<'a>,
    /// The session timeout: how long the client may send nothing.
    pub(crate) silence_max: Duration,
    /// The place of the connection among those of its caller.
    pub(crate) place: ConnectionPlace,
    /// The tag of the last request.
    pub(crate) last_tag: i64,
    /// Whether the client has requested the end of its session.
    pub(crate) has_close: bool,
    /// From its start no further request is read.
    pub(crate) shutdown: watch::Receiver<Shutdown>,
}

impl<R: AsyncRead + Unpin> RequestLoop<'_, R> {
    pub(crate) async fn run(&mut self) -> Disconnect {
        self.identify();
        loop {
            let next = tokio::select! {
                biased;
                _ = self.shutdown.wait_for(|shutdown| *shutdown != Shutdown::NotStarted) => {
                    return Disconnect::Stream(StreamEnd::ShuttingDown);
                }
                next = tokio::time::timeout(self.silence_max, self.frames.next()) => next,
            };
            let executed = match next {
                Ok(Ok(frame)) => self.execute(frame).await,
                Ok(Err(error)) => Err(error.into()),
                Err(_) => Err(Disconnect::Timeout),
            };
            if let Err(disconnect) = executed {
                return disconnect;
            }
        }
    }

    /// Reads, up to `bytes_max`, the requests that the client sent before its connection ended. Only a request to close the
    /// session is executed, and it counts as in ZooKeeper: the end of the connection does not withdraw it.
    pub(crate) async fn read_close(&mut self, bytes_max: usize) {
        let mut left = bytes_max;
        while !self.has_close
            && let Ok(frame) = self.frames.next().await
            && let Some(rest) = left.checked_sub(frame.len())
            && let Ok((_, request)) = decode_request(frame)
        {
            left = rest;
            self.has_close = request == Ok(Request::CloseSession);
        }
        if self.has_close {
            self.stream.close_in_background();
        }
    }

    /// Executes one request, or all the writes that arrived together and the request behind them.
    async fn execute(&mut self, frame: Bytes) -> Result<(), Disconnect> {
        let mut writes = Vec::new();
        let (mut info, mut operation) = self.receive(frame)?;
        self.wait_for_call(&info).await;
        let mut first_kind = info.kind;
        let end = loop {
            let ZkOperation { call, format } = operation;
            let StreamCall::Write(multi) = call else {
                self.write(first_kind, writes).await;
                // A ping, or a request with a known reply.
                let is_traced = call != StreamCall::Nothing;
                let span = if is_traced { self.spans.of_request(info.kind) } else { Span::none() };
                return self.call(PendingRequest { info, format }, call).instrument(span).await;
            };
            if writes.is_empty() {
                first_kind = info.kind;
            }
            writes.push((info.tag, multi));
            self.pending.push(PendingRequest { info, format });
            if writes.len() >= WRITES_MAX {
                break Ok(());
            }
            let next = match self.frames.try_next() {
                Ok(Some(frame)) => self.receive(frame),
                Ok(None) => break Ok(()),
                Err(error) => Err(error.into()),
            };
            match next {
                Ok(next) => (info, operation) = next,
                Err(disconnect) => break Err(disconnect),
            }
            if !info.kind.is_ping() && self.caller.count_call().is_err() {
                self.write(first_kind, std::mem::take(&mut writes)).await;
                self.wait_for_call(&info).await;
            }
        };
        self.write(first_kind, writes).await;
        end
    }

    /// Waits until the rates of the caller and of its namespace allow a request. A ping only renews the session, so no rate
    /// limits it. The pings behind a request that waits are not read: until the client may give up, the session is renewed.
    async fn wait_for_call(&self, info: &RequestInfo) {
        if info.kind.is_ping() {
            return;
        }
        let mut allowed = pin!(self.caller.wait_for_call());
        loop {
            if info.received_at.elapsed() < self.silence_max {
                self.stream.renew();
            }
            tokio::select! {
                biased;
                () = &mut allowed => return,
                () = tokio::time::sleep(RENEW_EVERY) => {}
            }
        }
    }

    fn receive(&mut self, frame: Bytes) -> Result<(RequestInfo, ZkOperation), Disconnect> {
        let (header, request) = decode_request(frame).map_err(Disconnect::Header)?;
        self.guard.count_request();
        self.last_tag += 1;
        let info = RequestInfo {
            tag: self.last_tag,
            xid: reply_xid(header),
            kind: OpKind::of(header.op),
            received_at: Instant::now(),
        };
        let operation = self.translate(header, request);
        self.has_close |= operation.call == StreamCall::Close;
        Ok((info, operation))
    }

    fn translate(
        &self,
        header: RequestHeader,
        request: Result<Request, DecodeError>,
    ) -> ZkOperation {
        match request {
            Ok(request) => translate(request, &self.identities),
            Err(error) => {
                // The client decides how many there are.
                tracing::debug!(
                    session = format_args!("{:#x}", self.stream.session_id().0),
                    op = OpKind::of(header.op).name(), %error,
                    "undecodable ZooKeeper request"
                );
                ZkOperation::error(ErrorCode::MarshallingError)
            }
        }
    }

    fn identify(&mut self) {
        let principal = self.identities.principal();
        self.stream.identify(principal.clone());
        self.caller = self.service.for_principal(principal.clone());
    }

    /// Adds the identity of the credentials. An access token proves the subject for which the connection acts from now on;
    /// a session without a subject becomes the subject's.
    async fn authenticate(&mut self, scheme: &str, credentials: &[u8]) -> Result<(), NotProved> {
        let identities = &mut self.identities;
        match Identities::access_token(scheme, credentials)? {
            Some(token) => {
                let actor = Identities::actor_of(token, self.service).await?;
                let caller = self.service.for_principal(Principal::of(actor.clone()));
                caller.count_connection(&self.place)?;
                caller.claim_session(self.stream.session_id()).await?;
                identities.act_as(actor);
            }
            None => identities.authenticate(scheme, credentials)?,
        }
        self.identify();
        Ok(())
    }

    async fn call(
        &mut self,
        mut request: PendingRequest,
        call: StreamCall,
    ) -> Result<(), Disconnect> {
        let (stream, tag, kind) = (self.stream, request.info.tag, request.info.kind);
        if let StreamCall::Authenticate(scheme, credentials) = &call {
            match self.authenticate(scheme, credentials).await {
                Ok(()) => {}
                Err(NotProved::AuthFailed) => {
                    request.format = ReplyFormat::Disconnect(ErrorCode::AuthFailed);
                }
                // Clients take each other error for a success, or give up.
                Err(NotProved::Unavailable(failure)) => {
                    tracing::debug!(
                        session = format_args!("{:#x}", stream.session_id().0), %failure,
                        "cannot act for the subject of a credential: the client has to use another node"
                    );
                    return Err(Disconnect::Unavailable);
                }
            }
        }
        let disconnects =
            if let ReplyFormat::Disconnect(code) = request.format { Some(code) } else { None };
        self.pending.push(request);
        match call {
            StreamCall::Nothing | StreamCall::Authenticate(..) => stream.ping(tag).await,
            StreamCall::Read(read, watch) => stream.read(tag, read, watch).await,
            StreamCall::ReadMany(reads) => stream.read_many(tag, reads).await,
            StreamCall::Sync => stream.sync(tag).await,
            StreamCall::AddWatch(path, mode) => stream.add_watch(tag, path, mode).await,
            StreamCall::CheckWatches(path, kind) => stream.check_watches(tag, path, kind).await,
            StreamCall::RemoveWatches(path, kind) => stream.remove_watches(tag, path, kind).await,
            StreamCall::SetWatches(since, set) => stream.set_watches(tag, since, set).await,
            StreamCall::Close => stream.close(tag).await,
            StreamCall::Write(multi) => self.write(kind, vec![(tag, multi)]).await,
        }
        if let Some(code) = disconnects {
            self.pending.removed_through(tag).await;
            // The reply may wait for room in the socket: no request behind this one is read.
            return Err(Disconnect::Error(code));
        }
        Ok(())
    }

    /// `first_kind` is the kind of the first write.
    async fn write(&self, first_kind: OpKind, writes: Vec<(i64, Multi)>) {
        let Some((last, _)) = writes.last() else { return };
        let last = *last;
        let span = self.spans.of_writes(first_kind, &writes);
        let written = async {
            self.stream.write_run(writes).await;
            self.pending.removed_through(last).await;
        };
        written.instrument(span).await;
    }
}

/// The reply to a ping has the fixed number of pings; every other reply repeats its request's number.
pub(crate) fn reply_xid(header: RequestHeader) -> i32 {
    if header.op == op::PING { xid::PING } else { header.xid }
}

/// Creates the first span of each traced request of one connection, or of traced writes that arrived together.
pub(crate) struct EntrySpans<'a> {
    /// `None` if the node exports no traces.
    pub(crate) sampler: Option<&'a Sampler>,
    pub(crate) stream: &'a SessionStream,
}

impl EntrySpans<'_> {
    /// The span of a request; disabled if it is not traced.
    fn of_request(&self, kind: OpKind) -> Span {
        if !self.sampler.is_some_and(Sampler::draw) {
            return Span::none();
        }
        entry_span!(
            "zookeeper",
            otel.kind = "server",
            op = kind.name(),
            session = format_args!("{:#x}", self.stream.session_id().0),
            path = Empty,
            writes = Empty,
        )
    }

    /// The span of writes that arrived together; disabled if they are not traced. `first_kind` is the kind of the first one.
    fn of_writes(&self, first_kind: OpKind, writes: &[(i64, Multi)]) -> Span {
        let span = self.of_request(first_kind);
        if !span.is_disabled() {
            span.record("writes", writes.len());
            if let Some((_, Multi { then, .. })) = writes.first()
                && let Some(op) = then.first()
            {
                span.record("path", path_of(op).as_str());
            }
        }
        span
    }
}

/// The path of an operation; for a new znode, that of its parent, which has a lock's name.
fn path_of(op: &Op) -> &ZnodePath {
    match op {
        Op::Create(Create { directory: path, .. })
        | Op::Delete { path, .. }
        | Op::SetData { path, .. }
        | Op::SetAcl { path, .. }
        | Op::Check { path, .. } => path,
    }
}
