//! Beginnings of histories: scenarios that random steps seldom produce, with random names.

use holdfast_types::*;
use proptest::prelude::*;

use super::history::Move;
use super::script_commands::{lock_name, open, session_name};

/// The beginning of a history: half of them are empty.
pub(super) fn beginning() -> impl Strategy<Value = Vec<Move>> {
    let sessions = Just(vec!["s1", "s2", "s3", "s4"]).prop_shuffle();
    let locks = Just(vec!["a", "a/c", "b"]).prop_shuffle();
    (prop::option::weighted(0.5, 0..9_u8), sessions, locks, any::<bool>()).prop_map(
        |(scenario, sessions, locks, urgent)| {
            let names = Names { sessions, locks };
            match scenario {
                Some(0) => names.cycle_at_cooldown_end(urgent),
                Some(1) => names.readers_at_cooldown_end(urgent),
                Some(2) => names.upgrade_cycle(),
                Some(3) => names.reserved_for_multi_lock(),
                Some(4) => names.overtaking_cycle(),
                Some(5) => names.changed_lock_delay(urgent),
                Some(6) => names.handover_cycle(urgent),
                Some(7) => names.multi_lock_at_cooldown_end(urgent),
                Some(_) => names.handover_over_limit(urgent),
                None => Vec::new(),
            }
        },
    )
}

/// The sessions and locks of a scenario.
struct Names {
    sessions: Vec<&'static str>,
    locks: Vec<&'static str>,
}

impl Names {
    fn lock(&self, n: usize) -> LockName {
        lock_name(self.locks[n])
    }

    fn session(&self, n: usize) -> SessionName {
        session_name(self.sessions[n])
    }

    fn plain(&self, lock: usize, session: usize) -> Acquire {
        Acquire::new(self.lock(lock), open(self.sessions[session]), Owner::unnamed())
    }

    fn acquire(&self, lock: usize, session: usize) -> Move {
        Move::Command(Command::Acquire(self.plain(lock, session)))
    }

    fn acquire_as(&self, lock: usize, session: usize, mode: Mode) -> Move {
        let plain = self.plain(lock, session);
        Move::Command(Command::Acquire(Acquire { mode: Some(mode), ..plain }))
    }

    fn acquire_multi_lock(&self, locks: [usize; 2], session: usize, mode: Mode) -> Move {
        let locks = LockSet::new(locks.map(|lock| self.lock(lock)).to_vec()).unwrap();
        let plain = Acquire::new(locks, open(self.sessions[session]), Owner::unnamed());
        Move::Command(Command::Acquire(Acquire { mode: Some(mode), ..plain }))
    }

    fn release(&self, lock: usize, session: usize) -> Move {
        let (locks, session) = (self.lock(lock).into(), self.session(session));
        let (owner, target) = (Owner::unnamed(), ReleaseTarget::AnyEntry);
        Move::Command(Command::Release(Release { locks, session, owner, target }))
    }

    fn set_policy(&self, lock: usize, change: PolicyChange) -> Move {
        Move::Command(Command::SetPolicy { lock: self.lock(lock), change })
    }

    fn break_all(&self, lock: usize) -> Move {
        let (lock, reason) = (self.lock(lock), Reason::new("because").unwrap());
        Move::Command(Command::ForceRelease(ForceRelease {
            lock,
            what: ForceReleaseTarget::Holders,
            reason,
        }))
    }

    /// The first lock is in cooldown without a holder.
    fn cooldown(&self) -> Vec<Move> {
        let lock_delay_ms = Some(20);
        let lock_delay =
            self.set_policy(0, PolicyChange { lock_delay_ms, ..PolicyChange::default() });
        vec![lock_delay, self.acquire(0, 3), self.break_all(0)]
    }

    /// Two waiters wait for a cooldown to end, the first also for a lock whose holder acquires the first lock at that
    /// time.
    fn cycle_at_cooldown_end(&self, urgent: bool) -> Vec<Move> {
        let mut moves = self.cooldown();
        moves.extend([self.acquire(1, 0), self.acquire(0, 1), self.acquire(1, 1)]);
        let priority = if urgent { AcquireOptions::PRIORITY_MAX } else { 0 };
        let arrival = Command::Acquire(Acquire {
            options: AcquireOptions { priority, ..AcquireOptions::PLAIN },
            ..self.plain(0, 0)
        });
        moves.extend([self.acquire(0, 2), Move::AdvanceToTimer(0), Move::Command(arrival)]);
        moves
    }

    /// Readers wait for a cooldown to end. A reader without a deadlock arrives then, with one lock or with two.
    fn readers_at_cooldown_end(&self, alone: bool) -> Vec<Move> {
        let mut moves = self.cooldown();
        moves.extend([self.acquire(1, 0), self.acquire_as(0, 1, Mode::Shared), self.acquire(1, 1)]);
        moves.push(Move::AdvanceToTimer(0));
        let reader = self.acquire_as(0, 0, Mode::Shared);
        moves.push(if alone { reader } else { self.acquire_multi_lock([0, 2], 0, Mode::Shared) });
        moves
    }

    /// A multi-lock waits for a cooldown to end, and another acquires the same locks at that time.
    fn multi_lock_at_cooldown_end(&self, urgent: bool) -> Vec<Move> {
        let mode = if urgent { Mode::Exclusive } else { Mode::Shared };
        let mut moves = self.cooldown();
        moves.push(self.acquire_multi_lock([0, 1], 1, mode));
        moves.push(Move::AdvanceToTimer(0));
        moves.push(self.acquire_multi_lock([0, 1], 2, mode));
        moves
    }

    fn upgrade(&self, lock: usize, session: usize) -> Move {
        let (mode, change) = (Some(Mode::Exclusive), Some(Attempt::UNNAMED));
        Move::Command(Command::Acquire(Acquire { mode, change, ..self.plain(lock, session) }))
    }

    /// A reader waits for a reader that waits for a lock in cooldown, which an upgradable holder upgrades.
    fn upgrade_cycle(&self) -> Vec<Move> {
        let lock_delay_ms = Some(20);
        let token = ForceReleaseTarget::Token(FencingToken(3));
        let (lock, reason) = (self.lock(0), Reason::new("because").unwrap());
        vec![
            self.set_policy(0, PolicyChange { lock_delay_ms, ..PolicyChange::default() }),
            self.acquire_as(0, 0, Mode::Shared),
            self.acquire_as(0, 1, Mode::Upgradable),
            self.acquire_as(0, 3, Mode::Shared),
            Move::Command(Command::ForceRelease(ForceRelease { lock, what: token, reason })),
            self.acquire(1, 2),
            self.acquire_as(0, 2, Mode::Shared),
            self.acquire(1, 0),
            self.upgrade(0, 1),
        ]
    }

    /// The lock-delay changes during the cooldown.
    fn changed_lock_delay(&self, waits: bool) -> Vec<Move> {
        let lock_delay_ms = Some(if waits { 0 } else { 60 });
        let mut moves = self.cooldown();
        moves.push(self.acquire(0, 1));
        moves.push(self.set_policy(0, PolicyChange { lock_delay_ms, ..PolicyChange::default() }));
        moves
    }

    /// A reader waits for a reader that waits for a lock in cooldown, and an urgent acquire overtakes it there.
    fn overtaking_cycle(&self) -> Vec<Move> {
        let cooldown_ms = Some(20);
        let arrival = Acquire {
            options: AcquireOptions {
                priority: AcquireOptions::PRIORITY_MAX,
                ..AcquireOptions::PLAIN
            },
            ..self.plain(0, 2)
        };
        vec![
            self.set_policy(0, PolicyChange { cooldown_ms, ..PolicyChange::default() }),
            self.acquire_as(0, 0, Mode::Shared),
            self.acquire(1, 1),
            self.acquire_as(0, 1, Mode::Shared),
            self.acquire(1, 0),
            Move::Command(Command::Acquire(arrival)),
        ]
    }

    /// A lock that was never granted is reserved for a multi-lock.
    fn reserved_for_multi_lock(&self) -> Vec<Move> {
        let multi_lock = self.acquire_multi_lock([0, 1], 1, Mode::Exclusive);
        let set_policy = self.set_policy(1, PolicyChange::default());
        vec![self.acquire(0, 0), multi_lock, set_policy, self.acquire(1, 2)]
    }

    /// Hands a lock over to a session that waits for one of its waiters, from inside or outside its queue.
    fn handover_cycle(&self, waits_for_both: bool) -> Vec<Move> {
        let mut moves = vec![
            self.acquire(0, 0),
            self.acquire(1, 1),
            self.acquire_as(0, 1, Mode::Shared),
            self.acquire(1, 2),
        ];
        if waits_for_both {
            moves.push(self.acquire(0, 2));
        }
        let (from, to) = (self.session(0), self.session(2));
        let [from, to] = [from, to].map(|session| (session, Owner::unnamed()));
        moves.push(Move::Command(Command::HandOver(HandOver {
            lock: self.lock(0),
            from,
            to,
            token: None,
        })));
        moves
    }

    /// Hands over a semaphore that holds more than its limit, or a lock with a pending upgrade.
    fn handover_over_limit(&self, semaphore: bool) -> Vec<Move> {
        let acquire = |session| {
            let (limit, permits) = (Some(3), Some(2 - session as u32));
            let plain = self.plain(0, session);
            Move::Command(Command::Acquire(Acquire { limit, permits, ..plain }))
        };
        let open_session =
            Move::Command(Command::OpenSession { open: open(self.sessions[2]), attempt: None });
        let limit = Some(Some(2));
        let to = (self.session(2), Owner::unnamed());
        let hand_over = |session| {
            let (from, to) = ((self.session(session), Owner::unnamed()), to.clone());
            Move::Command(Command::HandOver(HandOver { lock: self.lock(0), from, to, token: None }))
        };
        if semaphore {
            let lower = self.set_policy(0, PolicyChange { limit, ..PolicyChange::default() });
            return vec![acquire(0), acquire(1), open_session, lower, hand_over(0)];
        }
        vec![
            self.acquire_as(0, 0, Mode::Upgradable),
            self.acquire_as(0, 1, Mode::Shared),
            self.upgrade(0, 0),
            open_session,
            hand_over(1),
            self.release(0, 1),
        ]
    }
}
