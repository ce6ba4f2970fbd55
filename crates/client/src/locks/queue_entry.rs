//! The client's entry in the queue of one lock: waiting, held, or about to be released.
//!
//! Guards and the renewal of their session share the entries. An entry has an attempt and an owner, which the client
//! generates unless the caller selected one. Each guard therefore releases exactly its own hold, and two tasks exclude
//! each other like two programs. Bounds: one entry for each guard and each acquire in progress.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use holdfast_api::parameters::lock::{NAMES, RELEASED_PERMITS, RELEASED_SESSION};
use holdfast_api::parameters::{OWNER, RELEASED_ATTEMPT, RELEASED_TOKEN, REQUEST};
use holdfast_api::{GrantBody, HoldBody, Query, lock_path};
use holdfast_types::{
    Attempt, FencingToken, HoldName, LockName, Owner, ReleaseTarget, RequestNumber, SessionName,
    ShardRequest, Ticket,
};
use tokio::sync::{Notify, watch};

use crate::Loss;
use crate::calls::call::{Call, Copies};
use crate::clock::Moment;
use crate::http::Method;
use crate::locks::hold_limits::HoldLimits;
use crate::locks::hold_limits::ReleaseRequest;
use crate::locks::lock_request::LOCKS_PATH;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryStage {
    Waiting,
    Held(FencingToken),
    /// Held, with a pending conversion, which may change the token.
    Converting(FencingToken),
    /// Being released; the cluster may not have the release yet.
    Leaving,
}

#[derive(Debug)]
pub(crate) struct ClientQueueEntry {
    /// The requested lock name; for a shard, the sharded lock.
    pub(crate) requested: LockName,
    sharded: bool,
    /// The granted shard, once it is known.
    shard: OnceLock<LockName>,
    /// `None` stands for the session itself.
    pub(crate) owner: Option<Owner>,
    /// [`Attempt::UNNAMED`] for a hold that another session handed over.
    attempt: AtomicU64,
    stage: Mutex<EntryStage>,
    /// The token of a hold that another session handed over.
    transferred: Option<FencingToken>,
    /// The latest grant, shared with every view of the hold; empty before the grant.
    grant: OnceLock<Arc<watch::Sender<Arc<GrantBody>>>>,
    pub(crate) limits: watch::Sender<HoldLimits>,
    /// Locked during a change of the mode, so that the answers of two changes never mix.
    pub(crate) mode_change: Arc<tokio::sync::Mutex<()>>,
    /// Notified when a renewal lists the lock as held while this entry still waits for the grant.
    pub(crate) granted_elsewhere: Notify,
    /// The latest release request.
    pub(crate) release_request: watch::Sender<Option<ReleaseRequest>>,
}

impl ClientQueueEntry {
    pub(crate) fn new(
        requested: LockName,
        owner: Option<Owner>,
        attempt: Attempt,
        sharded: bool,
    ) -> Self {
        Self {
            requested,
            sharded,
            shard: OnceLock::new(),
            owner,
            attempt: AtomicU64::new(attempt.0),
            stage: Mutex::new(EntryStage::Waiting),
            transferred: None,
            grant: OnceLock::new(),
            limits: watch::Sender::default(),
            mode_change: Arc::default(),
            granted_elsewhere: Notify::new(),
            release_request: watch::Sender::default(),
        }
    }

    /// Creates the entry of a hold that another session transferred.
    pub(crate) fn transferred(lock: LockName, owner: Option<Owner>, token: FencingToken) -> Self {
        let transferred = Some(token);
        Self { transferred, ..Self::new(lock, owner, Attempt::UNNAMED, false) }
    }

    /// Stores the name of the granted shard.
    pub(crate) fn set_shard(&self, granted: &LockName) {
        if self.sharded {
            self.shard.get_or_init(|| granted.clone());
        }
    }

    /// The lock name; before a shard is granted, the sharded lock.
    pub(crate) fn lock(&self) -> &LockName {
        self.shard.get().unwrap_or(&self.requested)
    }

    /// Whether the entry is for `lock`, or may be granted as `lock`.
    fn covers(&self, lock: &LockName) -> bool {
        match self.shard.get() {
            Some(shard) => shard == lock,
            None if self.sharded => ShardRequest::shard_index(&self.requested, lock).is_some(),
            None => self.requested == *lock,
        }
    }

    pub(crate) fn stage(&self) -> EntryStage {
        *unpoisoned(&self.stage)
    }

    pub(crate) fn enter(&self, stage: EntryStage) {
        *unpoisoned(&self.stage) = stage;
    }

    /// Becomes the entry of a hold, whose views share the grant.
    pub(crate) fn hold(&self, grant: &Arc<watch::Sender<Arc<GrantBody>>>) {
        self.grant.get_or_init(|| grant.clone());
        self.enter(EntryStage::Held(grant.borrow().token));
    }

    pub(crate) fn holds(&self, token: FencingToken) -> bool {
        let stage = self.stage();
        stage == EntryStage::Held(token) || stage == EntryStage::Converting(token)
    }

    /// The attempt for calls to name; `None` for a hold that was handed over.
    pub(crate) fn attempt(&self) -> Option<Attempt> {
        Some(Attempt(self.attempt.load(Ordering::SeqCst))).filter(|a| *a != Attempt::UNNAMED)
    }

    pub(crate) fn begin_attempt(&self, attempt: Attempt) {
        self.attempt.store(attempt.0, Ordering::SeqCst);
    }

    /// Marks the hold as lost; the first loss stays.
    pub(crate) fn lose(&self, loss: Loss) {
        tracing::debug!(lock = %self.lock(), %loss, "lock lost");
        self.limits.send_modify(|limits| limits.lose(loss, Moment::now()));
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.limits.borrow().next_deadline(Moment::now()).is_err()
    }

    /// Whether its hold has this ticket. A node that sends no tickets sends 0.
    fn has_ticket(&self, ticket: Ticket) -> bool {
        ticket != Ticket(0) && self.grant.get().is_some_and(|grant| grant.borrow().ticket == ticket)
    }

    /// Whether the cluster has executed an upgrade of this entry, if its hold has the ticket and the token.
    fn is_upgraded_to(&self, ticket: Ticket, token: FencingToken) -> bool {
        matches!(self.stage(), EntryStage::Converting(old) if old < token)
            && self.has_ticket(ticket)
    }

    /// The target of a release of this entry alone: it never releases a later hold.
    fn release_target(&self) -> ReleaseTarget {
        let token = self.grant.get().map(|grant| grant.borrow().token);
        let hold = || token.or(self.transferred).map(ReleaseTarget::Hold);
        self.attempt().map(ReleaseTarget::Attempt).or_else(hold).unwrap_or_default()
    }
}

/// The lock names of one or more queue entries, for a span: `a,b`.
pub(crate) fn lock_names(entries: &[Arc<ClientQueueEntry>]) -> String {
    let names: Vec<&str> = entries.iter().map(|entry| entry.lock().as_str()).collect();
    names.join(",")
}

/// Builds the call that releases entries of one owner and one attempt.
pub(crate) fn release_call(entries: &[Arc<ClientQueueEntry>], session: &SessionName) -> Call {
    let locks: Vec<LockName> = entries.iter().map(|entry| entry.lock().clone()).collect();
    let first = entries.first();
    let owner = first.and_then(|entry| entry.owner.as_ref());
    let released = first.map_or(ReleaseTarget::AnyEntry, |entry| entry.release_target());
    let target = match locks.as_slice() {
        [lock] => {
            release_query(Query::default(), session, owner, released).target(&lock_path(lock))
        }
        locks => {
            let names = Query::default().with_each(&NAMES, locks);
            release_query(names, session, owner, released).target(LOCKS_PATH)
        }
    };
    let is_named = !matches!(released, ReleaseTarget::AnyEntry);
    let copies = if is_named { Copies::Harmless } else { Copies::Repeatable };
    Call::new(Method::DELETE, target).copies(copies)
}

/// Adds the parameters of a release.
pub(crate) fn release_query(
    query: Query,
    session: &SessionName,
    owner: Option<&Owner>,
    target: ReleaseTarget,
) -> Query {
    let query = query.with(&RELEASED_SESSION, session).with_some(&OWNER, owner);
    match target {
        ReleaseTarget::AnyEntry => query,
        ReleaseTarget::Attempt(attempt) => query.with(&RELEASED_ATTEMPT, &attempt),
        ReleaseTarget::Hold(token) => query.with(&RELEASED_TOKEN, &token),
        ReleaseTarget::Permits(name, permits) => {
            let query = query.with(&RELEASED_PERMITS, &permits);
            match name {
                HoldName::Unnamed => query,
                HoldName::Attempt(attempt) => query.with(&RELEASED_ATTEMPT, &attempt),
                HoldName::Token(token) => query.with(&RELEASED_TOKEN, &token),
            }
        }
    }
}

/// Builds the call that gives back permits of a hold, which the cluster executes once.
pub(crate) fn release_permits_call(
    (lock, session, owner): (&LockName, &SessionName, Option<&Owner>),
    (name, permits): (HoldName, u32),
    request: RequestNumber,
) -> Call {
    let target = ReleaseTarget::Permits(name, permits);
    let query = release_query(Query::default(), session, owner, target).with(&REQUEST, &request);
    Call::new(Method::DELETE, query.target(&lock_path(lock))).copies(Copies::Harmless)
}

/// The queue entries of one session.
#[derive(Debug, Default)]
pub(crate) struct QueueEntries {
    all: Mutex<Vec<Arc<ClientQueueEntry>>>,
    /// Notified when a hold gets a limit, or its limit may have passed.
    pub(crate) limited: Notify,
}

/// How a hold that the cluster lists for the session relates to the entries.
#[derive(Debug)]
pub(crate) enum HoldMatch {
    /// An entry has the hold.
    Known,
    /// The hold may be the grant for which these entries wait.
    Awaited(Vec<Arc<ClientQueueEntry>>),
    Unknown,
}

impl QueueEntries {
    pub(crate) fn add(&self, entry: Arc<ClientQueueEntry>) {
        self.all().push(entry);
    }

    pub(crate) fn remove(&self, entry: &Arc<ClientQueueEntry>) {
        self.all().retain(|other| !Arc::ptr_eq(other, entry));
    }

    pub(crate) fn remove_all(&self, entries: &[Arc<ClientQueueEntry>]) {
        for entry in entries {
            self.remove(entry);
        }
    }

    /// Sets the limits of a hold.
    pub(crate) fn limit(&self, entry: &ClientQueueEntry, limits: HoldLimits) {
        let is_limited = limits.is_limited();
        entry.limits.send_replace(limits);
        if is_limited {
            self.limited.notify_one();
        }
    }

    /// Stores a release request. A request that revokes ends the hold at its deadline.
    pub(crate) fn request_release(&self, entry: &ClientQueueEntry, request: ReleaseRequest) {
        if request.revoke {
            entry.limits.send_modify(|limits| limits.revoke(&request));
            self.limited.notify_one();
        }
        entry.release_request.send_replace(Some(request));
    }

    /// Returns the holds whose limit has passed, with their losses, and the next limit of the others.
    pub(crate) fn over_limit(
        &self,
        now: Moment,
    ) -> (Vec<(Arc<ClientQueueEntry>, Loss)>, Option<Moment>) {
        let (mut over, mut next) = (Vec::new(), None);
        for entry in &*self.all() {
            // A hold in `Leaving` already has a release.
            if !matches!(entry.stage(), EntryStage::Held(_) | EntryStage::Converting(_)) {
                continue;
            }
            match entry.limits.borrow().next_deadline(now) {
                Ok(limit) => next = next.into_iter().chain(limit).min(),
                Err(loss) if loss.is_ended_by_client() => over.push((entry.clone(), loss)),
                Err(_) => {}
            }
        }
        (over, next)
    }

    pub(crate) fn held(&self) -> Vec<(Arc<ClientQueueEntry>, FencingToken)> {
        let all = self.all();
        let token = |entry: &Arc<ClientQueueEntry>| match entry.stage() {
            EntryStage::Held(token) => Some((entry.clone(), token)),
            EntryStage::Waiting | EntryStage::Converting(_) | EntryStage::Leaving => None,
        };
        all.iter().filter_map(token).collect()
    }

    /// As [`follow_upgrade`](Self::follow_upgrade), for all holds that the cluster lists.
    pub(crate) fn follow_upgrades(&self, listed: &[HoldBody]) {
        for HoldBody { lock, ticket, token } in listed {
            self.follow_upgrade(lock, *ticket, *token);
        }
    }

    /// Continues the guards of a hold under the token of an upgrade by another guard or program of the owner.
    pub(crate) fn follow_upgrade(&self, lock: &LockName, ticket: Ticket, token: FencingToken) {
        for entry in self.all().iter().filter(|entry| entry.covers(lock)) {
            let Some(grant) = entry.grant.get().filter(|_| entry.has_ticket(ticket)) else {
                continue;
            };
            let mut stage = unpoisoned(&entry.stage);
            if matches!(*stage, EntryStage::Held(held) if held < token) {
                *stage = EntryStage::Held(token);
                grant.send_modify(|grant| Arc::make_mut(grant).token = token);
            }
        }
    }

    /// Returns the entries of one hold, by its ticket or its token. Each guard that re-entered the hold has one.
    pub(crate) fn of_hold(
        &self,
        lock: &LockName,
        ticket: Ticket,
        token: FencingToken,
    ) -> Vec<Arc<ClientQueueEntry>> {
        let is_of = |entry: &&Arc<ClientQueueEntry>| {
            entry.covers(lock) && (entry.holds(token) || entry.has_ticket(ticket))
        };
        self.all().iter().filter(is_of).cloned().collect()
    }

    /// Finds the entry of a hold by its token, because shared holds of one lock have separate entries.
    pub(crate) fn matching(
        &self,
        lock: &LockName,
        ticket: Ticket,
        token: FencingToken,
    ) -> HoldMatch {
        let all = self.all();
        let same_lock = || all.iter().filter(|entry| entry.covers(lock));
        // The other guards of the hold already have the token of an upgrade whose call has no answer yet.
        let upgrading: Vec<_> =
            same_lock().filter(|entry| entry.is_upgraded_to(ticket, token)).cloned().collect();
        if !upgrading.is_empty() {
            return HoldMatch::Awaited(upgrading);
        }
        if same_lock().any(|entry| entry.holds(token)) {
            return HoldMatch::Known;
        }
        let awaits = |entry: &&Arc<ClientQueueEntry>| {
            matches!(entry.stage(), EntryStage::Waiting | EntryStage::Converting(_))
        };
        let awaiting: Vec<_> = same_lock().filter(awaits).cloned().collect();
        if awaiting.is_empty() { HoldMatch::Unknown } else { HoldMatch::Awaited(awaiting) }
    }

    /// Whether this entry is the only one of its lock and owner.
    pub(crate) fn is_alone(&self, entry: &Arc<ClientQueueEntry>) -> bool {
        let all = self.all();
        let same = |other: &&Arc<ClientQueueEntry>| {
            other.lock() == entry.lock() && other.owner == entry.owner
        };
        all.iter().filter(same).all(|other| Arc::ptr_eq(other, entry))
    }

    /// Whether the owner has an entry of the lock, in any stage.
    pub(crate) fn has_owner(&self, lock: &LockName, owner: Option<&Owner>) -> bool {
        let all = self.all();
        all.iter().any(|entry| entry.covers(lock) && entry.owner.as_ref() == owner)
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<ClientQueueEntry>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Builds the owner of one guard, from 64 random bits.
pub(crate) fn generated_owner(bits: u64) -> String {
    format!("g-{bits:016x}")
}

/// Whether a client of this library may have generated the owner for one guard.
pub(crate) fn is_generated_owner(owner: Option<&Owner>) -> bool {
    owner.is_some_and(|owner| owner.as_str().starts_with("g-"))
}

/// Ignores poisoning: the value is replaced in one assignment, so a panic leaves it consistent.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(lock: &str, attempt: u64) -> Arc<ClientQueueEntry> {
        let lock = LockName::new(lock).unwrap();
        Arc::new(ClientQueueEntry::new(lock, None, Attempt(attempt), false))
    }

    fn found(entries: &QueueEntries, lock: &str, token: u64) -> HoldMatch {
        entries.matching(&LockName::new(lock).unwrap(), Ticket(5), FencingToken(token))
    }

    #[test]
    fn an_upgrade_without_an_answer_is_awaited_although_another_guard_has_the_token() {
        let entries = QueueEntries::default();
        let grant = r#"{"lock":"a","mode":"upgradable","token":7,"ticket":5,"session":"me","expires_in_ms":9000,
            "renewed":false,"waited_ms":0,"waiters":0,"hold_count":2,"revision":1}"#;
        let held = |attempt| {
            let entry = entry("a", attempt);
            let grant = serde_json::from_str::<GrantBody>(grant).unwrap();
            entry.hold(&Arc::new(watch::Sender::new(Arc::new(grant))));
            entries.add(entry.clone());
            entry
        };
        let (outer, inner) = (held(1), held(2));
        inner.enter(EntryStage::Converting(FencingToken(7)));
        assert!(matches!(found(&entries, "a", 7), HoldMatch::Known));
        let (lock, ticket) = (LockName::new("a").unwrap(), Ticket(5));
        entries.follow_upgrades(&[HoldBody { lock, ticket, token: FencingToken(9) }]);
        assert_eq!(outer.stage(), EntryStage::Held(FencingToken(9)));
        let HoldMatch::Awaited(awaiting) = found(&entries, "a", 9) else { panic!("not awaited") };
        assert!(Arc::ptr_eq(&awaiting[0], &inner) && awaiting.len() == 1);
        inner.enter(EntryStage::Held(FencingToken(9)));
        assert!(matches!(found(&entries, "a", 9), HoldMatch::Known));
    }

    #[test]
    fn a_hold_is_known_or_awaited_or_unknown() {
        let entries = QueueEntries::default();
        let (first, second) = (entry("a", 1), entry("a", 2));
        first.enter(EntryStage::Held(FencingToken(7)));
        entries.add(first.clone());
        assert!(matches!(found(&entries, "a", 7), HoldMatch::Known));
        assert!(matches!(found(&entries, "b", 7), HoldMatch::Unknown));
        entries.add(second.clone());
        assert!(
            matches!(found(&entries, "a", 8), HoldMatch::Awaited(waiting) if waiting.len() == 1)
        );
        entries.remove(&second);
        assert!(
            matches!(found(&entries, "a", 8), HoldMatch::Unknown),
            "beside a shared hold of this client"
        );
        assert!(entries.has_owner(first.lock(), None));
        first.enter(EntryStage::Converting(FencingToken(7)));
        assert!(matches!(found(&entries, "a", 7), HoldMatch::Known));
        assert!(
            matches!(found(&entries, "a", 8), HoldMatch::Awaited(_)),
            "it may be the new token"
        );
        entries.remove(&first);
        assert!(matches!(found(&entries, "a", 8), HoldMatch::Unknown));
        assert!(!entries.has_owner(first.lock(), None));
    }

    #[test]
    fn an_entry_of_any_shard_awaits_each_until_one_is_granted() {
        let entries = QueueEntries::default();
        let lock = |name: &str| LockName::new(name).unwrap();
        let entry = Arc::new(ClientQueueEntry::new(lock("stock"), None, Attempt(1), true));
        entries.add(entry.clone());
        assert!(matches!(found(&entries, "stock/3", 7), HoldMatch::Awaited(_)));
        assert!(matches!(found(&entries, "stock", 7), HoldMatch::Unknown));
        entry.set_shard(&lock("stock/3"));
        entry.enter(EntryStage::Held(FencingToken(7)));
        assert_eq!(entry.lock().as_str(), "stock/3");
        assert!(matches!(found(&entries, "stock/3", 7), HoldMatch::Known));
        assert!(matches!(found(&entries, "stock/4", 8), HoldMatch::Unknown), "another shard");
    }

    #[test]
    fn only_held_entries_are_compared_with_the_cluster() {
        let entries = QueueEntries::default();
        let (held, leaving) = (entry("a", 1), entry("b", 2));
        held.enter(EntryStage::Held(FencingToken(1)));
        leaving.enter(EntryStage::Leaving);
        entries.add(held);
        entries.add(leaving);
        let tokens: Vec<_> = entries.held().iter().map(|(_, token)| token.0).collect();
        assert_eq!(tokens, [1]);
    }
}
