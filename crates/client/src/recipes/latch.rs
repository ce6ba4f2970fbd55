//! Latches, which open when their count reaches zero.

use std::time::{Duration, Instant};

use holdfast_api::parameters::{REQUEST, recipe};
use holdfast_api::{LatchBody, LatchCountBody, Query, latch_path};
use holdfast_types::RequestId;

use super::checked_name;
use crate::calls::call::{Call, Copies};
use crate::clock::end_of;
use crate::error::argument;
use crate::http::Method;
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
    /// Creates the latch, unless one with the same count exists.
    ///
    /// # Errors
    /// [`Error::Rejected`] if one with another count exists; otherwise see [`Error`].
    pub async fn create(&self, count: u32) -> Result<LatchBody, Error> {
        let query = Query::default().with(&recipe::COUNT, &count);
        let target = query.target(&latch_path(&checked_name(&self.name)?));
        self.client.call_once(Call::new(Method::PUT, target)).await
    }

    /// Counts down once for each key; a repeated call changes nothing. Returns the count left after the first call for
    /// the key.
    ///
    /// # Errors
    /// [`Error::Rejected`] if the latch does not exist; otherwise see [`Error`].
    pub async fn count_down(&self, key: impl AsRef<str>) -> Result<u32, Error> {
        let key = RequestId::new(key).map_err(argument)?;
        let query = Query::default().with(&recipe::KEY, &key);
        let target = query.target(&latch_path(&checked_name(&self.name)?));
        let body: LatchCountBody = self.client.call_once(Call::new(Method::POST, target)).await?;
        Ok(body.left)
    }

    /// Counts down for this key when the client's session ends, unless the key was counted before. The session ends
    /// after this process dies, or when the handle and the client are dropped.
    ///
    /// # Errors
    /// As [`Latch::count_down`].
    pub async fn count_down_on_session_end(
        &self,
        key: impl AsRef<str>,
    ) -> Result<SessionHandle, Error> {
        let key = RequestId::new(key).map_err(argument)?;
        let session = self.client.session().await?;
        let query = Query::default().with(&recipe::KEY, &key);
        let query = query.with(&recipe::ENDING_SESSION, session.name());
        let query = query.with(&recipe::ON_DEATH, &"count".to_owned());
        let path = latch_path(&checked_name(&self.name)?);
        let send = |request| {
            let call =
                Call::new(Method::POST, query.clone().with(&REQUEST, &request).target(&path));
            let call = call.copies(Copies::Harmless);
            async move { self.client.calls().json::<LatchCountBody>(&call).await }
        };
        session.session().numbered_calls.send(send).await?;
        Ok(session)
    }

    /// Waits until the latch is open; a timeout of zero only reads the latch.
    ///
    /// # Errors
    /// [`Error::Busy`] if the latch is not open in time; [`Error::Rejected`] if it does not exist; otherwise see
    /// [`Error`].
    pub async fn wait(&self, timeout: Duration) -> Result<LatchBody, Error> {
        let (path, until) = (latch_path(&checked_name(&self.name)?), end_of(timeout));
        let call = |wait| Call::get(Query::default().with(&recipe::WAIT, &wait).target(&path));
        loop {
            match self.client.calls().repeat_until(until, || true, call).await {
                Err(Error::Busy(_)) if Instant::now() < until => {}
                result => return result,
            }
        }
    }

    /// Deletes the latch. Callers that wait for it get [`Error::Rejected`].
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn delete(&self) -> Result<(), Error> {
        let call = Call::new(Method::DELETE, latch_path(&checked_name(&self.name)?));
        self.client.call_once_raw(call).await.map(drop)
    }
}
