//! Transfers leadership to another voter.
//!
//! The successor is a voter that has every entry, so that the cluster is without a leader for one election only. openraft
//! refuses writes during a transfer and never ends it by itself. So the successor must be reachable and caught up, and
//! every step here has a time limit.

use std::collections::BTreeSet;
use std::time::Duration;

use holdfast_types::NodeId;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::{Instant as _, ServerState};
use tokio::time::{Instant, sleep, timeout};

use crate::proposer::ProposerContext;
use crate::wire::{Purpose, ReadStatus};

/// A follower that acknowledged nothing for this long is not chosen.
const SILENCE_MAX: Duration = Duration::from_secs(1);
/// How long one attempt takes. openraft tells the voters once that they need not wait for this leader's lease to end. A
/// voter that has just reconnected may miss that and refuse its vote, so the next attempt tells all of them again.
const ATTEMPT: Duration = Duration::from_millis(300);
/// Between two checks while no follower has caught up.
const CHECK_EVERY: Duration = Duration::from_millis(10);
/// Between two attempts of a leader whose disk is full.
const DISK_PAUSE: Duration = Duration::from_secs(10);
/// How long a peer may take to report its disk.
const ASK_BOUND: Duration = Duration::from_millis(500);

/// Transfers leadership to a caught-up voter for which `may` is true. Returns after `bound`, or at once if this node
/// does not lead.
pub(crate) async fn to_the_most_current(
    context: &ProposerContext,
    bound: Duration,
    may: impl Fn(NodeId) -> bool,
) {
    let transfer = async {
        let mut leadership = context.leadership.clone();
        while let Some(successor) = choose(context, &may).await {
            tracing::info!(successor = successor.0, "transferring leadership");
            if context.raft.trigger().transfer_leader(successor.0).await.is_err() {
                return;
            }
            // Another node leads, or openraft has stopped.
            let gone =
                leadership.wait_for(|now| now.leader.is_some_and(|leader| leader != context.node));
            if timeout(ATTEMPT, gone).await.is_ok() {
                return;
            }
        }
    };
    if timeout(bound, transfer).await.is_err() {
        tracing::warn!("no voter took over the leadership in time");
    }
}

/// Waits for a voter that has every entry of this leader; `None` if this node does not lead or is the only voter.
async fn choose(context: &ProposerContext, may: &impl Fn(NodeId) -> bool) -> Option<NodeId> {
    loop {
        let metrics = context.raft.metrics().borrow_watched().clone();
        if metrics.state != ServerState::Leader || metrics.membership_config.voter_ids().count() < 2
        {
            return None;
        }
        let replication = metrics.replication.unwrap_or_default();
        let heartbeat = metrics.heartbeat.unwrap_or_default();
        let caught_up = metrics.membership_config.voter_ids().find(|id| {
            let matched = replication.get(id).copied().flatten().map(|position| position.index);
            let heard = heartbeat.get(id).and_then(Option::as_ref).map(|at| at.elapsed());
            *id != context.node.0
                && may(NodeId(*id))
                && matched >= metrics.last_log_index
                && heard.is_some_and(|age| age < SILENCE_MAX)
        });
        if let Some(id) = caught_up {
            return Some(NodeId(id));
        }
        sleep(CHECK_EVERY).await;
    }
}

/// Transfers leadership to a follower with free disk space while this leader's disk is below its reserve.
pub(crate) async fn when_disk_is_low(context: ProposerContext, members: BTreeSet<NodeId>) {
    let mut low = context.disk.watch();
    while low.wait_for(|low| *low).await.is_ok() {
        if context.leadership.borrow().leader == Some(context.node) {
            let able = members_with_free_disk(&context, &members).await;
            if !able.is_empty() {
                to_the_most_current(&context, ASK_BOUND * 4, |id| able.contains(&id)).await;
            }
        }
        // Until this disk has space again, or the next attempt is due.
        timeout(DISK_PAUSE, low.wait_for(|low| !*low)).await.ok();
    }
}

async fn members_with_free_disk(
    context: &ProposerContext,
    members: &BTreeSet<NodeId>,
) -> BTreeSet<NodeId> {
    let mut able = BTreeSet::new();
    for id in members.iter().filter(|id| **id != context.node) {
        let deadline = Instant::now() + ASK_BOUND;
        let status = context.peers.call(*id, Purpose::Calls, ReadStatus, deadline).await;
        if status.is_ok_and(|status| !status.disk_low) {
            able.insert(*id);
        }
    }
    able
}
