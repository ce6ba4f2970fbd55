//! The runtime of a blocking client: one thread, which renews sessions while the caller works.

use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::argument;
use crate::{Client, Error};

/// The maximum time for releasing dropped guards before the runtime ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The runtime of a client and of all values created from it. Dropping the last value shuts it down.
#[derive(Debug)]
pub(super) struct ClientRuntime {
    client: Client,
    /// `None` only during the drop.
    runtime: Option<Runtime>,
}

impl ClientRuntime {
    /// Starts the thread that renews sessions.
    pub(super) fn start(client: Client) -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("holdfast-client")
            .enable_all()
            .build()
            .map_err(argument)?;
        Ok(Self { client, runtime: Some(runtime) })
    }

    pub(super) fn block_on<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let runtime = self.runtime.as_ref().ok_or_else(|| argument("the client is shut down"))?;
        if Handle::try_current().is_ok() {
            return Err(argument("inside an async runtime use holdfast_client::Client instead"));
        }
        runtime.block_on(work)
    }
}

impl Drop for ClientRuntime {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if Handle::try_current().is_err() {
            let closed = async { tokio::time::timeout(CLOSE_TIMEOUT, self.client.close()).await };
            // The cluster releases the remaining locks when their time-to-live has passed.
            drop(runtime.block_on(closed));
        }
        runtime.shutdown_background();
    }
}
