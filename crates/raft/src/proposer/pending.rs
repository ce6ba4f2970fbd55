//! Runs in the queue: whether their caller can still withdraw them, and when they have to leave.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::committed::Committed;
use crate::error::ProposeError;
use crate::wire::{CommandRun, Urgency};

/// The longest that a run with [`Urgency::MayWait`] waits for the log entry of another run (ADR 0005).
const MAY_WAIT_MAX: Duration = Duration::from_millis(1);

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
    pub(crate) run: CommandRun,
    pub(crate) deadline: Instant,
    /// A peer forwarded the run: it is proposed on this node or not at all.
    pub(crate) forwarded: bool,
    /// Bytes of the commands in an entry.
    pub(crate) bytes: usize,
    pub(crate) since: Instant,
    pub(crate) ticket: Arc<Ticket>,
    pub(crate) reply: oneshot::Sender<ProposeResult>,
}

impl Pending {
    pub(crate) fn may_wait(&self) -> bool {
        self.run.urgency == Urgency::MayWait
    }

    /// Sends the result to the caller, which may have gone.
    pub(crate) fn answer(self, result: ProposeResult) {
        self.reply.send(result).ok();
    }
}

/// When the waiting runs have to leave; `None` if there are none. They wait only if all of them may, and are fewer
/// than `full`.
pub(crate) fn due(waiting: &VecDeque<Pending>, full: usize) -> Option<Instant> {
    let oldest = waiting.front()?.since;
    let may_wait = waiting.len() < full && waiting.iter().all(Pending::may_wait);
    Some(if may_wait { oldest + MAY_WAIT_MAX } else { oldest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_may_wait_leave_with_an_immediate_run_or_when_they_are_many_or_late() {
        use Urgency::{Immediate, MayWait};
        let now = Instant::now();
        let item = |urgency, ms| Pending {
            run: CommandRun { commands: Vec::new(), urgency },
            deadline: now,
            forwarded: false,
            bytes: 0,
            since: now + Duration::from_millis(ms),
            ticket: Arc::default(),
            reply: oneshot::channel().0,
        };
        let late = now + MAY_WAIT_MAX;
        assert_eq!(due(&VecDeque::new(), 3), None);
        assert_eq!(due(&[item(MayWait, 0)].into(), 3), Some(late));
        assert_eq!(due(&[item(MayWait, 0), item(MayWait, 5)].into(), 3), Some(late));
        assert_eq!(due(&[item(MayWait, 0), item(Immediate, 5)].into(), 3), Some(now));
        assert_eq!(due(&[item(Immediate, 0), item(MayWait, 5)].into(), 3), Some(now));
        let full = [item(MayWait, 0), item(MayWait, 5), item(MayWait, 6)];
        assert_eq!(due(&full.into(), 3), Some(now));
    }

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
