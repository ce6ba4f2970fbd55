//! The length in front of every frame.
//!
//! Owns the check of a length before anything is allocated, and the writing of one: a frame's size is counted first,
//! so it is allocated once. Refuses to know what is in a frame.

use bytes::{Bytes, BytesMut};
use thiserror::Error;

use crate::jute::{Count, Record, Sink};

/// `ZooKeeper`'s default limit of a frame, bytes without the length itself (its `jute.maxbuffer`).
pub const FRAME_MAX_DEFAULT: usize = 0xf_ffff;
/// Bytes of the length.
pub const LENGTH_LEN: usize = 4;

/// A length that is not to be trusted: close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// Below zero.
    #[error("a frame of {len} bytes")]
    Negative {
        /// The length found.
        len: i32,
    },
    /// Over the limit.
    #[error("a frame of {len} bytes is over the limit of {max}")]
    TooLong {
        /// The length found.
        len: usize,
        /// The limit.
        max: usize,
    },
}

/// How many bytes follow these four, checked against `max`: to be asked before a buffer is made.
///
/// # Errors
/// [`FrameError`] if the length is negative or more than `max`.
pub fn frame_len(header: [u8; LENGTH_LEN], max: usize) -> Result<usize, FrameError> {
    let len = i32::from_be_bytes(header);
    let len = usize::try_from(len).map_err(|_| FrameError::Negative { len })?;
    if len > max {
        return Err(FrameError::TooLong { len, max });
    }
    Ok(len)
}

/// Bytes that a record takes, without the length in front.
pub(crate) fn len_of<R: Record>(record: &R) -> usize {
    let mut count = Count::default();
    record.write(&mut count);
    count.bytes
}

/// Appends a record as a frame; `out` is as it was if that fails.
pub(crate) fn append<R: Record>(out: &mut BytesMut, record: &R) -> Result<(), FrameError> {
    let len = len_of(record);
    let prefix = i32::try_from(len)
        .map_err(|_| FrameError::TooLong { len, max: i32::MAX.unsigned_abs() as usize })?;
    out.reserve(LENGTH_LEN + len);
    out.int(prefix);
    record.write(out);
    Ok(())
}

/// A record as a frame of its own.
pub(crate) fn encode<R: Record>(record: &R) -> Result<Bytes, FrameError> {
    let mut out = BytesMut::new();
    append(&mut out, record)?;
    Ok(out.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_held_against_the_limit_before_anything_is_allocated() {
        let max = FRAME_MAX_DEFAULT;
        assert_eq!(frame_len([0, 0, 0, 0], max), Ok(0));
        assert_eq!(frame_len([0x00, 0x0f, 0xff, 0xff], max), Ok(1_048_575));
        assert_eq!(
            frame_len([0x00, 0x10, 0x00, 0x00], max),
            Err(FrameError::TooLong { len: 1_048_576, max })
        );
        assert_eq!(frame_len([0xff; 4], max), Err(FrameError::Negative { len: -1 }));
        assert_eq!(frame_len(*b"GET ", max), Err(FrameError::TooLong { len: 0x4745_5420, max }));
        assert_eq!(frame_len([0x7f, 0xff, 0xff, 0xff], usize::MAX), Ok(0x7fff_ffff));
    }
}
