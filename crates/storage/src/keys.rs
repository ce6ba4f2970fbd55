//! The keys of the tree: head, Raft metadata, chunks.
//!
//! ```text
//! 00 00                         the head, rewritten by every batch
//! 00 01+number                  a value of Raft metadata, by its number
//! 01 index(8, big endian) piece(2, big endian)   a chunk, by the index of its first record
//! ```
//!
//! Raft metadata sorts before the chunks, so the tree grows only at its right end.

/// The key of a small value that becomes durable in order with the log. Append-only; the number is part of the format.
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
    /// In the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Vote, Self::Committed, Self::Purged];

    pub(crate) const fn number(self) -> u8 {
        self as u8
    }
}

pub(crate) const HEAD: [u8; 2] = [0, 0];
const CHUNK: u8 = 1;
pub(crate) const CHUNK_KEY_LEN: usize = 11;

pub(crate) const fn meta(meta: RaftMeta) -> [u8; 2] {
    [0, 1 + meta.number()]
}

/// The key of the chunk that starts at `index`. A record longer than one chunk has several pieces.
pub(crate) fn chunk(index: u64, piece: u16) -> [u8; CHUNK_KEY_LEN] {
    let mut key = [CHUNK; CHUNK_KEY_LEN];
    key[1..9].copy_from_slice(&index.to_be_bytes());
    key[9..].copy_from_slice(&piece.to_be_bytes());
    key
}

/// The index and piece of a chunk's key; nothing if it is no such key.
pub(crate) fn parse_chunk(key: &[u8]) -> Option<(u64, u16)> {
    let (&[CHUNK], rest) = key.split_first_chunk::<1>()? else { return None };
    let (index, piece) = rest.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*index), u16::from_be_bytes(piece.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_keys_sort_by_index_then_piece_and_after_raft_metadata() {
        assert!(meta(RaftMeta::Purged)[..] < chunk(0, 0)[..]);
        assert!(chunk(255, 9)[..] < chunk(256, 0)[..]);
        assert!(chunk(256, 0)[..] < chunk(256, 1)[..]);
        assert_eq!(parse_chunk(&chunk(77, 3)), Some((77, 3)));
        assert_eq!(parse_chunk(&HEAD), None);
    }
}
