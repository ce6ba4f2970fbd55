//! What a connection is doing, so that its patience can be measured: idle, sending a head, waiting for its answer, or
//! reading a stream.
//!
//! One atomic word a connection, written by the socket's reader and by the call; read by the alarm in `connection`.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::Frame;
use nix::sys::socket::{setsockopt, sockopt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::HttpConfig;

/// State and the millisecond it began, of one connection.
#[derive(Debug)]
pub(crate) struct Activity {
    opened: Instant,
    /// Milliseconds since `opened`, times four, plus the state.
    word: AtomicU64,
    /// How long the socket waits for an acknowledgement, milliseconds; 0 is the system's own patience.
    patience_ms: AtomicU32,
}

const IDLE: u64 = 0;
const HEAD: u64 = 1;
const BUSY: u64 = 2;
const STREAM: u64 = 3;
const STATE_BITS: u64 = 3;

impl Activity {
    /// A connection that has just been opened, and is idle.
    pub(crate) fn new() -> Self {
        Self { opened: Instant::now(), word: AtomicU64::new(IDLE), patience_ms: AtomicU32::new(0) }
    }

    /// A head has arrived whole; the rest is up to the call.
    pub(crate) fn busy(&self) {
        self.word.store(BUSY, Ordering::Relaxed);
    }

    /// The answer is made.
    pub(crate) fn idle(&self) {
        self.enter(IDLE);
    }

    /// A stream has begun, or its reader has made room for more of it.
    pub(crate) fn streams(&self) {
        self.enter(STREAM);
    }

    /// From the next write on, a peer that acknowledges nothing for so long is gone.
    pub(crate) fn limit_unacknowledged(&self, patience: Duration) {
        let ms = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
        self.patience_ms.store(ms, Ordering::Relaxed);
    }

    /// Bytes came in: on an idle connection they begin a head.
    fn received(&self) {
        if self.word.load(Ordering::Relaxed) & STATE_BITS == IDLE {
            self.enter(HEAD);
        }
    }

    /// When patience ends in the present state; none while a call is in flight.
    pub(crate) fn deadline(&self, config: &HttpConfig) -> Option<Instant> {
        let word = self.word.load(Ordering::Relaxed);
        let since = self.opened + Duration::from_millis(word >> 2);
        match word & STATE_BITS {
            IDLE => Some(since + config.idle_timeout),
            HEAD => Some(since + config.head_timeout),
            // A reader that is there makes room at least as often as a comment is written.
            STREAM => Some(since + config.stream_comment + config.idle_timeout),
            _ => None,
        }
    }

    fn enter(&self, state: u64) {
        let ms = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX >> 2);
        self.word.store((ms << 2) | state, Ordering::Relaxed);
    }
}

/// A stream that tells when it is read: hyper asks for more only while the socket takes what was written.
#[derive(Debug)]
pub(crate) struct Followed {
    body: Body,
    activity: Arc<Activity>,
}

impl Followed {
    /// Follows a stream.
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

/// A socket that tells what it receives.
#[derive(Debug)]
pub(crate) struct Observed {
    stream: TcpStream,
    activity: Arc<Activity>,
    /// What the socket was told last.
    patience_ms: u32,
}

impl Observed {
    /// Watches a socket.
    pub(crate) fn new(stream: TcpStream, activity: Arc<Activity>) -> Self {
        Self { stream, activity, patience_ms: 0 }
    }

    /// Tells the socket how long to wait for acknowledgements, if that has changed.
    fn be_patient(&mut self) {
        let wished = self.activity.patience_ms.load(Ordering::Relaxed);
        if wished != self.patience_ms {
            self.patience_ms = wished;
            if let Err(error) = setsockopt(&self.stream, sockopt::TcpUserTimeout, &wished) {
                tracing::warn!(%error, "a peer that vanishes is noticed later than asked for");
            }
        }
    }
}

impl AsyncRead for Observed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.activity.received();
        }
        polled
    }
}

impl AsyncWrite for Observed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.be_patient();
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
        self.be_patient();
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
    async fn a_socket_waits_as_long_for_acknowledgements_as_its_call_says() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let activity = Arc::new(Activity::new());
        let mut socket = Observed::new(stream, activity.clone());
        let patience = |socket: &Observed| getsockopt(&socket.stream, sockopt::TcpUserTimeout);
        let before = patience(&socket).unwrap();
        activity.limit_unacknowledged(Duration::from_secs(20));
        socket.write_all(b"x").await.unwrap();
        assert_eq!(patience(&socket), Ok(20_000));
        // The next call on the connection has the system's patience again.
        drop(Followed::new(Body::empty(), activity));
        socket.write_all(b"x").await.unwrap();
        assert_eq!(patience(&socket), Ok(before));
    }
}
