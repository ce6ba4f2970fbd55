//! The one ordered queue from a node to one client: replies and notices, as they were put in, and then its end.
//!
//! Owns the queue's bounds. A client that does not read holds up its own next request ([`Queue::room`]), and when
//! notices pile up beside that, its stream ends with [`Ended::Overflow`]: nothing is dropped silently. Refuses to know
//! what decides about the order: that is `order.rs`, which alone puts anything in.
//!
//! Bounds: `StreamLimits::outbox_max` replies and as many notices; `outbox_bytes_max` bytes of each, but for one
//! reply and for what one request says it missed; [`NOTICE_BYTES_MAX`] bytes of notices in all queues of the node.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::life::Life;
use super::message::{Ended, Notice, Outgoing, StreamAnswer, StreamReply};

/// Bytes of notices waiting in all queues of a node.
pub(crate) const NOTICE_BYTES_MAX: usize = 256 << 20;
/// What an item costs beside its texts and data, bytes.
const ITEM_BYTES: usize = 96;

/// What a stream may make this node keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Replies waiting to be written, and notices waiting to be written.
    pub outbox_max: usize,
    /// Bytes of each of them.
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
struct State {
    items: VecDeque<Outgoing>,
    replies: usize,
    reply_bytes: usize,
    notices: usize,
    notice_bytes: usize,
    ended: Option<Ended>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    limits: StreamLimits,
    /// Bytes of notices in all queues of the node.
    shared: Arc<AtomicUsize>,
    filled: Notify,
    emptied: Notify,
}

impl Queue {
    pub(crate) fn new(limits: StreamLimits, shared: Arc<AtomicUsize>) -> Arc<Self> {
        let (filled, emptied) = (Notify::new(), Notify::new());
        Arc::new(Self { state: Mutex::default(), limits, shared, filled, emptied })
    }

    /// Puts a reply in. Whoever asks has waited for [`Queue::room`].
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

    /// Puts a notice in, or ends the queue if there is no room. Answers whether it goes on.
    pub(crate) fn notice(&self, notice: Notice) -> bool {
        self.put(notice, true)
    }

    /// As [`Queue::notice`], of a change that a client missed while it was away. Those are as many as it asks for in one
    /// request, and may be more than the queue's own bound: else it could never catch up.
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
            self.end(Ended::Overflow);
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

    /// Nothing comes after what is in. The first reason counts.
    pub(crate) fn end(&self, reason: Ended) {
        let mut state = self.state.lock();
        if state.ended.is_none() {
            state.ended = Some(reason);
            if reason == Ended::Overflow {
                self.clear(&mut state);
            }
        }
        drop(state);
        self.filled.notify_one();
        self.emptied.notify_waiters();
    }

    fn clear(&self, state: &mut State) {
        self.shared.fetch_sub(state.notice_bytes, Ordering::Relaxed);
        *state = State { ended: state.ended, ..State::default() };
    }

    /// Why it is over, if it is.
    pub(crate) fn ended(&self) -> Option<Ended> {
        self.state.lock().ended
    }

    /// Items waiting.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().items.len()
    }

    /// Resolves when there is room for a reply.
    ///
    /// # Errors
    /// Why the queue is over, if it is.
    pub(crate) async fn room(&self) -> Result<(), Ended> {
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

    /// Resolves when the queue is over.
    pub(crate) async fn over(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.ended().is_some() {
                return;
            }
            emptied.await;
        }
    }

    fn has_room(&self, state: &State) -> bool {
        state.replies < self.limits.outbox_max && state.reply_bytes < self.limits.outbox_bytes_max
    }

    fn take(&self) -> Option<Outgoing> {
        let mut state = self.state.lock();
        let Some(item) = state.items.pop_front() else { return state.ended.map(Outgoing::Ended) };
        match &item {
            Outgoing::Reply(reply) => {
                let was_full = !self.has_room(&state);
                state.replies -= 1;
                state.reply_bytes -= reply_bytes(reply);
                if was_full && self.has_room(&state) {
                    self.emptied.notify_waiters();
                }
            }
            Outgoing::Notice(notice) => {
                let bytes = notice_bytes(notice);
                state.notices -= 1;
                state.notice_bytes -= bytes;
                self.shared.fetch_sub(bytes, Ordering::Relaxed);
            }
            Outgoing::Ended(_) => {}
        }
        Some(item)
    }
}

/// The client's end of the queue: the door writes what comes out, in this order, and nothing else.
#[derive(Debug)]
pub struct Outbox {
    queue: Arc<Queue>,
    life: Arc<Life>,
}

impl Outbox {
    pub(crate) fn new(queue: Arc<Queue>, life: Arc<Life>) -> Self {
        Self { queue, life }
    }

    /// The next item. After [`Outgoing::Ended`] there is only that, again. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Outgoing {
        loop {
            let filled = self.queue.filled.notified();
            if let Some(item) = self.queue.take() {
                return item;
            }
            tokio::select! {
                () = filled => {}
                () = self.life.lost() => self.queue.end(Ended::CutOff),
            }
        }
    }

    /// Resolves when the queue overflows: nobody takes what is being written, so that there is no point in waiting for
    /// it. Dropping the future loses nothing.
    pub async fn overflowed(&self) {
        loop {
            let filled = self.queue.filled.notified();
            if self.queue.ended() == Some(Ended::Overflow) {
                return;
            }
            filled.await;
        }
    }

    /// The next item, if one is there: to write several with one call.
    pub fn try_next(&mut self) -> Option<Outgoing> {
        self.queue.take()
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        // Nobody reads any more.
        self.queue.end(Ended::Overflow);
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
        StreamAnswer::Exists(_)
        | StreamAnswer::Descendants(_)
        | StreamAnswer::Watched(_)
        | StreamAnswer::Done => 0,
    }
}
