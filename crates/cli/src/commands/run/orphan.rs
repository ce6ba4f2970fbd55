//! The release of the locks of a `holdfast run` that was killed. Bounds: one call at a time, one for each of at most 16
//! locks.

use std::time::Duration;

use holdfast_client::Call;
use holdfast_client::http::Method;

use crate::arguments::{CredentialArgs, NodesArgs};
use crate::exit::CommandFailure;

/// The time limit of a release.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The call that releases one hold and no other.
#[derive(Debug)]
pub(super) struct ReleaseCall {
    nodes: NodesArgs,
    /// The path and query of a `DELETE`.
    target: String,
}

impl ReleaseCall {
    pub(super) fn new(addr: Vec<String>, target: String, credentials: &CredentialArgs) -> Self {
        Self { nodes: NodesArgs { addr, credentials: credentials.clone() }, target }
    }

    pub(super) async fn send(&self) -> Result<(), CommandFailure> {
        let call = Call::new(Method::DELETE, self.target.clone());
        let client = self.nodes.client()?;
        let sent = tokio::time::timeout(TIMEOUT, client.call_raw(&call)).await;
        sent.map_err(CommandFailure::failed)?.map(drop).map_err(CommandFailure::from)
    }
}
