//! The leases of sessions: deadlines in the leader's memory, on a monotonic clock that is handed in.
//!
//! Owns when a session may be expired. Refuses to read a clock, to propose anything, or to outlive a leadership:
//! a new leader starts with [`Leases::reset`], which gives every session its full time-to-live.
//!
//! Invariant: a lease's deadline never moves back. A heap entry exists for each lease, at or before its deadline;
//! an entry found too early is put back (the scheme of oxia's session expiry), so that a renewal is one store.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

use holdfast_types::{SessionId, Ttl};

/// Overtaken heap entries that are always tolerated.
const TRIM_SLACK: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Lease {
    ttl: Ttl,
    generation: u64,
    deadline: Instant,
    /// An expiry is on its way through the log; only the log can decide now.
    expiring: bool,
}

/// What became of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// The lease runs from now.
    Renewed,
    /// An expiry is under way: renew through the log, behind it.
    Expiring,
    /// No such lease here.
    Unknown,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    live: BTreeMap<SessionId, Lease>,
    due: BinaryHeap<Reverse<(Instant, SessionId)>>,
    active: bool,
}

impl Leases {
    /// Begins a leadership: every session has its full time-to-live from `now`.
    pub(crate) fn reset(
        &mut self,
        sessions: impl Iterator<Item = (SessionId, Ttl, u64)>,
        now: Instant,
    ) {
        self.clear();
        self.active = true;
        for (id, ttl, generation) in sessions {
            self.touch(id, ttl, generation, now);
        }
    }

    /// Ends a leadership: nothing is due here any more.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// True between [`Leases::reset`] and [`Leases::clear`].
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// A session showed life through the log. Ignored unless active.
    pub(crate) fn touch(&mut self, id: SessionId, ttl: Ttl, generation: u64, now: Instant) {
        if !self.active {
            return;
        }
        // What was promised under a longer time-to-live stands. A lease on its way out promises nothing any more, and
        // has no heap entry.
        let promised = self.live.get(&id).filter(|lease| !lease.expiring);
        let promised = promised.map(|lease| lease.deadline);
        let deadline = promised.unwrap_or(now).max(now + ttl.as_duration());
        self.live.insert(id, Lease { ttl, generation, deadline, expiring: false });
        if promised.is_none() {
            self.due.push(Reverse((deadline, id)));
            self.trim();
        }
    }

    /// Entries that later ones have overtaken are dropped before they are more than the leases.
    fn trim(&mut self) {
        if self.due.len() > 2 * self.live.len() + TRIM_SLACK {
            let running = self.live.iter().filter(|(_, lease)| !lease.expiring);
            self.due = running.map(|(id, lease)| Reverse((lease.deadline, *id))).collect();
        }
    }

    /// Renews without the log.
    pub(crate) fn renew(&mut self, id: SessionId, now: Instant) -> Renewal {
        match self.live.get_mut(&id) {
            None => Renewal::Unknown,
            Some(lease) if lease.expiring => Renewal::Expiring,
            Some(lease) => {
                lease.deadline = lease.deadline.max(now + lease.ttl.as_duration());
                Renewal::Renewed
            }
        }
    }

    /// The session has ended.
    pub(crate) fn end(&mut self, id: SessionId) {
        self.live.remove(&id);
    }

    /// What is left of a lease.
    pub(crate) fn remaining(&self, id: SessionId, now: Instant) -> Option<Duration> {
        self.live.get(&id).map(|lease| lease.deadline.saturating_duration_since(now))
    }

    /// The tick came late by `gap`: nobody could renew meanwhile, so everybody gets that time back.
    pub(crate) fn extend(&mut self, gap: Duration) {
        for lease in self.live.values_mut() {
            lease.deadline += gap;
        }
    }

    /// Takes up to `count_max` leases that ran out; from now on only the log decides about them.
    pub(crate) fn overdue(&mut self, now: Instant, count_max: usize) -> Vec<(SessionId, u64)> {
        let mut overdue = Vec::new();
        while overdue.len() < count_max {
            match self.due.peek() {
                Some(Reverse((at, _))) if *at <= now => {}
                _ => break,
            }
            let Some(Reverse((_, id))) = self.due.pop() else { break };
            let Some(lease) = self.live.get_mut(&id) else { continue };
            if lease.deadline > now {
                self.due.push(Reverse((lease.deadline, id)));
            } else if !lease.expiring {
                lease.expiring = true;
                overdue.push((id, lease.generation));
            }
        }
        overdue
    }

    /// An expiry did not take effect (its proposal failed, or it was superseded): the lease is due again after
    /// another full time-to-live, unless it was touched meanwhile.
    pub(crate) fn spare(&mut self, id: SessionId, now: Instant) {
        if let Some(lease) = self.live.get_mut(&id).filter(|lease| lease.expiring) {
            lease.expiring = false;
            lease.deadline = now + lease.ttl.as_duration();
            self.due.push(Reverse((lease.deadline, id)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);

    fn ttl(seconds: u64) -> Ttl {
        Ttl::from_millis(seconds * 1000).unwrap()
    }

    fn active(now: Instant) -> Leases {
        let mut leases = Leases::default();
        leases.reset([(A, ttl(10), 1), (B, ttl(20), 7)].into_iter(), now);
        leases
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn a_session_is_overdue_at_its_ttl_and_not_before() {
        let t0 = Instant::now();
        let mut leases = active(t0);
        assert_eq!(leases.overdue(t0 + Duration::from_nanos(9_999_999_999), 10), []);
        assert_eq!(leases.overdue(t0 + seconds(10), 10), [(A, 1)]);
        assert_eq!(leases.overdue(t0 + seconds(20), 10), [(B, 7)]);
    }

    #[test]
    fn a_renewal_moves_the_deadline() {
        let t0 = Instant::now();
        let mut leases = active(t0);
        assert_eq!(leases.renew(A, t0 + seconds(9)), Renewal::Renewed);
        assert_eq!(leases.overdue(t0 + seconds(18), 10), []);
        assert_eq!(leases.overdue(t0 + seconds(19), 10), [(A, 1)]);
    }

    #[test]
    fn a_renewal_behind_an_expiry_must_go_through_the_log() {
        let t0 = Instant::now();
        let mut leases = active(t0);
        assert_eq!(leases.overdue(t0 + seconds(10), 10), [(A, 1)]);
        assert_eq!(leases.renew(A, t0 + seconds(10)), Renewal::Expiring);
        leases.touch(A, ttl(10), 2, t0 + seconds(11));
        assert_eq!(leases.renew(A, t0 + seconds(12)), Renewal::Renewed);
        assert_eq!(leases.overdue(t0 + seconds(21), 10), [(B, 7)]);
        assert_eq!(leases.overdue(t0 + seconds(22), 10), [(A, 2)]);
    }

    #[test]
    fn a_shorter_ttl_takes_back_nothing_that_was_promised() {
        let t0 = Instant::now();
        let mut leases = active(t0);
        leases.touch(B, ttl(1), 8, t0);
        assert_eq!(leases.overdue(t0 + seconds(19), 10), [(A, 1)]);
        assert_eq!(leases.overdue(t0 + seconds(20), 10), [(B, 8)]);
    }

    #[test]
    fn a_shorter_ttl_counts_from_the_next_renewal() {
        let t0 = Instant::now();
        let mut leases = active(t0);
        leases.touch(B, ttl(1), 8, t0 + seconds(19));
        assert_eq!(leases.renew(B, t0 + seconds(20)), Renewal::Renewed);
        assert_eq!(leases.overdue(t0 + seconds(21), 10), [(A, 1), (B, 8)]);
    }

    #[test]
    fn a_late_tick_extends_instead_of_expiring() {
        let t0 = Instant::now();
        let mut leases = active(t0);
        leases.extend(seconds(60));
        assert_eq!(leases.overdue(t0 + seconds(60), 10), []);
        assert_eq!(leases.overdue(t0 + seconds(70), 10), [(A, 1)]);
    }

    #[test]
    fn an_expiry_that_failed_leaves_a_full_ttl() {
        let t0 = Instant::now();
        let mut leases = active(t0);
        assert_eq!(leases.overdue(t0 + seconds(10), 10), [(A, 1)]);
        leases.spare(A, t0 + seconds(11));
        assert_eq!(leases.overdue(t0 + seconds(20), 10), [(B, 7)]);
        assert_eq!(leases.overdue(t0 + seconds(21), 10), [(A, 1)]);
    }

    #[test]
    fn outside_a_leadership_nothing_is_due() {
        let t0 = Instant::now();
        let mut leases = active(t0);
        leases.clear();
        leases.touch(A, ttl(1), 1, t0);
        assert!(!leases.is_active());
        assert_eq!(leases.overdue(t0 + seconds(100), 10), []);
        assert_eq!(leases.renew(A, t0), Renewal::Unknown);
    }

    #[test]
    fn a_client_that_changes_its_ttl_for_ever_costs_one_lease() {
        let t0 = Instant::now();
        let mut leases = active(t0);
        for generation in 0..10_000 {
            leases.touch(A, ttl(80_000 - generation), generation, t0);
        }
        assert!(leases.due.len() <= 2 * leases.live.len() + TRIM_SLACK);
        assert_eq!(leases.overdue(t0 + seconds(80_000), 10), [(A, 9_999), (B, 7)]);
    }

    #[test]
    fn expiries_come_in_bounded_batches() {
        let t0 = Instant::now();
        let mut leases = active(t0);
        assert_eq!(leases.overdue(t0 + seconds(30), 1).len(), 1);
        assert_eq!(leases.overdue(t0 + seconds(30), 1).len(), 1);
        assert_eq!(leases.overdue(t0 + seconds(30), 1).len(), 0);
    }

    #[test]
    fn an_ended_session_is_never_due() {
        let t0 = Instant::now();
        let mut leases = active(t0);
        leases.end(A);
        assert_eq!(leases.overdue(t0 + seconds(15), 10), []);
        assert_eq!(leases.remaining(A, t0), None);
        assert_eq!(leases.remaining(B, t0 + seconds(5)), Some(seconds(15)));
    }
}
