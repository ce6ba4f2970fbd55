//! Beginnings of histories: situations that chance alone seldom makes, with names that chance picks.

use holdfast_types::*;
use proptest::prelude::*;

use super::history::Move;
use super::script_commands::{lock_name, open, session_name};

/// How a history begins: most begin with nothing.
pub(super) fn beginning() -> impl Strategy<Value = Vec<Move>> {
    let sessions = Just(vec!["s1", "s2", "s3", "s4"]).prop_shuffle();
    let locks = Just(vec!["a", "a/c", "b"]).prop_shuffle();
    (prop::option::weighted(0.5, 0..9_u8), sessions, locks, any::<bool>()).prop_map(
        |(scene, sessions, locks, urgent)| {
            let cast = Cast { sessions, locks };
            match scene {
                Some(0) => cast.opening_circle(urgent),
                Some(1) => cast.opening_to_many(urgent),
                Some(2) => cast.upgrade_circle(),
                Some(3) => cast.kept_for_several(),
                Some(4) => cast.overtaking_circle(),
                Some(5) => cast.retimed(urgent),
                Some(6) => cast.handed_round(urgent),
                Some(7) => cast.opening_to_several(urgent),
                Some(_) => cast.lowered(urgent),
                None => Vec::new(),
            }
        },
    )
}

/// Who plays where.
struct Cast {
    sessions: Vec<&'static str>,
    locks: Vec<&'static str>,
}

impl Cast {
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

    fn acquire_all(&self, locks: [usize; 2], session: usize, mode: Mode) -> Move {
        let locks = LockSet::new(locks.map(|lock| self.lock(lock)).to_vec()).unwrap();
        let plain = Acquire::new(locks, open(self.sessions[session]), Owner::unnamed());
        Move::Command(Command::Acquire(Acquire { mode: Some(mode), ..plain }))
    }

    fn release(&self, lock: usize, session: usize) -> Move {
        let (locks, session) = (self.lock(lock).into(), self.session(session));
        let (owner, target) = (Owner::unnamed(), ReleaseTarget::AnyPlace);
        Move::Command(Command::Release(Release { locks, session, owner, target }))
    }

    fn rules(&self, lock: usize, change: PolicyChange) -> Move {
        Move::Command(Command::SetPolicy { lock: self.lock(lock), change })
    }

    fn break_all(&self, lock: usize) -> Move {
        let (lock, reason) = (self.lock(lock), Reason::new("because").unwrap());
        Move::Command(Command::Break(Break { lock, what: BreakTarget::Holders, reason }))
    }

    /// The first lock is closed for a while, and nobody holds it.
    fn close(&self) -> Vec<Move> {
        let lock_delay_ms = Some(20);
        let closed = self.rules(0, PolicyChange { lock_delay_ms, ..PolicyChange::default() });
        vec![closed, self.acquire(0, 3), self.break_all(0)]
    }

    /// Two wait for a lock to open, and the first of them for what somebody holds who comes when it opens.
    fn opening_circle(&self, urgent: bool) -> Vec<Move> {
        let mut moves = self.close();
        moves.extend([self.acquire(1, 0), self.acquire(0, 1), self.acquire(1, 1)]);
        let priority = if urgent { AcquireOptions::PRIORITY_MAX } else { 0 };
        let comes = Command::Acquire(Acquire {
            options: AcquireOptions { priority, ..AcquireOptions::PLAIN },
            ..self.plain(0, 0)
        });
        moves.extend([self.acquire(0, 2), Move::Until(0), Move::Command(comes)]);
        moves
    }

    /// Readers wait for a lock to open, and one more comes for it, alone or with another lock, who is in no circle.
    fn opening_to_many(&self, alone: bool) -> Vec<Move> {
        let mut moves = self.close();
        moves.extend([self.acquire(1, 0), self.acquire_as(0, 1, Mode::Shared), self.acquire(1, 1)]);
        moves.push(Move::Until(0));
        let one = self.acquire_as(0, 0, Mode::Shared);
        moves.push(if alone { one } else { self.acquire_all([0, 2], 0, Mode::Shared) });
        moves
    }

    /// A lock opens for somebody who waits for it and another one, just as somebody comes for both.
    fn opening_to_several(&self, urgent: bool) -> Vec<Move> {
        let mode = if urgent { Mode::Exclusive } else { Mode::Shared };
        let mut moves = self.close();
        moves.push(self.acquire_all([0, 1], 1, mode));
        moves.push(Move::Until(0));
        moves.push(self.acquire_all([0, 1], 2, mode));
        moves
    }

    /// A reader waits for a reader who waits for a closed lock, that a third one makes its own.
    fn upgrade_circle(&self) -> Vec<Move> {
        let lock_delay_ms = Some(20);
        let token = BreakTarget::Token(FencingToken(3));
        let (lock, reason) = (self.lock(0), Reason::new("because").unwrap());
        vec![
            self.rules(0, PolicyChange { lock_delay_ms, ..PolicyChange::default() }),
            self.acquire_as(0, 0, Mode::Shared),
            self.acquire_as(0, 1, Mode::Upgradable),
            self.acquire_as(0, 3, Mode::Shared),
            Move::Command(Command::Break(Break { lock, what: token, reason })),
            self.acquire(1, 2),
            self.acquire_as(0, 2, Mode::Shared),
            self.acquire(1, 0),
            self.acquire_as(0, 1, Mode::Exclusive),
        ]
    }

    /// The rule that closes a lock changes while it is closed.
    fn retimed(&self, waits: bool) -> Vec<Move> {
        let lock_delay_ms = Some(if waits { 0 } else { 60 });
        let mut moves = self.close();
        moves.push(self.acquire(0, 1));
        moves.push(self.rules(0, PolicyChange { lock_delay_ms, ..PolicyChange::default() }));
        moves
    }

    /// A reader waits for a reader who waits for a closed lock, and somebody comes there who goes before it.
    fn overtaking_circle(&self) -> Vec<Move> {
        let cooldown_ms = Some(20);
        let comes = Acquire {
            options: AcquireOptions {
                priority: AcquireOptions::PRIORITY_MAX,
                ..AcquireOptions::PLAIN
            },
            ..self.plain(0, 2)
        };
        vec![
            self.rules(0, PolicyChange { cooldown_ms, ..PolicyChange::default() }),
            self.acquire_as(0, 0, Mode::Shared),
            self.acquire(1, 1),
            self.acquire_as(0, 1, Mode::Shared),
            self.acquire(1, 0),
            Move::Command(Command::Acquire(comes)),
        ]
    }

    /// A lock that nobody was ever granted is kept for somebody who asked for several.
    fn kept_for_several(&self) -> Vec<Move> {
        let all = self.acquire_all([0, 1], 1, Mode::Exclusive);
        let rules = self.rules(1, PolicyChange::default());
        vec![self.acquire(0, 0), all, rules, self.acquire(1, 2)]
    }

    /// A lock is handed to somebody who waits for whoever waits for it, in its queue or out of it.
    fn handed_round(&self, waits_for_both: bool) -> Vec<Move> {
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

    /// A semaphore whose limit is below what is held, or a lock that somebody waits to have alone, in somebody's hands.
    fn lowered(&self, semaphore: bool) -> Vec<Move> {
        let acquire = |session| {
            let (limit, permits) = (Some(3), Some(2 - session as u32));
            let plain = self.plain(0, session);
            Move::Command(Command::Acquire(Acquire { limit, permits, ..plain }))
        };
        let opens = Move::Command(Command::OpenSession(open(self.sessions[2])));
        let limit = Some(Some(2));
        let to = (self.session(2), Owner::unnamed());
        let hand = |session| {
            let (from, to) = ((self.session(session), Owner::unnamed()), to.clone());
            Move::Command(Command::HandOver(HandOver { lock: self.lock(0), from, to, token: None }))
        };
        if semaphore {
            let lower = self.rules(0, PolicyChange { limit, ..PolicyChange::default() });
            return vec![acquire(0), acquire(1), opens, lower, hand(0)];
        }
        vec![
            self.acquire_as(0, 0, Mode::Upgradable),
            self.acquire_as(0, 1, Mode::Shared),
            self.acquire_as(0, 0, Mode::Exclusive),
            opens,
            hand(1),
            self.release(0, 1),
        ]
    }
}
