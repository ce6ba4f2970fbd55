//! The format of a segment: a start, and frames that hold one change of the log each.
//!
//! ```text
//! start    "HFLOG" version(1) 0 0
//! frame    length(4) checksum(4) kind(1) body      length is that of kind and body
//!   0 summary   of everything before this segment; the first frame of each segment, and nowhere else
//!   1 record    index(8) bytes
//!   2 metadata  number(1) bytes
//!   3 truncate  next(8): records from here on are removed
//!   4 purge     through(8) bytes: records up to here are removed, and `RaftMeta::Purged` has these bytes
//! ```
//!
//! The checksum of a frame continues the checksum of the frame before it. A frame is therefore valid only after
//! exactly the frames that preceded its write. A missing, swapped or stale frame ends the valid part of a segment.
//! Numbers are little endian.

use bytes::{Buf as _, BufMut as _, Bytes};

use super::change::{Bounds, LogChange, META_BYTES_MAX, RECORD_BYTES_MAX, RaftMeta, Record};

/// The first bytes of each segment; the sixth byte is the version.
pub(super) const START: [u8; 8] = *b"HFLOG\x01\0\0";
pub(super) const HEADER_BYTES: usize = 8;
/// The longest content: a record with its kind and index.
const CONTENT_BYTES_MAX: usize = RECORD_BYTES_MAX + 9;

const SUMMARY: u8 = 0;
const RECORD: u8 = 1;
const META: u8 = 2;
const TRUNCATE: u8 = 3;
const PURGE: u8 = 4;

const HAS_PURGED: u8 = 1;

/// A position between two frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// The number of frames before the position, in all segments, including removed ones.
    pub(super) frames: u64,
    /// The checksum of the frame before it.
    pub(super) checksum: u32,
}

/// The state that results from the frames before a segment, without the records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) position: Position,
    pub(super) bounds: Bounds,
    pub(super) metas: [Option<Bytes>; RaftMeta::ALL.len()],
}

impl Position {
    /// Appends a frame with the content written by `content`; returns the position after it.
    fn write(self, out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) -> Self {
        let begin = out.len();
        out.put_bytes(0, HEADER_BYTES);
        content(out);
        let len = u32::try_from(out.len() - begin - HEADER_BYTES).unwrap_or(u32::MAX);
        let checksum = checksum(self.checksum, len, &out[begin + HEADER_BYTES..]);
        out[begin..begin + 4].copy_from_slice(&len.to_le_bytes());
        out[begin + 4..begin + HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        Self { frames: self.frames + 1, checksum }
    }

    /// Removes the frame at the front of `bytes` if its checksum fits this position; returns its content.
    pub(super) fn read(&mut self, bytes: &mut Bytes) -> Option<Bytes> {
        let (len, rest) = bytes.split_first_chunk::<4>()?;
        let (sum, rest) = rest.split_first_chunk::<4>()?;
        let len = u32::from_le_bytes(*len);
        let size =
            usize::try_from(len).ok().filter(|size| (1..=CONTENT_BYTES_MAX).contains(size))?;
        let sum = u32::from_le_bytes(*sum);
        if checksum(self.checksum, len, rest.get(..size)?) != sum {
            return None;
        }
        bytes.advance(HEADER_BYTES);
        *self = Self { frames: self.frames + 1, checksum: sum };
        Some(bytes.split_to(size))
    }
}

fn checksum(before: u32, len: u32, content: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(before, &len.to_le_bytes()), content)
}

impl LogChange {
    /// Appends a frame with this change; returns the position after it.
    pub(super) fn encode(&self, at: Position, out: &mut Vec<u8>) -> Position {
        at.write(out, |out| match self {
            Self::Append(record) => {
                out.put_u8(RECORD);
                out.put_u64_le(record.index);
                out.put_slice(&record.bytes);
            }
            Self::SetMeta { meta, bytes } => {
                out.put_slice(&[META, meta.number()]);
                out.put_slice(bytes);
            }
            Self::Truncate { next } => {
                out.put_u8(TRUNCATE);
                out.put_u64_le(*next);
            }
            Self::Purge { through, meta } => {
                out.put_u8(PURGE);
                out.put_u64_le(*through);
                out.put_slice(meta);
            }
        })
    }

    /// Decodes the change in a frame's content; `None` for an unknown kind or form.
    pub(super) fn decode(mut content: Bytes) -> Option<Self> {
        Some(match content.try_get_u8().ok()? {
            RECORD => {
                let index = content.try_get_u64_le().ok()?;
                Self::Append(Record { index, bytes: content })
            }
            META => {
                let number = content.try_get_u8().ok()?;
                let meta = RaftMeta::ALL.into_iter().find(|meta| meta.number() == number)?;
                Self::SetMeta { meta, bytes: copied(&content) }
            }
            TRUNCATE => {
                let next = content.try_get_u64_le().ok()?;
                content.is_empty().then_some(Self::Truncate { next })?
            }
            PURGE => {
                let through = content.try_get_u64_le().ok()?;
                Self::Purge { through, meta: copied(&content) }
            }
            _ => return None,
        })
    }
}

impl Summary {
    /// Returns the content of a segment that begins at this position, and the position after that content.
    pub(super) fn new_segment(&self) -> (Vec<u8>, Position) {
        let mut out = START.to_vec();
        let position = Position::default().write(&mut out, |out| {
            out.put_u8(SUMMARY);
            out.put_u64_le(self.position.frames);
            out.put_u32_le(self.position.checksum);
            let Bounds { purged, first, next } = self.bounds;
            out.put_u8(if purged.is_some() { HAS_PURGED } else { 0 });
            for number in [purged.unwrap_or(0), first, next] {
                out.put_u64_le(number);
            }
            for meta in &self.metas {
                let len = meta.as_ref().and_then(|bytes| u32::try_from(bytes.len()).ok());
                out.put_u32_le(len.unwrap_or(u32::MAX));
                out.put_slice(meta.as_deref().unwrap_or_default());
            }
        });
        (out, Position { frames: self.position.frames + 1, ..position })
    }

    /// Removes the start and the summary from the front of a segment and returns the position after them; `None` if
    /// they are damaged.
    pub(super) fn read(segment: &mut Bytes) -> Option<(Self, Position)> {
        let start = segment.split_to_checked(START.len())?;
        let mut position = Position::default();
        let mut content = (*start == START).then(|| position.read(segment))??;
        (content.try_get_u8().ok()? == SUMMARY).then_some(())?;
        let before = Position {
            frames: content.try_get_u64_le().ok()?,
            checksum: content.try_get_u32_le().ok()?,
        };
        let has_purged = content.try_get_u8().ok()? == HAS_PURGED;
        let purged = Some(content.try_get_u64_le().ok()?).filter(|_| has_purged);
        let (first, next) = (content.try_get_u64_le().ok()?, content.try_get_u64_le().ok()?);
        let bounds = Bounds { purged, first, next };
        let mut metas = [const { None }; RaftMeta::ALL.len()];
        for meta in &mut metas {
            let len = content.try_get_u32_le().ok()?;
            if len != u32::MAX {
                let len = usize::try_from(len).ok().filter(|len| *len <= META_BYTES_MAX)?;
                *meta = Some(copied(&content.split_to_checked(len)?));
            }
        }
        let summary = Self { position: before, bounds, metas };
        let after = Position { frames: before.frames.checked_add(1)?, ..position };
        (content.is_empty() && bounds.are_valid()).then_some((summary, after))
    }
}

trait SplitChecked: Sized {
    fn split_to_checked(&mut self, len: usize) -> Option<Self>;
}

impl SplitChecked for Bytes {
    fn split_to_checked(&mut self, len: usize) -> Option<Self> {
        (len <= self.len()).then(|| self.split_to(len))
    }
}

/// Returns a copy, which does not keep a whole segment in memory.
fn copied(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn changes() -> Vec<LogChange> {
        let bytes = Bytes::from_static;
        vec![
            LogChange::Append(Record { index: 258, bytes: bytes(b"one") }),
            LogChange::Append(Record { index: 259, bytes: bytes(b"") }),
            LogChange::SetMeta { meta: RaftMeta::Committed, bytes: bytes(b"c") },
            LogChange::Truncate { next: 259 },
            LogChange::Purge { through: 9, meta: bytes(b"p") },
        ]
    }

    fn summary() -> Summary {
        Summary {
            position: Position { frames: 7, checksum: 0x0403_0201 },
            bounds: Bounds { purged: Some(9), first: 10, next: 258 },
            metas: [Some(Bytes::from_static(b"vote")), None, Some(Bytes::new())],
        }
    }

    /// Returns a segment with a summary and changes, and the position after each frame.
    fn segment(changes: &[LogChange]) -> (Vec<u8>, Vec<Position>) {
        let (mut bytes, mut position) = summary().new_segment();
        let mut positions = vec![position];
        for change in changes {
            position = change.encode(position, &mut bytes);
            positions.push(position);
        }
        (bytes, positions)
    }

    fn read(bytes: &[u8]) -> Option<(Summary, Vec<LogChange>, Position)> {
        let mut rest = Bytes::copy_from_slice(bytes);
        let (summary, mut position) = Summary::read(&mut rest)?;
        let contents = std::iter::from_fn(|| position.read(&mut rest));
        let changes = contents.map(|content| LogChange::decode(content).unwrap()).collect();
        Some((summary, changes, position))
    }

    #[test]
    fn a_segment_decodes_with_and_without_trailing_zeros() {
        let (mut bytes, positions) = segment(&changes());
        assert_eq!(positions[5].frames, 13);
        let expected = Some((summary(), changes(), positions[5]));
        assert_eq!(read(&bytes), expected);
        bytes.extend([0; 5000]);
        assert_eq!(read(&bytes), expected);
        let (empty, position) = Summary::default().new_segment();
        assert_eq!(read(&empty), Some((Summary::default(), Vec::new(), position)));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_ends_the_valid_frames() {
        let (bytes, _) = segment(&changes());
        let prefixes: Vec<_> = (0..=5).map(|count| segment(&changes()[..count]).0.len()).collect();
        let whole = |end: usize| prefixes.iter().filter(|len| **len <= end).count();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << bit;
                let found = read(&bad).map_or(0, |(_, changes, _)| changes.len() + 1);
                assert_eq!(found, whole(at), "bit {bit} of byte {at}");
            }
            let found = read(&bytes[..at]).map_or(0, |(_, changes, _)| changes.len() + 1);
            assert_eq!(found, whole(at), "cut at {at}");
        }
    }

    #[test]
    fn a_frame_of_another_position_is_not_valid() {
        let (bytes, positions) = segment(&changes());
        let mut swapped = bytes.clone();
        let lens: Vec<_> = (0..=5).map(|count| segment(&changes()[..count]).0.len()).collect();
        let second = swapped.drain(lens[1]..lens[2]).collect::<Vec<_>>();
        assert_eq!(read(&swapped).unwrap().1.len(), 1, "lost");
        swapped.splice(lens[2]..lens[2], second);
        assert_eq!(read(&swapped).unwrap().1.len(), 1, "moved");
        let mut other = bytes[..lens[4]].to_vec();
        changes()[4].encode(positions[3], &mut other);
        assert_eq!(read(&other).unwrap().1.len(), 4, "written after another frame");
    }

    #[test]
    fn the_bytes_of_format_version_1_are_stable() {
        let digits: String = GOLDEN.split_whitespace().collect();
        let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap();
        let golden: Vec<u8> = (0..digits.len() / 2).map(byte).collect();
        assert_eq!(segment(&changes()).0, golden);
    }

    const GOLDEN: &str = "
48464c4f47010000
3600000068149da4000700000000000000010203040109000000000000000a00000000000000020100000000000004000000
766f7465ffffffff00000000
0c0000005d58542b0102010000000000006f6e65
09000000fbf9a7bc010301000000000000
030000001ca4a811020163
09000000ad52456e030301000000000000
0a00000080f0ba1804090000000000000070";

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_bytes_make_the_decoder_panic(kind in 0..6_u8, body in prop::collection::vec(any::<u8>(), 0..60)) {
            let content = [vec![kind], body].concat();
            let _any = LogChange::decode(Bytes::from(content.clone()));
            let mut bytes = START.to_vec();
            Position::default().write(&mut bytes, |out| out.put_slice(&content));
            prop_assert!(Summary::read(&mut Bytes::from(bytes)).is_none());
            prop_assert!(Summary::read(&mut Bytes::from(content)).is_none());
        }
    }
}
