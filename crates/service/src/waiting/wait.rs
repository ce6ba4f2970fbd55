//! One wait: it ends with the awaited event, its deadline, the end of the caller's session or credential, or a shutdown.
//!
//! Meanwhile the node renews the caller's session at a third of its TTL.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdfast_types::{LockName, Owner, Rejection, SessionName, Ticket};

use super::parked::WaiterPermit;
use crate::auth::authorization::{CredentialWatch, credential_ended};
use crate::failure::Failure;
use crate::service::Service;
use crate::service_call::Renewed;

/// The next event that a waiting call handles.
#[derive(Debug)]
pub(crate) enum WaitEvent<W> {
    /// The awaited event may have happened.
    Woken(W),
    /// A quorum confirmed a renewal of the caller's session that started at `began`.
    Renewed {
        began: Instant,
        renewed: Renewed,
    },
    SessionEnded(Rejection),
    /// The caller's access token was deleted or has expired.
    Denied(Rejection),
    Deadline,
    /// The node is shutting down.
    Draining,
}

/// One wait: its deadline, and the renewals of the caller's session.
pub(crate) struct Wait {
    service: Service,
    deadline: Instant,
    renewals: Option<WaiterRenewals>,
    credential: Option<CredentialWatch>,
}

struct WaiterRenewals {
    session: SessionName,
    /// The hold or queue entry whose state each renewal also requests.
    place: Option<(LockName, Owner, Ticket)>,
    period: Duration,
    next_at: Instant,
    in_flight: Option<BoxFuture<'static, (Instant, Result<Renewed, Failure>)>>,
}

impl Wait {
    /// Creates the wait of a caller without a session.
    pub(crate) fn until(service: &Service, deadline: Instant) -> Self {
        let credential = service.watch_credential();
        Self { service: service.clone(), deadline, renewals: None, credential }
    }

    pub(crate) fn renewing(self, session: SessionName, ttl: Duration) -> Self {
        let period = ttl / 3;
        let (next_at, place, in_flight) = (Instant::now() + period, None, None);
        let renewals = WaiterRenewals { session, place, period, next_at, in_flight };
        Self { renewals: Some(renewals), ..self }
    }

    /// Makes each renewal also request the state of the session's entry in a lock.
    pub(crate) fn asking_about(mut self, lock: LockName, owner: Owner, ticket: Ticket) -> Self {
        if let Some(renewals) = &mut self.renewals {
            renewals.place = Some((lock, owner, ticket));
        }
        self
    }

    pub(crate) fn extend_to(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// Waits for `woken`, and renews the session meanwhile. Dropping the future loses no event.
    pub(crate) async fn next<W>(&mut self, woken: impl Future<Output = W>) -> WaitEvent<W> {
        tokio::pin!(woken);
        loop {
            let renew_at = self.renewals.as_ref().and_then(WaiterRenewals::next_at);
            let timer = renew_at.map_or(self.deadline, |renew_at| renew_at.min(self.deadline));
            tokio::select! {
                biased;
                woken = &mut woken => return WaitEvent::Woken(woken),
                () = self.service.draining().cancelled() => return WaitEvent::Draining,
                denied = credential_ended(&mut self.credential) => return WaitEvent::Denied(denied),
                (began, renewed) = finished(&mut self.renewals) => match renewed {
                    Ok(renewed) => return WaitEvent::Renewed { began, renewed },
                    Err(Failure::Rejected(denied @ Rejection::Auth(_))) => {
                        return WaitEvent::Denied(denied);
                    }
                    Err(Failure::Rejected(rejection)) => return WaitEvent::SessionEnded(rejection),
                    // Without a leader, the session cannot expire either.
                    Err(failure) => tracing::debug!(%failure, "a waiter's renewal is postponed"),
                },
                () = tokio::time::sleep_until(timer.into()) => {
                    if Instant::now() >= self.deadline {
                        return WaitEvent::Deadline;
                    }
                    if let Some(renewals) = &mut self.renewals {
                        renewals.begin(&self.service);
                    }
                }
            }
        }
    }
}

impl WaiterRenewals {
    fn next_at(&self) -> Option<Instant> {
        self.in_flight.is_none().then_some(self.next_at)
    }

    fn begin(&mut self, service: &Service) {
        let (service, session, place) = (service.clone(), self.session.clone(), self.place.clone());
        let began = Instant::now();
        self.next_at = began + self.period;
        let renewal =
            async move { (began, service.renew(&session, place, service.deadline()).await) };
        self.in_flight = Some(renewal.boxed());
    }
}

/// Returns the start of the renewal in flight and its result. Without a renewal it never resolves.
async fn finished(renewals: &mut Option<WaiterRenewals>) -> (Instant, Result<Renewed, Failure>) {
    let Some(renewals) = renewals else { return std::future::pending().await };
    let Some(in_flight) = &mut renewals.in_flight else { return std::future::pending().await };
    let finished = in_flight.await;
    renewals.in_flight = None;
    finished
}

impl Service {
    /// Runs the checks that need no proposal. A no-wait call takes no permit.
    pub(crate) fn admit(&self, wait: Duration) -> Result<Option<WaiterPermit>, Failure> {
        let max = self.config().wait_max;
        if wait > max {
            return Err(Failure::WaitTooLong { max });
        }
        if self.is_draining() {
            return Err(Failure::ShuttingDown);
        }
        if wait.is_zero() {
            return Ok(None);
        }
        if self.raft().cannot_catch_up() {
            // The wait would end long after the grant.
            return Err(Failure::Behind { disk_full: true });
        }
        self.observer().waiter_permits.take().map(Some)
    }
}
