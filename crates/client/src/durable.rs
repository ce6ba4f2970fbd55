//! Durable holds: without a session and a renewal, until a release with their token.

use std::time::Duration;

use holdfast_api::parameters::lock::{DURABLE_REASON, HOLD, RELEASED_HOLD};
use holdfast_api::parameters::{ATTEMPT, OWNER, RELEASED_TOKEN, WAIT};
use holdfast_api::{GrantBody, Query, lock_path};
use holdfast_types::{Attempt, FencingToken, LockName, Owner, Reason};

use crate::calls::call::Call;
use crate::http::Method;
use crate::numbers;
use crate::{Client, Error};

impl Client {
    /// Acquires a lock with a durable hold, or returns the hold that the owner has. It outlasts this program: store the
    /// token, which alone releases it. A copy of the call that arrives after the release acquires nothing.
    ///
    /// # Errors
    /// [`Error::Rejected`] with the holder if the lock is held for the whole `wait`; otherwise see [`Error`].
    pub async fn hold_durably(
        &self,
        lock: &LockName,
        owner: &Owner,
        reason: &Reason,
        wait: Duration,
    ) -> Result<GrantBody, Error> {
        let send = async |attempt| {
            let query = Query::default()
                .with(&HOLD, &"durable")
                .with(&OWNER, owner)
                .with(&ATTEMPT, &attempt)
                .with(&DURABLE_REASON, reason)
                .with_some(&WAIT, Some(&wait).filter(|wait| !wait.is_zero()));
            let call = Call::new(Method::PUT, query.target(&lock_path(lock))).wait(wait);
            self.calls().json(&call).await
        };
        numbers::with_attempt(Attempt::UNNAMED, send).await
    }

    /// Releases the durable hold that has this token. A repeated call has no further effect.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn release_durable(
        &self,
        lock: &LockName,
        owner: &Owner,
        token: FencingToken,
    ) -> Result<(), Error> {
        let query = Query::default()
            .with(&RELEASED_HOLD, &"durable")
            .with(&OWNER, owner)
            .with(&RELEASED_TOKEN, &token);
        self.calls().send(&Call::new(Method::DELETE, query.target(&lock_path(lock)))).await
    }
}
