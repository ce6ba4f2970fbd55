//! The head of the log, which every batch rewrites.
//!
//! It has the range of indexes that must exist, the checksum chain at both ends of the range, the checksum of every value
//! of Raft metadata, and the number of the batch. With it an open detects a gap, a lost tail, and an outdated entry or
//! vote. Format in `docs/formats/storage.md`; all numbers are little endian.

use crate::error::StoreError;
use crate::keys::RaftMeta;

const VERSION: u8 = 1;
const HAS_PURGED: u8 = 1;
const HAS_RECORDS: u8 = 2;
const FIXED_LEN: usize = 2 + 4 * 8 + 2 * 4 + 1;

/// The indexes that are in the log, both inclusive. Invariant: `first <= last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// Invariants: `purged < first`; the chain runs from `chain_base` (before `first`) to `chain` (after `last`), and both
/// are equal in an empty log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// Number of the batch that wrote this head; goes up by one a batch, never back.
    pub(crate) seq: u64,
    /// Everything up to this index was purged.
    pub(crate) purged: Option<u64>,
    pub(crate) span: Option<Span>,
    pub(crate) chain_base: u32,
    pub(crate) chain: u32,
    /// The checksums of the Raft metadata, by number; `None` if not set.
    pub(crate) metas: [Option<u32>; RaftMeta::ALL.len()],
}

impl Head {
    /// The index the next record must have; any, for a log that never had a record.
    pub(crate) fn next_index(&self) -> Option<u64> {
        self.span.map(|span| span.last).or(self.purged).map(|last| last.saturating_add(1))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED_LEN + self.metas.len() * 5 + 4);
        let purged = if self.purged.is_some() { HAS_PURGED } else { 0 };
        let records = if self.span.is_some() { HAS_RECORDS } else { 0 };
        bytes.extend_from_slice(&[VERSION, purged | records]);
        let span = self.span.unwrap_or(Span { first: 0, last: 0 });
        for number in [self.seq, self.purged.unwrap_or(0), span.first, span.last] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.chain_base.to_le_bytes());
        bytes.extend_from_slice(&self.chain.to_le_bytes());
        bytes.push(u8::try_from(self.metas.len()).unwrap_or(u8::MAX));
        for meta in self.metas {
            bytes.push(u8::from(meta.is_some()));
            bytes.extend_from_slice(&meta.unwrap_or(0).to_le_bytes());
        }
        let sum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let damaged = || StoreError::corrupt("the head of the log fails its checksum");
        let (body, sum) = bytes.split_last_chunk::<4>().ok_or_else(damaged)?;
        if crc32c::crc32c(body) != u32::from_le_bytes(*sum) {
            return Err(damaged());
        }
        let head = Self::parse(body).ok_or_else(|| StoreError::Corrupt {
            what: "the head of the log has an unknown version or shape".to_owned(),
            fix: "start this node with the version that wrote it, or a newer one".to_owned(),
        })?;
        head.check_invariants().map_err(StoreError::corrupt)?;
        Ok(head)
    }

    fn parse(body: &[u8]) -> Option<Self> {
        let mut rest = Cursor { bytes: body };
        let [version, flags] = rest.take::<2>()?;
        if version != VERSION || flags > HAS_PURGED | HAS_RECORDS {
            return None;
        }
        let [seq, purged, first, last] = [rest.u64()?, rest.u64()?, rest.u64()?, rest.u64()?];
        let [chain_base, chain] = [rest.u32()?, rest.u32()?];
        let mut metas = [None; RaftMeta::ALL.len()];
        let [count] = rest.take::<1>()?;
        for at in 0..usize::from(count) {
            let [set] = rest.take::<1>()?;
            let sum = rest.u32()?;
            *metas.get_mut(at)? = (set == 1).then_some(sum);
        }
        rest.bytes.is_empty().then_some(Self {
            seq,
            purged: (flags & HAS_PURGED != 0).then_some(purged),
            span: (flags & HAS_RECORDS != 0).then_some(Span { first, last }),
            chain_base,
            chain,
            metas,
        })
    }

    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        match (self.span, self.purged) {
            (Some(span), _) if span.first > span.last => Err("the log's range is inverted".into()),
            (Some(span), Some(purged)) if purged >= span.first => {
                Err("the log begins below what was purged".into())
            }
            (None, _) if self.chain_base != self.chain => {
                Err("the log is empty, its checksum chain is not".into())
            }
            _ => Ok(()),
        }
    }
}

/// Takes fixed-size values off the front.
struct Cursor<'a> {
    bytes: &'a [u8],
}

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (value, rest) = self.bytes.split_first_chunk::<N>()?;
        self.bytes = rest;
        Some(*value)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Head {
        Head {
            seq: 0x0102,
            purged: Some(9),
            span: Some(Span { first: 10, last: 12 }),
            chain_base: 0xAABB_CCDD,
            chain: 0x1122_3344,
            metas: [Some(7), None, Some(0xFFFF_FFFF)],
        }
    }

    #[test]
    fn a_head_survives_its_bytes_and_every_flipped_bit_is_noticed() {
        let bytes = sample().encode();
        assert_eq!(Head::decode(&bytes), Ok(sample()));
        assert_eq!(Head::decode(&Head::default().encode()), Ok(Head::default()));
        for at in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[at / 8] ^= 1 << (at % 8);
            assert!(Head::decode(&bad).is_err(), "bit {at}");
        }
    }

    #[test]
    fn the_bytes_of_version_1_stay_as_they_are() {
        let number = |low: u8, next: u8| [low, next, 0, 0, 0, 0, 0, 0];
        let golden = [
            &[1, 3][..],
            &number(2, 1),
            &number(9, 0),
            &number(10, 0),
            &number(12, 0),
            &[0xdd, 0xcc, 0xbb, 0xaa, 0x44, 0x33, 0x22, 0x11],
            &[3, 1, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff],
            &[0x10, 0x16, 0xe0, 0xe5],
        ];
        assert_eq!(sample().encode(), golden.concat());
    }

    #[test]
    fn a_head_that_contradicts_itself_is_damage() {
        let inverted = Head { span: Some(Span { first: 5, last: 4 }), ..sample() };
        let below = Head { purged: Some(10), ..sample() };
        let empty = Head { span: None, ..sample() };
        for head in [inverted, below, empty] {
            assert!(matches!(Head::decode(&head.encode()), Err(StoreError::Corrupt { .. })));
        }
    }

    #[test]
    fn the_next_index_follows_the_last_record_or_the_purge() {
        assert_eq!(sample().next_index(), Some(13));
        assert_eq!(Head { span: None, ..sample() }.next_index(), Some(10));
        assert_eq!(Head::default().next_index(), None);
    }
}
