//! Counters: one number that many change, from Rust.

use holdfast_api::{ChangeParams, CounterBody, CounterParams, counter_path};
use reqwest::Method;

use super::{checked, own_request};
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
    /// Its value and version. One that nobody changed is 0, and so is its version.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn get(&self) -> Result<CounterBody, Error> {
        self.client.calls().get(counter_path(&checked(&self.name)?)).await
    }

    /// Adds, exactly once, however often the call has to be sent.
    ///
    /// # Errors
    /// [`Error::Refused`] if it would pass the ends of 64 bits; otherwise see [`Error`].
    pub async fn add(&self, amount: i64) -> Result<CounterBody, Error> {
        self.change(Method::POST, "add", amount, None).await
    }

    /// Replaces the value.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn set(&self, value: i64) -> Result<CounterBody, Error> {
        self.change(Method::PUT, "value", value, None).await
    }

    /// Replaces the value if the counter has this version.
    ///
    /// # Errors
    /// [`Error::Refused`] if it has another one; otherwise see [`Error`].
    pub async fn set_if(&self, value: i64, version: u64) -> Result<CounterBody, Error> {
        self.change(Method::PUT, "value", value, Some(version)).await
    }

    /// Forgets it: it is 0 again.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn delete(&self) -> Result<(), Error> {
        self.client.calls().tell(Method::DELETE, counter_path(&checked(&self.name)?)).await
    }

    async fn change(
        &self,
        method: Method,
        key: &str,
        number: i64,
        version: Option<u64>,
    ) -> Result<CounterBody, Error> {
        let path = counter_path(&checked(&self.name)?);
        let used = self.client.session_for(None).await?;
        let (session, request) = (Some(used.session().name.clone()), Some(own_request()?));
        let change = ChangeParams { session, request, redirect: false };
        let params = CounterParams { number: Some(number), version, change };
        let target = format!("{path}?{}", params.to_query(key));
        self.client.calls().ask_for(method, target).await
    }
}
