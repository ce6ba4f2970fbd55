//! Runs in the queue, and whether their caller can still withdraw them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use holdfast_types::Command;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Span;

use crate::error::ProposeError;
use crate::type_config::Committed;
use crate::wire::Urgency;

pub(crate) type ProposeResult = Result<Vec<Committed>, ProposeError>;

const WAITING: u8 = 0;
const IN_FLIGHT: u8 = 1;
const WITHDRAWN: u8 = 2;
const ABANDONED: u8 = 3;

/// Decides between the caller, which may withdraw a waiting run, and the worker, which may send it.
#[derive(Debug, Default)]
pub(crate) struct Ticket(AtomicU8);

impl Ticket {
    /// The worker sends the run; false if the caller withdrew it.
    pub(crate) fn take(&self) -> bool {
        self.change(WAITING, IN_FLIGHT)
    }

    /// The worker returns a run that was certainly not appended; false if its caller has gone.
    pub(crate) fn put_back(&self) -> bool {
        self.change(IN_FLIGHT, WAITING)
    }

    /// The caller withdraws the run; false if it is in flight. A run in flight is then not sent a second time.
    pub(crate) fn withdraw(&self) -> bool {
        self.change(WAITING, WITHDRAWN) || {
            self.change(IN_FLIGHT, ABANDONED);
            false
        }
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A run in the queue, with the caller that waits for its result.
pub(crate) struct Pending {
    pub(crate) commands: Vec<Command>,
    pub(crate) urgency: Urgency,
    pub(crate) deadline: Instant,
    /// A peer forwarded the run: it is proposed on this node or not at all.
    pub(crate) forwarded: bool,
    /// Bytes of the commands in an entry.
    pub(crate) bytes: usize,
    pub(crate) since: Instant,
    pub(crate) ticket: Arc<Ticket>,
    /// The span `propose`; disabled if the call is not traced.
    pub(crate) span: Span,
    pub(crate) reply: oneshot::Sender<ProposeResult>,
}

impl Pending {
    pub(crate) fn may_wait(&self) -> bool {
        self.urgency == Urgency::MayWait
    }

    /// Sends the result to the caller, which may have gone.
    pub(crate) fn answer(self, result: ProposeResult) {
        self.reply.send(result).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_withdraws_only_a_run_that_is_not_in_flight() {
        let ticket = Ticket::default();
        assert!(ticket.take());
        assert!(ticket.put_back());
        assert!(ticket.withdraw());
        assert!(!ticket.take());
    }

    #[test]
    fn a_run_in_flight_whose_caller_is_gone_is_not_sent_again() {
        let ticket = Ticket::default();
        assert!(ticket.take());
        assert!(!ticket.withdraw());
        assert!(!ticket.put_back());
    }
}
