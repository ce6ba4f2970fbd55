//! Bytes of a socket as frames.
//!
//! Owns the buffer between them, and the check of every length before anything is allocated for it: memory grows with
//! what has really arrived, in steps of [`STEP`]. Refuses to know what is in a frame.
//!
//! Bounds: one frame and one step are kept at most.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use holdfast_zkwire::{FourLetterWord, FrameError, LENGTH_LEN, frame_len};
use tokio::io::{AsyncRead, AsyncReadExt};

/// How much room is made for one read at least, bytes: an idle connection keeps so much.
const FIRST: usize = 2 * 1024;
/// How much at most.
const STEP: usize = 16 * 1024;

/// What a connection begins with.
#[derive(Debug)]
pub(crate) enum First {
    /// A four-letter word.
    Word(FourLetterWord),
    /// A frame.
    Frame(Bytes),
}

/// Why no frame comes any more.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The client has closed, at the end of a frame.
    Closed,
    /// The client has closed, or the socket failed, within a frame.
    Socket(io::Error),
    /// A length that is not to be trusted.
    Frame(FrameError),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Frames<R> {
    source: R,
    buffer: BytesMut,
    frame_bytes_max: usize,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(crate) fn new(source: R, frame_bytes_max: usize) -> Self {
        Self { source, buffer: BytesMut::new(), frame_bytes_max }
    }

    /// What comes first.
    ///
    /// # Errors
    /// [`Broken`] ends the connection.
    pub(crate) async fn first(&mut self) -> Result<First, Broken> {
        let letters = self.header().await?;
        match FourLetterWord::parse(letters) {
            Some(word) => Ok(First::Word(word)),
            None => self.next().await.map(First::Frame),
        }
    }

    /// The next frame, without its length. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`Broken`] ends the connection.
    pub(crate) async fn next(&mut self) -> Result<Bytes, Broken> {
        let header = self.header().await?;
        let len = frame_len(header, self.frame_bytes_max).map_err(Broken::Frame)?;
        self.fill(LENGTH_LEN + len).await?;
        self.buffer.advance(LENGTH_LEN);
        Ok(self.buffer.split_to(len).freeze())
    }

    /// The next frame, if it has arrived already.
    ///
    /// # Errors
    /// [`Broken`] ends the connection.
    pub(crate) fn try_next(&mut self) -> Result<Option<Bytes>, Broken> {
        let Some(header) = self.buffer.first_chunk() else { return Ok(None) };
        let len = frame_len(*header, self.frame_bytes_max).map_err(Broken::Frame)?;
        if self.buffer.len() < LENGTH_LEN + len {
            return Ok(None);
        }
        self.buffer.advance(LENGTH_LEN);
        Ok(Some(self.buffer.split_to(len).freeze()))
    }

    /// Reads and forgets until the client closes, or this much has come.
    pub(crate) async fn forget(&mut self, bytes_max: usize) {
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

    async fn header(&mut self) -> Result<[u8; LENGTH_LEN], Broken> {
        self.fill(LENGTH_LEN).await?;
        let mut header = [0; LENGTH_LEN];
        header.copy_from_slice(&self.buffer[..LENGTH_LEN]);
        Ok(header)
    }

    /// Reads until so much is there.
    async fn fill(&mut self, wanted: usize) -> Result<(), Broken> {
        while self.buffer.len() < wanted {
            let missing = wanted - self.buffer.len();
            self.buffer.reserve(missing.clamp(FIRST, STEP));
            match self.source.read_buf(&mut self.buffer).await {
                Ok(0) if self.buffer.is_empty() => return Err(Broken::Closed),
                Ok(0) => return Err(Broken::Socket(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) => return Err(Broken::Socket(error)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(bytes: &[u8]) -> Frames<&[u8]> {
        Frames::new(bytes, 8)
    }

    #[tokio::test]
    async fn frames_come_one_by_one_and_the_end_between_two_is_no_fault() {
        let mut frames = frames(&[0, 0, 0, 2, 7, 8, 0, 0, 0, 0, 0, 0, 0, 1, 9]);
        assert_eq!(frames.next().await.unwrap(), &[7, 8][..]);
        assert_eq!(frames.next().await.unwrap(), &[][..]);
        assert_eq!(frames.next().await.unwrap(), &[9][..]);
        assert!(matches!(frames.next().await, Err(Broken::Closed)));
    }

    #[tokio::test]
    async fn what_has_arrived_is_there_without_waiting() {
        let mut frames = frames(&[0, 0, 0, 1, 7, 0, 0, 0, 1, 8, 0, 0, 0, 2, 9]);
        assert!(matches!(frames.try_next(), Ok(None)), "nothing was read yet");
        assert_eq!(frames.next().await.unwrap(), &[7][..]);
        assert!(matches!(frames.try_next(), Ok(Some(frame)) if frame == [8][..]));
        assert!(matches!(frames.try_next(), Ok(None)));
    }

    #[tokio::test]
    async fn a_length_over_the_limit_or_below_zero_is_refused_before_its_bytes_come() {
        for bytes in [[0, 0, 0, 9], [0xff, 0xff, 0xff, 0xff]] {
            assert!(matches!(frames(&bytes).next().await, Err(Broken::Frame(_))), "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn a_frame_that_is_cut_off_is_a_fault() {
        for bytes in [&[0, 0][..], &[0, 0, 0, 2, 7]] {
            assert!(matches!(frames(bytes).next().await, Err(Broken::Socket(_))), "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn a_word_is_only_a_word_at_the_beginning() {
        let mut frames = frames(b"ruok\n");
        assert!(matches!(frames.first().await, Ok(First::Word(FourLetterWord::Ruok))));
        let mut frames = Frames::new(&b"\0\0\0\x04ruok"[..], 8);
        assert!(matches!(frames.first().await, Ok(First::Frame(frame)) if frame == b"ruok"[..]));
        let mut frames = Frames::new(&b"GET / HTTP/1.1"[..], 8);
        assert!(matches!(frames.first().await, Err(Broken::Frame(_))));
    }
}
