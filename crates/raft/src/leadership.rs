//! The current leadership, as seen by this node.
//!
//! A new leader has an epoch only after it has applied its own first entry, and with it all entries committed by its
//! predecessors. After a restart, the leader in the stored vote does not count until the node receives a message from
//! it.

use std::sync::Arc;

use holdfast_types::NodeId;
use openraft::ServerState;
use openraft::async_runtime::watch::WatchReceiver;
use tokio::sync::watch;

use crate::metrics::RaftMetrics;
use crate::state_machine::Raft;
use crate::type_config::{LeaderEpoch, LogId, TypeConfig};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// The newest term seen by this node.
    pub term: u64,
    /// The leader, if known. It may have lost its leadership since.
    pub leader: Option<NodeId>,
    /// This node's own leadership. `None` unless this node leads and has applied all entries committed before.
    pub epoch: Option<LeaderEpoch>,
}

type ServerMetrics = openraft::metrics::RaftServerMetrics<TypeConfig>;

/// Keeps `sender` current until openraft stops.
pub(crate) async fn follow(
    raft: Raft,
    mut applied: watch::Receiver<Option<LogId>>,
    mut last_contact: watch::Receiver<Option<NodeId>>,
    sender: watch::Sender<Leadership>,
    metrics: Arc<RaftMetrics>,
) {
    let mut elected = None;
    let mut server_metrics = raft.server_metrics();
    loop {
        let server = server_metrics.borrow_watched().clone();
        let now = view(&server, *applied.borrow_and_update(), *last_contact.borrow_and_update());
        let before = *sender.borrow();
        if sender.send_if_modified(|old| std::mem::replace(old, now) != now) {
            log(&before, &now);
        }
        let known = now.leader.map(|leader| (now.term, leader));
        if known.is_some() && known != elected {
            elected = known;
            metrics.leader_changes.inc();
        }
        // Only a leader that has not applied its first entry depends on the applied position.
        let waits = server.state == ServerState::Leader && now.epoch.is_none();
        let ended = tokio::select! {
            changed = server_metrics.changed() => changed.is_err(),
            changed = last_contact.changed() => changed.is_err(),
            changed = applied.changed(), if waits => changed.is_err(),
        };
        if ended {
            let last = *sender.borrow();
            sender.send_replace(Leadership { term: last.term, leader: None, epoch: None });
            return;
        }
    }
}

fn log(before: &Leadership, now: &Leadership) {
    let same_term = before.term == now.term;
    match now.leader {
        Some(leader) if !same_term || before.leader != now.leader => {
            tracing::info!(leader = leader.0, term = now.term, "the leader is known");
        }
        None if before.leader.is_some() => {
            tracing::warn!(term = now.term, "the leader is unknown");
        }
        Some(_) | None => {}
    }
}

fn view(
    server: &ServerMetrics,
    applied: Option<LogId>,
    last_contact: Option<NodeId>,
) -> Leadership {
    let leader_id = server.vote.leader_id;
    let leads = server.state == ServerState::Leader
        && server.vote.committed
        && leader_id.node_id == server.id
        && applied.is_some_and(|id| id.leader_id == leader_id);
    Leadership {
        term: leader_id.term,
        leader: server
            .current_leader
            .filter(|leader| {
                let leads = *leader == server.id && server.state == ServerState::Leader;
                leads || last_contact == Some(NodeId(*leader))
            })
            .map(NodeId),
        epoch: leads.then(|| LeaderEpoch::new(leader_id)),
    }
}
