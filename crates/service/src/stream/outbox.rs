//! The ordered queue from a node to one client: replies and notices in the order of arrival, then the end.
//!
//! A client that does not read delays its own next request ([`OutboxQueue::room`]). If notices then exceed their bound,
//! the stream ends with [`StreamEnd::Overflow`]; nothing is dropped silently.
//!
//! Bounds: `StreamLimits::outbox_max` replies and as many notices; `outbox_bytes_max` bytes of each, plus one reply and
//! the notices that one request missed; [`NOTICE_BYTES_MAX`] bytes of notices in all queues of the node.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::liveness::Liveness;
use super::message::{Notice, Outgoing, StreamAnswer, StreamEnd, StreamReply};

/// Bytes of notices in all queues of a node.
pub(crate) const NOTICE_BYTES_MAX: usize = 256 << 20;
/// The bytes of an item besides its texts and data.
const ITEM_BYTES: usize = 96;

/// The bounds of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Queued replies, and as many queued notices.
    pub outbox_max: usize,
    /// Bytes of the replies, and of the notices.
    pub outbox_bytes_max: usize,
    /// Watches; a persistent one counts twice.
    pub watches_max: usize,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self { outbox_max: 16_384, outbox_bytes_max: 4 << 20, watches_max: 100_000 }
    }
}

#[derive(Debug, Default)]
struct OutboxState {
    items: VecDeque<Outgoing>,
    replies: usize,
    reply_bytes: usize,
    notices: usize,
    notice_bytes: usize,
    ended: Option<StreamEnd>,
}

#[derive(Debug)]
pub(crate) struct OutboxQueue {
    state: Mutex<OutboxState>,
    limits: StreamLimits,
    /// Bytes of notices in all queues of the node.
    shared: Arc<AtomicUsize>,
    filled: Notify,
    emptied: Notify,
}

impl OutboxQueue {
    pub(crate) fn new(limits: StreamLimits, shared: Arc<AtomicUsize>) -> Arc<Self> {
        let (filled, emptied) = (Notify::new(), Notify::new());
        Arc::new(Self { state: Mutex::default(), limits, shared, filled, emptied })
    }

    /// Enqueues a reply. The caller has waited for [`OutboxQueue::room`].
    pub(crate) fn reply(&self, reply: StreamReply) {
        let mut state = self.state.lock();
        if state.ended.is_none() {
            state.replies += 1;
            state.reply_bytes += reply_bytes(&reply);
            state.items.push_back(Outgoing::Reply(reply));
            drop(state);
            self.filled.notify_one();
        }
    }

    /// Enqueues a notice, or ends the queue if there is no room. Returns whether the queue continues.
    pub(crate) fn notice(&self, notice: Notice) -> bool {
        self.put(notice, true)
    }

    /// Enqueues a notice of a change that a disconnected client missed. The size of one request bounds these notices.
    /// They may exceed the queue's own bound, because the client could not catch up otherwise.
    pub(crate) fn missed(&self, notice: Notice) -> bool {
        self.put(notice, false)
    }

    fn put(&self, notice: Notice, bounded: bool) -> bool {
        let bytes = notice_bytes(&notice);
        let mut state = self.state.lock();
        if state.ended.is_some() {
            return false;
        }
        let total = self.shared.load(Ordering::Relaxed) + bytes;
        let full = state.notices >= self.limits.outbox_max
            || state.notice_bytes + bytes > self.limits.outbox_bytes_max;
        if (bounded && full) || total > NOTICE_BYTES_MAX {
            drop(state);
            self.end(StreamEnd::Overflow);
            return false;
        }
        self.shared.fetch_add(bytes, Ordering::Relaxed);
        state.notices += 1;
        state.notice_bytes += bytes;
        state.items.push_back(Outgoing::Notice(notice));
        drop(state);
        self.filled.notify_one();
        true
    }

    /// Ends the queue after its current items. The first reason counts.
    pub(crate) fn end(&self, reason: StreamEnd) {
        let mut state = self.state.lock();
        if state.ended.is_none() {
            state.ended = Some(reason);
            if reason == StreamEnd::Overflow {
                self.clear(&mut state);
            }
        }
        drop(state);
        self.filled.notify_one();
        self.emptied.notify_waiters();
    }

    fn clear(&self, state: &mut OutboxState) {
        self.shared.fetch_sub(state.notice_bytes, Ordering::Relaxed);
        *state = OutboxState { ended: state.ended, ..OutboxState::default() };
    }

    pub(crate) fn ended(&self) -> Option<StreamEnd> {
        self.state.lock().ended
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().items.len()
    }

    /// Resolves when there is room for the reply and the notices of another request.
    ///
    /// # Errors
    /// The reason why the queue has ended.
    pub(crate) async fn room(&self) -> Result<(), StreamEnd> {
        loop {
            let emptied = self.emptied.notified();
            {
                let state = self.state.lock();
                if let Some(reason) = state.ended {
                    return Err(reason);
                }
                if self.has_room(&state) {
                    return Ok(());
                }
            }
            emptied.await;
        }
    }

    /// Resolves when the queue has ended.
    pub(crate) async fn over(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.ended().is_some() {
                return;
            }
            emptied.await;
        }
    }

    /// Whether both bounds have room: a request can add one reply, and the notices that it missed.
    fn has_room(&self, state: &OutboxState) -> bool {
        state.replies.max(state.notices) < self.limits.outbox_max
            && state.reply_bytes.max(state.notice_bytes) < self.limits.outbox_bytes_max
    }

    fn take(&self) -> Option<Outgoing> {
        let mut state = self.state.lock();
        let Some(item) = state.items.pop_front() else { return state.ended.map(Outgoing::End) };
        let was_full = !self.has_room(&state);
        match &item {
            Outgoing::Reply(reply) => {
                state.replies -= 1;
                state.reply_bytes -= reply_bytes(reply);
            }
            Outgoing::Notice(notice) => {
                let bytes = notice_bytes(notice);
                state.notices -= 1;
                state.notice_bytes -= bytes;
                self.shared.fetch_sub(bytes, Ordering::Relaxed);
            }
            Outgoing::End(_) => {}
        }
        if was_full && self.has_room(&state) {
            self.emptied.notify_waiters();
        }
        Some(item)
    }
}

/// The client's end of the queue. The front-end writes these items, in this order, and nothing else.
#[derive(Debug)]
pub struct Outbox {
    queue: Arc<OutboxQueue>,
    liveness: Arc<Liveness>,
}

impl Outbox {
    pub(crate) fn new(queue: Arc<OutboxQueue>, liveness: Arc<Liveness>) -> Self {
        Self { queue, liveness }
    }

    /// Returns the next item; [`Outgoing::End`] is repeated. Dropping the future loses no item.
    pub async fn next(&mut self) -> Outgoing {
        loop {
            let filled = self.queue.filled.notified();
            if let Some(item) = self.queue.take() {
                return item;
            }
            tokio::select! {
                () = filled => {}
                () = self.liveness.lost() => self.queue.end(StreamEnd::CutOff),
            }
        }
    }

    /// Resolves when the queue overflows: the front-end then stops waiting for the client to read.
    pub async fn overflowed(&self) {
        loop {
            let filled = self.queue.filled.notified();
            if self.queue.ended() == Some(StreamEnd::Overflow) {
                return;
            }
            filled.await;
        }
    }

    /// Returns the next item, if the queue has one.
    pub fn try_next(&mut self) -> Option<Outgoing> {
        self.queue.take()
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        // Nothing reads the queue any more.
        self.queue.end(StreamEnd::Overflow);
        let mut state = self.queue.state.lock();
        self.queue.clear(&mut state);
    }
}

fn notice_bytes(notice: &Notice) -> usize {
    ITEM_BYTES + notice.path.as_str().len()
}

fn reply_bytes(reply: &StreamReply) -> usize {
    ITEM_BYTES + reply.result.as_ref().map_or(0, answer_bytes)
}

fn answer_bytes(answer: &StreamAnswer) -> usize {
    match answer {
        StreamAnswer::Data { data, .. } => data.len(),
        StreamAnswer::Children { names, .. } => names.iter().map(|name| name.len() + 24).sum(),
        StreamAnswer::Acl { acl, .. } => acl.len() * ITEM_BYTES,
        StreamAnswer::Ephemerals(paths) => paths.iter().map(|path| path.as_str().len() + 24).sum(),
        StreamAnswer::Many(answers) => {
            answers.iter().map(|a| ITEM_BYTES + a.as_ref().map_or(0, answer_bytes)).sum()
        }
        StreamAnswer::Multi { results, .. } => results.len() * ITEM_BYTES,
        StreamAnswer::OfMembers { answer, members } => {
            members.len() * ITEM_BYTES + answer_bytes(answer)
        }
        StreamAnswer::Exists(_)
        | StreamAnswer::Descendants(_)
        | StreamAnswer::Watched(_)
        | StreamAnswer::Done => 0,
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::{Revision, ZnodePath};

    use super::super::message::NoticeKind;
    use super::*;

    /// Otherwise one client that does not read could take the bytes of all clients.
    #[tokio::test]
    async fn a_request_waits_until_the_notices_that_earlier_ones_missed_are_read() {
        let limits = StreamLimits { outbox_max: 8, ..StreamLimits::default() };
        let queue = OutboxQueue::new(limits, Arc::default());
        let path = ZnodePath::new("/a").unwrap();
        let notice = Notice { revision: Revision(1), kind: NoticeKind::Created, path };
        for _ in 0..16 {
            assert!(queue.missed(notice.clone()), "one request adds all its notices");
        }
        let has_room = || queue.has_room(&queue.state.lock());
        for _ in 0..9 {
            assert!(!has_room());
            queue.take();
        }
        queue.room().await.unwrap();
    }
}
