//! Leaders that change more often than the TTL, over random histories: no session ends early, and a dead one ends.

use std::time::{Duration, Instant};

use holdfast_machine::Machine;
use holdfast_types::{
    ClusterId, Command, Entry, FeatureLevel, NodeId, OpenSession, Outcome, SessionId, SessionName,
    Stamp, Ttl,
};

use super::*;

/// A random number generator (xorshift).
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

const TTL_MS: u64 = 10_000;
const SHORT_TTL_MS: u64 = 3_000;
const DEAD: SessionId = SessionId(1);
const LIVE: SessionId = SessionId(2);

/// One log, and the lease tables of two nodes that lead by turns.
struct World {
    start: Instant,
    now_ms: u64,
    machine: Machine,
    tables: [Leases; 2],
    leader: usize,
    /// The latest end of each session that a caller was told.
    told_until: [u64; 2],
    /// A proposal that is not in the log yet: the leader may append it later.
    late: Option<Command>,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            start: Instant::now(),
            now_ms: 0,
            machine: Machine::new(),
            tables: [Leases::default(), Leases::default()],
            leader: 0,
            told_until: [TTL_MS; 2],
            late: None,
        };
        let members = [NodeId(1)].into();
        let (cluster_id, level) = (ClusterId(1), FeatureLevel::FIRST);
        world.apply(Command::Bootstrap { cluster_id, level, members }).unwrap();
        for name in ["dead", "live"] {
            let session = SessionName::new(name).unwrap();
            let ttl = Ttl::from_millis(TTL_MS).ok();
            let open = OpenSession { ttl, ..OpenSession::of(session) };
            world.apply(Command::OpenSession { open, attempt: None }).unwrap();
        }
        world.lead(0);
        world
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_millis(self.now_ms)
    }

    /// Applies a command on both nodes, as the observer of each does.
    fn apply(&mut self, command: Command) -> Outcome {
        let now = self.now();
        let entry = Entry { stamped_at: Stamp(self.now_ms), commands: vec![command] };
        let mut applied = self.machine.apply(entry);
        for (_, event) in &applied.events {
            use holdfast_types::{Event, SessionEvent};
            for table in &mut self.tables {
                if let Event::Session(SessionEvent::LeaseStarted { id, ttl, generation }) = event {
                    table.touch(*id, *ttl, *generation, now);
                } else if let Event::Session(SessionEvent::Ended { id, .. }) = event {
                    table.end(*id);
                }
            }
        }
        applied.outcomes.remove(0)
    }

    /// The former leader's table stays: it may not know yet that it has lost the leadership.
    fn lead(&mut self, node: usize) {
        // The proposal of the former leader is in the log of the new one, or in none.
        if let Some(late) = self.late.take_if(|_| self.now_ms.is_multiple_of(2)) {
            drop(self.apply(late));
        }
        self.late = None;
        let now = self.now();
        self.leader = node;
        let (sessions, used) = (self.machine.leases(), self.machine.leases_used());
        self.tables[node].reset(sessions, used, now);
    }

    /// Renews as `renewal.rs` does.
    fn renew(&mut self, id: SessionId) {
        let began = self.now_ms;
        let Some((_, _)) = self.machine.lease(id) else { return };
        let now = self.now();
        let in_log = self.machine.lease_used(id).is_some()
            || self.tables[self.leader].renew(id, now) != Renewal::Renewed;
        if in_log {
            let session = self.machine.session_name(id).unwrap();
            if self.apply(Command::RenewSession { session }).is_err() {
                return;
            }
        }
        self.tell(id, began);
    }

    /// The caller of a renewal that began then counts its TTL.
    fn tell(&mut self, id: SessionId, began: u64) {
        let (ttl, _) = self.machine.lease(id).unwrap();
        let told = &mut self.told_until[usize::try_from(id.0).unwrap() - 1];
        *told = (*told).max(began + u64::from(ttl.as_millis()));
    }

    /// Another call sets the TTL.
    fn set_ttl(&mut self, id: SessionId, ttl_ms: u64) {
        let (session, ttl) = (self.machine.session_name(id).unwrap(), Ttl::from_millis(ttl_ms));
        let open = OpenSession { ttl: ttl.ok(), ..OpenSession::of(session) };
        self.apply(Command::OpenSession { open, attempt: None }).unwrap();
        self.tell(id, self.now_ms);
    }

    /// One turn of the leader's timers. The log may get the record only later.
    fn turn(&mut self, rng: &mut Rng) {
        let now = self.now();
        let table = &mut self.tables[self.leader];
        for (session, generation) in table.overdue(now, 10) {
            let ended = self.apply(Command::ExpireSession { session, generation }).is_ok();
            let told = self.told_until[usize::try_from(session.0).unwrap() - 1];
            let early = ended && self.now_ms < told;
            assert!(!early, "{session:?}, told to live until {told}, ended at {}", self.now_ms);
            self.tables[self.leader].disarm(session, ExpiryOutcome::Applied, now);
        }
        if let Some(late) = self.late.take() {
            drop(self.apply(late));
        }
        let leases = self.tables[self.leader].records(|_| true, now, 10);
        if leases.is_empty() {
            return;
        }
        let command = Command::RecordLeases { leases };
        if rng.below(2) == 0 {
            drop(self.apply(command));
        } else {
            self.late = Some(command);
        }
    }
}

#[test]
fn no_session_ends_early_while_leaders_change_and_a_dead_one_ends() {
    for seed in 1..200_u64 {
        let (mut rng, mut world) = (Rng(seed * 7_919), World::new());
        let shortest = 3_500;
        let mut next_leader = shortest + rng.below(4_000);
        let mut next_renewal = 0;
        if seed % 2 == 0 {
            world.set_ttl(DEAD, SHORT_TTL_MS);
        }
        while world.machine.lease(DEAD).is_some() {
            world.now_ms += 1 + rng.below(500);
            assert!(world.now_ms < 6 * TTL_MS, "seed {seed}: the dead session stays");
            if world.now_ms >= next_leader {
                let next = usize::try_from(rng.below(2)).unwrap();
                world.lead(next);
                next_leader = world.now_ms + shortest + rng.below(4_000);
            }
            if world.now_ms >= next_renewal {
                let ttl_ms = if rng.below(2) == 0 { TTL_MS } else { SHORT_TTL_MS };
                match rng.below(3) {
                    0 => world.set_ttl(LIVE, ttl_ms),
                    _ => world.renew(LIVE),
                }
                let (ttl, _) = world.machine.lease(LIVE).unwrap();
                next_renewal = world.now_ms + rng.below(u64::from(ttl.as_millis()) - 1_000);
            }
            world.turn(&mut rng);
        }
        assert!(world.machine.lease(LIVE).is_some(), "seed {seed}: the live session has ended");
    }
}

#[test]
fn a_new_leader_starts_with_the_record_and_a_renewal_clears_it() {
    let t0 = Instant::now();
    let at = |ms| t0 + Duration::from_millis(ms);
    let ttl = Ttl::from_millis(TTL_MS).unwrap();
    let session = || [started(DEAD, ttl, 1)].into_iter();
    let mut leases = Leases::default();
    leases.reset(session(), std::iter::empty(), t0);
    assert_eq!(leases.records(|_| true, at(999), 10), []);
    assert_eq!(leases.records(|_| false, at(1_000), 10), []);
    let taken = leases.records(|_| true, at(1_000), 10);
    assert_eq!(taken, [LeaseRecord { session: DEAD, generation: 1, used_ms: 990 }]);
    assert_eq!(leases.renew(DEAD, at(1_000)), Renewal::Expiring, "it may be in the log");
    assert_eq!(leases.records(|_| true, at(1_999), 10), []);
    assert_eq!(leases.records(|_| true, at(2_000), 10)[0].used_ms, 1_980);

    let used = [(DEAD, Duration::from_millis(1_980))];
    leases.reset(session(), used.into_iter(), at(5_000));
    assert_eq!(leases.renew(DEAD, at(5_000)), Renewal::Expiring);
    assert_eq!(leases.overdue(at(13_019), 10), []);
    assert_eq!(leases.overdue(at(13_020), 10), [(DEAD, 1)]);

    leases.reset(session(), used.into_iter(), at(5_000));
    leases.touch(DEAD, ttl, 2, at(6_000));
    assert_eq!(leases.renew(DEAD, at(7_000)), Renewal::Renewed);
    // A lease that was renewed in this leadership gets its first record at half of its TTL.
    assert_eq!(leases.records(|_| true, at(11_999), 10), []);
    assert_eq!(leases.records(|_| true, at(12_000), 10).len(), 1);
}

/// With more due sessions than fit into a record, the first ones are due again a second later.
#[test]
fn each_silent_session_gets_its_turn_of_the_records() {
    let t0 = Instant::now();
    let at = |ms| t0 + Duration::from_millis(ms);
    let ttl = Ttl::from_millis(TTL_MS).unwrap();
    let sessions = [1, 2, 3].map(|id| started(SessionId(id), ttl, 1));
    let mut leases = Leases::default();
    leases.reset(sessions.into_iter(), std::iter::empty(), t0);
    let mut taken =
        |ms| leases.records(|_| true, at(ms), 2).iter().map(|of| of.session.0).collect::<Vec<_>>();
    assert_eq!([taken(1_000), taken(2_000), taken(3_000)], [[1, 2], [3, 1], [2, 3]]);
}

#[test]
fn short_leases_get_no_records_and_long_ones_a_bounded_number() {
    let t0 = Instant::now();
    for (seconds, records) in [(1, 0), (2, 1), (4, 3), (10, 9), (3_600, 60)] {
        let ttl = Ttl::from_millis(seconds * 1_000).unwrap();
        let mut leases = Leases::default();
        leases.reset([started(DEAD, ttl, 1)].into_iter(), std::iter::empty(), t0);
        let at = |half| t0 + Duration::from_millis(500) * half;
        let halves = 0..=2 * u32::try_from(seconds).unwrap();
        let taken: usize = halves.map(|half| leases.records(|_| true, at(half), 10).len()).sum();
        assert_eq!(taken, records, "a TTL of {seconds} s");
    }
}
