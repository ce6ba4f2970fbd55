//! Double barriers: parties that enter together and leave together.

use std::time::{Duration, Instant};

use holdfast_api::{BarrierBody, LeftBody, TrippedBody, double_barrier_path, format_duration};

use super::barrier::arrive;
use super::{BarrierEntry, checked_name};
use crate::calls::call::Call;
use crate::http::Method;
use crate::{Client, Error};

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
        let until = Instant::now() + timeout;
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
                Err(error) if error.is_uncertain() => return Err(error),
                result => {
                    self.entry.disarm();
                    return result.map(drop);
                }
            }
        }
    }
}
