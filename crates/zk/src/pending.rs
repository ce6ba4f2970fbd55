//! The requests of one connection whose replies are not written yet, in order.

use std::collections::VecDeque;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::op_kind::OpKind;
use crate::ops::operation::ReplyFormat;

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

    pub(crate) fn remove_all(&self) -> VecDeque<PendingRequest> {
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
