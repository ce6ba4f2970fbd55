//! openraft's log storage on `holdfast_storage`.
//!
//! - An entry is readable when `append` returns; its callback runs when the entry is on the disk.
//! - A vote is on the disk when `save_vote` returns.
//! - The committed position and a purge become durable later.
//!
//! All requests use one queue, so a crash at any point leaves a prefix of them. Any disk error fails the node.
//!
//! Bounds: the cache of the log's tail (see [`Cache`]); a read for replication returns at most [`READ_BYTES_MAX`].

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds, RangeInclusive};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use holdfast_codec::Kind;
use holdfast_storage::{CompletionCallback, Log, QueueFull, RaftMeta, Record, StoreError};
use holdfast_trace::Spans;
use openraft::alias::{EntryOf, LogIdOf, VoteOf};
use openraft::storage::{IOFlushed, RaftLogReader, RaftLogStorage};
use openraft::{LogState, OptionalSend};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::store::cache::Cache;
use crate::type_config::{LogId, Payload, RaftEntry, TypeConfig, Vote};
use crate::wire::{LogIdDto, VoteDto, decode_record, encode_record};

/// The maximum bytes of entries in one read, unless a single entry is larger.
const READ_BYTES_MAX: usize = 1 << 20;

/// The log storage. Cheap to clone; clones share one log.
#[derive(Clone)]
pub(crate) struct LogStore {
    log: Log,
    failure: Failure,
    state: Arc<Mutex<StoreState>>,
}

struct StoreState {
    vote: Option<Vote>,
    committed: Option<LogId>,
    purged: Option<LogId>,
    /// The lowest possible index of an entry: the index after `purged`, or the start of the log.
    base: u64,
    /// The last entry, or `purged` if there is none.
    last: Option<LogId>,
    cache: Cache,
    /// Incremented by every truncation, which invalidates the durability of earlier entries with the same index.
    generation: u64,
}

impl LogStore {
    pub(crate) fn open(log: Log, failure: Failure, cache_bytes: usize) -> io::Result<Self> {
        let purged = read_meta::<LogIdDto>(&log, RaftMeta::Purged, Kind::Purged)?.map(LogId::from);
        let mut last = purged;
        let (first_index, last_index) = log.bounds();
        if let Some(index) = last_index.filter(|index| Some(*index) > purged.map(|id| id.index)) {
            let records = log.read(index..=index, usize::MAX).map_err(io::Error::other)?;
            let record = records.first().ok_or_else(|| missing(index))?;
            last = Some(decode_entry(record, &failure)?.log_id);
        }
        let state = StoreState {
            vote: read_meta::<VoteDto>(&log, RaftMeta::Vote, Kind::Vote)?.map(Vote::from),
            committed: read_meta::<LogIdDto>(&log, RaftMeta::Committed, Kind::Committed)?
                .map(LogId::from),
            purged,
            base: purged.map(|id| id.index + 1).or(first_index).unwrap_or_default(),
            last,
            cache: Cache::new(cache_bytes),
            generation: 0,
        };
        Ok(Self { log, failure, state: Arc::new(Mutex::new(state)) })
    }

    /// Protects the entries up to the position of the snapshot, which are applied. The log learns lazily that they are committed.
    pub(crate) fn protect(&self, snapshot: Option<LogId>) {
        let mut state = self.state.lock();
        state.committed = state.committed.max(snapshot);
    }

    pub(crate) fn last_index(&self) -> Option<u64> {
        self.state.lock().last.map(|id| id.index)
    }

    /// The bytes of the entries that the log has queued and not written, with some more for each.
    pub(crate) fn unwritten_bytes(&self) -> u64 {
        self.state.lock().cache.unreadable_bytes() as u64
    }

    /// Checks that the entries of a leader do not contradict one that is known to be committed. Earlier leaders may contradict.
    ///
    /// # Errors
    /// The reason with which this node stops.
    pub(crate) async fn check_leader(
        &self,
        vote: Vote,
        previous: Option<LogId>,
        entries: &[RaftEntry],
    ) -> io::Result<()> {
        let (committed, base) = {
            let state = self.state.lock();
            let is_earlier = state.vote.is_some_and(|own| vote < own);
            (state.committed.filter(|_| !is_earlier), state.base)
        };
        let Some(committed) = committed else { return Ok(()) };
        let ids = entries.iter().map(|entry| entry.log_id).rev().chain(previous);
        let mut ids = ids.filter(|id| (base..=committed.index).contains(&id.index));
        let Some(id) = ids.next() else { return Ok(()) };
        let own = if id.index == committed.index {
            Some(committed)
        } else {
            self.read(id.index..=id.index, 1).await?.first().map(|entry| entry.log_id)
        };
        if own.is_none_or(|own| own == id) {
            return Ok(());
        }
        Err(self.failed(&lost(id.index.checked_sub(1), Some(committed.index))))
    }

    /// Reads the entries of `range` until their bytes reach `bytes_max`; at least one entry if one exists.
    async fn read(
        &self,
        range: RangeInclusive<u64>,
        bytes_max: usize,
    ) -> io::Result<Vec<RaftEntry>> {
        let (start, end, cached) = {
            let state = self.state.lock();
            let start = state.base.max(*range.start());
            let Some(last) = state.last.map(|id| id.index.min(*range.end())) else {
                return Ok(Vec::new());
            };
            if start > last {
                return Ok(Vec::new());
            }
            let from_cache = state.cache.first().is_some_and(|first| first <= start);
            let cached = from_cache.then(|| state.cache.read(start, last + 1, bytes_max));
            let end = state.cache.first().map_or(last, |first| last.min(first.saturating_sub(1)));
            (start, end, cached)
        };
        match cached {
            Some(entries) => Ok(entries),
            None => self.read_log(start..=end, bytes_max).await,
        }
    }

    /// Reads entries that are not in the cache. The result may end before the end of the range, but has no gap.
    async fn read_log(
        &self,
        range: RangeInclusive<u64>,
        bytes_max: usize,
    ) -> io::Result<Vec<RaftEntry>> {
        let (log, failure) = (self.log.clone(), self.failure.clone());
        let start = *range.start();
        let read = move || {
            let records = log.read(range, bytes_max).map_err(io::Error::other)?;
            let entries = records.iter().map(|record| decode_entry(record, &failure));
            entries.collect::<io::Result<Vec<_>>>()
        };
        let entries = tokio::task::spawn_blocking(read).await.map_err(io::Error::other)??;
        let start = start.max(self.state.lock().base);
        let entries: Vec<_> =
            entries.into_iter().skip_while(|entry| entry.log_id.index < start).collect();
        for (expected, entry) in (start..).zip(&entries) {
            if entry.log_id.index != expected {
                return Err(self.failed(&missing(expected)));
            }
        }
        Ok(entries)
    }

    async fn read_all(&self, range: RangeInclusive<u64>) -> io::Result<Vec<RaftEntry>> {
        let mut all = Vec::new();
        let mut start = *range.start();
        loop {
            let some = self.read(start..=*range.end(), READ_BYTES_MAX).await?;
            let Some(last) = some.last().map(|entry| entry.log_id.index) else { return Ok(all) };
            all.extend(some);
            if last >= *range.end() {
                return Ok(all);
            }
            start = last + 1;
        }
    }

    fn durable(&self, end: u64, generation: u64) {
        let mut state = self.state.lock();
        if state.generation == generation {
            state.cache.readable(end);
        }
    }

    fn failed(&self, error: &(impl ToString + ?Sized)) -> io::Error {
        report(&self.failure, error);
        io::Error::other(error.to_string())
    }

    /// Waits until the log's queue accepts a request. openraft sends one request at a time, so the wait keeps the
    /// order.
    async fn queue(&self, mut queued: Result<(), QueueFull>) {
        while let Err(refused) = queued {
            let (room, has_room) = oneshot::channel();
            self.log.on_queue_room(Box::new(move || room.send(()).unwrap_or_default()));
            // A closing log drops the sender and completes the request.
            has_room.await.ok();
            queued = refused.retry(&self.log);
        }
    }

    /// Returns a callback for a request without a waiting caller. The callback may stay in the log's queue for a long
    /// time, so it must not own the log.
    fn report_failure(&self) -> CompletionCallback {
        let failure = self.failure.clone();
        Box::new(move |result| {
            if let Err(error) = result {
                report(&failure, &error);
            }
        })
    }

    async fn wait(&self, receiver: oneshot::Receiver<Result<(), StoreError>>) -> io::Result<()> {
        match receiver.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.failed(&error)),
            Err(_) => Err(io::Error::other("the log is closed")),
        }
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB>(&mut self, range: RB) -> io::Result<Vec<RaftEntry>>
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        match inclusive(&range) {
            Some(range) => self.read_all(range).await,
            None => Ok(Vec::new()),
        }
    }

    async fn read_vote(&mut self) -> io::Result<Option<VoteOf<TypeConfig>>> {
        Ok(self.state.lock().vote)
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> io::Result<Vec<RaftEntry>> {
        match inclusive(&(start..end)) {
            Some(range) => self.read(range, READ_BYTES_MAX).await,
            None => Ok(Vec::new()),
        }
    }

    async fn entries_stream<RB>(
        &mut self,
        range: RB,
    ) -> impl Stream<Item = io::Result<EntryOf<TypeConfig>>> + OptionalSend
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let chunks = stream::unfold((self.clone(), inclusive(&range)), |(store, range)| async {
            let range = range?;
            let end = *range.end();
            match store.read(range, READ_BYTES_MAX).await {
                Ok(entries) => {
                    let next = entries.last()?.log_id.index + 1;
                    Some((Ok(entries), (store, (next <= end).then_some(next..=end))))
                }
                Err(error) => Some((Err(error), (store, None))),
            }
        });
        Box::pin(chunks.map_ok(|entries| stream::iter(entries).map(Ok)).try_flatten())
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<TypeConfig>> {
        let state = self.state.lock();
        Ok(LogState { last_purged_log_id: state.purged, last_log_id: state.last })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOf<TypeConfig>) -> io::Result<()> {
        let bytes = encode(Kind::Vote, &VoteDto::from(*vote))?;
        let (done, receiver) = completion();
        self.queue(self.log.set_meta(RaftMeta::Vote, bytes, true, done)).await;
        self.wait(receiver).await?;
        self.state.lock().vote = Some(*vote);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogIdOf<TypeConfig>>) -> io::Result<()> {
        let Some(committed) = committed else { return Ok(()) };
        let bytes = encode(Kind::Committed, &LogIdDto::from(committed))?;
        self.state.lock().committed = Some(committed);
        self.queue(self.log.set_meta_lazily(RaftMeta::Committed, bytes, self.report_failure()))
            .await;
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogIdOf<TypeConfig>>> {
        Ok(self.state.lock().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> io::Result<()>
    where
        I: IntoIterator<Item = RaftEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let (mut spans, mut records) = (Vec::new(), Vec::new());
        for entry in entries {
            spans.extend(append_spans(&entry));
            let bytes = encode_record(&entry).map_err(io::Error::other)?;
            let mut state = self.state.lock();
            if state.last.is_none() {
                state.base = entry.log_id.index;
            }
            state.last = Some(entry.log_id);
            records.push(Record { index: entry.log_id.index, bytes: bytes.clone() });
            state.cache.push(entry, &bytes);
        }
        let Some(end) = records.last().map(|record| record.index + 1) else {
            callback.io_completed(Ok(()));
            return Ok(());
        };
        let (store, generation) = (self.clone(), self.state.lock().generation);
        let done = Box::new(move |result: Result<(), StoreError>| {
            drop(spans);
            match result {
                Ok(()) => {
                    store.durable(end, generation);
                    callback.io_completed(Ok(()));
                }
                Err(error) => callback.io_completed(Err(store.failed(&error))),
            }
        });
        self.queue(self.log.append(records, done)).await;
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogIdOf<TypeConfig>>) -> io::Result<()> {
        {
            let mut state = self.state.lock();
            let [kept, committed] =
                [last, state.committed.max(state.purged)].map(|id| id.map(|id| id.index));
            if kept < committed {
                return Err(self.failed(&lost(kept, committed)));
            }
            state.generation += 1;
            state.cache.truncate(last.map_or(0, |id| id.index + 1));
            if state.last > last {
                state.last = last.max(state.purged);
            }
        }
        let kept = last.map(|id| id.index);
        let (done, receiver) = completion();
        self.queue(self.log.truncate_after(kept, done)).await;
        // A snapshot of the entries that replace these is durable by itself.
        self.wait(receiver).await
    }

    async fn purge(&mut self, through: LogIdOf<TypeConfig>) -> io::Result<()> {
        let bytes = encode(Kind::Purged, &LogIdDto::from(through))?;
        {
            let mut state = self.state.lock();
            if state.purged >= Some(through) {
                return Ok(());
            }
            state.purged = Some(through);
            state.base = through.index + 1;
            if state.last.map(|id| id.index) <= Some(through.index) {
                state.generation += 1;
                state.last = Some(through);
            }
            state.cache.purge(through.index);
        }
        self.queue(self.log.purge_through(through.index, bytes, self.report_failure())).await;
        Ok(())
    }
}

/// The spans `append` of an entry's traced runs, which end when this node's disk has the entry.
fn append_spans(entry: &RaftEntry) -> Spans {
    let Payload::Normal(batch) = &entry.payload else { return Spans::default() };
    batch.spans().children(|| holdfast_trace::span!("append"))
}

fn report(failure: &Failure, error: &(impl ToString + ?Sized)) {
    failure.report(format!("log: {}", error.to_string()));
}

/// Returns a callback, and the receiver of its result.
fn completion() -> (CompletionCallback, oneshot::Receiver<Result<(), StoreError>>) {
    let (sender, receiver) = oneshot::channel();
    // The receiver may be dropped together with its runtime.
    (Box::new(move |result| drop(sender.send(result))), receiver)
}

fn inclusive(range: &impl RangeBounds<u64>) -> Option<RangeInclusive<u64>> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(start) => start.checked_add(1)?,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(end) => *end,
        Bound::Excluded(end) => end.checked_sub(1)?,
        Bound::Unbounded => u64::MAX - 1,
    };
    (start <= end).then_some(start..=end)
}

fn read_meta<T: DeserializeOwned>(log: &Log, meta: RaftMeta, kind: Kind) -> io::Result<Option<T>> {
    let Some(bytes) = log.meta(meta).map_err(io::Error::other)? else { return Ok(None) };
    holdfast_codec::decode(kind, &bytes).map(Some).map_err(io::Error::other)
}

fn decode_entry(record: &Record, failure: &Failure) -> io::Result<RaftEntry> {
    let index = record.index;
    let entry = decode_record(&record.bytes).map_err(io::Error::other).inspect_err(|error| {
        failure.stop_if_newer(format_args!("entry {index} of the log"), error);
    })?;
    if entry.log_id.index != record.index {
        return Err(missing(record.index));
    }
    Ok(entry)
}

fn encode<T: Serialize>(kind: Kind, value: &T) -> io::Result<Bytes> {
    holdfast_codec::encode(kind, value).map(Bytes::from).map_err(io::Error::other)
}

/// A leader never removes a committed entry, unless a majority has lost it.
fn lost(kept: Option<u64>, committed: Option<u64>) -> String {
    let [kept, committed] = [kept, committed]
        .map(|index| index.map_or_else(|| "-".to_owned(), |index| index.to_string()));
    format!(
        "the leader removes the entries after {kept}, and this node knows that the entries up to {committed} are committed: other nodes \
         have lost entries, for example because one runs in an older copy of its data directory. Keep all data directories; \
         to go on with the state of the other nodes, replace this node: holdfast member replace"
    )
}

fn missing(index: u64) -> io::Error {
    io::Error::other(format!("the log has no entry {index}, which must exist"))
}
