//! Many sessions at once: renewed with one quorum round, or read from the leader's lease table.
//!
//! Each session has its own result, in order, whatever the results of the others. Bounds: at most [`RENEWED_MAX`]
//! sessions a call. Sessions whose expiry command is in flight are renewed through the log, one after another.

use std::time::{Duration, Instant};

use holdfast_types::{LockView, SessionName, Ttl};

use crate::context::Response;
use crate::failure::Failure;
use crate::leader::find;
use crate::lease::Renewal;
use crate::service::Service;
use crate::service_call::{CallRefusal, LeaseView, NamedRenewal, ReadLeases, RenewNamed, Renewed};

/// The most sessions that one call renews.
pub const RENEWED_MAX: usize = 1_000;

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
        let call = RenewNamed { sessions: sessions.clone() };
        let renewals = self.call_leader(call, self.deadline()).await?;
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

    pub(crate) async fn renew_named_as_leader(
        &self,
        sessions: Vec<SessionName>,
        deadline: Instant,
    ) -> Result<Vec<NamedRenewal>, CallRefusal> {
        self.confirm_leadership(deadline).await?;
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
                        Ok(renewed) => NamedRenewal::Renewed { ttl: renewed.ttl },
                        Err(CallRefusal::Rejected(rejection)) => NamedRenewal::Rejected(rejection),
                        Err(CallRefusal::Unavailable) => NamedRenewal::Unknown,
                    }
                }
            });
        }
        Ok(renewals)
    }

    pub(crate) async fn leases_as_leader(
        &self,
        sessions: &[SessionName],
        deadline: Instant,
    ) -> Result<Vec<Option<LeaseView>>, CallRefusal> {
        self.confirm_leadership(deadline).await?;
        let now = Instant::now();
        Ok(self.raft().read(|machine| {
            let leases = self.leases().lock();
            let view = |session: &SessionName| {
                let (id, ttl) = machine.session_id(session)?;
                // Under a leadership so young that the lease has not begun to run, all of it is left.
                let left = leases.remaining(id, now).unwrap_or(ttl.as_duration());
                Some(LeaseView { ttl, left_ms: u64::try_from(left.as_millis()).ok()? })
            };
            sessions.iter().map(view).collect()
        }))
    }

    /// Returns the leases of a lock's holders; `None` for each if no leader answers in time.
    pub(crate) async fn leases_of_holders(&self, lock: &LockView) -> Vec<Option<LeaseView>> {
        let sessions: Vec<_> = lock.holders.iter().map(|holder| holder.session.clone()).collect();
        if sessions.is_empty() {
            return Vec::new();
        }
        let count = sessions.len();
        let deadline = Instant::now() + self.tunables().request_timeout.min(Duration::from_secs(1));
        match self.call_leader(ReadLeases { sessions }, deadline).await {
            Ok(leases) if leases.len() == count => leases,
            Ok(_) | Err(_) => vec![None; count],
        }
    }
}
