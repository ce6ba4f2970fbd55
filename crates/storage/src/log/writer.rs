//! The log's thread, which is the only writer of the engine.
//!
//! It takes all queued requests and writes them in atomic batches of about [`BATCH_BYTES`], each with a new head. Then it
//! syncs once if a request needs it, raises the watermark, and completes the requests in order. It also syncs after
//! [`SYNC_BYTES`] without such a request. After an error every request fails with that error.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;

use super::queue::Request;
use super::{Bounds, Done, META_BYTES_MAX, RECORD_BYTES_MAX, Record, Shared, read, sweep};
use crate::chunk;
use crate::engine::{Engine, WriteBatch};
use crate::error::StoreError;
use crate::head::{Head, Span};
use crate::keys::{self, RaftMeta};
use crate::watermark::Watermark;

/// The size of records at which a batch is written.
const BATCH_BYTES: usize = 1 << 20;
/// The most bytes written without a sync, apart from one batch.
const SYNC_BYTES: usize = 2 << 20;

pub(super) struct Writer {
    shared: Arc<Shared>,
    head: Head,
    watermark: Option<Watermark>,
    staged: Staged,
    /// Bytes written since the last sync.
    unsynced_bytes: usize,
    /// Chunks below this index are swept; `None` when there is nothing to sweep.
    sweep_from: Option<u64>,
}

/// The content of the next batch. Invariant: the records are contiguous and follow the head's last.
#[derive(Default)]
struct Staged {
    records: Vec<Record>,
    bytes: usize,
    metas: [Option<Bytes>; RaftMeta::ALL.len()],
}

impl Staged {
    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.metas.iter().all(Option::is_none)
    }

    fn set_meta(&mut self, meta: RaftMeta, bytes: Bytes) {
        self.metas[usize::from(meta.number())] = Some(bytes);
    }
}

/// Whether a request waits for a sync.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    Barrier,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, head: Head, watermark: Option<Watermark>) -> Self {
        Self {
            shared,
            head,
            watermark,
            staged: Staged::default(),
            unsynced_bytes: 0,
            sweep_from: Some(0),
        }
    }

    /// The thread. A panic closes the log like any other failure.
    pub(super) fn run(mut self) {
        while let Some(requests) = self.shared.queue.take(self.sweep_from.is_none()) {
            self.drain(requests);
            self.sweep_step();
        }
        self.attempt(Self::barrier);
        let engine = self.shared.engine.write().take();
        drop(engine);
    }

    fn drain(&mut self, requests: VecDeque<Request>) {
        let mut answers = Vec::with_capacity(requests.len());
        let mut needs = Needs::Nothing;
        for request in requests {
            let (done, result) = self.perform(request);
            if result == Ok(Needs::Barrier) {
                needs = Needs::Barrier;
            }
            answers.push((done, result.map(drop)));
        }
        self.attempt(|writer| {
            writer.write_staged()?;
            if needs == Needs::Barrier { writer.barrier() } else { Ok(()) }
        });
        let failed = self.shared.failed.lock().clone();
        for (done, result) in answers {
            answer(done, failed.clone().map_or(result, Err));
        }
    }

    /// Runs a step unless the log has failed; its final error, or its panic, fails the log.
    fn attempt<T>(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Option<Result<T, StoreError>> {
        if self.shared.failed.lock().is_some() {
            return None;
        }
        let result = catch_unwind(AssertUnwindSafe(|| step(self))).unwrap_or_else(|_| {
            Err(StoreError::corrupt("the log's thread met a state it does not know, and stopped"))
        });
        if let Err(error) = &result {
            self.shared.fail(error);
        }
        Some(result)
    }

    fn perform(&mut self, request: Request) -> (Done, Result<Needs, StoreError>) {
        let (done, result) = match request {
            Request::Append { records, done } => {
                (done, self.attempt(|writer| writer.append(records)))
            }
            Request::SetMeta { meta, bytes, durable, done, .. } => {
                (done, self.attempt(|writer| writer.set_meta(meta, bytes, durable)))
            }
            Request::Truncate { last_kept, done } => {
                (done, self.attempt(|writer| writer.truncate(last_kept)))
            }
            Request::Purge { through, meta, done } => {
                (done, self.attempt(|writer| writer.purge(through, meta)))
            }
        };
        // A failed log completes the request with its error instead.
        (done, result.unwrap_or(Ok(Needs::Nothing)))
    }

    fn append(&mut self, records: Vec<Record>) -> Result<Needs, StoreError> {
        self.check_append(&records)?;
        for record in records {
            self.staged.bytes += record.bytes.len();
            self.staged.records.push(record);
            if self.staged.bytes >= BATCH_BYTES {
                self.write_staged()?;
            }
        }
        Ok(Needs::Barrier)
    }

    fn check_append(&self, records: &[Record]) -> Result<(), StoreError> {
        let last = self.staged.records.last().map(|record| record.index.saturating_add(1));
        let mut next = last.or_else(|| self.head.next_index());
        for record in records {
            let expected = next.unwrap_or(record.index);
            if record.index != expected || record.index == u64::MAX {
                let index = record.index;
                return Err(StoreError::misuse(format!(
                    "record {index} appended where {expected} is due"
                )));
            }
            check_len("a record", &record.bytes, RECORD_BYTES_MAX)?;
            next = Some(expected + 1);
        }
        Ok(())
    }

    fn set_meta(
        &mut self,
        meta: RaftMeta,
        bytes: Bytes,
        durable: bool,
    ) -> Result<Needs, StoreError> {
        if meta == RaftMeta::Purged {
            return Err(StoreError::misuse("only a purge sets the Raft metadata Purged"));
        }
        check_len("Raft metadata", &bytes, META_BYTES_MAX)?;
        self.staged.set_meta(meta, bytes);
        Ok(if durable { Needs::Barrier } else { Needs::Nothing })
    }

    fn truncate(&mut self, last_kept: Option<u64>) -> Result<Needs, StoreError> {
        if let (Some(kept), Some(purged)) = (last_kept, self.head.purged)
            && kept < purged
        {
            return Err(StoreError::misuse(format!(
                "cut after {kept}, which was purged through {purged}"
            )));
        }
        self.write_staged()?;
        while let Some(span) =
            self.head.span.filter(|span| last_kept.is_none_or(|kept| kept < span.last))
        {
            self.truncate_step(span, last_kept)?;
        }
        Ok(Needs::Nothing)
    }

    /// Removes a bounded number of chunks from the end, or cuts the last one short.
    fn truncate_step(&mut self, span: Span, last_kept: Option<u64>) -> Result<(), StoreError> {
        let tail = self.on_engine(|engine| sweep::tail(engine, span.last, last_kept))?;
        let mut batch = WriteBatch::default();
        tail.keys.iter().for_each(|key| batch.delete(key));
        let head = match tail.cut {
            Some((index, chain)) => self.head.ending_before(index, chain),
            None => self.shorten_chunk(span, last_kept.unwrap_or(0), &mut batch)?,
        };
        self.write(batch, head, Readers::Wait)
    }

    /// Writes the chunk that holds `last_kept` once more, without what follows.
    fn shorten_chunk(
        &self,
        span: Span,
        last_kept: u64,
        batch: &mut WriteBatch,
    ) -> Result<Head, StoreError> {
        let mut kept = Vec::new();
        self.on_engine(|engine| {
            read::walk(engine, last_kept, |found| {
                kept.push(found);
                Ok(kept.last().is_some_and(|found| found.record.index < span.last))
            })
        })?;
        kept.retain(|found| found.record.index <= last_kept);
        let (Some(first), Some(last)) = (kept.first(), kept.last()) else {
            return Err(StoreError::corrupt(format!("record {last_kept} of the log is not there")));
        };
        let (before, after) = (first.chain_before, last.chain_after);
        let records: Vec<Record> = kept.into_iter().map(|found| found.record).collect();
        chunk::encode(&records, before, |key, value| batch.put(key, value));
        Ok(self.head.ending_before(last_kept + 1, after))
    }

    fn purge(&mut self, through: u64, meta: Bytes) -> Result<Needs, StoreError> {
        check_len("Raft metadata", &meta, META_BYTES_MAX)?;
        if through == u64::MAX {
            return Err(StoreError::misuse(
                "purge through the largest index leaves none for the next record",
            ));
        }
        self.write_staged()?;
        if self.head.purged.is_some_and(|purged| through < purged) {
            return Ok(Needs::Nothing);
        }
        let head = self.head_after_purge(through)?;
        self.staged.set_meta(RaftMeta::Purged, meta);
        let (batch, head) = self.take_staged(head);
        self.write(batch, head, Readers::Wait)?;
        self.sweep_from.get_or_insert(0);
        Ok(Needs::Nothing)
    }

    fn head_after_purge(&self, through: u64) -> Result<Head, StoreError> {
        let purged = Some(through);
        let span = self.head.span.filter(|span| through < span.last);
        let Some(span) = span else {
            return Ok(Head { purged, span: None, chain_base: 0, chain: 0, ..self.head });
        };
        if through < span.first {
            return Ok(Head { purged, ..self.head });
        }
        let mut chain_base = None;
        self.on_engine(|engine| {
            read::walk(engine, through, |found| {
                if found.record.index == through {
                    chain_base = Some(found.chain_after);
                }
                Ok(chain_base.is_none())
            })
        })?;
        let chain_base = chain_base.ok_or_else(|| {
            StoreError::corrupt(format!("record {through} of the log is not there"))
        })?;
        let span = Some(Span { first: through + 1, ..span });
        Ok(Head { purged, span, chain_base, ..self.head })
    }

    fn write_staged(&mut self) -> Result<(), StoreError> {
        if self.staged.is_empty() {
            return Ok(());
        }
        let (batch, head) = self.take_staged(self.head);
        self.write(batch, head, Readers::GoOn)
    }

    /// Turns the staged content into a batch, and `head` into the head after it.
    fn take_staged(&mut self, mut head: Head) -> (WriteBatch, Head) {
        let Staged { records, metas, .. } = std::mem::take(&mut self.staged);
        let mut batch = WriteBatch::default();
        if let (Some(first), Some(last)) = (records.first(), records.last()) {
            let first = head.span.map_or(first.index, |span| span.first);
            head.span = Some(Span { first, last: last.index });
            head.chain = chunk::encode(&records, head.chain, |key, value| batch.put(key, value));
        }
        for (meta, bytes) in RaftMeta::ALL.into_iter().zip(metas) {
            if let Some(bytes) = bytes {
                let (value, sum) = read::encode_meta(meta, &bytes);
                batch.put(&keys::meta(meta), value);
                head.metas[usize::from(meta.number())] = Some(sum);
            }
        }
        (batch, head)
    }

    /// Writes a batch with its head; what it says is true for readers from then on.
    fn write(
        &mut self,
        mut batch: WriteBatch,
        head: Head,
        readers: Readers,
    ) -> Result<(), StoreError> {
        let head = Head { seq: self.head.seq + 1, ..head };
        head.check_invariants().map_err(StoreError::corrupt)?;
        batch.put(&keys::HEAD, head.encode());
        self.write_and_publish(&batch, &head, readers)
            .inspect_err(|error| self.shared.close(error))?;
        self.head = head;
        self.unsynced_bytes += batch.bytes();
        if self.unsynced_bytes > SYNC_BYTES { self.barrier() } else { Ok(()) }
    }

    fn write_and_publish(
        &self,
        batch: &WriteBatch,
        head: &Head,
        readers: Readers,
    ) -> Result<(), StoreError> {
        let exclusive = match readers {
            Readers::GoOn => None,
            Readers::Wait => Some(self.shared.engine.write()),
        };
        match &exclusive {
            None => self.on_engine(|engine| engine.write(batch))?,
            Some(engine) => engine.as_deref().ok_or(StoreError::Closed)?.write(batch)?,
        }
        *self.shared.bounds.lock() = Bounds::of(head);
        Ok(())
    }

    /// After this, everything written so far survives a power cut.
    fn barrier(&mut self) -> Result<(), StoreError> {
        if self.unsynced_bytes == 0 {
            return Ok(());
        }
        self.sync_and_note().inspect_err(|error| self.shared.close(error))?;
        self.unsynced_bytes = 0;
        Ok(())
    }

    fn sync_and_note(&mut self) -> Result<(), StoreError> {
        self.on_engine(Engine::sync)?;
        match &mut self.watermark {
            Some(watermark) => watermark.raise(self.head.seq),
            None => Ok(()),
        }
    }

    fn sweep_step(&mut self) {
        let Some(from) = self.sweep_from else { return };
        let swept = self.attempt(|writer| {
            let litter = writer.on_engine(|engine| sweep::litter(engine, &writer.head, from))?;
            let last = litter.keys.last().and_then(|key| keys::parse_chunk(key));
            let mut batch = WriteBatch::default();
            litter.keys.iter().for_each(|key| batch.delete(key));
            if !batch.is_empty() {
                // Readers begin at the log's first record, so none can be looking at these.
                writer.write(batch, writer.head, Readers::GoOn)?;
            }
            Ok(last.filter(|_| litter.more).map(|(index, _)| index))
        });
        self.sweep_from = swept.and_then(Result::ok).flatten();
    }

    fn on_engine<T>(
        &self,
        call: impl FnOnce(&dyn Engine) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let engine = self.shared.engine.read();
        call(engine.as_deref().ok_or(StoreError::Closed)?)
    }
}

/// Whether a batch takes away records that a reader may be looking at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readers {
    GoOn,
    Wait,
}

impl Head {
    /// The head of the log that ends before `index`, with this chain there.
    fn ending_before(&self, index: u64, chain: u32) -> Self {
        match self.span {
            Some(span) if span.first < index => {
                Self { span: Some(Span { last: index - 1, ..span }), chain, ..*self }
            }
            _ => Self { span: None, chain_base: 0, chain: 0, ..*self },
        }
    }
}

/// Completes a request. A panic of its callback must not end the log's thread.
fn answer(done: Done, result: Result<(), StoreError>) {
    if catch_unwind(AssertUnwindSafe(|| done(result))).is_err() {
        tracing::error!("a callback of the log panicked");
    }
}

fn check_len(what: &'static str, bytes: &Bytes, bytes_max: usize) -> Result<(), StoreError> {
    if bytes.len() <= bytes_max {
        return Ok(());
    }
    Err(StoreError::TooLarge { what, bytes: bytes.len() as u64, bytes_max: bytes_max as u64 })
}
