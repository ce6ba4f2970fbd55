//! One connection from its first byte to its last: a four-letter word, or a handshake and a conversation.
//!
//! Owns the handshake and the way a connection ends. A session outlives its connection, so none of the ends here ends
//! a session, but the client's own wish. Refuses to know requests.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use holdfast_service::{Attached, Ended, Failure, Outbox, Service, Stream};
use holdfast_types::{Labels, Password, Rejection, SessionId};
use holdfast_zkwire::{ConnectRequest, ConnectResponse, DecodeError, ErrorCode};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::conversation::{End, Listener, Shared, Speaker};
use crate::frames::{Broken, First, Frames};
use crate::identity::Identities;
use crate::ledger::{Ledger, Seat};
use crate::plan::Known;
use crate::words;
use crate::{ZkConfig, ZkMetrics, values};

/// What is read and forgotten of a client that is sent away, bytes: closing at once would throw away what it has not
/// read yet.
const FORGET_MAX: usize = 64 * 1024;
/// How long that may take.
const FORGET_TIME: std::time::Duration = std::time::Duration::from_secs(1);

/// What every connection has at hand.
#[derive(Debug)]
pub(crate) struct Front {
    pub(crate) config: ZkConfig,
    /// What is read at `/zookeeper/config`; `None` on a node alone.
    pub(crate) members: Option<Arc<str>>,
    pub(crate) service: Service,
    pub(crate) metrics: ZkMetrics,
    pub(crate) ledger: Arc<Ledger>,
    /// Where the door listens.
    pub(crate) address: Option<SocketAddr>,
}

/// How far the end of the door has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// Open.
    No,
    /// Nothing more is read; what was asked is answered.
    Gracefully,
    /// Whatever is left is cut.
    Now,
}

/// Why there is no conversation.
#[derive(Debug)]
enum Refused {
    /// The client said nothing, or nothing that could be understood.
    Speech(Option<Broken>),
    /// The first frame is none.
    Hello(DecodeError),
    /// There is no such session, or the password is another one.
    NoSession(Option<bool>),
    /// This node cannot do it: the client asks another one.
    Unable(Failure),
}

/// Serves one connection until it ends.
pub(crate) async fn converse(
    mut tcp: TcpStream,
    peer: SocketAddr,
    front: Arc<Front>,
    seat: Seat,
    closing: watch::Receiver<Closing>,
) {
    let mut cut = closing.clone();
    let (reader, mut writer) = tcp.split();
    let mut frames = Frames::new(reader, front.config.frame_bytes_max);
    let served = async {
        let first = timeout(front.config.handshake_timeout, frames.first()).await;
        match first {
            Ok(Ok(First::Word(word))) => {
                let answer = words::answer(&front, word).await;
                front.metrics.words().inc();
                send(&mut writer, answer.as_bytes(), &front.config).await;
            }
            Ok(Ok(First::Frame(hello))) => {
                greet(&front, peer, &seat, &mut frames, &mut writer, hello, closing).await;
            }
            Ok(Err(broken)) => {
                refuse(&front, peer, &mut writer, Refused::Speech(Some(broken))).await;
            }
            Err(_) => refuse(&front, peer, &mut writer, Refused::Speech(None)).await,
        }
        // Half closed first, so that the last reply arrives.
        drop(writer.shutdown().await);
        drop(timeout(FORGET_TIME, frames.forget(FORGET_MAX)).await);
    };
    tokio::select! {
        () = served => {}
        _ = cut.wait_for(|closing| *closing == Closing::Now) => {}
    }
}

async fn greet<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    front: &Front,
    peer: SocketAddr,
    seat: &Seat,
    frames: &mut Frames<R>,
    writer: &mut W,
    hello: Bytes,
    closing: watch::Receiver<Closing>,
) {
    let begun = match handshake(front, peer, hello).await {
        Ok(begun) => begun,
        Err(refused) => return refuse(front, peer, writer, refused).await,
    };
    let Begun { attached, stream, outbox, welcome } = begun;
    front.metrics.handshakes().inc();
    seat.attached(session_number(attached.id), attached.ttl.as_millis());
    let session = format!("{:#x}", attached.id.0);
    tracing::debug!(%peer, session, timeout_ms = attached.ttl.as_millis(), "a ZooKeeper session speaks");
    let shared = Shared::default();
    let mut listener = Listener {
        frames,
        stream: &stream,
        known: Known { identities: Identities::of(peer.ip()), members: front.members.clone() },
        shared: &shared,
        seat,
        silence_max: attached.ttl.as_duration(),
        last_tag: 0,
    };
    let mut speaker = Speaker {
        sink: writer,
        outbox,
        shared: &shared,
        seat,
        metrics: &front.metrics,
        write_timeout: front.config.write_timeout,
        buffer: BytesMut::from(welcome),
        end: None,
    };
    let end = exchange(&stream, &mut listener, &mut speaker, closing).await;
    drop(speaker);
    part(front, peer, &session, &end);
    if matches!(end, End::Stream(Ended::Moved)) {
        // The client learns the end of its connection from this; a close that it sent before still counts.
        drop(writer.shutdown().await);
        drop(timeout(FORGET_TIME, listener.farewell(FORGET_MAX)).await);
    }
}

/// Both loops until one of them ends, or the door does; then what is left to be written.
async fn exchange<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    stream: &Stream,
    listener: &mut Listener<'_, R>,
    speaker: &mut Speaker<'_, W>,
    mut closing: watch::Receiver<Closing>,
) -> End {
    let (end, flush) = tokio::select! {
        biased;
        end = listener.listen() => (end, true),
        end = speaker.speak() => (end, false),
        () = stream.lost() => (End::Stream(Ended::CutOff), true),
        _ = closing.wait_for(|closing| *closing != Closing::No) => {
            (End::Stream(Ended::ShuttingDown), true)
        }
    };
    if flush {
        speaker.finish().await;
    }
    end
}

/// A session, and the frame that tells the client so.
struct Begun {
    attached: Attached,
    stream: Stream,
    outbox: Outbox,
    welcome: Bytes,
}

async fn handshake(front: &Front, peer: SocketAddr, hello: Bytes) -> Result<Begun, Refused> {
    let hello = ConnectRequest::decode(hello).map_err(Refused::Hello)?;
    let attached = attach(front, peer, &hello).await?;
    let (stream, outbox) =
        front.service.stream(&attached, front.config.stream).map_err(Refused::Unable)?;
    let welcome = ConnectResponse {
        protocol_version: 0,
        timeout_ms: i32::try_from(attached.ttl.as_millis()).unwrap_or(i32::MAX),
        session_id: session_number(attached.id),
        password: attached.password.0,
        read_only: hello.read_only.map(|_| false),
    };
    Ok(Begun { attached, stream, outbox, welcome: welcome.encode() })
}

async fn attach(
    front: &Front,
    peer: SocketAddr,
    hello: &ConnectRequest,
) -> Result<Attached, Refused> {
    let ttl = front.config.negotiated(hello.timeout_ms);
    let seen = values::revision(hello.last_zxid_seen);
    let attached = if hello.session_id == 0 {
        front.service.open_stream_session(ttl, labels(peer), seen).await
    } else {
        let id = u64::try_from(hello.session_id).ok().map(SessionId);
        let (Some(id), Some(password)) = (id, hello.password) else {
            return Err(Refused::NoSession(hello.read_only));
        };
        front.service.attach_session(id, Password(password), ttl, seen).await
    };
    attached.map_err(|failure| {
        let gone = matches!(
            failure,
            Failure::Rejected(
                Rejection::NoSession { .. }
                    | Rejection::SessionExpired { .. }
                    | Rejection::SessionMoved { .. }
            )
        );
        if gone { Refused::NoSession(hello.read_only) } else { Refused::Unable(failure) }
    })
}

/// What others see of the session.
fn labels(peer: SocketAddr) -> Labels {
    let labels = [("door", "zookeeper".to_owned()), ("addr", peer.to_string())];
    let labels = labels.map(|(name, value)| (name.to_owned(), value));
    // Both are short and of good characters.
    Labels::new(labels.into()).unwrap_or_default()
}

fn session_number(id: SessionId) -> i64 {
    i64::try_from(id.0).unwrap_or(i64::MAX)
}

async fn refuse<W: AsyncWrite + Unpin>(
    front: &Front,
    peer: SocketAddr,
    writer: &mut W,
    refused: Refused,
) {
    match refused {
        Refused::NoSession(read_only) => {
            tracing::debug!(%peer, "a ZooKeeper client's session is over, or its password is wrong");
            let refusal = ConnectResponse::refusal(read_only.map(|_| false));
            send(writer, &refusal.encode(), &front.config).await;
        }
        Refused::Unable(failure) => {
            tracing::debug!(%peer, %failure, "a ZooKeeper client was sent to another node");
        }
        Refused::Speech(None) => dropped(front, peer, "nothing was said in time"),
        Refused::Speech(Some(Broken::Closed | Broken::Socket(_))) => {}
        Refused::Speech(Some(Broken::Frame(error))) => dropped(front, peer, error),
        Refused::Hello(error) => dropped(front, peer, error),
    }
}

async fn send<W: AsyncWrite + Unpin>(writer: &mut W, bytes: &[u8], config: &ZkConfig) {
    // The connection is closed next, whatever comes of it.
    drop(timeout(config.write_timeout, writer.write_all(bytes)).await);
}

fn dropped(front: &Front, peer: SocketAddr, why: impl std::fmt::Display) {
    front.metrics.dropped().inc();
    tracing::info!(%peer, %why, "a ZooKeeper connection was closed before its handshake");
}

/// One line for an end that is the client's fault; the others are the course of things.
fn part(front: &Front, peer: SocketAddr, session: &str, end: &End) {
    let fault = match end {
        End::Parted(ErrorCode::AuthFailed) => Some("it could not prove who it is".to_owned()),
        End::Stuck => Some("it takes nothing".to_owned()),
        End::Frame(error) => Some(error.to_string()),
        End::Header(error) => Some(error.to_string()),
        End::Stream(Ended::Overflow) => Some("it does not read its watch events".to_owned()),
        End::Socket(error) => {
            tracing::debug!(%peer, session, %error, "a ZooKeeper client's socket failed");
            None
        }
        End::Left | End::Unable | End::Silent | End::Parted(_) | End::Stream(_) => None,
    };
    if let Some(why) = fault {
        front.metrics.dropped().inc();
        tracing::info!(%peer, session, why, "a ZooKeeper connection was closed");
    } else {
        tracing::debug!(%peer, session, end = end.name(), "a ZooKeeper connection ended");
    }
}
