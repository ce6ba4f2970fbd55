//! One connection from its first byte to its last: a four-letter word, or a handshake and then requests and replies.
//!
//! A session outlives its connection: only the client's request to close the session ends it here.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use holdfast_service::{ConnectionPlace, RequestContext, SessionStream, StreamEnd};
use holdfast_tls::{FailureReason, MaybeTlsStream, NodePort};
use holdfast_zkwire::{ConnectResponse, ErrorCode};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::config::ZkConfig;
use crate::connection_table::ConnectionGuard;
use crate::context::{ServerContext, Shutdown};
use crate::disconnect::Disconnect;
use crate::entry_span::EntrySpans;
use crate::four_letter;
use crate::frame_reader::{FrameReadError, FrameReader, Opening};
use crate::handshake::{HandshakeError, Session, handshake};
use crate::identity::Identities;
use crate::ops::operation::ConnectionContext;
use crate::pending::PendingRequests;
use crate::reply_loop::ReplyLoop;
use crate::request_loop::RequestLoop;

/// Bytes that the server reads and drops after its last reply: closing a socket with unread bytes could discard the
/// reply.
const DISCARD_MAX: usize = 64 * 1024;
/// How long that may take.
const DISCARD_TIME: Duration = Duration::from_secs(1);

/// Serves one connection until it ends.
pub(crate) async fn serve_connection(
    stream: MaybeTlsStream,
    peer: SocketAddr,
    context: Arc<ServerContext>,
    guard: ConnectionGuard,
    shutdown: watch::Receiver<Shutdown>,
) {
    let mut abort = shutdown.clone();
    let expiry = stream.expiry();
    let identities =
        Identities::of(peer.ip()).with_certificate(stream.certificate(), &context.service);
    let caller = ZkCaller { context: &context, peer, guard: &guard, identities };
    let served = async {
        match stream {
            // Without TLS the two directions share no lock.
            MaybeTlsStream::Plain(mut tcp) => {
                let (reader, writer) = tcp.split();
                caller.serve(reader, writer, shutdown).await;
            }
            stream @ MaybeTlsStream::Tls(_) => {
                let (reader, writer) = tokio::io::split(stream);
                caller.serve(reader, writer, shutdown).await;
            }
        }
    };
    tokio::select! {
        () = served => {}
        _ = abort.wait_for(|shutdown| *shutdown == Shutdown::Now) => {}
        () = expiry.passed() => {
            tracing::debug!(%peer, "a connection was closed because the certificate of its client expired");
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
        self,
        reader: R,
        mut writer: W,
        shutdown: watch::Receiver<Shutdown>,
    ) {
        let Self { context, peer, guard, identities } = self;
        let request = RequestContext {
            principal: identities.principal().clone(),
            request_id: peer.to_string(),
        };
        let service = context.service.for_call(request);
        let mut frames = FrameReader::new(reader, context.config.frame_bytes_max);
        match timeout(context.config.handshake_timeout, frames.opening()).await {
            Ok(Ok(Opening::Word(word))) => {
                let answer = four_letter::answer(context, word, (&service, peer)).await;
                context.metrics.words().inc();
                send(&mut writer, answer.as_bytes(), &context.config).await;
            }
            Ok(Ok(Opening::Frame(frame))) => {
                match handshake(context, &service, peer, frame).await {
                    Ok(session) => {
                        let connection = Connection { context, peer, guard };
                        connection
                            .serve(session, identities, &mut frames, &mut writer, shutdown)
                            .await;
                    }
                    Err(error) => reject(context, peer, &mut writer, error).await,
                }
            }
            Ok(Err(FrameReadError::Closed | FrameReadError::Socket(_))) => {}
            Ok(Err(FrameReadError::Frame(error))) => {
                record_rejected(context, peer, FailureReason::Malformed, &error);
            }
            Err(_) => {
                record_rejected(context, peer, FailureReason::Timeout, &"no handshake in time");
            }
        }
        // Closes the sending side first, so that the last reply arrives.
        drop(writer.shutdown().await);
        drop(timeout(DISCARD_TIME, frames.discard(DISCARD_MAX)).await);
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
        session: Session,
        identities: Identities,
        frames: &mut FrameReader<R>,
        writer: &mut W,
        shutdown: watch::Receiver<Shutdown>,
    ) {
        let number = session.number();
        let Session { attached, stream, outbox, response } = session;
        let ttl = attached.ttl;
        self.context.metrics.handshakes().inc();
        self.guard.set_session(number, ttl.as_millis());
        let session = format!("{:#x}", attached.id.0);
        tracing::debug!(peer = %self.peer, session, timeout_ms = ttl.as_millis(), "a ZooKeeper session connected");
        let pending = PendingRequests::default();
        let mut requests = RequestLoop {
            frames,
            stream: &stream,
            service: &self.context.service,
            caller: self.context.service.clone(),
            context: ConnectionContext { identities, members: self.context.members_text() },
            pending: &pending,
            guard: self.guard,
            spans: EntrySpans { sampler: self.context.trace_sampler.as_ref(), stream: &stream },
            silence_max: ttl.as_duration(),
            place: ConnectionPlace::default(),
            last_tag: 0,
        };
        let mut replies = ReplyLoop {
            sink: writer,
            outbox,
            pending: &pending,
            guard: self.guard,
            metrics: &self.context.metrics,
            write_timeout: self.context.config.write_timeout,
            buffer: BytesMut::from(response),
            disconnect: None,
        };
        let disconnect = run_loops(&stream, &mut requests, &mut replies, shutdown).await;
        drop(replies);
        self.log_end(&session, &disconnect);
        if matches!(disconnect, Disconnect::Stream(StreamEnd::Moved)) {
            // Tells the client that its connection has ended; a close that it sent before still counts.
            drop(writer.shutdown().await);
            drop(timeout(DISCARD_TIME, requests.read_close(DISCARD_MAX)).await);
        }
    }

    /// Logs at `info` if the client caused the end, else at `debug`.
    fn log_end(&self, session: &str, disconnect: &Disconnect) {
        let peer = self.peer;
        let fault = match disconnect {
            Disconnect::Error(ErrorCode::AuthFailed) => {
                let detail = format!("authentication failed, session {session}");
                return record_rejected(self.context, peer, FailureReason::Credential, &detail);
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
            self.context.metrics.dropped().inc();
            tracing::info!(%peer, session, reason, "closed a ZooKeeper connection");
        } else {
            tracing::debug!(%peer, session, end = disconnect.name(), "a ZooKeeper connection ended");
        }
    }
}

/// Runs both loops until one of them ends, or the session or the front-end does; then writes the remaining replies.
async fn run_loops<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    stream: &SessionStream,
    requests: &mut RequestLoop<'_, R>,
    replies: &mut ReplyLoop<'_, W>,
    mut shutdown: watch::Receiver<Shutdown>,
) -> Disconnect {
    let (disconnect, flush) = tokio::select! {
        biased;
        disconnect = requests.run() => (disconnect, true),
        disconnect = replies.run() => (disconnect, false),
        () = stream.lost() => (Disconnect::Stream(StreamEnd::CutOff), true),
        _ = shutdown.wait_for(|shutdown| *shutdown != Shutdown::NotStarted) => {
            (Disconnect::Stream(StreamEnd::ShuttingDown), true)
        }
    };
    if flush {
        replies.flush().await;
    }
    disconnect
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
    }
}

async fn send<W: AsyncWrite + Unpin>(writer: &mut W, bytes: &[u8], config: &ZkConfig) {
    // The connection closes next in any case.
    let sent = async {
        writer.write_all(bytes).await?;
        writer.flush().await
    };
    drop(timeout(config.write_timeout, sent).await);
}

/// Counts a connection that was closed because its client proved no identity.
fn record_rejected(
    context: &ServerContext,
    peer: SocketAddr,
    reason: FailureReason,
    detail: &dyn fmt::Display,
) {
    context.metrics.dropped().inc();
    context.config.failures.record(NodePort::ZooKeeper, peer.ip(), reason, detail);
}
