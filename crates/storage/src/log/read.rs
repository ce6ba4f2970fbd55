//! Reads records and Raft metadata from an engine, and verifies every checksum.
//!
//! The chunk with the greatest key at or below an index holds its record. A missing record inside the log is damage.

use std::ops::RangeInclusive;

use bytes::{BufMut as _, Bytes, BytesMut};

use super::Record;
use crate::chunk::{Decoder, Found};
use crate::engine::{Engine, Order};
use crate::error::StoreError;
use crate::head::Span;
use crate::keys::{self, RaftMeta};

/// One past the largest key of a chunk.
pub(super) const END: [u8; 1] = [2];

/// The records of `range` within `span`, up to about `bytes_max` bytes, at least one if there is any.
pub(super) fn records(
    engine: &dyn Engine,
    span: Span,
    range: RangeInclusive<u64>,
    bytes_max: usize,
) -> Result<Vec<Record>, StoreError> {
    let (first, last) = (span.first.max(*range.start()), span.last.min(*range.end()));
    if first > last {
        return Ok(Vec::new());
    }
    let mut records = Vec::new();
    let mut bytes = 0;
    walk(engine, first, |found| {
        let record = found.record;
        if record.index >= first
            && record.index <= last
            && (records.is_empty() || bytes < bytes_max)
        {
            bytes += record.bytes.len();
            records.push(record);
        }
        Ok(bytes < bytes_max && records.last().is_none_or(|record: &Record| record.index < last))
    })?;
    match records.first() {
        Some(record)
            if record.index == first && (bytes >= bytes_max || ends_at(&records, last)) =>
        {
            Ok(records)
        }
        _ => Err(StoreError::corrupt(format!(
            "records {first} to {last} of the log are not all there"
        ))),
    }
}

fn ends_at(records: &[Record], last: u64) -> bool {
    records.last().is_some_and(|record| record.index == last)
}

/// Calls `each` with the records from the chunk that holds `index` on, in order, until it returns `false` or the chunks
/// end. It passes all records of a chunk.
pub(super) fn walk(
    engine: &dyn Engine,
    index: u64,
    mut each: impl FnMut(Found) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let Some(start) = chunk_of(engine, index)? else { return Ok(()) };
    let mut decoder = Decoder::default();
    let mut found = Vec::new();
    engine.scan(&keys::chunk(start, 0), &END, Order::Ascending, &mut |key, value| {
        decoder.take(key, &value, &mut found)?;
        let mut more = true;
        for found in found.drain(..) {
            more = each(found)?;
        }
        Ok(more)
    })?;
    if decoder.is_partial() {
        return Err(StoreError::corrupt("the last record of the log is cut off"));
    }
    Ok(())
}

/// The first index of the chunk that holds `index`, or of the one that would.
pub(super) fn chunk_of(engine: &dyn Engine, index: u64) -> Result<Option<u64>, StoreError> {
    let mut start = None;
    let end = keys::chunk(index, u16::MAX);
    engine.scan(&keys::chunk(0, 0), &end, Order::Descending, &mut |key, _| {
        start = keys::parse_chunk(key).map(|(index, _)| index);
        Ok(false)
    })?;
    Ok(start)
}

pub(super) fn meta(engine: &dyn Engine, meta: RaftMeta) -> Result<Option<Bytes>, StoreError> {
    let Some(value) = engine.get(&keys::meta(meta))? else { return Ok(None) };
    let damaged = || StoreError::corrupt(format!("the Raft metadata {meta:?} fails its checksum"));
    let (sum, bytes) = value.split_first_chunk::<4>().ok_or_else(damaged)?;
    if meta_checksum(meta, bytes) != u32::from_le_bytes(*sum) {
        return Err(damaged());
    }
    Ok(Some(value.slice(4..)))
}

/// The stored form of a value of Raft metadata, and its checksum, which the head repeats.
pub(super) fn encode_meta(meta: RaftMeta, bytes: &[u8]) -> (Bytes, u32) {
    let sum = meta_checksum(meta, bytes);
    let mut value = BytesMut::with_capacity(4 + bytes.len());
    value.put_u32_le(sum);
    value.put_slice(bytes);
    (value.freeze(), sum)
}

pub(super) fn meta_checksum(meta: RaftMeta, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&[meta.number()]), bytes)
}
