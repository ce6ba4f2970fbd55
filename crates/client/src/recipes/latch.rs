//! Latches: what opens when it has been counted down, from Rust.

use std::time::{Duration, Instant};

use holdfast_api::{
    CountDownBody, CountDownParams, LatchBody, LatchParams, WaitParams, latch_path,
};
use holdfast_types::RequestId;
use reqwest::Method;

use super::{ask_until, checked};
use crate::error::argument;
use crate::{Client, Error, SessionHandle};

/// A latch; see [`Client::latch`].
///
/// ```no_run
/// # async fn example(client: holdfast_client::Client) -> Result<(), holdfast_client::Error> {
/// use std::time::Duration;
/// let migrated = client.latch("migrated");
/// migrated.create(2).await?;
/// migrated.count_down("eu").await?;
/// migrated.wait(Duration::from_secs(60)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Latch {
    pub(super) client: Client,
    pub(super) name: String,
}

impl Latch {
    /// Makes it, or finds that there is one of the same count.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is one of another count; otherwise see [`Error`].
    pub async fn create(&self, count: u32) -> Result<LatchBody, Error> {
        let query = LatchParams { count, redirect: false }.to_query();
        let target = format!("{}?{query}", latch_path(&checked(&self.name)?));
        self.client.calls().ask_for(Method::PUT, target).await
    }

    /// Counts it down once for this key; again changes nothing. Answers what was left right after the key was counted.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such latch; otherwise see [`Error`].
    pub async fn count_down(&self, key: impl AsRef<str>) -> Result<u32, Error> {
        let key = RequestId::new(key).map_err(argument)?;
        self.down(CountDownParams { key, when_ended: None, redirect: false }).await
    }

    /// Counts it down for this key when the client's session ends, if it was not before: when this process dies, or when
    /// the handle and the client are dropped.
    ///
    /// # Errors
    /// As [`Latch::count_down`].
    pub async fn count_down_at_the_end(
        &self,
        key: impl AsRef<str>,
    ) -> Result<SessionHandle, Error> {
        let key = RequestId::new(key).map_err(argument)?;
        let session = self.client.session().await?;
        let when_ended = Some(session.name().clone());
        self.down(CountDownParams { key, when_ended, redirect: false }).await?;
        Ok(session)
    }

    async fn down(&self, params: CountDownParams) -> Result<u32, Error> {
        let target = format!("{}?{}", latch_path(&checked(&self.name)?), params.to_query());
        let body: CountDownBody = self.client.calls().ask_for(Method::POST, target).await?;
        Ok(body.left)
    }

    /// Waits until it is open; zero only looks.
    ///
    /// # Errors
    /// [`Error::Busy`] if it is not open in time; [`Error::Refused`] if there is no such latch; otherwise see [`Error`].
    pub async fn wait(&self, wait: Duration) -> Result<LatchBody, Error> {
        let (path, until) = (latch_path(&checked(&self.name)?), Instant::now() + wait);
        let target = |wait| {
            let params = WaitParams { wait, ..WaitParams::default() };
            format!("{path}?{}", params.to_query())
        };
        loop {
            let asked = ask_until(&self.client, None, (Method::GET, until), target).await;
            match asked {
                Err(Error::Busy(_)) if Instant::now() < until => {}
                ended => return ended,
            }
        }
    }

    /// Removes it; whoever waits for it is told that there is none.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn delete(&self) -> Result<(), Error> {
        self.client.calls().tell(Method::DELETE, latch_path(&checked(&self.name)?)).await
    }
}
