//! Frames: envelopes on a stream. The reader checks their size before an allocation.
//!
//! The first frame on a connection between nodes is a hello, whose caller has proved nothing yet. Bounds: [`HELLO_MAX`] bytes
//! within [`HELLO_BOUND`].

use std::io;
use std::time::Duration;

use holdfast_codec::{DecodeError, HEADER_LEN, Kind};
use holdfast_tls::{FailureReason, MaybeTlsStream};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::wire::{Hello, HelloReply, PROTOCOLS, Refusal};

/// The maximum frame, bytes: an append of one entry of the maximum size, or a piece of a snapshot, with spare room.
pub(crate) const FRAME_MAX: usize = 16 << 20;

/// The reason why no further frame can be read.
#[derive(Debug, Error)]
pub(crate) enum FrameError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Decode(#[from] DecodeError),
    #[error("a frame of {0} bytes is over the limit")]
    TooLong(usize),
}

/// Reads one frame; `None` at the end of the stream.
pub(crate) async fn read_frame<R>(stream: &mut R) -> Result<Option<Vec<u8>>, FrameError>
where
    R: AsyncRead + Unpin,
{
    read_frame_of(stream, FRAME_MAX).await
}

/// Reads a frame of at most `max` bytes.
pub(crate) async fn read_frame_of<R>(
    stream: &mut R,
    max: usize,
) -> Result<Option<Vec<u8>>, FrameError>
where
    R: AsyncRead + Unpin,
{
    let mut header = [0; HEADER_LEN];
    match stream.read_exact(&mut header).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let len = holdfast_codec::frame_len(&header)?;
    if len > max {
        return Err(FrameError::TooLong(len));
    }
    let mut frame = vec![0; len];
    frame[..HEADER_LEN].copy_from_slice(&header);
    stream.read_exact(&mut frame[HEADER_LEN..]).await?;
    Ok(Some(frame))
}

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

pub(super) async fn write(stream: &mut MaybeTlsStream, frame: &[u8]) -> io::Result<()> {
    stream.write_all(frame).await?;
    // TLS may hold back the end of the last record.
    stream.flush().await
}

#[cfg(test)]
mod tests {
    use holdfast_codec::Kind;

    use super::*;

    #[tokio::test]
    async fn frames_follow_each_other_until_the_end() {
        let mut bytes = holdfast_codec::encode(Kind::Hello, &1_u32).unwrap();
        bytes.extend(holdfast_codec::encode(Kind::Hello, &2_u32).unwrap());
        let mut stream = bytes.as_slice();
        for expected in [1_u32, 2] {
            let frame = read_frame(&mut stream).await.unwrap().unwrap();
            assert_eq!(holdfast_codec::decode::<u32>(Kind::Hello, &frame).unwrap(), expected);
        }
        assert!(read_frame(&mut stream).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_frame_over_the_limit_is_rejected_by_its_header() {
        let mut bytes = holdfast_codec::encode(Kind::Hello, &1_u32).unwrap();
        let over = u32::try_from(FRAME_MAX).unwrap();
        bytes[4..8].copy_from_slice(&over.to_le_bytes());
        let error = read_frame(&mut bytes.as_slice()).await.unwrap_err();
        assert!(matches!(error, FrameError::TooLong(_)), "{error}");
    }

    #[tokio::test]
    async fn garbage_is_rejected() {
        let error = read_frame(&mut b"GET / HTTP/1.1\r\n\r\n".as_slice()).await.unwrap_err();
        assert!(matches!(error, FrameError::Decode(_)), "{error}");
    }
}
