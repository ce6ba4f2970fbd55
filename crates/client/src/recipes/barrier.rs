//! Barriers: a number of members that pass together, from Rust.

use std::time::{Duration, Instant};

use holdfast_api::{ArriveParams, GateBody, LeaveParams, PassedBody, barrier_path};
use holdfast_types::{Labels, Owner, SessionName};
use reqwest::Method;

use super::{Place, ask_until, checked, own_owner, own_request};
use crate::{Client, Error};

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
    /// Arrives and waits for the others; each call is one arrival of its own. Dropping the future, like the end of the wait,
    /// breaks the barrier for those who wait at it.
    ///
    /// # Errors
    /// [`Error::Busy`] if the others have not come in time; [`Error::Refused`] if the barrier broke
    /// ([`Error::is_broken`]), or those who wait at it pass in another number; otherwise see [`Error`].
    pub async fn arrive(&self, wait: Duration) -> Result<PassedBody, Error> {
        let path = barrier_path(&checked(&self.name)?);
        let arrived = arrive(&self.client, (Method::POST, path), self.parties, wait).await;
        let (passed, place) = arrived?;
        drop(place.settle());
        Ok(passed)
    }

    /// Who has arrived.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn look(&self) -> Result<GateBody, Error> {
        self.client.calls().get(barrier_path(&checked(&self.name)?)).await
    }
}

/// Arrives at a barrier of either kind; answers the place as well, to be given up.
pub(super) async fn arrive(
    client: &Client,
    (method, path): (Method, String),
    parties: u32,
    wait: Duration,
) -> Result<(PassedBody, Place), Error> {
    let used = client.session_for(None).await?;
    let (session, owner, request) = (used.session().name.clone(), own_owner()?, own_request()?);
    let target = format!("{path}?{}", leaving(&session, &owner, Duration::ZERO));
    let place = Place { client: client.clone(), used: Some(used), target };
    let params = ArriveParams {
        parties,
        session,
        owner: Some(owner),
        request: Some(request),
        ttl: None,
        wait: Duration::ZERO,
        labels: Labels::default(),
        redirect: false,
    };
    let until = Instant::now() + wait;
    let asked = |wait| format!("{path}?{}", ArriveParams { wait, ..params.clone() }.to_query());
    let passed = ask_until(client, place.used.as_ref(), (method, until), asked).await;
    match passed {
        Ok(passed) => Ok((passed, place)),
        Err(error @ (Error::Busy(_) | Error::Refused(_) | Error::Lost(_))) => {
            drop(place.settle());
            Err(error)
        }
        Err(error) => Err(error),
    }
}

/// The query of leaving.
pub(super) fn leaving(session: &SessionName, owner: &Owner, wait: Duration) -> String {
    let (session, owner) = (session.clone(), Some(owner.clone()));
    LeaveParams { session, owner, wait, redirect: false }.to_query()
}
