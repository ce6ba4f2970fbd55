//! Finds the chunks of purged records, a bounded number at a time.
//!
//! A purge only moves the start of the log. Chunks below it are invisible, so they can be removed later, between other
//! requests, and again after a crash.

use crate::chunk::chain_before;
use crate::engine::{Engine, Order};
use crate::error::StoreError;
use crate::head::Head;
use crate::keys;
use crate::log::read;

/// The most chunks removed by one batch.
const CHUNKS_MAX: usize = 512;

/// Keys of chunks below the log, the lowest first, and whether there may be more.
pub(super) struct Litter {
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) more: bool,
}

/// Finds chunks that hold no record of the log, from the chunk at index `from` on.
pub(super) fn litter(engine: &dyn Engine, head: &Head, from: u64) -> Result<Litter, StoreError> {
    let end = match (head.span, head.purged) {
        (Some(span), _) => read::chunk_of(engine, span.first)?.map(|start| keys::chunk(start, 0)),
        (None, Some(purged)) => Some(keys::chunk(purged, u16::MAX)),
        (None, None) => None,
    };
    let mut found = Litter { keys: Vec::new(), more: false };
    let Some(end) = end else { return Ok(found) };
    engine.scan(&keys::chunk(from, 0), &end, Order::Ascending, &mut |key, _| {
        found.more = found.keys.len() == CHUNKS_MAX;
        if !found.more {
            found.keys.push(key.to_vec());
        }
        Ok(!found.more)
    })?;
    Ok(found)
}

/// The chunks at the log's end that begin after `last_kept`, the last one first: a bounded number of whole records.
pub(super) struct Tail {
    pub(super) keys: Vec<Vec<u8>>,
    /// First index of the lowest of them, and the chain before it: where the log ends without them.
    pub(super) cut: Option<(u64, u32)>,
}

pub(super) fn tail(
    engine: &dyn Engine,
    last: u64,
    last_kept: Option<u64>,
) -> Result<Tail, StoreError> {
    let from = last_kept.map_or(keys::chunk(0, 0), |kept| keys::chunk(kept, u16::MAX));
    let mut tail = Tail { keys: Vec::new(), cut: None };
    let end = keys::chunk(last, u16::MAX);
    engine.scan(&from, &end, Order::Descending, &mut |key, value| {
        let damaged = || StoreError::corrupt("a chunk at the end of the log has no header");
        let (index, piece) = keys::parse_chunk(key).ok_or_else(damaged)?;
        tail.keys.push(key.to_vec());
        tail.cut = Some((index, chain_before(&value).ok_or_else(damaged)?));
        Ok(piece > 0 || tail.keys.len() < CHUNKS_MAX)
    })?;
    Ok(tail)
}
