//! Barriers, which release a fixed number of parties together.

use std::time::{Duration, Instant};

use holdfast_api::parameters::{INCARNATION, recipe};
use holdfast_api::{BarrierBody, Query, TrippedBody, barrier_path};
use holdfast_types::RequestNumber;

use super::{BarrierEntry, checked_name, unique_owner};
use crate::calls::call::Call;
use crate::http::Method;
use crate::numbers;
use crate::{Client, Error, Loss};

/// A barrier; see [`Client::barrier`].
///
/// ```no_run
/// # async fn example(client: holdfast_client::Client) -> Result<(), holdfast_client::Error> {
/// use std::time::Duration;
/// let start = client.barrier("start", 3);
/// let passed = start.arrive(Duration::from_secs(60)).await?;
/// println!("{} of {}", passed.index, passed.parties);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Barrier {
    pub(super) client: Client,
    pub(super) name: String,
    pub(super) parties: u32,
}

impl Barrier {
    /// Arrives and waits for the other parties; each call is a separate arrival. Dropping the future and the end of the
    /// wait both break the barrier for its waiting parties.
    ///
    /// # Errors
    /// [`Error::Busy`] if the others did not arrive in time; [`Error::Rejected`] if the barrier broke
    /// ([`Error::is_barrier_broken`]), or if the waiting parties named another party count; otherwise see [`Error`].
    pub async fn arrive(&self, timeout: Duration) -> Result<TrippedBody, Error> {
        let path = barrier_path(&checked_name(&self.name)?);
        let (tripped, entry) = arrive(&self.client, path, self.parties, timeout).await?;
        entry.disarm();
        Ok(tripped)
    }

    /// Returns the parties that have arrived.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn state(&self) -> Result<BarrierBody, Error> {
        self.client.calls().get(barrier_path(&checked_name(&self.name)?)).await
    }
}

/// Arrives at a barrier or a double barrier. Also returns the place: dropping it leaves.
pub(super) async fn arrive(
    client: &Client,
    path: String,
    parties: u32,
    wait: Duration,
) -> Result<(TrippedBody, BarrierEntry), Error> {
    let session_use = client.session_for(None).await?;
    let session = session_use.session().clone();
    // Dropped after the withdrawal of the entry has begun.
    let _wait = session.pending.token();
    let party = Query::default()
        .with(&recipe::MEMBER, &session.name)
        .with(&recipe::MEMBER_OWNER, &unique_owner()?);
    let target = party.target(&path);
    let request = numbers::next_request(RequestNumber(0));
    let mut entry = BarrierEntry {
        client: client.clone(),
        session: Some(session_use),
        target,
        arrival: Some(request),
    };
    let party = party.with(&INCARNATION, &session.incarnation).with(&recipe::PARTIES, &parties);
    let until = Instant::now() + wait;
    let arrive = async |request| {
        let arrival = party.clone().with(&recipe::ARRIVAL, &request);
        let call = |wait| {
            let query = arrival.clone().with(&recipe::WAIT, &wait);
            Call::new(Method::PUT, query.target(&path))
        };
        tokio::select! {
            arrived = client.calls().repeat_until(until, || session.is_alive(), call) => arrived,
            _loss = session.closing.cancelled() => Err(Error::Lost(Loss::SessionEnded)),
        }
    };
    let mut arrived = arrive(request).await;
    if let Some(newest) = numbers::is_over(&arrived) {
        let request = numbers::next_request(newest);
        entry.arrival = Some(request);
        arrived = arrive(request).await;
    }
    match arrived {
        Ok(passed) => {
            entry.arrival = None;
            Ok((passed, entry))
        }
        Err(error) => {
            if matches!(error, Error::Busy(_) | Error::Rejected(_)) {
                entry.disarm();
            }
            Err(error)
        }
    }
}
