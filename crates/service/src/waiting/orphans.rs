//! Orphaned waits: the leader cancels a wait whose caller's node no longer can.
//!
//! The node on which a waiting call is parked ends the wait. If that node fails and the session is renewed elsewhere,
//! the leader cancels the queue entry after a grace period. The leader keeps the deadlines in memory, on a monotonic
//! clock that the caller passes in. A wait counts from the moment this leader first saw it, so a new leader is late,
//! never early.
//!
//! Bounds: a scan reads [`SCAN_MAX`] waits. Deadlines number at most twice the waits, plus [`TRIM_SLACK`].

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use holdfast_machine::Machine;
use holdfast_types::{Command, Recipe, Revision};

/// Waits read by one call of the state machine.
const SCAN_MAX: usize = 1_000;
/// Deadlines of waits that have already ended, kept before a trim.
const TRIM_SLACK: usize = 10_000;

/// The kind of waits in the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitSource {
    Locks,
    Barriers,
}

#[derive(Debug)]
pub(crate) struct OrphanedWaits {
    source: WaitSource,
    /// Waits that began up to this revision have been read.
    seen: Revision,
    /// Each deadline, with the revision in which the wait began.
    due: BTreeSet<(Instant, Revision)>,
}

impl WaitSource {
    /// Returns waits that began after a revision: the revision of each and its length in milliseconds.
    fn begun_after(self, machine: &Machine, seen: Revision) -> Vec<(Revision, u64)> {
        match self {
            Self::Locks => {
                let waits = machine.waits_after(seen, SCAN_MAX).into_iter();
                waits.map(|wait| (wait.cancel.requested_in, wait.wait_ms)).collect()
            }
            Self::Barriers => {
                let waits = machine.arrival_waits_after(seen, SCAN_MAX).into_iter();
                waits.map(|wait| (wait.cancel.requested_in, wait.wait_ms)).collect()
            }
        }
    }

    fn count(self, machine: &Machine) -> usize {
        match self {
            Self::Locks => machine.waits(),
            Self::Barriers => machine.arrival_waits(),
        }
    }

    /// Returns the command that ends the wait which began in this revision, or `None` if the wait has ended.
    fn end_of(self, machine: &Machine, began: Revision) -> Option<Command> {
        match self {
            Self::Locks => {
                machine.wait_requested_in(began).map(|wait| Command::Cancel(wait.cancel))
            }
            Self::Barriers => {
                let wait = machine.arrival_requested_in(began)?;
                Some(Command::Recipe(Recipe::CancelArrival(wait.cancel)))
            }
        }
    }
}

impl OrphanedWaits {
    pub(crate) fn new(source: WaitSource) -> Self {
        Self { source, seen: Revision::default(), due: BTreeSet::new() }
    }

    /// Schedules the deadlines of waits that began since the last call.
    pub(crate) fn scan(&mut self, machine: &Machine, now: Instant, grace: Duration) {
        for (began, wait_ms) in self.source.begun_after(machine, self.seen) {
            self.seen = began;
            let length = Duration::from_millis(wait_ms).saturating_add(grace);
            // A wait whose deadline overflows the clock never has to be cancelled.
            if let Some(deadline) = now.checked_add(length) {
                self.due.insert((deadline, began));
            }
        }
        if self.due.len() > 2 * self.source.count(machine) + TRIM_SLACK {
            let source = self.source;
            self.due.retain(|(_, began)| source.end_of(machine, *began).is_some());
        }
    }

    /// Returns the commands that end up to `count_max` overdue waits. A wait that still exists at `retry_at` is overdue
    /// again.
    pub(crate) fn overdue(
        &mut self,
        machine: &Machine,
        now: Instant,
        retry_at: Instant,
        count_max: usize,
    ) -> Vec<Command> {
        let mut ends = Vec::new();
        while ends.len() < count_max {
            match self.due.first() {
                Some((deadline, _)) if *deadline <= now => {}
                Some(_) | None => break,
            }
            let Some((_, began)) = self.due.pop_first() else { break };
            if let Some(end) = self.source.end_of(machine, began) {
                self.due.insert((retry_at, began));
                ends.push(end);
            }
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::{
        Acquire, Arrive, Attempt, BarrierKind, Entry, LockName, OpenSession, Owner, RecipeName,
        SessionName, Stamp,
    };

    use super::*;

    const GRACE: Duration = Duration::from_secs(10);
    const SECOND: Duration = Duration::from_secs(1);

    fn open(session: &str) -> OpenSession {
        OpenSession::of(SessionName::new(session).unwrap())
    }

    fn acquire(session: &str, wait_ms: Option<u64>) -> Command {
        acquire_as(session, None, wait_ms)
    }

    fn acquire_as(session: &str, attempt: Option<Attempt>, wait_ms: Option<u64>) -> Command {
        let (lock, owner) = (LockName::new("a").unwrap(), Owner::unnamed());
        Command::Acquire(Acquire { attempt, wait_ms, ..Acquire::new(lock, open(session), owner) })
    }

    fn arrive(session: &str) -> Command {
        Command::Recipe(Recipe::Arrive(Arrive {
            barrier_kind: BarrierKind::Barrier,
            name: RecipeName::new("a").unwrap(),
            parties: 3,
            open: open(session),
            owner: Owner::unnamed(),
            request: None,
            wait_ms: Some(5_000),
        }))
    }

    fn apply(machine: &mut Machine, commands: Vec<Command>) {
        for outcome in machine.apply(Entry { stamped_at: Stamp(0), commands }).outcomes {
            outcome.unwrap();
        }
    }

    /// Two waits of five seconds and one unlimited wait.
    fn waiting() -> (Machine, OrphanedWaits, Instant) {
        let mut machine = Machine::new();
        let wait = |session| acquire(session, Some(5_000));
        apply(&mut machine, vec![acquire("me", None), wait("w1"), acquire("w2", None), wait("w3")]);
        let (mut orphans, t0) = (OrphanedWaits::new(WaitSource::Locks), Instant::now());
        orphans.scan(&machine, t0, GRACE);
        (machine, orphans, t0)
    }

    /// The entry has the latest call only, and each call has its own deadline.
    #[test]
    fn each_of_the_nested_waits_of_one_owner_ends_at_its_own_deadline() {
        let mut machine = Machine::new();
        let nested = |attempt, wait_ms| acquire_as("w", Some(Attempt(attempt)), Some(wait_ms));
        apply(&mut machine, vec![acquire("me", None), nested(1, 5_000), nested(2, 60_000)]);
        let (mut orphans, t0) = (OrphanedWaits::new(WaitSource::Locks), Instant::now());
        orphans.scan(&machine, t0, GRACE);
        assert_eq!((machine.waits(), orphans.due.len()), (2, 2));
        for seconds in [15, 70] {
            let now = t0 + SECOND * seconds;
            let ends = orphans.overdue(&machine, now, now + SECOND, 10);
            assert_eq!(ends.len(), 1);
            apply(&mut machine, ends);
        }
        assert_eq!(
            (machine.waits(), orphans.overdue(&machine, t0 + GRACE * 99, t0, 10)),
            (0, vec![])
        );
    }

    #[test]
    fn a_wait_is_cancelled_a_grace_period_after_its_deadline() {
        let (mut machine, mut orphans, t0) = waiting();
        let late = t0 + SECOND * 99;
        assert_eq!(orphans.overdue(&machine, t0 + SECOND * 14, late, 10), []);
        let ends = orphans.overdue(&machine, t0 + SECOND * 15, late, 10);
        assert_eq!(ends.len(), 2);
        apply(&mut machine, ends);
        assert_eq!(machine.counts().waiters, 1, "a waiter without a deadline still waits");
        assert_eq!(orphans.overdue(&machine, late, late, 10), []);
    }

    #[test]
    fn a_repeated_acquire_is_another_wait() {
        let (mut machine, mut orphans, t0) = waiting();
        apply(&mut machine, vec![acquire("w1", Some(5_000))]);
        orphans.scan(&machine, t0 + SECOND * 5, GRACE);
        let late = t0 + SECOND * 99;
        let first = orphans.overdue(&machine, t0 + SECOND * 15, late, 10);
        assert_eq!(first.len(), 1, "the wait of the other session");
        assert_eq!(orphans.overdue(&machine, t0 + SECOND * 20, late, 10).len(), 1);
    }

    #[test]
    fn a_command_that_did_not_reach_the_log_is_retried() {
        let (machine, mut orphans, t0) = waiting();
        let due = t0 + SECOND * 15;
        let again = due + SECOND;
        let first = orphans.overdue(&machine, due, again, 1);
        assert_eq!(orphans.overdue(&machine, due, again + SECOND, 10).len(), 1, "the other wait");
        assert_eq!(orphans.overdue(&machine, again, again + SECOND, 10), first);
    }

    #[test]
    fn deadlines_of_ended_waits_are_trimmed() {
        let (mut machine, mut orphans, t0) = waiting();
        for _ in 0..2 * TRIM_SLACK {
            apply(&mut machine, vec![acquire("w1", Some(5_000))]);
            orphans.scan(&machine, t0, GRACE);
        }
        assert!(orphans.due.len() <= 2 * machine.waits() + TRIM_SLACK + 1);
    }

    #[test]
    fn a_barrier_wait_is_cancelled_a_grace_period_after_its_deadline() {
        let (mut machine, mut orphans) = (Machine::new(), OrphanedWaits::new(WaitSource::Barriers));
        let t0 = Instant::now();
        apply(&mut machine, vec![arrive("w1")]);
        orphans.scan(&machine, t0, GRACE);
        apply(&mut machine, vec![arrive("w1")]);
        orphans.scan(&machine, t0 + SECOND * 5, GRACE);
        let again = t0 + SECOND * 21;
        let early = orphans.overdue(&machine, t0 + SECOND * 19, again, 10);
        assert_eq!(early, [], "the session has repeated its arrival");
        let due = orphans.overdue(&machine, t0 + SECOND * 20, again, 10);
        assert_eq!(due.len(), 1);
        assert_eq!(orphans.overdue(&machine, again, again + SECOND, 10), due);
        apply(&mut machine, due);
        assert_eq!(machine.arrival_waits(), 0);
    }
}
