//! Encodes records as chunks: a pack of several small records in one value, or one large record in several pieces.
//!
//! An insert into the tree costs far more than its bytes, so the records of one batch share values of about
//! [`PACK_BYTES`]. The engine limits the size of a value, so a record longer than [`PIECE_BYTES`] is split into pieces.
//! Every record has a checksum of its index and bytes. The checksums form a chain, so that a swapped, missing or outdated
//! record is detected.
//!
//! ```text
//! pack:  1(1) count(2) chain-before(4) then for each record: length(4) checksum(4) bytes
//! piece: 2(1) pieces(2) chain-before(4) total-length(4) checksum(4) bytes
//! ```

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::error::StoreError;
use crate::keys;
use crate::log::{RECORD_BYTES_MAX, Record};

/// A pack is closed when the next record would make it longer than this.
pub(crate) const PACK_BYTES: usize = 16 << 10;
/// The bytes of one record in one piece.
pub(crate) const PIECE_BYTES: usize = 60 << 10;

const PACK: u8 = 1;
const PIECE: u8 = 2;
const PACK_HEADER_LEN: usize = 7;
const PIECE_HEADER_LEN: usize = 15;
const RECORD_HEADER_LEN: usize = 8;

/// A record's own checksum.
fn checksum(index: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&index.to_le_bytes()), bytes)
}

/// The chain after a record, from the chain before it.
fn link(chain: u32, checksum: u32) -> u32 {
    crc32c::crc32c_append(chain, &checksum.to_le_bytes())
}

/// Encodes contiguous records, calling `put` with each key and value; answers the chain after the last of them.
pub(crate) fn encode(records: &[Record], chain: u32, mut put: impl FnMut(&[u8], Bytes)) -> u32 {
    let mut chain = chain;
    let mut pack = Pack::default();
    for record in records {
        let sum = checksum(record.index, &record.bytes);
        if record.bytes.len() > PIECE_BYTES {
            pack.close(&mut put);
            put_pieces(record, sum, chain, &mut put);
        } else {
            if !pack.takes(record) {
                pack.close(&mut put);
            }
            pack.push(record, sum, chain);
        }
        chain = link(chain, sum);
    }
    pack.close(&mut put);
    chain
}

#[derive(Default)]
struct Pack {
    first: u64,
    count: u16,
    bytes: BytesMut,
}

impl Pack {
    fn takes(&self, record: &Record) -> bool {
        let len = self.bytes.len() + RECORD_HEADER_LEN + record.bytes.len();
        self.count == 0 || (len <= PACK_BYTES && self.count < u16::MAX)
    }

    fn push(&mut self, record: &Record, sum: u32, chain: u32) {
        if self.count == 0 {
            self.first = record.index;
            self.bytes.put_u8(PACK);
            self.bytes.put_u16_le(0);
            self.bytes.put_u32_le(chain);
        }
        self.count += 1;
        self.bytes.put_u32_le(u32::try_from(record.bytes.len()).unwrap_or(u32::MAX));
        self.bytes.put_u32_le(sum);
        self.bytes.put_slice(&record.bytes);
    }

    fn close(&mut self, put: &mut impl FnMut(&[u8], Bytes)) {
        if self.count > 0 {
            self.bytes[1..3].copy_from_slice(&self.count.to_le_bytes());
            put(&keys::chunk(self.first, 0), self.bytes.split().freeze());
            self.count = 0;
        }
    }
}

fn put_pieces(record: &Record, sum: u32, chain: u32, put: &mut impl FnMut(&[u8], Bytes)) {
    let pieces = record.bytes.len().div_ceil(PIECE_BYTES);
    let total = u32::try_from(record.bytes.len()).unwrap_or(u32::MAX);
    for (number, bytes) in (0_u16..).zip(record.bytes.chunks(PIECE_BYTES)) {
        let mut value = BytesMut::with_capacity(PIECE_HEADER_LEN + bytes.len());
        value.put_u8(PIECE);
        value.put_u16_le(u16::try_from(pieces).unwrap_or(u16::MAX));
        value.put_u32_le(chain);
        value.put_u32_le(total);
        value.put_u32_le(sum);
        value.put_slice(bytes);
        put(&keys::chunk(record.index, number), value.freeze());
    }
}

/// The chain before the first record of a chunk; enough to cut a log there without reading the records.
pub(crate) fn chain_before(value: &[u8]) -> Option<u32> {
    value.get(3..7)?.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes))
}

/// A record as it was found, with the chain on both sides of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) record: Record,
    pub(crate) chain_before: u32,
    pub(crate) chain_after: u32,
}

/// Takes chunks in the order of their keys and gives records, checking that they follow each other.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// Index and chain that the next chunk must continue; anything goes before the first.
    next: Option<(u64, u32)>,
    partial: Option<Partial>,
}

#[derive(Debug)]
struct Partial {
    index: u64,
    /// Pieces taken, of how many.
    taken: u16,
    pieces: u16,
    /// The header all pieces share.
    header: [u8; PIECE_HEADER_LEN],
    bytes: BytesMut,
}

impl Decoder {
    /// Whether a record has begun and not ended.
    pub(crate) fn is_partial(&self) -> bool {
        self.partial.is_some()
    }

    /// Decodes one chunk into `found`.
    pub(crate) fn take(
        &mut self,
        key: &[u8],
        value: &Bytes,
        found: &mut Vec<Found>,
    ) -> Result<(), StoreError> {
        let (index, piece) = keys::parse_chunk(key).ok_or_else(|| strange_key(key))?;
        match value.first() {
            Some(&PACK) if piece == 0 && self.partial.is_none() => {
                self.take_pack(index, value, found)
            }
            Some(&PIECE) => self.take_piece(index, piece, value, found),
            _ => Err(damaged(index)),
        }
    }

    fn take_pack(
        &mut self,
        first: u64,
        value: &Bytes,
        found: &mut Vec<Found>,
    ) -> Result<(), StoreError> {
        let header = value.first_chunk::<PACK_HEADER_LEN>().ok_or_else(|| damaged(first))?;
        let count = u16::from_le_bytes([header[1], header[2]]);
        let mut chain = u32::from_le_bytes([header[3], header[4], header[5], header[6]]);
        self.expect(first, chain)?;
        let end = first.checked_add(u64::from(count)).ok_or_else(|| damaged(first))?;
        let mut at = PACK_HEADER_LEN;
        for index in first..end {
            let record = parse_record(value, &mut at, index).ok_or_else(|| damaged(index))?;
            chain = push(found, record, chain);
        }
        if count == 0 || at != value.len() {
            return Err(damaged(first));
        }
        self.next = Some((end, chain));
        Ok(())
    }

    fn take_piece(
        &mut self,
        index: u64,
        piece: u16,
        value: &Bytes,
        found: &mut Vec<Found>,
    ) -> Result<(), StoreError> {
        let header = value.first_chunk::<PIECE_HEADER_LEN>().ok_or_else(|| damaged(index))?;
        let mut partial = match self.partial.take() {
            None if piece == 0 => self.begin(index, header)?,
            Some(partial) if partial.continues_with(index, piece, header) => partial,
            _ => return Err(damaged(index)),
        };
        partial.bytes.put_slice(&value[PIECE_HEADER_LEN..]);
        partial.taken += 1;
        if partial.taken < partial.pieces {
            self.partial = Some(partial);
            return Ok(());
        }
        let chain = u32::from_le_bytes([header[3], header[4], header[5], header[6]]);
        let record = partial.finish().ok_or_else(|| damaged(index))?;
        let chain = push(found, record, chain);
        self.next = index.checked_add(1).map(|next| (next, chain));
        Ok(())
    }

    fn begin(
        &mut self,
        index: u64,
        header: &[u8; PIECE_HEADER_LEN],
    ) -> Result<Partial, StoreError> {
        self.expect(index, u32::from_le_bytes([header[3], header[4], header[5], header[6]]))?;
        let pieces = u16::from_le_bytes([header[1], header[2]]);
        if usize::from(pieces) > RECORD_BYTES_MAX.div_ceil(PIECE_BYTES) {
            return Err(damaged(index));
        }
        Ok(Partial { index, taken: 0, pieces, header: *header, bytes: BytesMut::new() })
    }

    fn expect(&self, index: u64, chain: u32) -> Result<(), StoreError> {
        match self.next {
            Some((next, _)) if next != index => {
                Err(StoreError::corrupt(format!("the log goes on at {index} where {next} was due")))
            }
            Some((_, after)) if after != chain => Err(StoreError::corrupt(format!(
                "record {index} does not follow the one before it: its checksum chain is another"
            ))),
            _ => Ok(()),
        }
    }
}

impl Partial {
    fn continues_with(&self, index: u64, piece: u16, header: &[u8; PIECE_HEADER_LEN]) -> bool {
        self.index == index && self.taken == piece && self.header == *header
    }

    fn finish(self) -> Option<(Record, u32)> {
        let total = u32::from_le_bytes(*self.header[7..11].first_chunk()?);
        let sum = u32::from_le_bytes(*self.header[11..15].first_chunk()?);
        let bytes = self.bytes.freeze();
        let whole = bytes.len() == total as usize && checksum(self.index, &bytes) == sum;
        whole.then_some((Record { index: self.index, bytes }, sum))
    }
}

fn parse_record(value: &Bytes, at: &mut usize, index: u64) -> Option<(Record, u32)> {
    let header = value.get(*at..)?.first_chunk::<RECORD_HEADER_LEN>()?;
    let len = u32::from_le_bytes(*header.first_chunk()?) as usize;
    let sum = u32::from_le_bytes(*header.last_chunk()?);
    let start = *at + RECORD_HEADER_LEN;
    let end = start.checked_add(len)?;
    if end > value.len() || checksum(index, &value[start..end]) != sum {
        return None;
    }
    *at = end;
    Some((Record { index, bytes: value.slice(start..end) }, sum))
}

fn push(found: &mut Vec<Found>, (record, sum): (Record, u32), chain_before: u32) -> u32 {
    let chain_after = link(chain_before, sum);
    found.push(Found { record, chain_before, chain_after });
    chain_after
}

fn damaged(index: u64) -> StoreError {
    StoreError::corrupt(format!("record {index} of the log fails its checksum"))
}

fn strange_key(key: &[u8]) -> StoreError {
    StoreError::corrupt(format!("the log database holds a key that is not ours: {key:02x?}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Chunks = Vec<(Vec<u8>, Bytes)>;

    fn records(first: u64, contents: &[Vec<u8>]) -> Vec<Record> {
        let record =
            |(index, bytes): (u64, &Vec<u8>)| Record { index, bytes: bytes.clone().into() };
        (first..).zip(contents).map(record).collect()
    }

    fn encoded(records: &[Record], chain: u32) -> (Chunks, u32) {
        let mut chunks = Vec::new();
        let chain = encode(records, chain, |key, value| chunks.push((key.to_vec(), value)));
        (chunks, chain)
    }

    fn decoded(chunks: &Chunks) -> Result<Vec<Found>, StoreError> {
        let (mut decoder, mut found) = (Decoder::default(), Vec::new());
        for (key, value) in chunks {
            decoder.take(key, value, &mut found)?;
        }
        if decoder.is_partial() { Err(StoreError::corrupt("cut off")) } else { Ok(found) }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn records_survive_their_chunks(
            first in 0..u64::MAX / 2,
            chain: u32,
            lengths in prop::collection::vec(prop_oneof![0..200_usize, 0..20_000_usize, 50_000..200_000_usize], 1..30),
        ) {
            let contents: Vec<Vec<u8>> =
                lengths.iter().map(|length| vec![length.to_le_bytes()[0]; *length]).collect();
            let all = records(first, &contents);
            let (chunks, after) = encoded(&all, chain);
            prop_assert!(chunks.iter().all(|(_, value)| value.len() <= 64 << 10));
            prop_assert!(chunks.is_sorted_by_key(|(key, _)| key.clone()));
            let found = decoded(&chunks).unwrap();
            prop_assert_eq!(found[0].chain_before, chain);
            prop_assert_eq!(found[found.len() - 1].chain_after, after);
            prop_assert!(found.windows(2).all(|pair| pair[0].chain_after == pair[1].chain_before));
            let back: Vec<Record> = found.into_iter().map(|found| found.record).collect();
            prop_assert_eq!(back, all);
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(
            index: u64,
            piece in 0..3_u16,
            bytes in prop::collection::vec(any::<u8>(), 0..60),
            kind in 0..4_u8,
        ) {
            let value = [vec![kind], bytes].concat();
            let chunks = vec![(keys::chunk(index, piece).to_vec(), Bytes::from(value))];
            prop_assert!(decoded(&chunks).is_err());
        }
    }

    #[test]
    fn small_records_share_a_chunk_and_large_ones_are_cut() {
        let contents = [vec![vec![1; 100]; 300], vec![vec![2; PIECE_BYTES + 1]]].concat();
        let (chunks, _) = encoded(&records(1, &contents), 0);
        assert_eq!(chunks.len(), 4, "30 KB in two packs, and two pieces");
    }

    #[test]
    fn chunks_out_of_order_lost_or_foreign_are_refused() {
        let contents: Vec<Vec<u8>> = (0..12).map(|number| vec![number; 9_000]).collect();
        let (chunks, _) = encoded(&records(5, &contents), 9);
        let large = encoded(&records(5, &[vec![7; 150_000], vec![8; 10]]), 9).0;
        for good in [&chunks, &large] {
            assert!(decoded(good).is_ok());
            for at in 0..good.len() - 1 {
                let mut swapped = good.clone();
                swapped.swap(at, at + 1);
                assert!(decoded(&swapped).is_err(), "swapped at {at}");
                let mut lost = good.clone();
                lost.remove(at);
                // Without its first chunk it is another log, whose head will not fit.
                assert!(at == 0 && good[0].1[0] == PACK || decoded(&lost).is_err(), "lost {at}");
            }
        }
        let (other, _) = encoded(&records(5, &contents), 10);
        let mixed = vec![chunks[0].clone(), other[1].clone()];
        assert!(decoded(&mixed).is_err(), "the same records on another chain");
    }

    #[test]
    fn the_bytes_of_version_1_stay_as_they_are() {
        let (chunks, chain) = encoded(&records(258, &[b"one".to_vec(), vec![]]), 0x0403_0201);
        let golden =
            b"\x01\x02\x00\x01\x02\x03\x04\x03\x00\x00\x00\xbdEx\x00one\x00\x00\x00\x00+\x19o?";
        assert_eq!(chunks[0].0, b"\x01\0\0\0\0\0\0\x01\x02\0\0");
        assert_eq!(chunks[0].1.escape_ascii().to_string(), golden.escape_ascii().to_string());
        assert_eq!(chain, 0x6DCC_1CA1);
        let (pieces, chain) = encoded(&records(1, &[vec![0; PIECE_BYTES + 1]]), 0);
        assert_eq!(pieces[1].0, b"\x01\0\0\0\0\0\0\0\x01\0\x01");
        let golden = b"\x02\x02\x00\x00\x00\x00\x00\x01\xf0\x00\x00\x9aW\xd0\xd0\x00";
        assert_eq!(pieces[1].1.escape_ascii().to_string(), golden.escape_ascii().to_string());
        assert_eq!(chain, 0x9175_C64F);
    }
}
