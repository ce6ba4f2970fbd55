//! Sealing the cluster, so that a backup has everything that clients have, and ending the seal.
//!
//! The state machine rejects changes while it is sealed. The leader's timers propose nothing meanwhile, and renewals work.

use holdfast_types::{Command, Reason, Reply, Revision, Right, Seal};

use crate::context::Response;
use crate::failure::Failure;
use crate::service::Service;

impl Service {
    /// Seals the cluster, and returns its seal: the first one, if it was sealed before.
    ///
    /// # Errors
    /// A rejection without the right `cluster manage`, or below feature level 2; the errors of any write.
    pub async fn seal(&self, reason: Reason) -> Result<Response<Seal>, Failure> {
        self.require(Right::ClusterManage)?;
        self.propose_for(Command::Seal { reason }, Reply::into_sealed).await
    }

    /// Ends the seal of a revision.
    ///
    /// # Errors
    /// As [`Service::seal`], and the present seal if it has another revision.
    pub async fn unseal(&self, seal: Revision) -> Result<Response<()>, Failure> {
        self.require(Right::ClusterManage)?;
        self.propose_for(Command::Unseal { seal }, Reply::into_unsealed).await
    }
}
