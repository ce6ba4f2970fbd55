//! Double barriers: members that enter together and leave together, from Rust.

use std::time::{Duration, Instant};

use holdfast_api::{GateBody, LeftBody, PassedBody, double_barrier_path};
use reqwest::Method;

use super::barrier::arrive;
use super::{Place, ask_until, checked};
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
    /// Waits until enough others enter, too. Each call is one party of its own. Dropping the future gives the place up,
    /// and breaks nobody.
    ///
    /// # Errors
    /// [`Error::Busy`] if the others have not come in time; [`Error::Refused`] if those who are there pass in another
    /// number; otherwise see [`Error`].
    pub async fn enter(&self, wait: Duration) -> Result<Inside, Error> {
        let path = double_barrier_path(&checked(&self.name)?);
        let (passed, place) = arrive(&self.client, (Method::PUT, path), self.parties, wait).await?;
        Ok(Inside { passed, place })
    }

    /// Who waits to enter, and who is inside.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn look(&self) -> Result<GateBody, Error> {
        self.client.calls().get(double_barrier_path(&checked(&self.name)?)).await
    }
}

/// A place inside of a double barrier. Dropping it leaves in the background; if the process dies, it has left when its
/// session has ended.
#[derive(Debug)]
#[must_use = "dropping it leaves"]
pub struct Inside {
    passed: PassedBody,
    place: Place,
}

impl Inside {
    /// How it was entered.
    pub fn passed(&self) -> &PassedBody {
        &self.passed
    }

    /// Leaves, and waits until all have left.
    ///
    /// # Errors
    /// [`Error::Busy`] if others are still inside after the wait; this one has left all the same. Otherwise see [`Error`].
    pub async fn leave(self, wait: Duration) -> Result<(), Error> {
        let until = Instant::now() + wait;
        let target = |wait| match wait {
            Duration::ZERO => self.place.target.clone(),
            wait => {
                let wait = holdfast_api::format_duration(wait);
                format!("{}&wait={wait}", self.place.target)
            }
        };
        loop {
            let (client, used) = (&self.place.client, self.place.used.as_ref());
            let left = ask_until::<LeftBody>(client, used, (Method::DELETE, until), target).await;
            match left {
                Err(Error::Busy(_)) if Instant::now() < until => {}
                Err(error @ (Error::Retry(_) | Error::Unknown(_))) => return Err(error),
                ended => {
                    drop(self.place.settle());
                    return ended.map(drop);
                }
            }
        }
    }
}
