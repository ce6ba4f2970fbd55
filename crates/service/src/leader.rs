//! What only the leader can answer about sessions: renewals and remaining leases.
//!
//! A renewal is acknowledged only after a quorum confirmed the leadership in a round that began after the request
//! arrived (design D7). It writes no log entry. On a follower the call travels to the leader in one hop.

use std::time::{Duration, Instant};

use holdfast_machine::Machine;
use holdfast_raft::Urgency;
use holdfast_types::{
    Command, LockName, Owner, Rejection, Reply, SessionId, SessionName, SessionRejection,
    SessionStatus, Ttl,
};

use crate::failure::Failure;
use crate::lease::Renewal;
use crate::service::Service;
use crate::service_call::{BatchRenewal, CallRefusal, ReadRemaining, Renew, RenewMany, Renewed};

impl Service {
    /// Renews a session wherever the leader is.
    pub(crate) async fn renew(
        &self,
        session: &SessionName,
        queue_entry: Option<(LockName, Owner)>,
        deadline: Instant,
    ) -> Result<Renewed, Failure> {
        let call = Renew { session: session.clone(), queue_entry };
        let renewed = self.call_leader(call, deadline).await?;
        self.metrics().keepalives.inc();
        Ok(renewed)
    }

    /// Renews many sessions wherever the leader is. Returns one result for each, in order.
    pub(crate) async fn renew_many(
        &self,
        sessions: Vec<SessionId>,
        deadline: Instant,
    ) -> Result<Vec<BatchRenewal>, Failure> {
        let count = sessions.len();
        let renewals = self.call_leader(RenewMany { sessions }, deadline).await?;
        if renewals.len() == count { Ok(renewals) } else { Err(Failure::OutcomeUnknown) }
    }

    /// Returns how long a session's lease still runs.
    pub(crate) async fn remaining(
        &self,
        session: &SessionName,
        deadline: Instant,
    ) -> Result<Duration, Failure> {
        self.call_leader(ReadRemaining { session: session.clone() }, deadline).await
    }

    /// Confirms with a quorum that this node leads.
    pub(crate) async fn confirm_leadership(&self, deadline: Instant) -> Result<(), CallRefusal> {
        let confirmed = self.raft().confirm_leadership(deadline).await;
        confirmed.map(drop).map_err(|_| CallRefusal::Unavailable)
    }

    pub(crate) async fn renew_as_leader(
        &self,
        call: Renew,
        deadline: Instant,
    ) -> Result<Renewed, CallRefusal> {
        let Renew { session, queue_entry } = call;
        self.confirm_leadership(deadline).await?;
        let renewal = self.raft().read(|machine| {
            let (id, ttl) = find(machine, &session)?;
            let standing =
                queue_entry.and_then(|(lock, owner)| machine.standing(&lock, &session, &owner));
            let renewal = self.leases().lock().renew(id, Instant::now());
            Ok((renewal, Renewed { id, ttl, standing, revision: machine.revision() }))
        });
        match renewal.map_err(CallRefusal::Rejected)? {
            // `Unknown`: the leadership is so young that the full TTL has not begun to run.
            (Renewal::Renewed | Renewal::Unknown, renewed) => Ok(renewed),
            (Renewal::Expiring, renewed) => {
                self.renew_through_the_log(session, renewed, deadline).await
            }
        }
    }

    pub(crate) async fn renew_many_as_leader(
        &self,
        sessions: &[SessionId],
        deadline: Instant,
    ) -> Result<Vec<BatchRenewal>, CallRefusal> {
        self.confirm_leadership(deadline).await?;
        Ok(self.raft().read(|machine| {
            let (mut leases, now) = (self.leases().lock(), Instant::now());
            let renew = |id: &SessionId| match (machine.lease(*id), leases.renew(*id, now)) {
                (None, _) => BatchRenewal::Gone,
                (Some(_), Renewal::Expiring) => BatchRenewal::Expiring,
                // `Unknown`: see `renew_as_leader`.
                (Some(_), Renewal::Renewed | Renewal::Unknown) => BatchRenewal::Renewed,
            };
            sessions.iter().map(renew).collect()
        }))
    }

    /// Renews a session whose expiry command is in flight: the log decides which of the two comes first.
    pub(crate) async fn renew_through_the_log(
        &self,
        session: SessionName,
        renewed: Renewed,
        deadline: Instant,
    ) -> Result<Renewed, CallRefusal> {
        let command = Command::RenewSession { session, ttl: None };
        let proposed = self.raft().propose(command, Urgency::Immediate, deadline).await;
        match proposed.map(|committed| committed.outcome) {
            Ok(Ok(Reply::SessionRenewed { .. })) => Ok(renewed),
            Ok(Err(rejection)) => Err(CallRefusal::Rejected(rejection)),
            Ok(Ok(_)) | Err(_) => Err(CallRefusal::Unavailable),
        }
    }

    pub(crate) async fn remaining_as_leader(
        &self,
        session: &SessionName,
        deadline: Instant,
    ) -> Result<Duration, CallRefusal> {
        self.confirm_leadership(deadline).await?;
        let now = Instant::now();
        let found = self.raft().read(|machine| find(machine, session));
        let (id, ttl) = found.map_err(CallRefusal::Rejected)?;
        Ok(self.leases().lock().remaining(id, now).unwrap_or(ttl.as_duration()))
    }
}

pub(crate) fn find(
    machine: &Machine,
    session: &SessionName,
) -> Result<(SessionId, Ttl), Rejection> {
    match machine.session_id(session) {
        Some(found) => Ok(found),
        None if machine.session(session) == SessionStatus::Expired => {
            Err(Rejection::Session(SessionRejection::Expired { session: session.clone() }))
        }
        None => Err(Rejection::Session(SessionRejection::Unknown { session: session.clone() })),
    }
}
