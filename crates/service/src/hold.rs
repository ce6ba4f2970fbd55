//! A lock that lives as long as a connection: the node renews it, and gives it up the moment the connection goes.
//!
//! Owns the renewals of one hold and the end of its session, which the server made for it. Refuses to outlive its own
//! deadline: when no quorum has confirmed a renewal for a whole time-to-live, the hold is said to be lost, because from
//! then on somebody else may get the lock. Bounds: one seat of the parked callers each, kept until the session is closed.

use std::fmt;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdfast_types::{Grant, LossCause, Rejection, Standing};
use tokio::time::{Interval, MissedTickBehavior};

use crate::acquire::Granted;
use crate::departure::close_within;
use crate::failure::Failure;
use crate::leader::Renewed;
use crate::service::Service;
use crate::waiters::{Parked, Seat, Woken};

/// How long the end of a session is tried when the node is about to stop.
const CLOSING_IN_A_HURRY: Duration = Duration::from_secs(3);

/// Why a hold is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldEnd {
    /// The log says so.
    Lost(LossCause),
    /// No quorum has confirmed it for a whole time-to-live: it may be lost.
    Unconfirmed,
    /// The node is about to stop, and the connection with it: the lock is given up.
    ShuttingDown,
}

/// What happens to a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldEvent {
    /// A quorum has confirmed it.
    Renewed {
        /// What is certainly left of it.
        expires_in: Duration,
    },
    /// It is over.
    Over(HoldEnd),
}

type Renewing = BoxFuture<'static, (Instant, Result<Renewed, Failure>)>;

/// See the module. Dropping it gives the lock up.
pub struct ConnectionHold {
    service: Service,
    grant: Grant,
    renewed: Instant,
    parked: Parked,
    seat: Option<Seat>,
    ticks: Interval,
    renewing: Option<Renewing>,
}

impl ConnectionHold {
    pub(crate) fn new(service: Service, granted: &Granted, seat: Seat) -> Self {
        let Granted { grant, expires_in, .. } = granted;
        let ttl = grant.ttl.as_duration();
        let now = Instant::now();
        let renewed = now.checked_sub(ttl.saturating_sub(*expires_in)).unwrap_or(now);
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + ttl / 3, ttl / 3);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let parked = seat.park(grant.ticket);
        let (grant, seat, renewing) = (grant.clone(), Some(seat), None);
        Self { service, grant, renewed, parked, seat, ticks, renewing }
    }

    /// What happens next; nothing but the end after the end. Dropping the future loses nothing.
    pub async fn next(&mut self) -> HoldEvent {
        let ttl = self.grant.ttl.as_duration();
        if let Some(end) = self.look() {
            return HoldEvent::Over(end);
        }
        loop {
            let deadline = self.renewed + ttl;
            let service = self.service.clone();
            tokio::select! {
                biased;
                woken = self.parked.woken() => match woken {
                    Woken::Left(cause) => return HoldEvent::Over(HoldEnd::Lost(cause)),
                    Woken::Granted(_) => {}
                    Woken::Look => if let Some(end) = self.look() {
                        return HoldEvent::Over(end);
                    },
                },
                () = service.draining().cancelled() => return HoldEvent::Over(HoldEnd::ShuttingDown),
                (began, renewed) = poll(&mut self.renewing), if self.renewing.is_some() => {
                    self.renewing = None;
                    if let Some(news) = self.heard(began, renewed) {
                        return news;
                    }
                }
                () = tokio::time::sleep_until(deadline.into()) => {
                    return HoldEvent::Over(HoldEnd::Unconfirmed);
                }
                _ = self.ticks.tick(), if self.renewing.is_none() => self.renew(),
            }
        }
    }

    fn renew(&mut self) {
        let (service, grant) = (self.service.clone(), self.grant.clone());
        let renewing = async move {
            let began = Instant::now();
            let contender = Some((grant.lock, grant.owner));
            (began, service.renew(&grant.session, contender, service.deadline()).await)
        };
        self.renewing = Some(renewing.boxed());
    }

    /// The leader's answer to a renewal.
    fn heard(&mut self, began: Instant, renewed: Result<Renewed, Failure>) -> Option<HoldEvent> {
        match renewed {
            Ok(Renewed { standing: Some(Standing::Holding(held)), .. })
                if held.token == self.grant.token =>
            {
                self.renewed = began;
                let left = self.grant.ttl.as_duration().saturating_sub(began.elapsed());
                Some(HoldEvent::Renewed { expires_in: left })
            }
            Err(Failure::Rejected(Rejection::SessionExpired { .. })) => {
                Some(HoldEvent::Over(HoldEnd::Lost(LossCause::SessionExpired)))
            }
            Err(Failure::Rejected(_)) => {
                Some(HoldEvent::Over(HoldEnd::Lost(LossCause::SessionClosed)))
            }
            // Either the hold is over, and this node's own apply tells why in a moment; or there is no leader just now,
            // and the deadline decides.
            Ok(_) | Err(_) => None,
        }
    }

    /// The state as this node has it, if it says that the hold is over.
    fn look(&self) -> Option<HoldEnd> {
        let Grant { lock, session, owner, token, granted_in, .. } = &self.grant;
        let (standing, revision) = self
            .service
            .raft()
            .read(|machine| (machine.standing(lock, session, owner), machine.revision()));
        match standing {
            Some(Standing::Holding(held)) if held.token == *token => None,
            // This node has not applied the grant yet.
            Some(_) | None if revision < *granted_in => None,
            Some(_) | None => Some(HoldEnd::Lost(match self.service.view(session) {
                Err(Failure::Rejected(Rejection::SessionExpired { .. })) => {
                    LossCause::SessionExpired
                }
                Ok(_) => LossCause::Released,
                Err(_) => LossCause::SessionClosed,
            })),
        }
    }
}

async fn poll(renewing: &mut Option<Renewing>) -> (Instant, Result<Renewed, Failure>) {
    match renewing {
        Some(renewing) => renewing.await,
        None => std::future::pending().await,
    }
}

impl Drop for ConnectionHold {
    fn drop(&mut self) {
        let (service, session) = (self.service.clone(), self.grant.session.clone());
        let seat = self.seat.take();
        tokio::spawn(async move {
            let hurry = service.is_draining().then_some(CLOSING_IN_A_HURRY);
            close_within(service, session, hurry).await;
            drop(seat);
        });
    }
}

impl fmt::Debug for ConnectionHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionHold").field("grant", &self.grant).finish_non_exhaustive()
    }
}
