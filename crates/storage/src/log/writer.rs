//! The log thread, the only writer of the disk.
//!
//! The thread takes all queued requests and writes one frame for each change. It syncs once if a request must be
//! durable, raises the watermark, and completes the requests in order. Readers see a change after its write. After an
//! error every request fails with that error, and the thread makes no further call to the disk.
//!
//! The watermark comes before the completion. If a file system shuts down during `fdatasync`, the call can return
//! success although the bytes are not durable (observed with ext4). The write of the watermark then fails.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;

use super::change::{Bounds, LogChange, META_BYTES_MAX, RECORD_BYTES_MAX, RaftMeta, Record};
use super::queue::Request;
use super::recover::{NewestSegment, start_segment};
use super::state::Location;
use super::{CompletionCallback, Shared};
use crate::disk::Disk;
use crate::error::{StoreError, check_len};

/// The maximum number of frame bytes in one write.
const WRITE_BYTES: usize = 1 << 20;
/// A segment grows by zeros to a multiple of this size, so most syncs change no file system metadata.
const GROW_BYTES: usize = 2 << 20;

pub(super) struct Writer {
    shared: Arc<Shared>,
    disk: Box<dyn Disk>,
    segment_bytes: usize,
    tail: NewestSegment,
    /// The length of the newest segment file, including the zeros after the frames.
    file_len: usize,
    /// The bounds after the last change in `changes`.
    bounds: Bounds,
    /// The unwritten frames, and their changes.
    frames: Vec<u8>,
    changes: Vec<(LogChange, Location)>,
    is_synced: bool,
}

/// The durability that a request needs before its completion.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequiredDurability {
    Nothing,
    Sync,
}

impl Writer {
    pub(super) fn new(
        shared: Arc<Shared>,
        disk: Box<dyn Disk>,
        tail: NewestSegment,
        segment_bytes: usize,
    ) -> Self {
        let (bounds, file_len) = (shared.state.read().bounds, tail.end);
        shared.newest_bytes.store(file_len as u64, Ordering::Relaxed);
        let (frames, changes) = (Vec::new(), Vec::new());
        Self {
            shared,
            disk,
            segment_bytes,
            tail,
            file_len,
            bounds,
            frames,
            changes,
            is_synced: true,
        }
    }

    /// Runs the thread. A panic closes the log like any other failure.
    pub(super) fn run(mut self) {
        while let Some(requests) = self.shared.queue.take(self.purged_segment().is_none()) {
            self.perform_all(requests);
            // A removal can take as long as a sync, so the thread removes one segment between requests.
            self.attempt(Self::remove_purged_segment);
        }
        self.attempt(Self::sync);
        while self.purged_segment().is_some() {
            self.attempt(Self::remove_purged_segment);
        }
        self.shared.failed.lock().get_or_insert(StoreError::Closed);
    }

    fn perform_all(&mut self, requests: VecDeque<Request>) {
        let mut answers = Vec::with_capacity(requests.len());
        let mut needs = RequiredDurability::Nothing;
        for request in requests {
            let (done, result) = self.perform(request);
            if result == Ok(RequiredDurability::Sync) {
                needs = RequiredDurability::Sync;
            }
            answers.push((done, result.map(drop)));
        }
        self.attempt(|writer| match needs {
            RequiredDurability::Nothing => writer.write(),
            RequiredDurability::Sync => writer.sync(),
        });
        let failed = self.shared.failed.lock().clone();
        for (done, result) in answers {
            answer(done, failed.clone().map_or(result, Err));
        }
    }

    /// Runs a step unless the log has failed; a final error or a panic fails the log.
    fn attempt<T>(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Option<Result<T, StoreError>> {
        if self.shared.failed.lock().is_some() {
            return None;
        }
        let result = catch_unwind(AssertUnwindSafe(|| step(self))).unwrap_or_else(|_| {
            Err(StoreError::corrupt("the log thread reached an unknown state and stopped"))
        });
        if let Err(error) = &result {
            self.shared.fail(error);
        }
        Some(result)
    }

    fn perform(
        &mut self,
        request: Request,
    ) -> (CompletionCallback, Result<RequiredDurability, StoreError>) {
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
            Request::Probe { done } => (done, self.attempt(|_| Ok(RequiredDurability::Nothing))),
        };
        // A failed log completes the request with its error.
        (done, result.unwrap_or(Ok(RequiredDurability::Nothing)))
    }

    fn append(&mut self, records: Vec<Record>) -> Result<RequiredDurability, StoreError> {
        let mut bounds = self.bounds;
        for record in &records {
            check_len("a record", &record.bytes, RECORD_BYTES_MAX)?;
            bounds = bounds.after_append(record.index).map_err(StoreError::misuse)?;
        }
        for record in records {
            self.add(LogChange::Append(record))?;
        }
        Ok(RequiredDurability::Sync)
    }

    fn set_meta(
        &mut self,
        meta: RaftMeta,
        bytes: Bytes,
        durable: bool,
    ) -> Result<RequiredDurability, StoreError> {
        check_len("Raft metadata", &bytes, META_BYTES_MAX)?;
        self.add(LogChange::SetMeta { meta, bytes })?;
        Ok(if durable { RequiredDurability::Sync } else { RequiredDurability::Nothing })
    }

    fn truncate(&mut self, last_kept: Option<u64>) -> Result<RequiredDurability, StoreError> {
        if let (Some(kept), Some(purged)) = (last_kept, self.bounds.purged)
            && kept < purged
        {
            return Err(StoreError::misuse(format!(
                "truncate after {kept}, which was purged through {purged}"
            )));
        }
        let next = last_kept.map_or(0, |kept| kept.saturating_add(1));
        if next >= self.bounds.next {
            return Ok(RequiredDurability::Nothing);
        }
        self.add(LogChange::Truncate { next })?;
        Ok(RequiredDurability::Sync)
    }

    fn purge(&mut self, through: u64, meta: Bytes) -> Result<RequiredDurability, StoreError> {
        check_len("Raft metadata", &meta, META_BYTES_MAX)?;
        if self.bounds.purged.is_some_and(|purged| through < purged) {
            return Ok(RequiredDurability::Nothing);
        }
        self.add(LogChange::Purge { through, meta })?;
        // The log removes segments after the purge is durable.
        Ok(RequiredDurability::Sync)
    }

    /// Adds the frame of a change. Returns [`StoreError::Misuse`] without adding a frame if the change does not fit
    /// the log.
    fn add(&mut self, change: LogChange) -> Result<(), StoreError> {
        self.bounds = self.bounds.after(&change).map_err(StoreError::misuse)?;
        let NewestSegment { segment, end, position, .. } = self.tail;
        let location = Location::new(segment, end + self.frames.len(), &change, position);
        self.tail.position = change.encode(position, &mut self.frames);
        self.changes.push((change, location));
        if self.frames.len() < WRITE_BYTES { Ok(()) } else { self.write() }
    }

    /// Writes the unwritten frames. Readers see their changes from then on.
    fn write(&mut self) -> Result<(), StoreError> {
        if self.frames.is_empty() {
            return Ok(());
        }
        let (begin, end) = (self.tail.end, self.tail.end + self.frames.len());
        if end > self.file_len {
            self.file_len = end.next_multiple_of(GROW_BYTES.min(self.segment_bytes));
            self.frames.resize(self.file_len - begin, 0);
            self.shared.newest_bytes.store(self.file_len as u64, Ordering::Relaxed);
        }
        self.is_synced = false;
        self.tail.file.write_at(begin as u64, &self.frames)?;
        self.tail.end = end;
        self.frames.clear();
        let mut state = self.shared.state.write();
        for (change, location) in self.changes.drain(..) {
            state.apply(change, location).map_err(StoreError::corrupt)?;
        }
        drop(state);
        if end < self.segment_bytes { Ok(()) } else { self.start_segment() }
    }

    /// Makes all written frames durable.
    fn sync(&mut self) -> Result<(), StoreError> {
        self.write()?;
        if self.is_synced {
            return Ok(());
        }
        let began = Instant::now();
        self.tail.file.sync()?;
        self.shared.syncs.observe(began.elapsed());
        self.is_synced = true;
        self.disk.raise_watermark(self.tail.position.frames)
    }

    /// Continues in a new segment. Syncs the full segment first: frames of the new segment must not be durable without
    /// it.
    fn start_segment(&mut self) -> Result<(), StoreError> {
        self.sync()?;
        let next = self.tail.segment.saturating_add(1);
        let state = self.shared.state.read();
        self.tail = start_segment(&*self.disk, &state, self.tail.position, next)?;
        drop(state);
        self.file_len = self.tail.end;
        self.shared.newest_bytes.store(self.file_len as u64, Ordering::Relaxed);
        let file = Arc::clone(&self.tail.file);
        self.shared.state.write().segments.insert(next, file);
        Ok(())
    }

    /// Returns a removable segment. The purge must be durable: without it the records of the segment would be missing.
    fn purged_segment(&self) -> Option<u32> {
        let can_remove = self.is_synced && self.shared.failed.lock().is_none();
        self.shared.state.read().purged_segment().filter(|_| can_remove)
    }

    fn remove_purged_segment(&mut self) -> Result<(), StoreError> {
        let Some(number) = self.purged_segment() else { return Ok(()) };
        self.disk.remove(number)?;
        self.shared.state.write().segments.remove(&number);
        Ok(())
    }
}

/// Completes a request. A panic of its callback must not end the log thread.
fn answer(done: CompletionCallback, result: Result<(), StoreError>) {
    if catch_unwind(AssertUnwindSafe(|| done(result))).is_err() {
        tracing::error!("a callback of the log panicked");
    }
}
