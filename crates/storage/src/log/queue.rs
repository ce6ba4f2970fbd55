//! The bounded queue of the log thread.
//!
//! The queue never blocks a caller; it returns a request that does not fit. Bound: `bytes_max`, or one request that
//! alone is longer. The list of callers waiting for room has one entry for each pending [`Log::on_queue_room`] call.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use super::change::{RaftMeta, Record};
use super::{CompletionCallback, Log};
use crate::error::StoreError;

/// A callback for the moment at which the queue has room.
pub type QueueRoomCallback = Box<dyn FnOnce() + Send>;

/// The cost of a request in addition to its bytes.
const REQUEST_COST: usize = 128;
const RECORD_COST: usize = 48;
/// At this number of bytes the log writes lazy requests without another request.
const LAZY_BYTES_MAX: usize = 64 << 10;

pub(super) enum Request {
    Append {
        records: Vec<Record>,
        done: CompletionCallback,
    },
    SetMeta {
        meta: RaftMeta,
        bytes: Bytes,
        durable: bool,
        lazy: bool,
        done: CompletionCallback,
    },
    Truncate {
        last_kept: Option<u64>,
        done: CompletionCallback,
    },
    Purge {
        through: u64,
        meta: Bytes,
        done: CompletionCallback,
    },
    /// Changes nothing.
    Probe {
        done: CompletionCallback,
    },
}

impl Request {
    fn cost(&self) -> usize {
        REQUEST_COST
            + match self {
                Self::Append { records, .. } => {
                    records.iter().map(|record| RECORD_COST + record.bytes.len()).sum()
                }
                Self::SetMeta { bytes, .. } | Self::Purge { meta: bytes, .. } => bytes.len(),
                Self::Truncate { .. } | Self::Probe { .. } => 0,
            }
    }

    /// Returns `true` if the request can wait for the next request.
    fn is_lazy(&self) -> bool {
        matches!(self, Self::SetMeta { lazy: true, .. })
    }

    pub(super) fn into_done(self) -> CompletionCallback {
        match self {
            Self::Append { done, .. }
            | Self::SetMeta { done, .. }
            | Self::Truncate { done, .. }
            | Self::Purge { done, .. }
            | Self::Probe { done } => done,
        }
    }
}

/// A request that did not fit into the log's queue. The log did not call its `CompletionCallback`: wait for room with
/// [`Log::on_queue_room`] and call [`retry`](Self::retry), or call [`into_callback`](Self::into_callback).
#[must_use = "the request was not queued"]
pub struct QueueFull {
    request: Request,
    /// The number of bytes in the queue.
    pub queued_bytes: usize,
    /// The maximum number of bytes in the queue.
    pub queue_bytes_max: usize,
}

impl QueueFull {
    /// Queues the request again. `log` must be the log that returned it.
    ///
    /// # Errors
    /// `self`, if the queue has no room.
    pub fn retry(self, log: &Log) -> Result<(), Self> {
        log.submit(self.request)
    }

    /// Returns the callback, which the log will not call.
    pub fn into_callback(self) -> CompletionCallback {
        self.request.into_done()
    }
}

impl fmt::Debug for QueueFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueFull")
            .field("queued_bytes", &self.queued_bytes)
            .field("queue_bytes_max", &self.queue_bytes_max)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for QueueFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queued_bytes, queue_bytes_max, .. } = self;
        write!(
            f,
            "the log has {queued_bytes} of {queue_bytes_max} bytes waiting; try again when there is room"
        )
    }
}

impl std::error::Error for QueueFull {}

pub(super) struct Queue {
    bytes_max: usize,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    requests: VecDeque<Request>,
    bytes: usize,
    /// `true` if a queued request cannot wait.
    awake: bool,
    on_queue_room: Vec<QueueRoomCallback>,
    /// `true` if the queue rejects new requests; the log still writes queued requests.
    is_closed: bool,
}

impl Queue {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, waiting: Mutex::default(), changed: Condvar::new() }
    }

    pub(super) fn bytes(&self) -> usize {
        self.waiting.lock().bytes
    }

    /// Queues a request, returns it, or completes it immediately if the log is closed.
    pub(super) fn push(&self, request: Request) -> Result<(), QueueFull> {
        let mut waiting = self.waiting.lock();
        if waiting.is_closed {
            drop(waiting);
            request.into_done()(Err(StoreError::Closed));
            return Ok(());
        }
        let cost = request.cost();
        if !waiting.requests.is_empty() && waiting.bytes + cost > self.bytes_max {
            let (queued_bytes, queue_bytes_max) = (waiting.bytes, self.bytes_max);
            return Err(QueueFull { request, queued_bytes, queue_bytes_max });
        }
        waiting.bytes += cost;
        let lazy = request.is_lazy();
        waiting.requests.push_back(request);
        waiting.awake |= !lazy || waiting.bytes > LAZY_BYTES_MAX;
        if waiting.awake {
            self.changed.notify_one();
        }
        Ok(())
    }

    pub(super) fn on_queue_room(&self, room: QueueRoomCallback) {
        let mut waiting = self.waiting.lock();
        if !waiting.is_closed && waiting.bytes > self.bytes_max / 2 {
            waiting.on_queue_room.push(room);
            return;
        }
        drop(waiting);
        room();
    }

    pub(super) fn close(&self) {
        self.waiting.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Returns all requests; with `block`, waits for a request that is not lazy. `None` when the queue is closed and
    /// empty.
    pub(super) fn take(&self, block: bool) -> Option<VecDeque<Request>> {
        let mut waiting = self.waiting.lock();
        while block && !waiting.awake && !waiting.is_closed {
            self.changed.wait(&mut waiting);
        }
        let requests = std::mem::take(&mut waiting.requests);
        waiting.awake = false;
        let ended = requests.is_empty() && waiting.is_closed;
        waiting.bytes = 0;
        let on_queue_room = std::mem::take(&mut waiting.on_queue_room);
        drop(waiting);
        for room in on_queue_room {
            // A panic of a caller's closure must not end the log thread.
            if catch_unwind(AssertUnwindSafe(room)).is_err() {
                tracing::error!("a closure waiting for room panicked");
            }
        }
        (!ended).then_some(requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(lazy: bool) -> Request {
        let (meta, bytes) = (RaftMeta::Committed, Bytes::from_static(b"meta"));
        Request::SetMeta { meta, bytes, durable: false, lazy, done: Box::new(drop) }
    }

    fn awake(queue: &Queue) -> bool {
        queue.waiting.lock().awake
    }

    #[test]
    fn a_lazy_request_waits_for_the_next_request_and_keeps_its_position() {
        let queue = Queue::new(1 << 20);
        queue.push(meta(true)).unwrap();
        assert!(!awake(&queue));
        queue.push(meta(false)).unwrap();
        assert!(awake(&queue));
        let taken = queue.take(true).unwrap();
        assert_eq!(taken.iter().map(Request::is_lazy).collect::<Vec<_>>(), [true, false]);
        assert!(!awake(&queue));
    }

    #[test]
    fn lazy_requests_are_bounded_and_written_at_shutdown() {
        let queue = Queue::new(1 << 20);
        while !awake(&queue) {
            assert!(queue.bytes() <= LAZY_BYTES_MAX);
            queue.push(meta(true)).unwrap();
        }
        assert!(queue.take(true).unwrap().len() > 1);
        queue.push(meta(true)).unwrap();
        queue.close();
        assert_eq!(queue.take(true).unwrap().len(), 1);
        assert!(queue.take(true).is_none());
    }
}
