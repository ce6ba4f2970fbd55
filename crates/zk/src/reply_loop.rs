//! The loop of a connection that writes replies and watch events, in the order of the outbox; and the requests of the
//! connection whose replies are not written yet, in order.
//!
//! The loop writes as much as the outbox holds with one call of the socket. Bounds: the bytes being written are at most one
//! reply and [`CHUNK`].

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use holdfast_service::{Outbox, Outgoing, StreamAnswer, StreamEnd, StreamReply};
use holdfast_zkwire::{ErrorCode, Response, append_event, append_reply, op};
use parking_lot::Mutex;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, Semaphore};

use crate::connection_table::ConnectionGuard;
use crate::errors::{Disconnect, ErrorReply};
use crate::metrics::{OpKind, ZkMetrics};
use crate::ops::{ReplyFormat, reply};
use crate::values;

/// Replies and events are written together up to this many bytes.
const CHUNK: usize = 64 * 1024;
/// The zxid that ZooKeeper 3.8 sends with events and with the reply to an unknown operation.
const NO_ZXID: i64 = -1;
/// The connections of a node that count descendants at the same time. A count may take millions of steps.
const COUNTS_MAX: usize = 1;
static COUNTS: Semaphore = Semaphore::const_new(COUNTS_MAX);

pub(crate) struct ReplyLoop<'a, W> {
    pub(crate) sink: &'a mut W,
    pub(crate) outbox: Outbox,
    pub(crate) pending: &'a PendingRequests,
    pub(crate) guard: &'a ConnectionGuard,
    pub(crate) metrics: &'a ZkMetrics,
    pub(crate) write_timeout: Duration,
    pub(crate) buffer: BytesMut,
    /// Set when the connection ends after the bytes in the buffer.
    pub(crate) disconnect: Option<Disconnect>,
    /// The next reply, whose descendants are not counted yet.
    pub(crate) uncounted: Option<StreamReply>,
}

impl<W: AsyncWrite + Unpin> ReplyLoop<'_, W> {
    /// Dropping the future loses nothing.
    pub(crate) async fn run(&mut self) -> Disconnect {
        loop {
            self.count_descendants().await;
            if self.buffer.is_empty() && self.disconnect.is_none() {
                let item = self.outbox.next().await;
                self.append(item);
            }
            self.gather();
            if let Err(disconnect) = self.write().await {
                return disconnect;
            }
            if let Some(disconnect) = self.disconnect.take() {
                return disconnect;
            }
        }
    }

    /// Writes what the outbox holds, for a connection that ended for another reason.
    pub(crate) async fn flush(&mut self) {
        loop {
            self.count_descendants().await;
            self.gather();
            if self.buffer.is_empty() && self.uncounted.is_none() || self.write().await.is_err() {
                return;
            }
        }
    }

    /// Counts the descendants of the next reply in a thread, one step for each.
    async fn count_descendants(&mut self) {
        let Some(reply) = &self.uncounted else { return };
        let StreamReply { tag, revision, result: Ok(StreamAnswer::Descendants(below)) } = reply
        else {
            return;
        };
        let (tag, revision, below) = (*tag, *revision, below.clone());
        let permit = COUNTS.acquire().await;
        let count = tokio::task::spawn_blocking(move || {
            // Held until the end, also if the connection ends before.
            let _permit = permit;
            below.count()
        });
        let count = count.await;
        self.uncounted = None;
        let Some(PendingRequest { info, .. }) = self.pending.remove(tag) else { return };
        match count {
            Ok(count) => {
                let response = Response::ChildrenCount(i32::try_from(count).unwrap_or(i32::MAX));
                self.append_response(&info, values::zxid(revision), &response);
            }
            Err(_) => self.disconnect = Some(Disconnect::Unavailable),
        }
    }

    fn gather(&mut self) {
        while self.disconnect.is_none() && self.uncounted.is_none() && self.buffer.len() < CHUNK {
            match self.outbox.try_next() {
                Some(item) => self.append(item),
                None => return,
            }
        }
    }

    async fn write(&mut self) -> Result<(), Disconnect> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        while !self.buffer.is_empty() {
            let written = tokio::select! {
                biased;
                written = self.sink.write_buf(&mut self.buffer) => written,
                () = self.outbox.overflowed() => return Err(Disconnect::Stream(StreamEnd::Overflow)),
                () = tokio::time::sleep(self.write_timeout) => return Err(Disconnect::WriteTimeout),
            };
            match written {
                Ok(0) => return Err(Disconnect::Socket(io::ErrorKind::WriteZero.into())),
                Ok(_) => {}
                Err(error) => return Err(Disconnect::Socket(error)),
            }
        }
        // TLS may hold back the end of the last record.
        tokio::select! {
            biased;
            flushed = self.sink.flush() => flushed.map_err(Disconnect::Socket),
            () = self.outbox.overflowed() => Err(Disconnect::Stream(StreamEnd::Overflow)),
            () = tokio::time::sleep(self.write_timeout) => Err(Disconnect::WriteTimeout),
        }
    }

    fn append(&mut self, item: Outgoing) {
        match item {
            Outgoing::Reply(reply) if matches!(reply.result, Ok(StreamAnswer::Descendants(_))) => {
                self.uncounted = Some(reply);
            }
            Outgoing::Reply(reply) => self.append_reply(reply),
            Outgoing::Notice(notice) => {
                append_event(&mut self.buffer, NO_ZXID, &values::event(&notice));
                self.guard.count_event();
                self.metrics.0.watch_events.inc();
            }
            Outgoing::End(reason) => self.stream_ended(reason),
        }
    }

    fn append_reply(&mut self, stream_reply: StreamReply) {
        let StreamReply { tag, revision, result } = stream_reply;
        let Some(PendingRequest { info, format }) = self.pending.remove(tag) else { return };
        let zxid = if info.kind == OpKind::of(op::AUTH) { 0 } else { values::zxid(revision) };
        match reply(format, result) {
            Ok(response) => self.append_response(&info, zxid, &response),
            Err(ErrorReply::Reply(code)) => self.append_error(&info, zxid, code),
            Err(ErrorReply::ReplyAndDisconnect(code)) => {
                // ZooKeeper rejects an unknown operation before it reads its own state.
                let zxid = if code == ErrorCode::Unimplemented { NO_ZXID } else { zxid };
                self.append_error(&info, zxid, code);
                self.disconnect = Some(Disconnect::Error(code));
            }
            Err(ErrorReply::Disconnect) => self.disconnect = Some(Disconnect::Unavailable),
        }
    }

    fn append_response(&mut self, request: &RequestInfo, zxid: i64, response: &Response) {
        append_reply(&mut self.buffer, request.xid, zxid, Ok(response));
        self.count(request, zxid, false);
    }

    fn append_error(&mut self, request: &RequestInfo, zxid: i64, code: ErrorCode) {
        append_reply(&mut self.buffer, request.xid, zxid, Err(code));
        self.count(request, zxid, true);
    }

    fn count(&self, request: &RequestInfo, zxid: i64, failed: bool) {
        let latency = request.received_at.elapsed();
        self.guard.count_reply(request.kind, request.xid, zxid, latency);
        self.metrics.count_reply(request.kind, failed, latency);
    }

    /// If the session ended, every pending request fails with that error, except writes.
    fn stream_ended(&mut self, reason: StreamEnd) {
        if matches!(reason, StreamEnd::Expired) {
            // A write may have been applied before the end, so an error would be wrong.
            let is_write = |request: &PendingRequest| {
                matches!(request.format, ReplyFormat::Write(_) | ReplyFormat::Multi(_))
            };
            for request in self.pending.remove_all() {
                if !is_write(&request) {
                    self.append_error(&request.info, 0, ErrorCode::SessionExpired);
                }
            }
        }
        self.disconnect = Some(Disconnect::Stream(reason));
    }
}

#[derive(Debug)]
pub(crate) struct PendingRequest {
    pub(crate) info: RequestInfo,
    pub(crate) format: ReplyFormat,
}

#[derive(Debug)]
pub(crate) struct RequestInfo {
    /// Numbers the requests of the connection from 1.
    pub(crate) tag: i64,
    /// The client's number, which the reply repeats.
    pub(crate) xid: i32,
    pub(crate) kind: OpKind,
    pub(crate) received_at: Instant,
}

/// Shared by the loop that reads requests and the loop that writes replies.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    requests: Mutex<VecDeque<PendingRequest>>,
    removed: Notify,
}

impl PendingRequests {
    pub(crate) fn push(&self, request: PendingRequest) {
        self.requests.lock().push_back(request);
    }

    pub(crate) fn remove(&self, tag: i64) -> Option<PendingRequest> {
        let mut requests = self.requests.lock();
        let at = requests.iter().position(|request| request.info.tag == tag)?;
        let found = requests.remove(at);
        drop(requests);
        self.removed.notify_one();
        found
    }

    fn remove_all(&self) -> VecDeque<PendingRequest> {
        std::mem::take(&mut *self.requests.lock())
    }

    /// Resolves when the requests up to `tag` were removed.
    pub(crate) async fn removed_through(&self, tag: i64) {
        loop {
            let removed = self.removed.notified();
            if self.requests.lock().front().is_none_or(|first| first.info.tag > tag) {
                return;
            }
            removed.await;
        }
    }
}
