//! Renewing sessions and reading their leases: calls that only the leader serves.
//!
//! A renewal is acknowledged after a quorum confirmed the leadership in a round that began after the request arrived.
//! It writes no log entry. A follower calls the leader in one hop.
//!
//! A call for many sessions has one result for each, in order. Bound: the caller's, of the sessions in one call.

use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use holdfast_machine::Machine;
use holdfast_raft::Urgency;
use holdfast_types::{
    Actor, Command, EntryState, LockView, Rejection, Reply, SessionId, SessionName,
    SessionRejection, Ttl,
};

use crate::leases::lease::Renewal;
use crate::request::{Failure, Response, session_ended};
use crate::service::Service;
use crate::service_call::{CallFailure, LeaseView, ReadLeases, Renew, Renewed, SessionToRenew};

/// The renewals of one call that wait for the log at once.
const RENEWALS_AT_ONCE: usize = 64;

/// The result for one session of a batch.
#[derive(Clone, Debug)]
pub struct SessionRenewal {
    pub session: SessionName,
    /// The session's TTL and the guaranteed remaining time of its lease, or the reason why it was not renewed.
    pub renewed: Result<(Ttl, Duration), Failure>,
}

/// A renewal of a session that a quorum confirmed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConfirmedLease {
    /// The start of the call that renewed the session.
    pub(crate) since: Instant,
    /// The TTL of the session when it was renewed. A TTL that is set later promises nothing from `since` on.
    pub(crate) ttl: Ttl,
}

impl ConfirmedLease {
    /// The session certainly lives until then.
    pub(crate) fn until(self) -> Instant {
        self.since + self.ttl.as_duration()
    }

    /// The guaranteed remaining time of the lease.
    pub(crate) fn left(self) -> Duration {
        self.until().saturating_duration_since(Instant::now())
    }
}

impl Service {
    /// Renews a session on the leader.
    pub(crate) async fn renew(
        &self,
        of: SessionToRenew,
        deadline: Instant,
    ) -> Result<Renewed, Failure> {
        let mut renewals = self.renew_all(vec![of], true, deadline).await?;
        let renewed = renewals.pop().unwrap_or(Err(Failure::OutcomeUnknown))?;
        self.metrics().keepalives.inc();
        Ok(renewed)
    }

    /// Renews sessions on the leader; see [`Renew`]. Returns one result for each, in order.
    pub(crate) async fn renew_all(
        &self,
        sessions: Vec<SessionToRenew>,
        through_the_log: bool,
        deadline: Instant,
    ) -> Result<Vec<Result<Renewed, Failure>>, Failure> {
        let (actor, count) = (self.actor().clone(), sessions.len());
        let call = Renew { actor, sessions, through_the_log };
        let renewals = self.call_leader(call, deadline).await?;
        if renewals.len() != count {
            return Err(Failure::OutcomeUnknown);
        }
        let one = |renewal: Result<Renewed, CallFailure>| {
            renewal.map_err(|failure| match failure {
                CallFailure::Rejected(rejection) => Failure::Rejected(rejection),
                CallFailure::Unavailable => Failure::OutcomeUnknown,
            })
        };
        Ok(renewals.into_iter().map(one).collect())
    }

    /// Renews sessions with one quorum round. Returns one result for each, in order.
    pub async fn keep_many_alive(
        &self,
        sessions: Vec<SessionName>,
    ) -> Result<Response<Vec<SessionRenewal>>, Failure> {
        let began = Instant::now();
        let of = |session| SessionToRenew { session, id: None, queue_entry: None };
        let named = sessions.iter().cloned().map(of).collect();
        let renewals = self.renew_all(named, true, self.deadline()).await?;
        self.metrics().keepalives.inc_by(renewals.len() as u64);
        let left = |ttl: Ttl| ttl.as_duration().saturating_sub(began.elapsed());
        let one = |(session, renewed): (_, Result<Renewed, _>)| SessionRenewal {
            session,
            renewed: renewed.map(|Renewed { ttl, .. }| (ttl, left(ttl))),
        };
        let kept = sessions.into_iter().zip(renewals).map(one).collect();
        Ok(Response::new(kept, self.revision()))
    }

    /// Returns the remaining time of a session's lease; zero for a session that has ended.
    pub(crate) async fn remaining(&self, session: &SessionName) -> Result<Duration, Failure> {
        let call = ReadLeases { sessions: vec![session.clone()] };
        let leases = self.call_leader(call, self.deadline()).await?;
        let lease = leases.into_iter().next().flatten();
        Ok(lease.map_or(Duration::ZERO, |lease| Duration::from_millis(lease.left_ms)))
    }

    pub(crate) async fn renew_as_leader(
        &self,
        call: Renew,
        deadline: Instant,
    ) -> Result<Vec<Result<Renewed, CallFailure>>, CallFailure> {
        let Renew { actor, sessions, through_the_log } = call;
        let confirmed = self.raft().confirm_leadership(deadline).await;
        let leadership = confirmed.map_err(|_| CallFailure::Unavailable)?;
        let in_memory = self.raft().read(|machine| {
            let (mut leases, now) = (self.observer().leases.lock(), Instant::now());
            if leases.has_ended(leadership) {
                return None;
            }
            let one = |of: &SessionToRenew| {
                let SessionToRenew { session, id, .. } = of;
                self.check_session_of(machine, &actor, session)?;
                let (id, ttl) = find(machine, session, *id)?;
                let (entry, revision) = (entry_of(machine, of), machine.revision());
                let renewed = Renewed { id, ttl, entry, revision };
                // A session with a record in the log is renewed only through the log, because the next leader, or this one in its
                // next leadership, counts from the record.
                let in_log = machine.renews_in_log(id);
                let renewal = if in_log { Renewal::Expiring } else { leases.renew(id, now) };
                Ok((renewal, id, renewed))
            };
            Some(sessions.iter().map(one).collect::<Vec<_>>())
        });
        let in_memory = in_memory.ok_or(CallFailure::Unavailable)?;
        let finish = async |(of, renewal): (SessionToRenew, Result<_, Rejection>)| match renewal {
            Err(rejection) => Err(CallFailure::Rejected(rejection)),
            // `Unknown`: this new leader has not started the leases yet, so the session still has its full TTL: it has no record.
            Ok((Renewal::Renewed | Renewal::Unknown, _, renewed)) => Ok(renewed),
            Ok((Renewal::Expiring, ..)) if !through_the_log => Err(CallFailure::Unavailable),
            Ok((Renewal::Expiring, id, _)) => self.renew_through_the_log(of, id, deadline).await,
        };
        // After a change of the leader, many renewals enter the log: together, in few entries.
        let finishing = stream::iter(sessions.into_iter().zip(in_memory).map(finish));
        let renewals: Vec<_> = finishing.buffered(RENEWALS_AT_ONCE).collect().await;
        let is_unknown = |renewal: &_| matches!(renewal, Err(CallFailure::Unavailable));
        if through_the_log && renewals.iter().all(is_unknown) {
            return Err(CallFailure::Unavailable);
        }
        Ok(renewals)
    }

    /// Renews the session with this number. The log decides whether its expiry, or a change of its TTL, comes first.
    async fn renew_through_the_log(
        &self,
        of: SessionToRenew,
        id: SessionId,
        deadline: Instant,
    ) -> Result<Renewed, CallFailure> {
        // The caller has been checked. The leader proposes for it, maybe on behalf of another node.
        let command = Command::RenewSession { session: of.session.clone() }.by(Actor::Node);
        let proposed = self.raft().propose(command, Urgency::Immediate, deadline).await;
        let committed = proposed.map_err(|_| CallFailure::Unavailable)?;
        let ttl = match committed.outcome {
            Ok(Reply::SessionRenewed { id: renewed, ttl }) if renewed == id => ttl,
            // The session has ended, and another one has its name.
            Ok(Reply::SessionRenewed { .. }) => {
                let ended = SessionRejection::Unknown { session: of.session };
                return Err(CallFailure::Rejected(ended.into()));
            }
            Ok(_) => return Err(CallFailure::Unavailable),
            Err(rejection) => return Err(CallFailure::Rejected(rejection)),
        };
        let revision = committed.revision;
        self.catch_up(revision).await.map_err(|_| CallFailure::Unavailable)?;
        let entry = self.raft().read(|machine| entry_of(machine, &of));
        Ok(Renewed { id, ttl, entry, revision })
    }

    pub(crate) async fn leases_as_leader(
        &self,
        sessions: &[SessionName],
        deadline: Instant,
    ) -> Result<Vec<Option<LeaseView>>, CallFailure> {
        let confirmed = self.raft().confirm_leadership(deadline).await;
        confirmed.map_err(|_| CallFailure::Unavailable)?;
        let now = Instant::now();
        Ok(self.raft().read(|machine| {
            let leases = self.observer().leases.lock();
            let view = |session: &SessionName| {
                let (id, ttl) = find(machine, session, None).ok()?;
                // A new leader that has not started the lease yet gives it the full TTL.
                let left = leases.remaining(id, now).unwrap_or(ttl.as_duration());
                Some(LeaseView { ttl, left_ms: u64::try_from(left.as_millis()).ok()? })
            };
            sessions.iter().map(view).collect()
        }))
    }

    /// Returns the leases of a lock's holders; `None` for each if no leader replies in time.
    pub(crate) async fn leases_of_holders(&self, lock: &LockView) -> Vec<Option<LeaseView>> {
        let sessions: Vec<_> = lock.holders.iter().map(|holder| holder.session.clone()).collect();
        if sessions.is_empty() {
            return Vec::new();
        }
        let count = sessions.len();
        let deadline = Instant::now() + self.config().request_timeout.min(Duration::from_secs(1));
        match self.call_leader(ReadLeases { sessions }, deadline).await {
            Ok(leases) if leases.len() == count => leases,
            Ok(_) | Err(_) => vec![None; count],
        }
    }
}

/// The state of the hold or the queue entry whose state a renewal also requests.
fn entry_of(machine: &Machine, of: &SessionToRenew) -> Option<EntryState> {
    let (lock, owner, ticket) = of.queue_entry.as_ref()?;
    machine.entry_state(&lock.clone().into(), &of.session, owner, Some(*ticket))
}

/// Finds an open session that has a lease. With a number, only that session of the name.
fn find(
    machine: &Machine,
    session: &SessionName,
    number: Option<SessionId>,
) -> Result<(SessionId, Ttl), Rejection> {
    let found = machine.session_id(session).filter(|_| !session.is_durable());
    let found = found.filter(|(id, _)| number.is_none_or(|number| number == *id));
    found.ok_or_else(|| session_ended(machine, session))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::TcpListener;

    use holdfast_raft::{PeerListen, RaftConfig};
    use holdfast_types::{Address, AuthMode, MemberAddresses, NodeId, OpenSession, SubjectName};

    use super::*;
    use crate::request::{Principal, RequestContext};
    use crate::{ServiceConfig, ServiceMetrics};

    /// The leader renews through the log for a caller that it has checked; `apply` must not see a caller without a
    /// credential.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_session_of_a_subject_is_renewed_through_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer: Address = listener.local_addr().unwrap().into();
        let member = MemberAddresses { http: peer.clone(), zookeeper: peer.clone(), peer };
        let members = BTreeMap::from([(NodeId(1), member)]);
        let listen = PeerListen::Bound(listener);
        let raft = RaftConfig::new("test", NodeId(1), members, dir.path(), listen);
        let metrics = ServiceMetrics::default();
        let service = Service::start(ServiceConfig::default(), raft, metrics).await.unwrap();
        let mut leadership = service.raft().leadership();
        leadership.wait_for(|leadership| leadership.epoch.is_some()).await.unwrap();
        let subject = SubjectName::new("root").unwrap();
        let added = service.add_first_administrator(subject, Some(AuthMode::On)).await.unwrap();
        let actor = Actor::Token(added.value.issued.token.id);
        let principal = Principal::of(actor);
        let admin = service.for_call(RequestContext { principal, ..RequestContext::anonymous() });
        let session = SessionName::new("me").unwrap();
        let open = OpenSession::of(session.clone());
        let opened = admin.open_session(open, None).await.unwrap();
        let id = opened.value.view.id;
        // Another call sets the TTL before the renewal enters the log.
        let short = Some(Ttl::MIN);
        let shorter = OpenSession { ttl: short, ..OpenSession::of(session.clone()) };
        admin.open_session(shorter, None).await.unwrap();
        let renew = |id| {
            let of = SessionToRenew { session: session.clone(), id: None, queue_entry: None };
            service.renew_through_the_log(of, id, service.deadline())
        };
        let renewed = renew(id).await.unwrap();
        assert!(renewed.ttl == Ttl::MIN && renewed.revision > opened.revision, "{renewed:?}");
        // Another session has the name by then.
        let ended = SessionRejection::Unknown { session: session.clone() };
        let other = renew(SessionId(id.0 + 1)).await;
        assert!(matches!(other, Err(CallFailure::Rejected(why)) if why == ended.into()));
        // Without a credential, the same session is not renewed.
        let of = SessionToRenew { session, id: None, queue_entry: None };
        let denied = service.renew(of, service.deadline()).await;
        assert!(matches!(denied, Err(Failure::Rejected(Rejection::Auth(_)))), "{denied:?}");
        service.shutdown().await;
    }
}
