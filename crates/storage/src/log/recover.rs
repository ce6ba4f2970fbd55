//! Verifies a log before it is used.
//!
//! The head must be valid, the Raft metadata must match the checksums in the head, every record from the first to the last
//! must be present, valid and on the checksum chain, and nothing may follow the last record. Batches are atomic, so a
//! crash leaves no other state: any difference is damage, and the log does not open. Nothing is repaired or truncated.
//! The verification reads the whole log once, chunk by chunk.

use std::fs::File;

use crate::engine::{Engine, Order, WriteBatch};
use crate::error::StoreError;
use crate::head::{Head, Span};
use crate::keys::{self, RaftMeta};
use crate::log::read;
use crate::watermark::Watermark;

/// A verified log, ready for its thread.
pub(super) struct Start {
    pub(super) engine: Box<dyn Engine>,
    pub(super) head: Head,
    /// `None` for an engine without a directory.
    pub(super) watermark: Option<Watermark>,
    /// Held until the engine is closed.
    pub(super) lock: Option<File>,
}

/// Verifies the log on the engine; `None` if the engine is empty.
pub(super) fn recover(engine: &dyn Engine) -> Result<Option<Head>, StoreError> {
    // Bytes that a killed process wrote and did not sync must be durable before they are used.
    engine.sync()?;
    let Some(bytes) = engine.get(&keys::HEAD)? else {
        return if is_empty(engine)? {
            Ok(None)
        } else {
            Err(StoreError::corrupt("the log has content and no head"))
        };
    };
    let head = Head::decode(&bytes)?;
    check_metas(engine, &head)?;
    check_records(engine, &head)?;
    Ok(Some(head))
}

/// Writes the head of an empty log, durably.
pub(super) fn create(engine: &dyn Engine) -> Result<Head, StoreError> {
    let head = Head { seq: 1, ..Head::default() };
    let mut batch = WriteBatch::default();
    batch.put(&keys::HEAD, head.encode());
    engine.write(&batch)?;
    engine.sync()?;
    Ok(head)
}

fn is_empty(engine: &dyn Engine) -> Result<bool, StoreError> {
    let mut empty = true;
    engine.scan(&keys::HEAD, &read::END, Order::Ascending, &mut |_, _| {
        empty = false;
        Ok(false)
    })?;
    Ok(empty)
}

fn check_metas(engine: &dyn Engine, head: &Head) -> Result<(), StoreError> {
    for meta in RaftMeta::ALL {
        let found = read::meta(engine, meta)?.map(|bytes| read::meta_checksum(meta, &bytes));
        if found != head.metas[usize::from(meta.number())] {
            return Err(StoreError::corrupt(format!(
                "the Raft metadata {meta:?} is not the one that was written last"
            )));
        }
    }
    Ok(())
}

fn check_records(engine: &dyn Engine, head: &Head) -> Result<(), StoreError> {
    let Some(span) = head.span else {
        return check_nothing_after(engine, head.purged);
    };
    let mut next = span.first;
    read::walk(engine, span.first, |found| {
        let index = found.record.index;
        if index < span.first {
            return Ok(true);
        }
        let chain_fits = (index != span.first || found.chain_before == head.chain_base)
            && (index != span.last || found.chain_after == head.chain);
        if index != next || !chain_fits {
            return Err(StoreError::corrupt(format!(
                "record {index} of the log is not the one that was written last"
            )));
        }
        next = index + 1;
        Ok(true)
    })?;
    check_end(span, next)
}

fn check_end(span: Span, next: u64) -> Result<(), StoreError> {
    match next.checked_sub(1) {
        Some(last) if last == span.last => Ok(()),
        _ => Err(StoreError::corrupt(format!(
            "the log must hold records {} to {}, found the next one to be {next}",
            span.first, span.last
        ))),
    }
}

/// In an empty log only chunks that a purge has not yet swept may be left.
fn check_nothing_after(engine: &dyn Engine, purged: Option<u64>) -> Result<(), StoreError> {
    let from = purged.map_or(keys::chunk(0, 0), |purged| keys::chunk(purged, u16::MAX));
    engine.scan(&from, &read::END, Order::Ascending, &mut |key, _| {
        Err(StoreError::corrupt(format!("the empty log holds the key {key:02x?}")))
    })
}
