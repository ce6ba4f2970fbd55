//! Barriers, which release a fixed number of parties together, and double barriers, which they enter and leave together.

use std::time::{Duration, Instant};

use holdfast_api::parameters::{INCARNATION, recipe};
use holdfast_api::{
    BarrierBody, LeftBody, Query, TrippedBody, barrier_path, double_barrier_path, format_duration,
};
use holdfast_types::{Owner, RequestNumber};

use super::checked_name;
use crate::calls::call::Call;
use crate::clock::end_of;
use crate::error::argument;
use crate::http::Method;
use crate::sessions::session::SessionUse;
use crate::{Client, Error, Loss, numbers};

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

/// A place at a barrier. Dropping it gives up the place in the background, unless `disarm` was called.
#[derive(Debug)]
struct BarrierEntry {
    client: Client,
    session: Option<SessionUse>,
    /// Path and query of the `DELETE` that gives up the place.
    target: String,
    /// The number of an arrival that may still wait, or may not have arrived.
    arrival: Option<RequestNumber>,
}

impl BarrierEntry {
    /// Drops the place without a call, because the cluster no longer has it.
    fn disarm(mut self) {
        self.session = None;
    }
}

impl Drop for BarrierEntry {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        let client = self.client.clone();
        let withdrawal = self.arrival.map(|arrival| {
            let query = Query::default().with(&recipe::LEFT_ARRIVAL, &arrival).target("");
            format!("{}{}", self.target, query.replacen('?', "&", 1))
        });
        let targets = withdrawal.into_iter().chain([std::mem::take(&mut self.target)]);
        let targets: Vec<String> = targets.collect();
        let (pending, runtime) =
            (session.session().pending.clone(), session.session().runtime.clone());
        let withdraw = async move {
            for target in targets {
                let call = Call::new(Method::DELETE, target);
                if session.session().is_alive() {
                    let is_needed = || session.session().is_alive();
                    client.calls().send_until_certain(&call, is_needed).await;
                }
            }
        };
        pending.spawn_on(withdraw, &runtime);
    }
}

/// Arrives at a barrier or a double barrier. Also returns the place: dropping it leaves.
async fn arrive(
    client: &Client,
    path: String,
    parties: u32,
    wait: Duration,
) -> Result<(TrippedBody, BarrierEntry), Error> {
    let session_use = client.session_for(None).await?;
    let session = session_use.session().clone();
    // Dropped after the withdrawal of the entry has begun.
    let _wait = session.pending.token();
    // Several arrivals of one program are separate parties.
    let owner = Owner::new(format!("a-{:016x}", numbers::bits()?)).map_err(argument)?;
    let party =
        Query::default().with(&recipe::MEMBER, &session.name).with(&recipe::MEMBER_OWNER, &owner);
    let target = party.target(&path);
    let request = numbers::next_request(RequestNumber(0));
    let mut entry = BarrierEntry {
        client: client.clone(),
        session: Some(session_use),
        target,
        arrival: Some(request),
    };
    let party = party.with(&INCARNATION, &session.incarnation).with(&recipe::PARTIES, &parties);
    let until = end_of(wait);
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

/// A double barrier; see [`Client::double_barrier`].
///
/// ```no_run
/// # async fn example(client: holdfast_client::Client) -> Result<(), holdfast_client::Error> {
/// use std::time::Duration;
/// let inside = client.double_barrier("batch", 3).enter(Duration::from_secs(60)).await?;
/// // All three are inside.
/// inside.leave(Duration::from_secs(60)).await
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DoubleBarrier {
    pub(super) client: Client,
    pub(super) name: String,
    pub(super) parties: u32,
}

impl DoubleBarrier {
    /// Waits until enough other parties enter. Each call is a separate party. Dropping the future gives up the place
    /// and does not affect the other parties.
    ///
    /// # Errors
    /// [`Error::Busy`] if the others did not arrive in time; [`Error::Rejected`] if the present parties named another
    /// party count; otherwise see [`Error`].
    pub async fn enter(&self, timeout: Duration) -> Result<DoubleBarrierGuard, Error> {
        let path = double_barrier_path(&checked_name(&self.name)?);
        let (tripped, entry) = arrive(&self.client, path, self.parties, timeout).await?;
        Ok(DoubleBarrierGuard { tripped, entry })
    }

    /// Returns the parties that wait to enter and the parties inside.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn state(&self) -> Result<BarrierBody, Error> {
        self.client.calls().get(double_barrier_path(&checked_name(&self.name)?)).await
    }
}

/// A place inside a double barrier. Dropping it leaves in the background. If the process dies, the place ends with its
/// session.
#[derive(Debug)]
#[must_use = "dropping it leaves"]
pub struct DoubleBarrierGuard {
    tripped: TrippedBody,
    entry: BarrierEntry,
}

impl DoubleBarrierGuard {
    /// The answer to [`DoubleBarrier::enter`].
    pub fn tripped(&self) -> &TrippedBody {
        &self.tripped
    }

    /// Leaves, and waits until all parties have left.
    ///
    /// # Errors
    /// [`Error::Busy`] if others are still inside after the timeout; this party has left in any case. Otherwise see
    /// [`Error`].
    pub async fn leave(self, timeout: Duration) -> Result<(), Error> {
        let BarrierEntry { client, session, target, .. } = &self.entry;
        let round = self.tripped.generation;
        let until = end_of(timeout);
        let call = |wait: Duration| {
            let wait = match wait {
                Duration::ZERO => String::new(),
                wait => format!("&wait={}", format_duration(wait)),
            };
            Call::new(Method::DELETE, format!("{target}&generation={round}{wait}"))
        };
        let is_needed = || session.as_ref().is_some_and(|session| session.session().is_alive());
        loop {
            match client.calls().repeat_until::<LeftBody>(until, is_needed, call).await {
                Err(Error::Busy(_)) if Instant::now() < until => {}
                Err(error) if error.is_unclear() => return Err(error),
                result => {
                    self.entry.disarm();
                    return result.map(drop);
                }
            }
        }
    }
}
