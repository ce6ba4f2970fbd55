//! Counters: 64-bit numbers that many callers change.

use holdfast_api::parameters::recipe;
use holdfast_api::{CounterBody, Query, counter_path};

use super::checked_name;
use crate::calls::call::Call;
use crate::http::Method;
use crate::{Client, Error};

/// A counter; see [`Client::counter`].
///
/// ```no_run
/// # async fn example(client: holdfast_client::Client) -> Result<(), holdfast_client::Error> {
/// let hits = client.counter("hits");
/// println!("{}", hits.add(5).await?.value);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Counter {
    pub(super) client: Client,
    pub(super) name: String,
}

impl Counter {
    /// Returns the value and the version; both are 0 before the first change.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn get(&self) -> Result<CounterBody, Error> {
        self.client.calls().get(counter_path(&checked_name(&self.name)?)).await
    }

    /// Adds `amount` exactly once, even if the client sends several copies of the call.
    ///
    /// # Errors
    /// [`Error::Rejected`] if the result does not fit 64 bits; otherwise see [`Error`].
    pub async fn add(&self, amount: i64) -> Result<CounterBody, Error> {
        self.change(Method::POST, Query::default().with(&recipe::ADD, &amount)).await
    }

    /// Replaces the value.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn set(&self, value: i64) -> Result<CounterBody, Error> {
        self.change(Method::PUT, Query::default().with(&recipe::VALUE, &value)).await
    }

    /// Replaces the value if the counter has this version.
    ///
    /// # Errors
    /// [`Error::Rejected`] if it has another version; otherwise see [`Error`].
    pub async fn set_if(&self, value: i64, version: u64) -> Result<CounterBody, Error> {
        let query = Query::default().with(&recipe::VALUE, &value);
        self.change(Method::PUT, query.with(&recipe::VERSION, &version)).await
    }

    /// Deletes the counter, which resets it to 0.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn delete(&self) -> Result<(), Error> {
        let call = Call::new(Method::DELETE, counter_path(&checked_name(&self.name)?));
        self.client.call_once_raw(call).await.map(drop)
    }

    async fn change(&self, method: Method, query: Query) -> Result<CounterBody, Error> {
        let path = counter_path(&checked_name(&self.name)?);
        self.client.call_once(Call::new(method, query.target(&path))).await
    }
}
