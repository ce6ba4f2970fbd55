//! The ends of waits, on the leader, for callers whose own node cannot end them any more.
//!
//! A waiting call is ended by the node it is parked on. When that node is gone and the session is kept alive elsewhere,
//! nobody would ever give the place up; so the leader does, a grace later. Owns deadlines in the leader's memory, on a
//! monotonic clock that is handed in: each wait counts from when this leader first saw it, so a new leader is late
//! rather than early. Refuses to read a clock and to propose anything. Bounds: [`LOOK_MAX`] waits are read at a time;
//! at most twice as many deadlines as waits, and [`TRIM_SLACK`].

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use holdfast_machine::Machine;
use holdfast_types::{Command, Revision};

/// Waits looked at in one turn.
const LOOK_MAX: usize = 1_000;
/// Deadlines of waits that ended otherwise, always tolerated.
const TRIM_SLACK: usize = 10_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// Waits asked for up to here have been seen.
    seen: Revision,
    /// By deadline: the revision in which the wait was asked for.
    due: BTreeSet<(Instant, Revision)>,
}

impl Patience {
    /// Notes waits that are new since the last look.
    pub(crate) fn look(&mut self, machine: &Machine, now: Instant, grace: Duration) {
        for wait in machine.waits_after(self.seen, LOOK_MAX) {
            self.seen = wait.cancel.asked;
            let length = Duration::from_millis(wait.wait_ms).saturating_add(grace);
            // A wait without an end in sight needs nobody to end it.
            if let Some(deadline) = now.checked_add(length) {
                self.due.insert((deadline, wait.cancel.asked));
            }
        }
        if self.due.len() > 2 * machine.waits() + TRIM_SLACK {
            self.due.retain(|(_, asked)| machine.wait_asked_in(*asked).is_some());
        }
    }

    /// Takes up to `count_max` waits that are overdue, as the commands that end them.
    pub(crate) fn overdue(
        &mut self,
        machine: &Machine,
        now: Instant,
        count_max: usize,
    ) -> Vec<Command> {
        let mut cancels = Vec::new();
        while cancels.len() < count_max {
            match self.due.first() {
                Some((deadline, _)) if *deadline <= now => {}
                Some(_) | None => break,
            }
            let Some((_, asked)) = self.due.pop_first() else { break };
            if let Some(wait) = machine.wait_asked_in(asked) {
                cancels.push(Command::Cancel(wait.cancel));
            }
        }
        cancels
    }

    /// The commands may not have reached the log: they are tried again at `at`.
    pub(crate) fn again(&mut self, cancels: &[Command], at: Instant) {
        for cancel in cancels {
            if let Command::Cancel(cancel) = cancel {
                self.due.insert((at, cancel.asked));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::{
        Acquire, Entry, Labels, LockName, OpenSession, Owner, SessionName, Stamp,
    };

    use super::*;

    const GRACE: Duration = Duration::from_secs(10);
    const SECOND: Duration = Duration::from_secs(1);

    fn acquire(session: &str, wait_ms: Option<u64>) -> Command {
        let open = OpenSession {
            session: SessionName::new(session).unwrap(),
            ttl: None,
            anonymous: false,
            labels: Labels::default(),
            password: None,
        };
        let (lock, owner) = (LockName::new("a").unwrap(), Owner::unnamed());
        Command::Acquire(Acquire { wait_ms, ..Acquire::new(lock, open, owner) })
    }

    fn apply(machine: &mut Machine, commands: Vec<Command>) {
        for outcome in machine.apply(Entry { stamped_at: Stamp(0), commands }).outcomes {
            outcome.unwrap();
        }
    }

    fn waiting() -> Machine {
        let mut machine = Machine::new();
        let wait = |session| acquire(session, Some(5_000));
        apply(&mut machine, vec![acquire("me", None), wait("w1"), acquire("w2", None), wait("w3")]);
        machine
    }

    #[test]
    fn a_wait_ends_a_grace_after_its_length_and_takes_its_place_along() {
        let (mut machine, mut patience, t0) = (waiting(), Patience::default(), Instant::now());
        patience.look(&machine, t0, GRACE);
        let early = patience.overdue(&machine, t0 + SECOND * 14, 10);
        assert_eq!(early, []);
        let cancels = patience.overdue(&machine, t0 + SECOND * 15, 10);
        assert_eq!(cancels.len(), 2);
        apply(&mut machine, cancels);
        assert_eq!(machine.counts().waiters, 1, "whoever set no end still waits");
        assert_eq!(patience.overdue(&machine, t0 + SECOND * 99, 10), []);
    }

    #[test]
    fn asking_again_is_another_wait() {
        let (mut machine, mut patience, t0) = (waiting(), Patience::default(), Instant::now());
        patience.look(&machine, t0, GRACE);
        apply(&mut machine, vec![acquire("w1", Some(5_000))]);
        patience.look(&machine, t0 + SECOND * 5, GRACE);
        assert_eq!(patience.overdue(&machine, t0 + SECOND * 15, 10).len(), 1, "the other one's");
        assert_eq!(patience.overdue(&machine, t0 + SECOND * 20, 10).len(), 1);
    }

    #[test]
    fn what_did_not_reach_the_log_is_tried_again() {
        let (machine, mut patience, t0) = (waiting(), Patience::default(), Instant::now());
        patience.look(&machine, t0, GRACE);
        let later = t0 + SECOND * 15;
        let cancels = patience.overdue(&machine, later, 1);
        patience.again(&cancels, later + SECOND);
        assert_eq!(patience.overdue(&machine, later, 10).len(), 1, "the other one's");
        assert_eq!(patience.overdue(&machine, later + SECOND, 10), cancels);
    }

    #[test]
    fn waits_that_ended_otherwise_do_not_pile_up() {
        let (mut machine, mut patience, t0) = (waiting(), Patience::default(), Instant::now());
        for _ in 0..2 * TRIM_SLACK {
            apply(&mut machine, vec![acquire("w1", Some(5_000))]);
            patience.look(&machine, t0, GRACE);
        }
        assert!(patience.due.len() <= 2 * machine.waits() + TRIM_SLACK + 1);
    }
}
