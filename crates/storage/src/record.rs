//! The contents of the log: records by index, and Raft metadata.

use bytes::Bytes;

/// The maximum length of a record, bytes.
pub const RECORD_BYTES_MAX: usize = 4 << 20;
/// The maximum length of a value of Raft metadata, bytes.
pub const META_BYTES_MAX: usize = 4 << 10;

/// One entry of the log. The log does not interpret it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The position in the log; indexes are consecutive.
    pub index: u64,
    /// The content, at most [`RECORD_BYTES_MAX`] bytes; may be empty.
    pub bytes: Bytes,
}

/// The name of a small value that becomes durable in order with the log. The enum is append-only; the number is part
/// of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RaftMeta {
    Vote = 0,
    /// The last position known to be committed.
    Committed = 1,
    /// The last purged position; only a purge sets it.
    Purged = 2,
}

impl RaftMeta {
    /// All values, by number.
    pub const ALL: [Self; 3] = [Self::Vote, Self::Committed, Self::Purged];

    pub(crate) const fn number(self) -> u8 {
        self as u8
    }
}
