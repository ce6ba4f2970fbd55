//! Splits the bytes of a socket into frames.
//!
//! A frame's length is checked before anything is allocated for it. Memory grows with the bytes that have arrived, in
//! steps of [`STEP`]. Bounds: at most one frame and one step are kept.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use holdfast_zkwire::{FourLetterWord, FrameError, LENGTH_LEN, frame_len};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The smallest space for one read, bytes; an idle connection keeps it.
const STEP_MIN: usize = 2 * 1024;
/// The largest space for one read, bytes.
const STEP: usize = 16 * 1024;

/// The first bytes of a connection.
#[derive(Debug)]
pub(crate) enum Opening {
    Word(FourLetterWord),
    Frame(Bytes),
}

/// Why there is no next frame.
#[derive(Debug)]
pub(crate) enum FrameReadError {
    /// The client closed the connection at the end of a frame.
    Closed,
    /// The client closed the connection within a frame, or the socket failed.
    Socket(io::Error),
    /// The length of a frame is invalid.
    Frame(FrameError),
}

#[derive(Debug)]
pub(crate) struct FrameReader<R> {
    source: R,
    buffer: BytesMut,
    frame_bytes_max: usize,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(crate) fn new(source: R, frame_bytes_max: usize) -> Self {
        Self { source, buffer: BytesMut::new(), frame_bytes_max }
    }

    /// Changes the limit of the frames that are read from now on.
    pub(crate) fn set_frame_bytes_max(&mut self, frame_bytes_max: usize) {
        self.frame_bytes_max = frame_bytes_max;
    }

    pub(crate) async fn opening(&mut self) -> Result<Opening, FrameReadError> {
        let letters = self.header().await?;
        match FourLetterWord::parse(letters) {
            Some(word) => Ok(Opening::Word(word)),
            None => self.next().await.map(Opening::Frame),
        }
    }

    /// The next frame, without its length. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Bytes, FrameReadError> {
        let header = self.header().await?;
        let len = frame_len(header, self.frame_bytes_max).map_err(FrameReadError::Frame)?;
        self.fill(LENGTH_LEN + len).await?;
        self.buffer.advance(LENGTH_LEN);
        Ok(self.buffer.split_to(len).freeze())
    }

    /// The next frame, if it has arrived already.
    pub(crate) fn try_next(&mut self) -> Result<Option<Bytes>, FrameReadError> {
        let Some(header) = self.buffer.first_chunk() else { return Ok(None) };
        let len = frame_len(*header, self.frame_bytes_max).map_err(FrameReadError::Frame)?;
        if self.buffer.len() < LENGTH_LEN + len {
            return Ok(None);
        }
        self.buffer.advance(LENGTH_LEN);
        Ok(Some(self.buffer.split_to(len).freeze()))
    }

    /// Reads and drops bytes until the client closes the connection, or `bytes_max` have arrived.
    pub(crate) async fn discard(&mut self, bytes_max: usize) {
        let mut left = bytes_max;
        while left > 0 {
            self.buffer.clear();
            self.buffer.reserve(STEP.min(left));
            match self.source.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return,
                Ok(read) => left = left.saturating_sub(read),
            }
        }
    }

    async fn header(&mut self) -> Result<[u8; LENGTH_LEN], FrameReadError> {
        self.fill(LENGTH_LEN).await?;
        let mut header = [0; LENGTH_LEN];
        header.copy_from_slice(&self.buffer[..LENGTH_LEN]);
        Ok(header)
    }

    /// Reads until the buffer holds `wanted` bytes.
    async fn fill(&mut self, wanted: usize) -> Result<(), FrameReadError> {
        while self.buffer.len() < wanted {
            let missing = wanted - self.buffer.len();
            self.buffer.reserve(missing.clamp(STEP_MIN, STEP));
            match self.source.read_buf(&mut self.buffer).await {
                Ok(0) if self.buffer.is_empty() => return Err(FrameReadError::Closed),
                Ok(0) => return Err(FrameReadError::Socket(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) => return Err(FrameReadError::Socket(error)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(bytes: &[u8]) -> FrameReader<&[u8]> {
        FrameReader::new(bytes, 8)
    }

    #[tokio::test]
    async fn frames_are_split_and_an_end_between_two_is_a_regular_close() {
        let mut frames = frames(&[0, 0, 0, 2, 7, 8, 0, 0, 0, 0, 0, 0, 0, 1, 9]);
        assert_eq!(frames.next().await.unwrap(), &[7, 8][..]);
        assert_eq!(frames.next().await.unwrap(), &[][..]);
        assert_eq!(frames.next().await.unwrap(), &[9][..]);
        assert!(matches!(frames.next().await, Err(FrameReadError::Closed)));
    }

    #[tokio::test]
    async fn a_frame_that_has_arrived_is_returned_without_waiting() {
        let mut frames = frames(&[0, 0, 0, 1, 7, 0, 0, 0, 1, 8, 0, 0, 0, 2, 9]);
        assert!(matches!(frames.try_next(), Ok(None)), "nothing was read yet");
        assert_eq!(frames.next().await.unwrap(), &[7][..]);
        assert!(matches!(frames.try_next(), Ok(Some(frame)) if frame == [8][..]));
        assert!(matches!(frames.try_next(), Ok(None)));
    }

    #[tokio::test]
    async fn an_invalid_length_is_refused_before_its_bytes_arrive() {
        for bytes in [[0, 0, 0, 9], [0xff, 0xff, 0xff, 0xff]] {
            assert!(
                matches!(frames(&bytes).next().await, Err(FrameReadError::Frame(_))),
                "{bytes:?}"
            );
        }
    }

    #[tokio::test]
    async fn an_end_within_a_frame_is_an_error() {
        for bytes in [&[0, 0][..], &[0, 0, 0, 2, 7]] {
            assert!(
                matches!(frames(bytes).next().await, Err(FrameReadError::Socket(_))),
                "{bytes:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_four_letter_word_is_recognized_only_at_the_beginning() {
        let mut frames = frames(b"ruok\n");
        assert!(matches!(frames.opening().await, Ok(Opening::Word(FourLetterWord::Ruok))));
        let mut frames = FrameReader::new(&b"\0\0\0\x04ruok"[..], 8);
        assert!(
            matches!(frames.opening().await, Ok(Opening::Frame(frame)) if frame == b"ruok"[..])
        );
        let mut frames = FrameReader::new(&b"GET / HTTP/1.1"[..], 8);
        assert!(matches!(frames.opening().await, Err(FrameReadError::Frame(_))));
    }
}
