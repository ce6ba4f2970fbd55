//! Callers that hang up while they wait at a barrier.
//!
//! Owns a guard that such a call holds. The place is kept until the wait would have ended, because the client may ask
//! again (and then what ends the older wait has no effect); then it is given up, however long that takes. When the node
//! drains, the place is left to the client, which asks another node. Bounds: it keeps its caller's seat.

use std::time::{Duration, Instant};

use super::arriving::Place;
use crate::failure::Failure;
use crate::service::Service;
use crate::waiters::Seat;

/// Between two attempts to reach the log.
const PAUSE: Duration = Duration::from_millis(250);

/// A waiting caller's place; dropped armed when the caller hangs up, or cannot be told how it ended.
pub(super) struct Departing {
    service: Service,
    left: Option<(Place, Seat)>,
    until: Instant,
}

impl Departing {
    /// Watches over a place that is wanted until then.
    pub(super) fn of(service: Service, place: Place, seat: Seat, until: Instant) -> Self {
        Self { service, left: Some((place, seat)), until }
    }

    /// The caller knows for certain how it ended.
    pub(super) fn settle(mut self) {
        self.left = None;
    }
}

impl Drop for Departing {
    fn drop(&mut self) {
        if let Some((place, seat)) = self.left.take() {
            tokio::spawn(leave(self.service.clone(), place, seat, self.until));
        }
    }
}

async fn leave(service: Service, place: Place, _seat: Seat, until: Instant) {
    tokio::select! {
        () = tokio::time::sleep_until(until.into()) => {}
        () = service.draining().cancelled() => return,
    }
    loop {
        match service.propose(place.give_up()).await {
            Ok(_) | Err(Failure::Rejected(_)) => return,
            Err(failure) => tracing::debug!(%failure, "leaving a barrier takes longer"),
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = service.draining().cancelled() => return,
        }
    }
}
