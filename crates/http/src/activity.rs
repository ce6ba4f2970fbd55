//! The activity of a connection determines its time limit: idle, sending a head, waiting for a response, or reading a
//! stream. The reader of the socket rejects a line that ends with a bare LF (`lines`).
//!
//! Each connection has one atomic word. The socket's reader and the call write it; the alarm in `connection` reads it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use holdfast_tls::{MaybeTlsStream, PendingConnection};
use hyper::body::Frame;
use nix::sys::socket::{setsockopt, sockopt};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::HttpConfig;
use crate::lines::{BodyLength, Lines, Scanned};

/// The reader replaces a bare LF and the bytes after it with these: hyper returns 400 for a NUL in a line.
const REFUSED: &[u8] = b"\0\r\n\r\n";

/// The state of one connection, and when it began.
#[derive(Debug)]
pub(crate) struct Activity {
    opened: Instant,
    /// Milliseconds since `opened`, times four, plus the state.
    word: AtomicU64,
    /// How long the socket waits for an acknowledgement, milliseconds; 0 is the limit of the system.
    unacknowledged_max_ms: AtomicU32,
    /// The place of a connection without an admitted call.
    pending: Mutex<Option<PendingConnection>>,
    is_pending: AtomicBool,
    /// Body length of the latest head in bytes, until the reader takes it: 0 is no body, `CHUNKED` an unknown length.
    body: AtomicU64,
}

const CHUNKED: u64 = u64::MAX;
const IDLE: u64 = 0;
const HEAD: u64 = 1;
const BUSY: u64 = 2;
const STREAM: u64 = 3;
const STATE_BITS: u64 = 3;

impl Activity {
    /// A new connection is idle.
    pub(crate) fn new(pending: Option<PendingConnection>) -> Self {
        Self {
            is_pending: AtomicBool::new(pending.is_some()),
            pending: Mutex::new(pending),
            opened: Instant::now(),
            word: AtomicU64::new(IDLE),
            unacknowledged_max_ms: AtomicU32::new(0),
            body: AtomicU64::new(0),
        }
    }

    /// A call was admitted: the connection does not count as one of a stranger any more.
    pub(crate) fn admitted(&self) {
        self.is_pending.store(false, Ordering::Relaxed);
        drop(self.pending.lock().take());
    }

    /// Whether no call was admitted yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.is_pending.load(Ordering::Relaxed)
    }

    /// A complete head has arrived. `body` is the length of its body; `None` is a chunked body.
    pub(crate) fn busy(&self, body: Option<u64>) {
        self.body.store(body.unwrap_or(CHUNKED), Ordering::Relaxed);
        self.word.store(BUSY, Ordering::Relaxed);
    }

    /// The length of the last body, returned once.
    fn take_body(&self) -> Option<BodyLength> {
        match self.body.swap(0, Ordering::Relaxed) {
            0 => None,
            CHUNKED => Some(BodyLength::Chunked),
            bytes => Some(BodyLength::Bytes(bytes)),
        }
    }

    pub(crate) fn idle(&self) {
        self.enter(IDLE);
    }

    /// A stream has begun, or its reader has taken data.
    pub(crate) fn streams(&self) {
        self.enter(STREAM);
    }

    /// From the next write on, a peer that acknowledges nothing for this time counts as disconnected.
    pub(crate) fn limit_unacknowledged(&self, limit: Duration) {
        let ms = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
        self.unacknowledged_max_ms.store(ms, Ordering::Relaxed);
    }

    /// Bytes came in: on an idle connection they begin a head.
    fn received(&self) {
        if self.word.load(Ordering::Relaxed) & STATE_BITS == IDLE {
            self.enter(HEAD);
        }
    }

    /// The deadline of the present state; none while a call is in flight.
    pub(crate) fn deadline(&self, config: &HttpConfig) -> Option<Instant> {
        let word = self.word.load(Ordering::Relaxed);
        let since = self.opened + Duration::from_millis(word >> 2);
        match word & STATE_BITS {
            IDLE => Some(since + config.idle_timeout),
            HEAD => Some(since + config.head_timeout),
            // A connected reader takes data at least once in each interval of comments.
            STREAM => Some(since + config.stream_comment + config.idle_timeout),
            _ => None,
        }
    }

    fn enter(&self, state: u64) {
        let ms = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX >> 2);
        self.word.store((ms << 2) | state, Ordering::Relaxed);
    }
}

/// A stream that records when it is read: hyper polls it only while the socket accepts data.
#[derive(Debug)]
pub(crate) struct Followed {
    body: Body,
    activity: Arc<Activity>,
}

impl Followed {
    pub(crate) fn new(body: Body, activity: Arc<Activity>) -> Self {
        Self { body, activity }
    }
}

impl HttpBody for Followed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.activity.streams();
        Pin::new(&mut self.body).poll_frame(cx)
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.activity.limit_unacknowledged(Duration::ZERO);
        self.activity.idle();
    }
}

/// A socket that records when bytes arrive, and rejects a bare LF at the end of a line.
#[derive(Debug)]
pub(crate) struct ObservedIo {
    stream: MaybeTlsStream,
    activity: Arc<Activity>,
    lines: Lines,
    /// Bytes that were read and are not passed on yet; at most one read.
    held: Bytes,
    /// A bare LF was received: nothing more is read from the socket.
    refused: bool,
    /// The limit that the socket has.
    unacknowledged_max_ms: u32,
}

impl ObservedIo {
    pub(crate) fn new(stream: MaybeTlsStream, activity: Arc<Activity>) -> Self {
        let (lines, held, refused) = (Lines::new(), Bytes::new(), false);
        Self { stream, activity, lines, held, refused, unacknowledged_max_ms: 0 }
    }

    /// Holds back the bytes behind the end of a head, and replaces a bare LF with bytes for which hyper returns 400.
    fn check_lines(&mut self, buffer: &mut ReadBuf<'_>, before: usize) {
        if self.refused {
            return;
        }
        if let Some(body) = self.activity.take_body() {
            self.lines.body_follows(body);
        }
        let fresh = buffer.filled().get(before..).unwrap_or_default();
        let Scanned { passed, refused } = self.lines.scan(fresh);
        if refused {
            self.refused = true;
            buffer.set_filled(before + passed);
            let count = REFUSED.len().min(buffer.remaining());
            buffer.put_slice(&REFUSED[..count]);
            self.held = Bytes::from_static(&REFUSED[count..]);
        } else if passed < fresh.len() {
            let rest = fresh.get(passed..).unwrap_or_default();
            self.held = [rest, &self.held].concat().into();
            buffer.set_filled(before + passed);
        }
    }

    /// Sets the socket's time limit for acknowledgements if it has changed.
    fn set_unacknowledged_limit(&mut self) {
        let wished = self.activity.unacknowledged_max_ms.load(Ordering::Relaxed);
        if wished != self.unacknowledged_max_ms {
            self.unacknowledged_max_ms = wished;
            if let Err(error) = setsockopt(self.stream.tcp(), sockopt::TcpUserTimeout, &wished) {
                tracing::warn!(%error, "cannot set TCP_USER_TIMEOUT; a disconnected peer is detected later");
            }
        }
    }
}

impl AsyncRead for ObservedIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        if this.held.is_empty() && !this.refused {
            ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        } else {
            let count = this.held.len().min(buffer.remaining());
            buffer.put_slice(&this.held.split_to(count));
        }
        if buffer.filled().len() > before {
            this.activity.received();
        }
        this.check_lines(buffer, before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ObservedIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.set_unacknowledged_limit();
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.set_unacknowledged_limit();
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::getsockopt;
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn a_call_limits_the_time_for_acknowledgements_until_its_end() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let activity = Arc::new(Activity::new(None));
        let mut socket = ObservedIo::new(MaybeTlsStream::Plain(stream), activity.clone());
        let limit = |socket: &ObservedIo| getsockopt(socket.stream.tcp(), sockopt::TcpUserTimeout);
        let before = limit(&socket).unwrap();
        activity.limit_unacknowledged(Duration::from_secs(20));
        socket.write_all(b"x").await.unwrap();
        assert_eq!(limit(&socket), Ok(20_000));
        // The next call on the connection has the limit of the system again.
        drop(Followed::new(Body::empty(), activity));
        socket.write_all(b"x").await.unwrap();
        assert_eq!(limit(&socket), Ok(before));
    }
}
