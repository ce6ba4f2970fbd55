//! Frames: envelopes on a stream. The reader checks their size before an allocation.

use std::io;

use holdfast_codec::{DecodeError, HEADER_LEN};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};

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
