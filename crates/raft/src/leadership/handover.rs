//! Transfers leadership to another voter.
//!
//! The successor is a voter that has every entry, so the transfer needs only one election. openraft rejects writes
//! during a transfer and never ends the transfer by itself. The successor must therefore be reachable and caught up,
//! and every step has a time limit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use holdfast_types::NodeId;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::{Instant as _, ServerState};
use tokio::time::{Instant, timeout};

use crate::members::MemberTable;
use crate::proposer::NodeContext;
use crate::wire::{Purpose, ReadStatus};

/// The maximum time since the last acknowledgement of a follower that can become the successor.
const SILENCE_MAX: Duration = Duration::from_secs(1);
/// The time limit of one attempt. openraft notifies the voters once that they may vote before this leader's lease
/// ends. A voter that has just reconnected may miss the message and reject the vote, so the next attempt notifies all
/// voters again.
const ATTEMPT: Duration = Duration::from_millis(300);
/// How long a voter with a larger rank is no successor.
const PREFERENCE: Duration = Duration::from_millis(200);
/// The longest interval between two checks while no follower has caught up.
const CHECK_EVERY: Duration = Duration::from_millis(10);
/// The pause between two attempts of a leader whose disk is full.
const DISK_PAUSE: Duration = Duration::from_secs(10);
/// The timeout for a peer's report of its disk.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(500);

/// Transfers leadership to the caught-up voter with the smallest `rank`; `None` excludes a voter. Returns after `bound`, or
/// immediately if this node does not lead.
pub(crate) async fn transfer_to_current_voter(
    context: &NodeContext,
    bound: Duration,
    rank: impl Fn(NodeId) -> Option<u8>,
) {
    let transfer = async {
        let mut leadership = context.leadership.clone();
        while let Some(successor) = choose(context, &rank).await {
            tracing::info!(successor = successor.0, "transferring leadership");
            if context.raft.trigger().transfer_leader(successor.0).await.is_err() {
                return;
            }
            // Either another node leads, or openraft has stopped.
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

/// Waits for a voter that has every entry of this leader; `None` if this node does not lead, is the only voter, or has stopped.
/// For [`PREFERENCE`], only connected voters with the smallest rank count.
async fn choose(context: &NodeContext, rank: &impl Fn(NodeId) -> Option<u8>) -> Option<NodeId> {
    let (began, mut changes) = (Instant::now(), context.raft.metrics());
    loop {
        let metrics = changes.borrow_and_update().clone();
        if metrics.state != ServerState::Leader || metrics.membership_config.voter_ids().count() < 2
        {
            return None;
        }
        let replication = metrics.replication.unwrap_or_default();
        let heartbeat = metrics.heartbeat.unwrap_or_default();
        let is_connected = |id: &u64| {
            let last_contact = heartbeat.get(id).and_then(Option::as_ref).map(|at| at.elapsed());
            *id != context.node.0 && last_contact.is_some_and(|age| age < SILENCE_MAX)
        };
        let has_every_entry = |id: u64| {
            let matched = replication.get(&id).copied().flatten().map(|position| position.index);
            matched >= metrics.last_log_index
        };
        let connected = metrics.membership_config.voter_ids().filter(is_connected);
        let ranked = connected.filter_map(|id| Some((rank(NodeId(id))?, id)));
        let ranked: BTreeSet<(u8, u64)> = ranked.collect();
        let smallest = ranked.first().map(|(rank, _)| *rank);
        let patient = began.elapsed() < PREFERENCE;
        let mut caught_up = ranked.into_iter().filter(|(_, id)| has_every_entry(*id));
        let chosen = caught_up.next().filter(|(rank, _)| !patient || Some(*rank) == smallest);
        if let Some((_, id)) = chosen {
            return Some(NodeId(id));
        }
        // The metrics have no change when the next contact of a voter becomes due.
        if timeout(CHECK_EVERY, changes.changed()).await.is_ok_and(|changed| changed.is_err()) {
            return None;
        }
    }
}

/// Transfers leadership to a follower with free disk space while this leader's disk is below its reserve.
pub(crate) async fn transfer_while_disk_is_low(context: NodeContext, members: Arc<MemberTable>) {
    let mut low = context.disk.watch();
    while low.wait_for(|low| *low).await.is_ok() {
        if context.leadership.borrow().leader == Some(context.node) {
            let able = members_with_free_disk(&context, &members.ids()).await;
            if !able.is_empty() {
                transfer_to_current_voter(&context, REQUEST_TIMEOUT * 4, |id| {
                    able.contains(&id).then_some(0)
                })
                .await;
            }
        }
        // Waits until this disk has space again, or until the next attempt.
        timeout(DISK_PAUSE, low.wait_for(|low| !*low)).await.ok();
    }
}

async fn members_with_free_disk(
    context: &NodeContext,
    members: &BTreeSet<NodeId>,
) -> BTreeSet<NodeId> {
    let mut able = BTreeSet::new();
    for id in members.iter().filter(|id| **id != context.node) {
        let deadline = Instant::now() + REQUEST_TIMEOUT;
        let status = context.peers.call(*id, Purpose::Calls, ReadStatus, deadline).await;
        if status.is_ok_and(|status| !status.disk_low) {
            able.insert(*id);
        }
    }
    able
}
