//! Rejects late copies of attempts that are over, and records ended attempts (`attempts.rs`).

use holdfast_types::{
    Attempt, LockName, LockRejection, Owner, Rejection, SessionId, SessionName, ShardRequest,
};

use crate::Machine;
use crate::context::ApplyContext;
use crate::session::attempts::EndedAttempt;
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
            Some(KnownSession::Open(id)) => {
                self.sessions.get(id).map(|session| session.ended_attempts.over(lock, owner))
            }
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

    /// Ends an attempt that keeps no entry. A later copy of its acquire is rejected.
    pub(crate) fn end_attempt(
        &mut self,
        session: SessionId,
        lock: &LockName,
        owner: &Owner,
        attempt: Attempt,
    ) {
        self.end_attempts(session, lock, owner, attempt, false);
    }

    /// Ends the attempts of an owner up to `over`. `released` is true if the owner released its entry itself.
    pub(crate) fn end_attempts(
        &mut self,
        session: SessionId,
        lock: &LockName,
        owner: &Owner,
        over: Attempt,
        released: bool,
    ) {
        let lock = self.remembered_as(lock);
        let has_shards = self.locks.has_shards(lock.as_str());
        if let Some(session) = self.sessions.get_mut(session) {
            let owner = owner.clone();
            session.ended_attempts.end(EndedAttempt { lock, owner, released, has_shards, over });
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
