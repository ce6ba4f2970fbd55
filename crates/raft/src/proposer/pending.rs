//! Commands on their way, whether they can still be called back, and when they are to leave.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use holdfast_types::Command;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Committed;
use crate::error::ProposeError;

/// The longest that commands which only queue wait for the entry of one that does more (ADR 0005).
const PATIENCE: Duration = Duration::from_millis(1);

const WAITING: u8 = 0;
const TAKEN: u8 = 1;
const GIVEN_UP: u8 = 2;
const ABANDONED: u8 = 3;

/// Says who may decide about commands: its caller while it waits, the worker while it is in flight.
#[derive(Debug, Default)]
pub(crate) struct Ticket(AtomicU8);

impl Ticket {
    /// The worker takes them into flight; false if the caller has given up.
    pub(crate) fn take(&self) -> bool {
        self.change(WAITING, TAKEN)
    }

    /// The worker brings them back: they were certainly not appended.
    pub(crate) fn put_back(&self) -> bool {
        self.change(TAKEN, WAITING)
    }

    /// The caller gives up; false if they are in flight.
    pub(crate) fn give_up(&self) -> bool {
        // One in flight stays there, but is not brought back: nobody waits for a second try.
        self.change(WAITING, GIVEN_UP) || {
            self.change(TAKEN, ABANDONED);
            false
        }
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A run in the queue: commands of one caller that go into one entry together, in order.
pub(crate) struct Pending {
    pub(crate) commands: Vec<Command>,
    /// Their length in an entry.
    pub(crate) bytes: usize,
    /// They came from a peer: they are proposed here or not at all.
    pub(crate) forwarded: bool,
    /// They do no more than queue: they may wait for another's entry.
    pub(crate) patient: bool,
    pub(crate) deadline: Instant,
    pub(crate) since: Instant,
    pub(crate) ticket: Arc<Ticket>,
    pub(crate) reply: oneshot::Sender<Result<Vec<Committed>, ProposeError>>,
}

impl Pending {
    /// Answers the caller, who may have gone.
    pub(crate) fn answer(self, result: Result<Vec<Committed>, ProposeError>) {
        self.reply.send(result).ok();
    }
}

/// When these are to leave together; none if there are none. Only commands that all do no more than queue wait, and not for
/// more than a `full` pack of them.
pub(crate) fn due(waiting: &VecDeque<Pending>, full: usize) -> Option<Instant> {
    let oldest = waiting.front()?.since;
    let patient = waiting.len() < full && waiting.iter().all(|item| item.patient);
    Some(if patient { oldest + PATIENCE } else { oldest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_only_queue_leave_with_the_first_that_does_more_or_when_they_are_many_or_late()
    {
        let now = Instant::now();
        let item = |patient, ms| Pending {
            commands: Vec::new(),
            bytes: 0,
            forwarded: false,
            patient,
            deadline: now,
            since: now + Duration::from_millis(ms),
            ticket: Arc::default(),
            reply: oneshot::channel().0,
        };
        let late = now + PATIENCE;
        assert_eq!(due(&VecDeque::new(), 3), None);
        assert_eq!(due(&[item(true, 0)].into(), 3), Some(late));
        assert_eq!(due(&[item(true, 0), item(true, 5)].into(), 3), Some(late));
        assert_eq!(due(&[item(true, 0), item(false, 5)].into(), 3), Some(now));
        assert_eq!(due(&[item(false, 0), item(true, 5)].into(), 3), Some(now));
        assert_eq!(due(&[item(true, 0), item(true, 5), item(true, 6)].into(), 3), Some(now));
    }

    #[test]
    fn a_caller_gives_up_only_what_is_not_in_flight() {
        let ticket = Ticket::default();
        assert!(ticket.take());
        assert!(ticket.put_back());
        assert!(ticket.give_up());
        assert!(!ticket.take());
    }

    #[test]
    fn a_command_in_flight_whose_caller_is_gone_is_not_tried_again() {
        let ticket = Ticket::default();
        assert!(ticket.take());
        assert!(!ticket.give_up());
        assert!(!ticket.put_back());
    }
}
