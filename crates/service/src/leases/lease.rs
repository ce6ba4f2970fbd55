//! The leases of sessions: deadlines in the leader's memory, on a monotonic clock that the caller passes in.
//!
//! A new leader starts with [`Leases::reset`], which gives every session its full TTL, a longer TTL before it, or the rest that
//! the log has in a record. From the proposal of a record on, the session is renewed only through the log. So no acknowledged
//! renewal is older than the record that a leader starts with.
//!
//! Invariants: a lease's deadline never moves back. Each lease has a heap entry at or before its deadline. An entry
//! that is taken too early is put back, so a renewal only stores a deadline (as in oxia's session expiry).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Bound;
use std::time::{Duration, Instant};

use holdfast_machine::LeaseTerms;
use holdfast_raft::LeaderEpoch;
use holdfast_types::{LeaseRecord, SessionId, Ttl};

/// Sessions with a shorter TTL get no records: a leader that lasts for this time ends them.
const RECORD_TTL_MIN: Duration = Duration::from_secs(2);
/// The silence after the beginning of a leadership that causes the first record. A live client may be silent for longer: its
/// next renewal then enters the log.
const FRESH_SILENCE: Duration = Duration::from_secs(1);
/// The time between two records of a session is a sixteenth of its TTL, within these bounds.
const RECORD_STEP_MIN: Duration = Duration::from_secs(1);
const RECORD_STEP_MAX: Duration = Duration::from_mins(1);
/// The part of the silence that a record leaves out, for clocks of different rates.
const RECORD_MARGIN: u32 = 100;
/// Outdated heap entries that are tolerated in addition to one per lease.
const TRIM_SLACK: usize = 64;

#[derive(Clone, Copy, Debug)]
struct RunningLease {
    ttl: Ttl,
    generation: u64,
    deadline: Instant,
    phase: LeasePhase,
    /// The session was not renewed in this leadership.
    fresh: bool,
    /// How much of the TTL the last record has.
    recorded: Duration,
    /// A record of this lease has no known outcome: the log may get it later.
    has_undecided_record: bool,
}

impl RunningLease {
    /// How much of the TTL has passed.
    fn used(&self, now: Instant) -> Duration {
        let left = self.deadline.saturating_duration_since(now);
        self.ttl.as_duration().saturating_sub(left)
    }

    /// Whether the log should know how much of the TTL has passed.
    fn is_record_due(&self, now: Instant) -> bool {
        let (ttl, used) = (self.ttl.as_duration(), self.used(now));
        let from = match self.phase {
            LeasePhase::Running if self.fresh => FRESH_SILENCE.min(ttl / 2),
            LeasePhase::Running => ttl / 2,
            LeasePhase::Recorded => {
                self.recorded + (ttl / 16).clamp(RECORD_STEP_MIN, RECORD_STEP_MAX)
            }
            LeasePhase::Expiring | LeasePhase::Undecided => return false,
        };
        ttl >= RECORD_TTL_MIN && used >= from && used < ttl
    }
}

/// The phase of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeasePhase {
    /// The lease ends at its deadline.
    Running,
    /// The same. A record is in the log or on its way: the session is renewed only through the log.
    Recorded,
    /// An expiry is proposed and has no outcome yet: the log decides.
    Expiring,
    /// An expiry has no known outcome and may still take effect: the log decides. Another is proposed at the deadline.
    Undecided,
}

impl LeasePhase {
    fn has_promised_deadline(self) -> bool {
        matches!(self, Self::Running | Self::Recorded)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// The lease runs from now.
    Renewed,
    /// An expiry or a record is in flight: the renewal must go through the log, after it.
    Expiring,
    /// This node has no such lease.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpiryOutcome {
    /// The expiry was applied, and so was every earlier expiry of the session.
    Applied,
    /// The expiry is not in the log.
    NotProposed,
    /// The expiry may be in the log, or may be appended later.
    Unknown,
}

#[derive(Debug, Default)]
pub(crate) struct Leases {
    live: BTreeMap<SessionId, RunningLease>,
    due: BinaryHeap<Reverse<(Instant, SessionId)>>,
    active: bool,
    /// The last leadership of this node that has ended.
    ended: Option<LeaderEpoch>,
    /// The session of the last record.
    last_recorded: Option<SessionId>,
}

impl Leases {
    /// Begins a leadership: every session has its full TTL from `now`, less what a record has. A longer TTL before it
    /// counts while a caller may rely on it. A record is later than the last renewal with that TTL.
    pub(crate) fn reset(
        &mut self,
        sessions: impl Iterator<Item = LeaseTerms>,
        records: impl Iterator<Item = (SessionId, Duration)>,
        now: Instant,
    ) {
        *self = Self { active: true, ended: self.ended, ..Self::default() };
        for LeaseTerms { session, ttl, generation, longest_ttl } in sessions {
            self.touch(session, longest_ttl, generation, now);
            if let Some(lease) = self.live.get_mut(&session) {
                (lease.ttl, lease.fresh) = (ttl, true);
            }
        }
        for (id, used) in records {
            self.use_up(id, used, now);
        }
    }

    fn use_up(&mut self, id: SessionId, used: Duration, now: Instant) {
        let Some(lease) = self.live.get_mut(&id) else { return };
        lease.recorded = used;
        lease.phase = LeasePhase::Recorded;
        lease.deadline = now + lease.ttl.as_duration().saturating_sub(used);
        self.due.push(Reverse((lease.deadline, id)));
    }

    /// Takes up to `count_max` leases whose records are due; from now on these sessions are renewed only through the log.
    /// Sessions that are not in use get none: their end would free nothing.
    pub(crate) fn records(
        &mut self,
        is_in_use: impl Fn(SessionId) -> bool,
        now: Instant,
        count_max: usize,
    ) -> Vec<LeaseRecord> {
        // Others have been recorded before: with too many due records, each session gets its turn.
        let from = self.last_recorded.unwrap_or(SessionId(0));
        let later = self.live.range((Bound::Excluded(from), Bound::Unbounded));
        let due = later.chain(self.live.range(..=from));
        let due = due.filter(|(id, lease)| lease.is_record_due(now) && is_in_use(**id));
        let due: Vec<SessionId> = due.map(|(id, _)| *id).take(count_max).collect();
        self.last_recorded = due.last().copied().or(self.last_recorded);
        let record = |id: SessionId| {
            let lease = self.live.get_mut(&id)?;
            lease.recorded = lease.used(now);
            lease.phase = LeasePhase::Recorded;
            let used = lease.recorded.saturating_sub(lease.recorded / RECORD_MARGIN);
            let used_ms = u32::try_from(used.as_millis()).unwrap_or(0);
            Some(LeaseRecord { session: id, generation: lease.generation, used_ms })
        };
        due.into_iter().filter_map(record).collect()
    }

    /// Notes that these records are not known to be in the log. A session whose record is certainly not in it is renewed in
    /// memory again. If the log may get it later, the session is renewed only through the log until its next renewal, even if an
    /// expiry that was certainly not proposed gives it another TTL.
    pub(crate) fn records_failed(&mut self, records: &[LeaseRecord], is_undecided: bool) {
        for record in records {
            let lease = self.live.get_mut(&record.session);
            let Some(lease) = lease.filter(|lease| lease.generation == record.generation) else {
                continue;
            };
            lease.has_undecided_record |= is_undecided;
            if lease.phase == LeasePhase::Recorded && !lease.has_undecided_record {
                lease.phase = LeasePhase::Running;
            }
        }
    }

    /// Ends a leadership; `None` if this node did not lead.
    pub(crate) fn end_leadership(&mut self, leadership: Option<LeaderEpoch>) {
        *self = Self { ended: leadership.max(self.ended), ..Self::default() };
    }

    /// Whether a leadership of this node has ended: another leader may have the sessions by now.
    pub(crate) fn has_ended(&self, leadership: LeaderEpoch) -> bool {
        self.ended.is_some_and(|ended| ended >= leadership)
    }

    /// True between [`Leases::reset`] and [`Leases::end_leadership`].
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// Starts or renews a lease through the log. Ignored unless active.
    pub(crate) fn touch(&mut self, id: SessionId, ttl: Ttl, generation: u64, now: Instant) {
        if !self.active {
            return;
        }
        // A shorter TTL never moves a promised deadline back. An expiring lease has no promised deadline.
        let promised = self.live.get(&id).filter(|lease| lease.phase.has_promised_deadline());
        let promised = promised.map(|lease| lease.deadline);
        let deadline = promised.unwrap_or(now).max(now + ttl.as_duration());
        let lease = RunningLease {
            ttl,
            generation,
            deadline,
            phase: LeasePhase::Running,
            fresh: false,
            recorded: Duration::ZERO,
            has_undecided_record: false,
        };
        self.live.insert(id, lease);
        if promised.is_none() {
            self.due.push(Reverse((deadline, id)));
            self.trim();
        }
    }

    /// Drops outdated entries before they outnumber the leases.
    fn trim(&mut self) {
        if self.due.len() > 2 * self.live.len() + TRIM_SLACK {
            let timed = self.live.iter().filter(|(_, lease)| lease.phase != LeasePhase::Expiring);
            self.due = timed.map(|(id, lease)| Reverse((lease.deadline, *id))).collect();
        }
    }

    /// Renews without the log.
    pub(crate) fn renew(&mut self, id: SessionId, now: Instant) -> Renewal {
        match self.live.get_mut(&id) {
            None => Renewal::Unknown,
            Some(lease) if lease.phase != LeasePhase::Running => Renewal::Expiring,
            Some(lease) => {
                lease.deadline = lease.deadline.max(now + lease.ttl.as_duration());
                lease.fresh = false;
                Renewal::Renewed
            }
        }
    }

    pub(crate) fn end(&mut self, id: SessionId) {
        self.live.remove(&id);
    }

    pub(crate) fn remaining(&self, id: SessionId, now: Instant) -> Option<Duration> {
        self.live.get(&id).map(|lease| lease.deadline.saturating_duration_since(now))
    }

    /// Extends all leases by a pause in which no client could renew.
    pub(crate) fn extend(&mut self, gap: Duration) {
        for lease in self.live.values_mut() {
            lease.deadline += gap;
        }
    }

    /// Takes up to `count_max` leases that ran out; from now on only the log decides about them. Leases whose last
    /// expiry has no known outcome are taken again.
    pub(crate) fn overdue(&mut self, now: Instant, count_max: usize) -> Vec<(SessionId, u64)> {
        let mut overdue = Vec::new();
        while overdue.len() < count_max {
            match self.due.peek() {
                Some(Reverse((at, _))) if *at <= now => {}
                _ => break,
            }
            let Some(Reverse((_, id))) = self.due.pop() else { break };
            let Some(lease) = self.live.get_mut(&id) else { continue };
            if lease.phase == LeasePhase::Expiring {
                continue;
            }
            if lease.deadline > now {
                self.due.push(Reverse((lease.deadline, id)));
                continue;
            }
            if lease.phase.has_promised_deadline() {
                lease.phase = LeasePhase::Expiring;
            }
            overdue.push((id, lease.generation));
        }
        overdue
    }

    /// Records the outcome of a taken expiry, unless the lease was touched meanwhile. If the expiry certainly did not
    /// take effect, the session has another full TTL. If it may still take effect, it is proposed again after one TTL.
    /// Until the log has decided, the session is renewed only through the log. A repeated expiry has no further effect.
    pub(crate) fn disarm(&mut self, id: SessionId, outcome: ExpiryOutcome, now: Instant) {
        let Some(lease) = self.live.get_mut(&id) else { return };
        lease.phase = match (lease.phase, outcome) {
            (LeasePhase::Running | LeasePhase::Recorded, _) => return,
            (LeasePhase::Expiring, ExpiryOutcome::NotProposed) if lease.has_undecided_record => {
                LeasePhase::Recorded
            }
            (_, ExpiryOutcome::Applied) | (LeasePhase::Expiring, ExpiryOutcome::NotProposed) => {
                LeasePhase::Running
            }
            (_, ExpiryOutcome::Unknown) | (LeasePhase::Undecided, ExpiryOutcome::NotProposed) => {
                LeasePhase::Undecided
            }
        };
        lease.deadline = now + lease.ttl.as_duration();
        self.due.push(Reverse((lease.deadline, id)));
    }
}

#[cfg(test)]
mod flapping;

/// A lease whose TTL has replaced no longer one.
#[cfg(test)]
pub(crate) fn started(session: SessionId, ttl: Ttl, generation: u64) -> LeaseTerms {
    LeaseTerms { session, ttl, generation, longest_ttl: ttl }
}

#[cfg(test)]
mod tests {
    use holdfast_types::NodeId;

    use super::*;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);

    fn ttl(seconds: u64) -> Ttl {
        Ttl::from_millis(seconds * 1000).unwrap()
    }

    fn active(now: Instant) -> Leases {
        let mut leases = Leases::default();
        let sessions = [started(A, ttl(10), 1), started(B, ttl(20), 7)];
        leases.reset(sessions.into_iter(), std::iter::empty(), now);
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
    fn a_renewal_after_an_expiry_must_go_through_the_log() {
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
    fn a_shorter_ttl_does_not_move_the_promised_deadline_back() {
        let t0 = Instant::now();
        let mut leases = active(t0);
        leases.touch(B, ttl(1), 8, t0);
        assert_eq!(leases.overdue(t0 + seconds(19), 10), [(A, 1)]);
        assert_eq!(leases.overdue(t0 + seconds(20), 10), [(B, 8)]);
    }

    /// The former leader promised 20 s, and the TTL is 2 s now.
    #[test]
    fn a_new_leader_keeps_a_longer_ttl_that_a_caller_may_rely_on() {
        let t0 = Instant::now();
        let mut leases = Leases::default();
        let shortened = LeaseTerms { longest_ttl: ttl(20), ..started(A, ttl(2), 8) };
        leases.reset([shortened].into_iter(), std::iter::empty(), t0);
        assert_eq!(leases.records(|_| true, t0 + seconds(18), 10), [], "nothing of 2 s has passed");
        assert_eq!(leases.renew(A, t0 + seconds(1)), Renewal::Renewed);
        assert_eq!(leases.overdue(t0 + Duration::from_millis(19_999), 10), []);
        assert_eq!(leases.overdue(t0 + seconds(20), 10), [(A, 8)]);
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
    fn a_pause_extends_leases_instead_of_expiring_them() {
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
        leases.disarm(A, ExpiryOutcome::NotProposed, t0 + seconds(11));
        assert_eq!(leases.overdue(t0 + seconds(20), 10), [(B, 7)]);
        assert_eq!(leases.overdue(t0 + seconds(21), 10), [(A, 1)]);
    }

    #[test]
    fn an_expiry_without_a_known_outcome_is_proposed_again_until_the_log_has_decided() {
        let t0 = Instant::now();
        let mut leases = active(t0);
        assert_eq!(leases.overdue(t0 + seconds(10), 10), [(A, 1)]);
        leases.disarm(A, ExpiryOutcome::Unknown, t0 + seconds(12));
        assert_eq!(
            leases.renew(A, t0 + seconds(13)),
            Renewal::Expiring,
            "the expiry may still take effect"
        );
        assert_eq!(leases.overdue(t0 + seconds(22), 10), [(B, 7), (A, 1)]);
        // The second expiry is certainly not in the log; the first may still be.
        leases.disarm(A, ExpiryOutcome::NotProposed, t0 + seconds(23));
        assert_eq!(leases.renew(A, t0 + seconds(24)), Renewal::Expiring);
        assert_eq!(leases.overdue(t0 + seconds(32), 10), []);
        assert_eq!(leases.overdue(t0 + seconds(33), 10), [(A, 1)]);
        leases.disarm(A, ExpiryOutcome::Applied, t0 + seconds(34));
        assert_eq!(leases.renew(A, t0 + seconds(34)), Renewal::Renewed);
    }

    #[test]
    fn a_lease_with_an_undecided_record_is_renewed_only_through_the_log() {
        let t0 = Instant::now();
        let mut leases = active(t0);
        let records = leases.records(|id| id == A, t0 + seconds(5), 1);
        leases.records_failed(&records, true);
        leases.records_failed(&records, false);
        assert_eq!(leases.overdue(t0 + seconds(10), 10), [(A, 1)]);
        leases.disarm(A, ExpiryOutcome::NotProposed, t0 + seconds(10));
        assert_eq!(leases.renew(A, t0 + seconds(11)), Renewal::Expiring, "the log may get it");
        assert_eq!(leases.remaining(A, t0 + seconds(11)), Some(seconds(9)));
        leases.touch(A, ttl(10), 2, t0 + seconds(12));
        leases.records_failed(&records, true);
        assert_eq!(leases.overdue(t0 + seconds(22), 10), [(A, 2), (B, 7)]);
        leases.disarm(A, ExpiryOutcome::NotProposed, t0 + seconds(22));
        let renewed = leases.renew(A, t0 + seconds(23));
        assert_eq!(renewed, Renewal::Renewed, "a record of an older lease");
    }

    #[test]
    fn a_lease_whose_record_was_refused_is_renewed_in_memory_again() {
        let t0 = Instant::now();
        let mut leases = active(t0);
        let records = leases.records(|id| id == A, t0 + seconds(5), 1);
        assert_eq!(leases.renew(A, t0 + seconds(6)), Renewal::Expiring, "it is on its way");
        leases.records_failed(&records, false);
        assert_eq!(leases.renew(A, t0 + seconds(7)), Renewal::Renewed);
        assert_eq!(leases.remaining(A, t0 + seconds(7)), Some(seconds(10)));
    }

    #[test]
    fn a_renewal_through_the_log_ends_the_undecided_phase() {
        let t0 = Instant::now();
        let mut leases = active(t0);
        assert_eq!(leases.overdue(t0 + seconds(10), 10), [(A, 1)]);
        leases.disarm(A, ExpiryOutcome::Unknown, t0 + seconds(12));
        leases.touch(A, ttl(10), 2, t0 + seconds(13));
        leases.disarm(A, ExpiryOutcome::Unknown, t0 + seconds(14));
        assert_eq!(leases.renew(A, t0 + seconds(14)), Renewal::Renewed);
        assert_eq!(leases.overdue(t0 + seconds(23), 10), [(B, 7)]);
        assert_eq!(leases.overdue(t0 + seconds(24), 10), [(A, 2)]);
    }

    #[test]
    fn without_a_leadership_no_lease_is_overdue() {
        let t0 = Instant::now();
        let mut leases = active(t0);
        let of_term = |term| LeaderEpoch { term, node: NodeId(1) };
        leases.end_leadership(Some(of_term(7)));
        leases.end_leadership(None);
        leases.touch(A, ttl(1), 1, t0);
        assert!(!leases.is_active());
        // A renewal that this leadership confirmed comes too late: the next leader may have a record.
        assert!(leases.has_ended(of_term(7)) && !leases.has_ended(of_term(8)));
        assert_eq!(leases.overdue(t0 + seconds(100), 10), []);
        assert_eq!(leases.renew(A, t0), Renewal::Unknown);
    }

    #[test]
    fn repeated_ttl_changes_keep_the_heap_bounded() {
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
    fn an_ended_session_is_never_overdue() {
        let t0 = Instant::now();
        let mut leases = active(t0);
        leases.end(A);
        assert_eq!(leases.overdue(t0 + seconds(15), 10), []);
        assert_eq!(leases.remaining(A, t0), None);
        assert_eq!(leases.remaining(B, t0 + seconds(5)), Some(seconds(15)));
    }
}
