//! One connection from its first byte to its last: a four-letter word, or a handshake and then requests and replies.
//!
//! A session outlives its connection: only the client's request to close the session ends it here.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use holdfast_service::{RequestContext, Service, SessionStream, StreamEnd};
use holdfast_tls::{FailureReason, MaybeTlsStream, NodePort, PendingConnection};
use holdfast_zkwire::{ConnectResponse, ErrorCode, encode_reply, xid};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::connection_table::ConnectionGuard;
use crate::context::{ServerContext, Shutdown};
use crate::errors::Disconnect;
use crate::four_letter;
use crate::frame_reader::{FrameReadError, FrameReader, Opening};
use crate::handshake::{
    HANDSHAKE_FRAME_MAX, HandshakeError, ProvisionalConnection, RequestedSession, Session, send,
};
use crate::identity::Identities;
use crate::reply_loop::{PendingRequests, ReplyLoop};
use crate::request_loop::{EntrySpans, RequestLoop};

/// Bytes that the server reads and drops after its last reply: closing a socket with unread bytes could discard the
/// reply.
const DISCARD_MAX: usize = 64 * 1024;
/// How long the close of both directions may take. A client that does not read keeps the last record of TLS from being sent.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// Serves one connection until it ends.
pub(crate) async fn serve_connection(
    (stream, pending): (MaybeTlsStream, PendingConnection),
    peer: SocketAddr,
    context: Arc<ServerContext>,
    guard: ConnectionGuard,
    shutdown: watch::Receiver<Shutdown>,
) {
    let mut abort = shutdown.clone();
    let expiry = stream.expiry();
    let identities = Identities::of(peer.ip())
        .with_certificate(stream.certificate().as_deref(), &context.service);
    let caller = ZkCaller { context: &context, peer, guard: &guard, identities };
    let served = async {
        match stream {
            // Without TLS the two directions share no lock.
            MaybeTlsStream::Plain(mut tcp) => {
                let (reader, writer) = tcp.split();
                caller.serve((reader, writer), pending, shutdown).await;
            }
            stream @ MaybeTlsStream::Tls(_) => {
                let (reader, writer) = tokio::io::split(stream);
                caller.serve((reader, writer), pending, shutdown).await;
            }
        }
    };
    tokio::select! {
        () = served => {}
        _ = abort.wait_for(|shutdown| *shutdown == Shutdown::Now) => {}
        () = expiry.passed() => {
            tracing::debug!(%peer, "a connection was closed because the certificate of its client expired or is denied");
        }
    }
}

/// A connection before its session.
struct ZkCaller<'a> {
    context: &'a ServerContext,
    peer: SocketAddr,
    guard: &'a ConnectionGuard,
    identities: Identities,
}

impl ZkCaller<'_> {
    async fn serve<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
        mut self,
        (reader, mut writer): (R, W),
        pending: PendingConnection,
        shutdown: watch::Receiver<Shutdown>,
    ) {
        let Self { context, peer, .. } = self;
        let mut frames =
            FrameReader::new(reader, HANDSHAKE_FRAME_MAX.min(context.config.frame_bytes_max));
        let opened = tokio::select! {
            opened = self.open(&mut frames, &mut writer) => opened,
            () = pending.evicted() => {
                record_rejected(context, peer, FailureReason::Evicted, &"no session");
                None
            }
        };
        drop(pending);
        if let Some(opened) = opened {
            frames.set_frame_bytes_max(context.config.frame_bytes_max);
            let Self { guard, identities, .. } = self;
            let connection = Connection { context, peer, guard };
            connection.serve(opened, identities, (&mut frames, &mut writer), shutdown).await;
        }
        close(&mut writer, frames.discard(DISCARD_MAX)).await;
    }

    /// Answers a four-letter word, or opens the session of the first frame and returns the first bytes that its client reads
    /// from it.
    async fn open<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
        &mut self,
        frames: &mut FrameReader<R>,
        writer: &mut W,
    ) -> Option<(Session, Bytes)> {
        let Self { context, peer, .. } = *self;
        let deadline = Instant::now() + context.config.handshake_timeout;
        match timeout_at(deadline, frames.opening()).await {
            Ok(Ok(Opening::Word(word))) => {
                let answer = four_letter::answer(context, word, &self.service()).await;
                context.metrics.0.words.inc();
                send(writer, answer.as_bytes(), &context.config).await;
            }
            Ok(Ok(Opening::Frame(frame))) => {
                match self.open_session(frame, frames, writer, deadline).await {
                    Ok(opened) => {
                        context.config.failures.proved(NodePort::ZooKeeper, peer.ip());
                        return Some(opened);
                    }
                    Err(error) => reject(context, peer, writer, error).await,
                }
            }
            Ok(Err(error)) => reject(context, peer, writer, HandshakeError::Read(error)).await,
            Err(_) => drop(record_rejected(
                context,
                peer,
                FailureReason::Timeout,
                &"no handshake in time",
            )),
        }
        None
    }

    fn service(&self) -> Service {
        let principal = self.identities.principal().clone();
        self.context
            .service
            .for_call(RequestContext { principal, request_id: self.peer.to_string() })
    }

    /// Opens the session of the first frame, and returns the first bytes that its client reads from it. Where a credential is
    /// required, the client gets its id first, and the session is opened when it has proved its subject.
    async fn open_session<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
        &mut self,
        frame: Bytes,
        frames: &mut FrameReader<R>,
        writer: &mut W,
        deadline: Instant,
    ) -> Result<(Session, Bytes), HandshakeError> {
        let (context, peer, service) = (self.context, self.peer, self.service());
        let config = &context.config;
        let requested = RequestedSession::decode(config, frame)?;
        if !(config.requires_credential && service.lacks_credential()) {
            let opened = requested.attach(context, &service, peer).await;
            let session = opened.map_err(|failure| requested.refused_before_response(failure))?;
            return Ok((session, requested.response()));
        }
        let counts_until = requested.check(&service).await?;
        send(writer, &requested.response(), config).await;
        let mut provisional = ProvisionalConnection {
            frames,
            writer,
            config,
            service: &service,
            guard: self.guard,
            identities: &mut self.identities,
            is_new: requested.is_new,
        };
        let deadline = deadline.min(counts_until.into());
        let proved = timeout_at(deadline, provisional.prove()).await;
        let reply = proved.unwrap_or(Err(HandshakeError::NoCredential))?;
        let opened = requested.attach(context, &self.service(), peer).await;
        Ok((opened.map_err(HandshakeError::after_response)?, reply))
    }
}

/// A connection after its handshake.
struct Connection<'a> {
    context: &'a ServerContext,
    peer: SocketAddr,
    guard: &'a ConnectionGuard,
}

impl Connection<'_> {
    async fn serve<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
        &self,
        (session, first): (Session, Bytes),
        identities: Identities,
        (frames, writer): (&mut FrameReader<R>, &mut W),
        shutdown: watch::Receiver<Shutdown>,
    ) {
        let number = session.number();
        let Session { attached, stream, outbox, place } = session;
        let ttl = attached.ttl;
        self.context.metrics.0.handshakes.inc();
        self.guard.set_session(number, ttl.as_millis());
        let session = format!("{:#x}", attached.id.0);
        tracing::debug!(peer = %self.peer, session, timeout_ms = ttl.as_millis(), "a ZooKeeper session connected");
        let pending = PendingRequests::default();
        let mut requests = RequestLoop {
            frames,
            stream: &stream,
            service: &self.context.service,
            caller: self.context.service.clone(),
            identities,
            pending: &pending,
            guard: self.guard,
            spans: EntrySpans { sampler: self.context.trace_sampler.as_ref(), stream: &stream },
            silence_max: ttl.as_duration(),
            place,
            last_tag: 0,
            has_close: false,
            shutdown,
        };
        let mut replies = ReplyLoop {
            sink: writer,
            outbox,
            pending: &pending,
            guard: self.guard,
            metrics: &self.context.metrics,
            write_timeout: self.context.config.write_timeout,
            buffer: BytesMut::from(first),
            disconnect: None,
            uncounted: None,
        };
        let disconnect = run_loops(&stream, &mut requests, &mut replies).await;
        drop(replies);
        self.log_end(&session, &disconnect);
        if may_leave_close(&disconnect) {
            close(writer, requests.read_close(DISCARD_MAX)).await;
        }
    }

    /// Logs at `info` if the client caused the end, else at `debug`.
    fn log_end(&self, session: &str, disconnect: &Disconnect) {
        let peer = self.peer;
        let fault = match disconnect {
            Disconnect::Error(ErrorCode::AuthFailed) => {
                let detail = format!("authentication failed, session {session}");
                record_rejected(self.context, peer, FailureReason::Credential, &detail);
                return;
            }
            Disconnect::WriteTimeout => Some("the client does not read its replies".to_owned()),
            Disconnect::Frame(error) => Some(error.to_string()),
            Disconnect::Header(error) => Some(error.to_string()),
            Disconnect::Stream(StreamEnd::Overflow) => {
                Some("the client does not read its watch events".to_owned())
            }
            Disconnect::Socket(error) => {
                tracing::debug!(%peer, session, %error, "the socket of a ZooKeeper client failed");
                None
            }
            Disconnect::ByClient
            | Disconnect::Unavailable
            | Disconnect::Timeout
            | Disconnect::Error(_)
            | Disconnect::Stream(_) => None,
        };
        if let Some(reason) = fault {
            self.context.metrics.0.dropped.inc();
            tracing::info!(%peer, session, reason, "closed a ZooKeeper connection");
        } else {
            tracing::debug!(%peer, session, end = disconnect.name(), "a ZooKeeper connection ended");
        }
    }
}

/// Whether a request to close the session may be unread, or not executed. A shutdown does not wait for one. Behind an error
/// that ends the connection, no request counts.
fn may_leave_close(disconnect: &Disconnect) -> bool {
    match disconnect {
        Disconnect::Socket(_) | Disconnect::WriteTimeout => true,
        Disconnect::Stream(end) => !matches!(end, StreamEnd::Closed | StreamEnd::ShuttingDown),
        Disconnect::ByClient
        | Disconnect::Frame(_)
        | Disconnect::Header(_)
        | Disconnect::Error(_)
        | Disconnect::Unavailable
        | Disconnect::Timeout => false,
    }
}

/// Runs both loops until one of them ends, or the session does; then writes the remaining replies.
async fn run_loops<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    stream: &SessionStream,
    requests: &mut RequestLoop<'_, R>,
    replies: &mut ReplyLoop<'_, W>,
) -> Disconnect {
    let (disconnect, flush) = tokio::select! {
        biased;
        disconnect = requests.run() => (disconnect, true),
        disconnect = replies.run() => (disconnect, false),
        () = stream.lost() => (Disconnect::Stream(StreamEnd::CutOff), true),
    };
    if flush {
        replies.flush().await;
    }
    disconnect
}

/// Closes the sending side first, so that the last reply arrives, and then runs `read` for what the client still sends.
async fn close<W: AsyncWrite + Unpin>(writer: &mut W, read: impl Future<Output = ()>) {
    let closing = async {
        drop(writer.shutdown().await);
        read.await;
    };
    drop(timeout(CLOSE_TIME, closing).await);
}

async fn reject<W: AsyncWrite + Unpin>(
    context: &ServerContext,
    peer: SocketAddr,
    writer: &mut W,
    error: HandshakeError,
) {
    match error {
        HandshakeError::NoSession(read_only) => {
            tracing::debug!(%peer, "rejected a ZooKeeper session: it has ended, or the password is wrong");
            let refusal = ConnectResponse::refusal(read_only.map(|_| false));
            send(writer, &refusal.encode(), &context.config).await;
        }
        HandshakeError::Unavailable(failure) => {
            tracing::debug!(%peer, %failure, "rejected a ZooKeeper session: the client has to use another node");
        }
        HandshakeError::Undecodable(error) => {
            record_rejected(context, peer, FailureReason::Malformed, &error);
        }
        HandshakeError::AuthFailed => {
            let detail = &"authentication failed";
            sleep(record_rejected(context, peer, FailureReason::Credential, detail)).await;
            let reply = encode_reply(xid::AUTH, 0, Err(ErrorCode::AuthFailed));
            send(writer, &reply, &context.config).await;
        }
        HandshakeError::Expiring => {
            tracing::debug!(%peer, "rejected a ZooKeeper session: its lease ends before a credential can renew it");
        }
        HandshakeError::NoCredential => {
            let detail = &"no credential in time";
            record_rejected(context, peer, FailureReason::Credential, detail);
        }
        HandshakeError::Read(FrameReadError::Frame(error)) => {
            record_rejected(context, peer, FailureReason::Malformed, &error);
        }
        HandshakeError::Read(FrameReadError::Closed | FrameReadError::Socket(_))
        | HandshakeError::Ended => {}
    }
}

/// Counts a connection that was closed because its client proved no identity. Returns how long its refusal waits.
fn record_rejected(
    context: &ServerContext,
    peer: SocketAddr,
    reason: FailureReason,
    detail: &dyn fmt::Display,
) -> Duration {
    context.metrics.0.dropped.inc();
    context.config.failures.record(NodePort::ZooKeeper, peer.ip(), reason, detail)
}
