//! Many sessions at once: renewed in one round of the quorum, or looked at in the leader's lease table.
//!
//! Owns what a batch of names means: one answer to each, in order, whatever happens to the others. Bounds: at most
//! [`RENEWED_MAX`] names a call; those whose expiry is on its way are renewed through the log, one after another.

use std::time::{Duration, Instant};

use holdfast_types::{LockView, Rejection, SessionName, Ttl};
use serde::{Deserialize, Serialize};

use crate::context::Response;
use crate::failure::Failure;
use crate::leader::{PeerReply, PeerRequest, Renewed, find};
use crate::lease::Renewal;
use crate::service::Service;

/// Sessions renewed by one call at most.
pub const RENEWED_MAX: usize = 1_000;

/// What became of one renewal by name. Append-only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum NamedRenewal {
    /// A quorum stands behind it.
    Renewed {
        /// What it lives from then on.
        ttl: Ttl,
    },
    /// The machine refuses.
    Rejected(Rejection),
    /// Nobody can tell.
    Unknown,
}

/// A session's lease as its leader keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseView {
    /// What a renewal gives.
    pub ttl: Ttl,
    /// When it runs out unless it is renewed, milliseconds from now.
    pub left_ms: u64,
}

impl LeaseView {
    /// How long ago it was renewed. Too small when the leader has given time back, after a pause of its own.
    pub fn renewed_ago_ms(&self) -> u64 {
        u64::from(self.ttl.as_millis()).saturating_sub(self.left_ms)
    }
}

/// The result of one renewal of many.
#[derive(Clone, Debug)]
pub struct KeptAlive {
    pub session: SessionName,
    /// The session's time-to-live, and what is certainly left of it; or why it was not renewed.
    pub renewed: Result<(Ttl, Duration), Failure>,
}

impl Service {
    /// Renews at most [`RENEWED_MAX`] sessions with one quorum round: one result to each, in order.
    ///
    /// # Errors
    /// Those of any write.
    pub async fn keep_many_alive(
        &self,
        sessions: Vec<SessionName>,
    ) -> Result<Response<Vec<KeptAlive>>, Failure> {
        let began = Instant::now();
        let names = sessions.clone();
        let request = |within_ms| PeerRequest::RenewNamed { sessions: names, within_ms };
        let reply = self.ask_leader(request, self.deadline()).await?;
        let PeerReply::RenewedNamed(renewals) = reply else { return Err(Failure::OutcomeUnknown) };
        if renewals.len() != sessions.len() {
            return Err(Failure::OutcomeUnknown);
        }
        self.metrics().keepalives.inc_by(renewals.len() as u64);
        let left = |ttl: Ttl| ttl.as_duration().saturating_sub(began.elapsed());
        let one = |(session, renewal)| {
            let renewed = match renewal {
                NamedRenewal::Renewed { ttl } => Ok((ttl, left(ttl))),
                NamedRenewal::Rejected(rejection) => Err(Failure::Rejected(rejection)),
                NamedRenewal::Unknown => Err(Failure::OutcomeUnknown),
            };
            KeptAlive { session, renewed }
        };
        let kept = sessions.into_iter().zip(renewals).map(one).collect();
        Ok(Response::new(kept, self.revision()))
    }

    pub(crate) async fn renew_named_here(
        &self,
        sessions: Vec<SessionName>,
        deadline: Instant,
    ) -> PeerReply {
        if self.raft().confirm_leadership(deadline).await.is_err() {
            return PeerReply::NotLeader;
        }
        let found: Vec<_> = self.raft().read(|machine| {
            let (mut leases, now) = (self.leases().lock(), Instant::now());
            let renew = |session: SessionName| {
                let found = find(machine, &session).map(|(id, ttl)| {
                    let (standing, revision) = (None, machine.revision());
                    (leases.renew(id, now), Renewed { id, ttl, standing, revision })
                });
                (session, found)
            };
            sessions.into_iter().take(RENEWED_MAX).map(renew).collect()
        });
        let mut renewals = Vec::with_capacity(found.len());
        for (session, found) in found {
            renewals.push(match found {
                Err(rejection) => NamedRenewal::Rejected(rejection),
                Ok((Renewal::Renewed | Renewal::Unknown, renewed)) => {
                    NamedRenewal::Renewed { ttl: renewed.ttl }
                }
                Ok((Renewal::Expiring, renewed)) => {
                    match self.renew_through_the_log(session, renewed, deadline).await {
                        PeerReply::Renewed(renewed) => NamedRenewal::Renewed { ttl: renewed.ttl },
                        PeerReply::Rejected(rejection) => NamedRenewal::Rejected(rejection),
                        PeerReply::Remaining { .. }
                        | PeerReply::Report(_)
                        | PeerReply::NotLeader
                        | PeerReply::Notes { .. }
                        | PeerReply::RenewedMany(_)
                        | PeerReply::RenewedNamed(_)
                        | PeerReply::Leases(_) => NamedRenewal::Unknown,
                    }
                }
            });
        }
        PeerReply::RenewedNamed(renewals)
    }

    pub(crate) async fn leases_here(
        &self,
        sessions: &[SessionName],
        deadline: Instant,
    ) -> PeerReply {
        if self.raft().confirm_leadership(deadline).await.is_err() {
            return PeerReply::NotLeader;
        }
        let now = Instant::now();
        PeerReply::Leases(self.raft().read(|machine| {
            let leases = self.leases().lock();
            let view = |session: &SessionName| {
                let (id, ttl) = machine.session_id(session)?;
                // A leadership so young that the lease has not begun to run leaves all of it.
                let left = leases.remaining(id, now).unwrap_or(ttl.as_duration());
                Some(LeaseView { ttl, left_ms: u64::try_from(left.as_millis()).ok()? })
            };
            sessions.iter().map(view).collect()
        }))
    }

    /// The leases of those who hold a lock, as far as a leader can be asked in time.
    pub(crate) async fn leases_of_holders(&self, lock: &LockView) -> Vec<Option<LeaseView>> {
        let sessions: Vec<_> = lock.holders.iter().map(|holder| holder.session.clone()).collect();
        if sessions.is_empty() {
            return Vec::new();
        }
        let count = sessions.len();
        let deadline = Instant::now() + self.tunables().patience.min(Duration::from_secs(1));
        let request = |within_ms| PeerRequest::Leases { sessions, within_ms };
        match self.ask_leader(request, deadline).await {
            Ok(PeerReply::Leases(leases)) if leases.len() == count => leases,
            Ok(_) | Err(_) => vec![None; count],
        }
    }
}
