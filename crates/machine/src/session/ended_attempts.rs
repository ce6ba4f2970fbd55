//! Rejects late copies of attempts that are over, and records ended attempts (`attempts.rs`).

use holdfast_types::{
    Attempt, LockName, LockRejection, Owner, Rejection, SessionId, SessionName, ShardRequest,
};

use crate::Machine;
use crate::context::ApplyContext;
use crate::session::store::KnownSession;

impl Machine {
    /// Rejects a copy of an attempt that is over. The caller has checked that the attempt keeps no entry.
    pub(crate) fn check_attempt(
        &self,
        session: &SessionName,
        lock: &LockName,
        owner: &Owner,
        attempt: Option<Attempt>,
    ) -> Result<(), Rejection> {
        let Some(attempt) = attempt else { return Ok(()) };
        let newest = match self.sessions.named(session) {
            Some(KnownSession::Open(id)) => self.sessions.get(id).and_then(|session| {
                let names = self.attempt_names(lock);
                names.map(|name| session.ended_attempts.over(&name, owner)).max()
            }),
            Some(KnownSession::Ended { .. }) => {
                self.sessions.tombstone(session).map(|ended| ended.over)
            }
            None => None,
        };
        match newest {
            Some(newest) if attempt <= newest => {
                Err(Rejection::Lock(LockRejection::AttemptOver { newest }))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the lock name under which a session records attempts. For a shard, this is the sharded lock, because a
    /// copy may select another shard.
    pub(crate) fn remembered_as(&self, lock: &LockName) -> LockName {
        let sharded = ShardRequest::sharded_name(lock)
            .filter(|sharded| self.locks.has_shards(sharded))
            .and_then(|sharded| LockName::new(sharded).ok());
        sharded.unwrap_or_else(|| lock.clone())
    }

    /// Returns the names under which a session records the attempts for a lock. An attempt for a shard is also recorded for
    /// the shard itself: a copy that names it may arrive when the sharded lock is a plain one.
    pub(crate) fn attempt_names(&self, lock: &LockName) -> impl Iterator<Item = LockName> + use<> {
        let remembered = self.remembered_as(lock);
        let shard = (remembered != *lock).then(|| lock.clone());
        std::iter::once(remembered).chain(shard)
    }

    /// Ends an attempt that keeps no entry. A later copy of its acquire is rejected.
    pub(crate) fn end_attempt(
        &mut self,
        session: SessionId,
        lock: &LockName,
        owner: &Owner,
        attempt: Attempt,
    ) {
        let names = self.attempt_names(lock);
        if let Some(session) = self.sessions.get_mut(session) {
            names.for_each(|name| session.ended_attempts.end_one(&name, owner, attempt));
        }
    }

    /// As [`Machine::end_attempt`], for a session that is not open: a copy of the acquire would open it.
    pub(crate) fn end_attempt_unopened(
        &mut self,
        session: SessionName,
        attempt: Attempt,
        ctx: &ApplyContext<'_>,
    ) {
        self.sessions.record_ended_attempt(session, attempt, ctx.now, &self.limits);
    }
}
