//! The first frame on a connection between nodes, whose caller has proved nothing yet. Bounds: [`HELLO_MAX`] bytes within
//! [`HELLO_BOUND`].

use std::time::Duration;

use holdfast_codec::Kind;
use holdfast_tls::{FailureReason, MaybeTlsStream};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::frame::read_frame_of;
use crate::wire::{Hello, HelloReply, PROTOCOLS, Refusal};

/// The timeout of a handshake.
pub(super) const HELLO_BOUND: Duration = Duration::from_secs(2);
/// The maximum length of a hello, bytes.
const HELLO_MAX: usize = 64 << 10;

/// A caller that proved to be no node.
#[derive(Debug)]
pub(crate) struct Stranger {
    pub(crate) reason: FailureReason,
    pub(crate) detail: String,
}

impl Stranger {
    fn new(reason: FailureReason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

/// Reads a hello. The error is `None` if the caller closed the connection.
pub(super) async fn read_hello(stream: &mut MaybeTlsStream) -> Result<Hello, Option<Stranger>> {
    let read = timeout(HELLO_BOUND, read_frame_of(stream, HELLO_MAX)).await;
    let read = read.map_err(|_| Stranger::new(FailureReason::Timeout, "no hello in time"))?;
    let malformed = |detail: String| Stranger::new(FailureReason::Malformed, detail);
    let frame = read.map_err(|error| malformed(error.to_string()))?;
    let frame = frame.ok_or(None::<Stranger>)?;
    if let Ok(hello) = holdfast_codec::decode(Kind::Hello, &frame) {
        return Ok(hello);
    }
    reply(stream, &HelloReply::Refused(Refusal::Protocol { ours: PROTOCOLS })).await;
    Err(Some(malformed("undecodable hello, of an earlier or a later program".to_owned())))
}

pub(super) async fn reply(stream: &mut MaybeTlsStream, reply: &HelloReply) -> Option<()> {
    let frame = holdfast_codec::encode(Kind::Hello, reply).ok()?;
    timeout(HELLO_BOUND, write(stream, &frame)).await.ok()?.ok()
}

pub(super) async fn write(stream: &mut MaybeTlsStream, frame: &[u8]) -> std::io::Result<()> {
    stream.write_all(frame).await?;
    // TLS may hold back the end of the last record.
    stream.flush().await
}
