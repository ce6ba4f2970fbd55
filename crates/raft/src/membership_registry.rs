//! Writes the first command of a new cluster, and registers the members' data directories in the log (design D14).
//!
//! While this node leads, it proposes the registration of every unregistered member: initial members, and members
//! without a log that requested a bootstrap. An unregistered member gets neither votes nor entries. Each node accepts
//! the member after that node has applied the registration.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use holdfast_types::{Command, NodeId};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::leadership::Leadership;
use crate::proposer::{ProposerContext, write_as_leader};
use crate::state_machine::LocalMachine;
use crate::transport::handshake::PeerHandshake;
use crate::type_config::LeaderEpoch;

/// The interval between two searches for members to register.
const CHECK_EVERY: Duration = Duration::from_millis(500);

pub(crate) struct MembershipRegistry {
    pub(crate) context: ProposerContext,
    pub(crate) local: Arc<LocalMachine>,
    pub(crate) handshake: Arc<PeerHandshake>,
    pub(crate) members: BTreeSet<NodeId>,
}

impl MembershipRegistry {
    /// Runs until openraft stops.
    pub(crate) async fn run(self, mut leadership: watch::Receiver<Leadership>) {
        loop {
            let epoch = leadership.borrow_and_update().epoch;
            let complete = match epoch {
                Some(epoch) => self.register(epoch).await,
                None => true,
            };
            let check = async {
                if complete {
                    std::future::pending::<()>().await;
                }
                sleep(CHECK_EVERY).await;
            };
            tokio::select! {
                changed = leadership.changed() => if changed.is_err() { return },
                () = check => {}
            }
        }
    }

    /// Registers the members it can; returns `true` if no unregistered member is left.
    async fn register(&self, epoch: LeaderEpoch) -> bool {
        let registered =
            |node: &NodeId| self.local.read(|machine| machine.incarnation(*node)).is_some();
        let missing: Vec<_> =
            self.members.iter().filter(|node| !registered(node)).copied().collect();
        let mut commands = self.bootstrap();
        let bootstraps = commands.len();
        commands.extend(missing.iter().filter_map(|node| {
            let incarnation = self.handshake.to_register(*node)?;
            Some(Command::RegisterNode { node: *node, incarnation })
        }));
        if commands.is_empty() {
            return missing.is_empty();
        }
        let registered = commands.len() - bootstraps;
        let writing = write_as_leader(&self.context, commands, epoch);
        let Ok(Ok(committed)) = timeout(CHECK_EVERY * 4, writing).await else { return false };
        if committed.iter().any(|committed| committed.outcome.is_err()) {
            tracing::error!("a member uses another data directory than the registered one");
        }
        registered == missing.len()
    }

    /// The first command of a new log, unless it is applied.
    fn bootstrap(&self) -> Vec<Command> {
        let is_new = self.local.read(|machine| machine.cluster_id().is_none());
        self.handshake.bootstrap_command().filter(|_| is_new).into_iter().collect()
    }
}
