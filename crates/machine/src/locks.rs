//! The index over the directories of locks: who holds, who waits, what is due, and which places a session has.
//!
//! Owns nothing that the tree does not say: every line of it can be rebuilt from the znodes, and
//! `check_invariants` does so and compares. Counts and dues follow from the locks, whichever way those change
//! ([`Locks::change`]). Refuses to decide who is granted (`grant.rs` does).
//! Bounds: waiters by `waiters_per_lock_max`, places by `contenders_per_session_max`, checked by callers; one due a lock.

use std::sync::Arc;

use holdfast_types::{
    FencingToken, LockName, Owner, Policy, SessionId, SessionName, Stamp, Ticket, ZnodePath,
};
use imbl::{OrdMap, OrdSet};

use crate::closing::Closings;
use crate::contender::{Ask, Contender};
use crate::holders::Holders;
use crate::rank::Rank;
use crate::waits::Waits;

/// The rules of one lock. Invariant: never the default ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) policy: Policy,
    /// Set by an operator: the directory is not swept, so that they stay.
    pub(crate) kept: bool,
}

/// One lock. It exists from its first grant, or its first rule, until its directory goes; before that as long as it is kept
/// for somebody who asked for several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lock {
    pub(crate) directory: ZnodePath,
    /// The last token minted for it, if it was ever granted.
    pub(crate) last_token: Option<FencingToken>,
    pub(crate) holders: Holders,
    /// In the order in which they are granted.
    pub(crate) waiters: OrdMap<Rank, Arc<Contender>>,
    /// Waiters that nobody overtakes.
    pub(crate) fixed: OrdSet<Rank>,
    /// How many of the waiters wait for other locks together with this one.
    pub(crate) bundled: u32,
    pub(crate) rules: Option<Arc<Rules>>,
    /// Present while it is granted to nobody, whoever holds it.
    pub(crate) closed: Option<Arc<Closings>>,
}

impl Lock {
    /// A lock that nobody has taken yet.
    pub(crate) fn new(directory: ZnodePath) -> Self {
        Self {
            directory,
            last_token: None,
            holders: Holders::default(),
            waiters: OrdMap::new(),
            fixed: OrdSet::new(),
            bundled: 0,
            rules: None,
            closed: None,
        }
    }

    /// Its rules.
    pub(crate) fn policy(&self) -> &Policy {
        self.rules.as_ref().map_or(&Policy::DEFAULT, |rules| &rules.policy)
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> u32 {
        u32::try_from(self.waiters.len()).unwrap_or(u32::MAX)
    }

    /// The contender of this rank.
    pub(crate) fn contender(&self, rank: &Rank) -> Option<&Arc<Contender>> {
        self.holders.get(rank.sequence).or_else(|| self.waiters.get(rank))
    }

    /// How many waiters stand before this rank. Reads that many, unless it is the last.
    pub(crate) fn ahead_of(&self, rank: &Rank) -> u32 {
        match self.waiters.get_max() {
            Some((last, _)) if last == rank => self.waiting() - 1,
            Some(_) | None => {
                u32::try_from(self.waiters.range(..*rank).count()).unwrap_or(u32::MAX)
            }
        }
    }

    /// Where a contender goes in the order of the queue.
    pub(crate) fn rank_of(&self, ask: Ask, since: Stamp, sequence: u64) -> Rank {
        let rank = Rank::of(self.policy(), ask, since, sequence);
        if ask.fixed {
            rank.behind(self.waiters.get_max().map(|(last, _)| last))
        } else {
            rank.behind(self.fixed.get_max())
        }
    }

    /// True if nothing but its holders and waiters keeps it from being granted.
    pub(crate) fn is_open(&self, now: Stamp) -> bool {
        self.closed.as_ref().is_none_or(|closings| closings.until() <= now)
    }

    /// True if a contender may hold beside those who do.
    pub(crate) fn has_room_for(&self, ask: Ask) -> bool {
        match self.policy().limit {
            Some(limit) => self.holders.permits() + u64::from(ask.permits) <= limit.into(),
            None => self.holders.tolerate(ask.mode),
        }
    }

    /// True if a contender that comes now would be granted at once.
    pub(crate) fn admits(&self, ask: Ask, now: Stamp) -> bool {
        let rank = self.rank_of(ask, now, u64::MAX);
        let first = self.waiters.get_min().is_none_or(|(first, _)| rank < *first);
        first && self.is_open(now) && self.has_room_for(ask)
    }

    /// A new contender, as its hold says. True if its number is its own.
    pub(crate) fn put(&mut self, contender: Arc<Contender>) -> bool {
        if let Some(token) = contender.token() {
            self.last_token = self.last_token.max(Some(token));
            let own = self.holders.get(contender.sequence()).is_none();
            self.holders.put(contender);
            return own;
        }
        if contender.fixed {
            self.fixed.insert(contender.rank);
        }
        let member = !contender.bundle().is_empty();
        let new = self.waiters.insert(contender.rank, contender).is_none();
        self.bundled += u32::from(member && new);
        new
    }

    /// Takes a contender out.
    pub(crate) fn take(&mut self, rank: &Rank) -> Option<Arc<Contender>> {
        if let Some(holder) = self.holders.remove(rank.sequence) {
            return Some(holder);
        }
        self.fixed.remove(rank);
        let waiter = self.waiters.remove(rank)?;
        self.bundled = self.bundled.saturating_sub(u32::from(!waiter.bundle().is_empty()));
        Some(waiter)
    }

    /// True if nothing is to be remembered of it: it was kept for somebody who asked for several, and never granted.
    pub(crate) fn is_nothing(&self) -> bool {
        self.last_token.is_none()
            && self.rules.is_none()
            && self.holders.is_empty()
            && self.waiters.is_empty()
    }

    /// True if a timer of it has expired.
    pub(crate) fn is_due(&self, now: Stamp) -> bool {
        self.due().is_some_and(|due| due <= now)
    }

    /// When something of it is due next.
    fn due(&self) -> Option<Stamp> {
        let end = self.holders.first_end().map(|(end, _)| end);
        let opening = self.closed.as_ref().map(|closings| closings.until());
        [end, opening].into_iter().flatten().min()
    }
}

/// A session's place in a lock's queue, in the order in which a session's places are looked up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Claim {
    pub(crate) session: SessionId,
    /// None only in the bound of a range, where it sorts before every lock.
    pub(crate) lock: Option<LockName>,
    pub(crate) owner: Owner,
    pub(crate) ticket: Ticket,
    pub(crate) rank: Rank,
}

/// Before all others.
const FIRST: Rank = Rank { class: 0, at: i64::MIN, sequence: 0 };

impl Claim {
    /// Sorts before every claim of a session.
    fn before_all_of(session: SessionId) -> Self {
        Self { session, lock: None, owner: Owner::unnamed(), ticket: Ticket(0), rank: FIRST }
    }

    /// The claim of a contender.
    pub(crate) fn of(lock: &LockName, contender: &Contender) -> Self {
        Self {
            session: contender.session,
            lock: Some(lock.clone()),
            owner: contender.owner.clone(),
            ticket: contender.ticket,
            rank: contender.rank,
        }
    }
}

/// All locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Locks {
    pub(crate) by_name: OrdMap<LockName, Arc<Lock>>,
    pub(crate) claims: OrdSet<Claim>,
    /// Waiters whose wait ends.
    pub(crate) waits: Waits,
    /// Locks of which something is due, each with the first of it.
    pub(crate) dues: OrdSet<(Stamp, LockName)>,
    /// Locks that are closed because a session was lost that may not know it. Without a lock only in the bound of a range.
    pub(crate) delays: OrdSet<(SessionName, Option<LockName>)>,
    /// Locks with a holder.
    pub(crate) held: u64,
    /// Waiters of all locks.
    pub(crate) waiting: u64,
    /// Those of them that wait for several locks at once.
    pub(crate) bundled: u64,
    /// Tokens minted so far; the last one's value.
    pub(crate) grants: u64,
}

/// What the indexes over all locks know of one.
#[derive(Debug)]
struct Tally {
    held: u64,
    waiting: u64,
    bundled: u64,
    due: Option<Stamp>,
    closed: Option<Arc<Closings>>,
}

impl Tally {
    fn of(lock: &Lock) -> Self {
        Self {
            held: u64::from(!lock.holders.is_empty()),
            waiting: lock.waiters.len() as u64,
            bundled: lock.bundled.into(),
            due: lock.due(),
            closed: lock.closed.clone(),
        }
    }
}

impl Locks {
    pub(crate) fn new() -> Self {
        Self {
            by_name: OrdMap::new(),
            claims: OrdSet::new(),
            waits: Waits::default(),
            dues: OrdSet::new(),
            delays: OrdSet::new(),
            held: 0,
            waiting: 0,
            bundled: 0,
            grants: 0,
        }
    }

    /// How many tokens are left.
    pub(crate) fn tokens_left(&self) -> u64 {
        (FencingToken::END - 1).saturating_sub(self.grants)
    }

    /// The next token, greater than every token before; `None` at the end of the counter.
    pub(crate) fn mint(&mut self) -> Option<FencingToken> {
        (self.tokens_left() > 0).then(|| {
            self.grants += 1;
            FencingToken(self.grants)
        })
    }

    pub(crate) fn get(&self, lock: &LockName) -> Option<&Lock> {
        self.by_name.get(lock).map(|lock| &**lock)
    }

    /// Enters a lock that was not known.
    pub(crate) fn enter(&mut self, name: LockName, lock: Lock) {
        self.count_in(&name, &Tally::of(&lock));
        self.by_name.insert(name, Arc::new(lock));
    }

    /// Changes a lock, and with it all that follows from it.
    pub(crate) fn change<T>(
        &mut self,
        name: &LockName,
        change: impl FnOnce(&mut Lock) -> T,
    ) -> Option<T> {
        let lock = self.by_name.get_mut(name).map(Arc::make_mut)?;
        let before = Tally::of(lock);
        let changed = change(lock);
        let after = Tally::of(lock);
        self.held = self.held + after.held - before.held;
        self.waiting = self.waiting + after.waiting - before.waiting;
        self.bundled = self.bundled + after.bundled - before.bundled;
        if before.due != after.due || before.closed != after.closed {
            self.undue(name, &before);
            self.note_due(name, &after);
        }
        Some(changed)
    }

    /// Forgets a lock whose directory has gone.
    pub(crate) fn forget(&mut self, name: &LockName) {
        if let Some(lock) = self.by_name.remove(name) {
            let tally = Tally::of(&lock);
            self.held = self.held.saturating_sub(tally.held);
            self.waiting = self.waiting.saturating_sub(tally.waiting);
            self.bundled = self.bundled.saturating_sub(tally.bundled);
            self.undue(name, &tally);
        }
    }

    fn count_in(&mut self, name: &LockName, tally: &Tally) {
        self.held += tally.held;
        self.waiting += tally.waiting;
        self.bundled += tally.bundled;
        self.note_due(name, tally);
    }

    fn note_due(&mut self, name: &LockName, tally: &Tally) {
        self.dues.extend(tally.due.map(|due| (due, name.clone())));
        for session in tally.closed.iter().flat_map(|closings| closings.lost()) {
            self.delays.insert((session.clone(), Some(name.clone())));
        }
    }

    fn undue(&mut self, name: &LockName, tally: &Tally) {
        if let Some(due) = tally.due {
            self.dues.remove(&(due, name.clone()));
        }
        for session in tally.closed.iter().flat_map(|closings| closings.lost()) {
            self.delays.remove(&(session.clone(), Some(name.clone())));
        }
    }

    /// Locks that are closed for the sake of a session.
    pub(crate) fn delayed_by<'a>(
        &'a self,
        session: &'a SessionName,
    ) -> impl Iterator<Item = &'a LockName> {
        let from = (session.clone(), None);
        let own = self.delays.range(from..).take_while(move |(lost, _)| lost == session);
        own.filter_map(|(_, lock)| lock.as_ref())
    }

    /// The first place of a session and owner in a lock's queue, from a ticket on.
    pub(crate) fn find(
        &self,
        session: SessionId,
        lock: &LockName,
        owner: &Owner,
        from: Ticket,
    ) -> Option<&Arc<Contender>> {
        let start = &Claim {
            session,
            lock: Some(lock.clone()),
            owner: owner.clone(),
            ticket: from,
            rank: FIRST,
        };
        let claim = self.claims.range::<_, Claim>(start..).next()?;
        if claim.session != session || claim.lock != start.lock || claim.owner != *owner {
            return None;
        }
        self.get(lock)?.contender(&claim.rank)
    }

    /// A session's places from that of an owner in a lock on, by lock.
    pub(crate) fn claims_from(
        &self,
        session: SessionId,
        lock: &LockName,
        owner: &Owner,
    ) -> impl Iterator<Item = &Claim> {
        let (lock, owner, ticket) = (Some(lock.clone()), owner.clone(), Ticket(0));
        let start = Claim { session, lock, owner, ticket, rank: FIRST };
        self.claims.range(start..).take_while(move |claim| claim.session == session)
    }

    /// A session's places, by lock.
    pub(crate) fn claims_of(&self, session: SessionId) -> impl Iterator<Item = &Claim> {
        self.claims
            .range(Claim::before_all_of(session)..)
            .take_while(move |claim| claim.session == session)
    }
}
