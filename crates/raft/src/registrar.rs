//! Ties the members' ids to their data directories (design D14).
//!
//! While this node leads, it proposes the registration of every member that the machine does not know: those that
//! founded the cluster, and newcomers without a log that asked to be let in. A newcomer counts for nothing before its
//! registration is applied, and by each node only once that node has applied it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use holdfast_types::{Command, NodeId};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::leadership::Leadership;
use crate::proposer::{Means, write_as_leader};
use crate::state_machine::LocalMachine;
use crate::transport::handshake::Doorman;
use crate::type_config::LeaderEpoch;

/// How often a leader looks for members it has not met before.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// See the module.
pub(crate) struct Registrar {
    pub(crate) means: Means,
    pub(crate) local: Arc<LocalMachine>,
    pub(crate) doorman: Arc<Doorman>,
    pub(crate) members: BTreeSet<NodeId>,
}

impl Registrar {
    /// Registers until openraft stops.
    pub(crate) async fn run(self, mut leadership: watch::Receiver<Leadership>) {
        loop {
            let epoch = leadership.borrow_and_update().epoch;
            let complete = match epoch {
                Some(epoch) => self.register(epoch).await,
                None => true,
            };
            let look = async {
                if complete {
                    std::future::pending::<()>().await;
                }
                sleep(LOOK_EVERY).await;
            };
            tokio::select! {
                changed = leadership.changed() => if changed.is_err() { return },
                () = look => {}
            }
        }
    }

    /// Registers whom it can; true if nobody is left.
    async fn register(&self, epoch: LeaderEpoch) -> bool {
        let known = |node: &NodeId| self.local.read(|machine| machine.incarnation(*node)).is_some();
        let missing: Vec<_> = self.members.iter().filter(|node| !known(node)).copied().collect();
        let met: Vec<_> = missing
            .iter()
            .filter_map(|node| {
                self.doorman.to_register(*node).map(|incarnation| (*node, incarnation))
            })
            .map(|(node, incarnation)| Command::RegisterNode { node, incarnation })
            .collect();
        if met.is_empty() {
            return missing.is_empty();
        }
        let count = met.len();
        let writing = write_as_leader(&self.means, met, epoch);
        let Ok(Ok(reply)) = timeout(LOOK_EVERY * 4, writing).await else { return false };
        if reply.outcomes.iter().any(Result::is_err) {
            tracing::error!("a member serves from another data directory than the registered one");
        }
        count == missing.len()
    }
}
