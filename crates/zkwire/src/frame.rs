//! The first four bytes: the length prefix of a frame, or a four-letter word, which monitoring sends in place of the first frame.
//!
//! A length is checked before anything is allocated. The size of a written frame is counted first, so that it is allocated
//! once.

use bytes::{Bytes, BytesMut};
use thiserror::Error;

use crate::jute::{Count, Record, Sink};

/// ZooKeeper's default limit of a frame, bytes without the length prefix (`jute.maxbuffer`).
pub const FRAME_MAX_DEFAULT: usize = 0xf_ffff;
/// Bytes of the length prefix.
pub const LENGTH_LEN: usize = 4;

/// An invalid length: close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    #[error("a frame of {len} bytes")]
    Negative { len: i32 },
    #[error("a frame of {len} bytes is over the limit of {max}")]
    TooLong { len: usize, max: usize },
}

/// The bytes of the frame after this length prefix, checked against `max` before a buffer is allocated.
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

/// The bytes of a record without the length prefix.
pub(crate) fn len_of<R: Record>(record: &R) -> usize {
    let mut count = Count::default();
    record.write(&mut count);
    count.bytes
}

/// Appends a record as a frame; leaves `out` unchanged on failure.
pub(crate) fn append<R: Record>(out: &mut BytesMut, record: &R) -> Result<(), FrameError> {
    let len = len_of(record);
    let prefix = i32::try_from(len)
        .map_err(|_| FrameError::TooLong { len, max: i32::MAX.unsigned_abs() as usize })?;
    out.reserve(LENGTH_LEN + len);
    out.int(prefix);
    record.write(out);
    Ok(())
}

pub(crate) fn encode<R: Record>(record: &R) -> Result<Bytes, FrameError> {
    let mut out = BytesMut::new();
    append(&mut out, record)?;
    Ok(out.freeze())
}

macro_rules! words {
    ($($(#[$doc:meta])* $word:ident = $text:literal,)*) => {
        /// A command of four ASCII letters. The answer is text, then the connection closes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum FourLetterWord {
            $($(#[$doc])* $word,)*
        }

        impl FourLetterWord {
            pub const ALL: &[Self] = &[$(Self::$word),*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$word => $text,)*
                }
            }
        }
    };
}

words! {
    /// Whether the server is running.
    Ruok = "ruok",
    /// Server and connections.
    Stat = "stat",
    /// Server without connections.
    Srvr = "srvr",
    /// Values for monitoring.
    Mntr = "mntr",
    /// Configuration.
    Conf = "conf",
    /// Connections.
    Cons = "cons",
    /// Sessions and their ephemeral nodes.
    Dump = "dump",
    /// Number of watches.
    Wchs = "wchs",
    /// Watches by session.
    Wchc = "wchc",
    /// Watches by path.
    Wchp = "wchp",
    /// Environment and version.
    Envi = "envi",
    /// Whether the server is read-only.
    Isro = "isro",
    /// Reset the statistics of the connections.
    Crst = "crst",
    /// Reset the statistics of the server.
    Srst = "srst",
    /// Sizes of data and log on the disk.
    Dirs = "dirs",
}

impl FourLetterWord {
    /// The word with these letters. Call it before [`frame_len`]: as a length, every word is over any sane limit.
    pub fn parse(letters: [u8; 4]) -> Option<Self> {
        Self::ALL.iter().copied().find(|word| word.as_str().as_bytes() == letters)
    }
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

    #[test]
    fn every_word_is_known_by_its_letters_and_nothing_else_is() {
        assert_eq!(FourLetterWord::ALL.len(), 15);
        for word in FourLetterWord::ALL {
            let letters = *word.as_str().as_bytes().first_chunk().unwrap();
            assert_eq!(FourLetterWord::parse(letters), Some(*word));
            let frame = frame_len(letters, FRAME_MAX_DEFAULT);
            assert!(frame.is_err(), "{word:?} reads as a length");
        }
        for other in [*b"RUOK", *b"GET ", *b"kill", [0, 0, 0, 44]] {
            assert_eq!(FourLetterWord::parse(other), None);
        }
    }
}
