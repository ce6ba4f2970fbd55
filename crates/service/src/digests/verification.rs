//! Compares the whole states of all members at one revision.
//!
//! The regular comparison (`entry_check.rs`) covers what commands returned. This one covers what they left in the state.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use holdfast_machine::DIGEST_SCHEMA;
use holdfast_types::{Command, NodeId, Reply, Revision, Right};

use crate::request::{Failure, Response};
use crate::service::Service;
use crate::service_call::{ReadStateDigest, ServiceCall as _};

/// How long a member may take to compute its digest.
const DIGEST_TIMEOUT: Duration = Duration::from_secs(30);
const CALL_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a member may be unreachable.
const UNREACHABLE_MAX: Duration = Duration::from_secs(3);
/// The pause between two questions to a member.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The digests of the states of all members at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateVerification {
    pub revision: Revision,
    /// `None` for a member without a digest: it did not reply in time, got this state as a snapshot, computes other
    /// verifications, or has another schema of digests.
    pub digests: BTreeMap<NodeId, Option<u64>>,
}

impl StateVerification {
    /// The digest of a majority of the members.
    pub fn of_majority(&self) -> Option<u64> {
        let same = |digest: &u64| self.digests.values().filter(|of| **of == Some(*digest)).count();
        self.digests
            .values()
            .flatten()
            .copied()
            .find(|digest| 2 * same(digest) > self.digests.len())
    }

    /// True if all members have the same state.
    pub fn is_same(&self) -> bool {
        let majority = self.of_majority();
        majority.is_some() && self.digests.values().all(|digest| *digest == majority)
    }
}

impl Service {
    /// Compares the states of all members. Takes as long as the slowest member hashes its state: about a second for a million
    /// znodes, at most half a minute.
    ///
    /// # Errors
    /// A rejection without the right `cluster operate`, or the errors of any write.
    pub async fn verify_state(&self) -> Result<Response<StateVerification>, Failure> {
        self.require(Right::ClusterOperate)?;
        let node = self.as_node();
        let started = node.propose(Command::VerifyState, Reply::into_verification_started);
        let revision = started.await?.revision;
        let deadline = Instant::now() + DIGEST_TIMEOUT;
        let reads = self.members().into_keys().map(async |id| {
            let digest = node.read_state_digest(id, revision, deadline).await;
            (id, digest)
        });
        let digests = futures_util::future::join_all(reads).await.into_iter().collect();
        Ok(Response::new(StateVerification { revision, digests }, revision))
    }

    /// Asks until the node has computed the digest.
    async fn read_state_digest(
        &self,
        id: NodeId,
        requested_in: Revision,
        deadline: Instant,
    ) -> Option<u64> {
        let call = ReadStateDigest { requested_in };
        let unreachable_until = Instant::now() + UNREACHABLE_MAX;
        while Instant::now() < deadline {
            let by = Instant::now() + CALL_TIMEOUT;
            let reply = if id == self.node() {
                call.answer(self, by).await
            } else {
                self.call_service(id, call, by).await
            };
            match reply {
                Ok(Some((schema, digest))) => return (schema == DIGEST_SCHEMA).then_some(digest),
                Err(_) if Instant::now() >= unreachable_until => return None,
                Ok(None) | Err(_) => tokio::time::sleep(RETRY_PAUSE).await,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verification(digests: &[Option<u64>]) -> StateVerification {
        let digests = (1..).map(NodeId).zip(digests.iter().copied()).collect();
        StateVerification { revision: Revision(1), digests }
    }

    #[test]
    fn a_majority_decides_which_state_is_right() {
        for (digests, majority, is_same) in [
            (vec![Some(1), Some(1), Some(1)], Some(1), true),
            (vec![Some(1), Some(2), Some(1)], Some(1), false),
            (vec![Some(1), None, Some(1)], Some(1), false),
            (vec![Some(1), None, None], None, false),
            (vec![Some(1), Some(2)], None, false),
            (vec![Some(1)], Some(1), true),
        ] {
            let verification = verification(&digests);
            assert_eq!(verification.of_majority(), majority, "{digests:?}");
            assert_eq!(verification.is_same(), is_same, "{digests:?}");
        }
    }
}
