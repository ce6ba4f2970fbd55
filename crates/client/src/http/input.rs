//! The bytes that a connection has received and no answer has taken.
//!
//! Bound: [`UNREAD_MAX`] bytes. The bytes of a body are taken as they arrive, so only a head or a line can be longer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

const CAPACITY: usize = 8 * 1_024;
const UNREAD_MAX: usize = 64 * 1_024;

#[derive(Debug, Default)]
pub(super) struct Input {
    /// The unread bytes are those from `start` to `end`.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(super) fn consume(&mut self, len: usize) {
        self.start = (self.start + len).min(self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Moves at most `len` bytes to the end of `output`, and returns their number.
    pub(super) fn take(&mut self, len: u64, output: &mut Vec<u8>) -> u64 {
        let unread = self.unread();
        let taken = usize::try_from(len).map_or(unread.len(), |len| len.min(unread.len()));
        output.extend_from_slice(&unread[..taken]);
        self.consume(taken);
        taken as u64
    }

    /// Consumes a line, and returns its length without the end; `None` if it is incomplete.
    pub(super) fn line(&mut self) -> Option<usize> {
        let end = self.unread().iter().position(|byte| *byte == b'\n')?;
        let line = &self.unread()[..end];
        let len = line.strip_suffix(b"\r").unwrap_or(line).len();
        self.consume(end + 1);
        Some(len)
    }

    /// Reads what has arrived at the socket. Returns the number of bytes, 0 at the end of the connection.
    pub(super) fn poll_fill(
        &mut self,
        socket: &mut (impl AsyncRead + Unpin + ?Sized),
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if let Err(error) = self.make_room() {
            return Poll::Ready(Err(error));
        }
        let mut free = ReadBuf::new(&mut self.bytes[self.end..]);
        ready!(Pin::new(socket).poll_read(context, &mut free))?;
        let len = free.filled().len();
        self.end += len;
        Poll::Ready(Ok(len))
    }

    /// # Errors
    /// More than [`UNREAD_MAX`] bytes would be unread.
    fn make_room(&mut self) -> io::Result<()> {
        if self.end < self.bytes.len() {
            return Ok(());
        }
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end >= UNREAD_MAX {
            let what = "the head of the answer has more than 64 KiB";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        if self.end == self.bytes.len() {
            self.bytes.resize((2 * self.end).clamp(CAPACITY, UNREAD_MAX), 0);
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.truncate(self.end);
        self.bytes.extend_from_slice(bytes);
        self.end = self.bytes.len();
    }
}
