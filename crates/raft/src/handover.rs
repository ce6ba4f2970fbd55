//! Giving leadership away.
//!
//! Owns the choice of the successor: a voter that has everything, so that the cluster is without a leader only for one
//! election. While a transfer runs openraft refuses writes, and it never gives up by itself: so a successor that is not
//! there, or lags, must not be chosen, and everything here has a bound.

use std::collections::BTreeSet;
use std::time::Duration;

use holdfast_types::NodeId;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::{Instant as _, ServerState};
use tokio::time::{Instant, sleep, timeout};

use crate::proposer::Means;
use crate::wire::{Purpose, ReplyBody, RequestBody};

/// A follower that acknowledged nothing for so long is not chosen.
const SILENCE_MAX: Duration = Duration::from_secs(1);
/// openraft tells the voters once that they need not wait for this leader's lease to end. One that missed it, because
/// it has only just come back, refuses the successor its vote, so all are told again after so long.
const ATTEMPT: Duration = Duration::from_millis(300);
/// Between two looks while no follower has caught up.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Between two attempts of a leader whose disk is full.
const DISK_PAUSE: Duration = Duration::from_secs(10);
/// A peer is asked about its disk for so long.
const ASK_BOUND: Duration = Duration::from_millis(500);

/// Hands leadership to the voter that has the most, among those that `may`; gives up after `bound`.
/// Returns at once if this node does not lead.
pub(crate) async fn to_the_most_current(
    means: &Means,
    bound: Duration,
    may: impl Fn(NodeId) -> bool,
) {
    let transfer = async {
        let mut leadership = means.leadership.clone();
        while let Some(successor) = choose(means, &may).await {
            tracing::info!(successor = successor.0, "handing leadership over");
            if means.raft.trigger().transfer_leader(successor.0).await.is_err() {
                return;
            }
            // Somebody else leads, or openraft has stopped.
            let gone =
                leadership.wait_for(|now| now.leader.is_some_and(|leader| leader != means.node));
            if timeout(ATTEMPT, gone).await.is_ok() {
                return;
            }
        }
    };
    if timeout(bound, transfer).await.is_err() {
        tracing::warn!("nobody took leadership over in time");
    }
}

/// Waits for a voter that has every entry of this leader; none if this node does not lead or is alone.
async fn choose(means: &Means, may: &impl Fn(NodeId) -> bool) -> Option<NodeId> {
    loop {
        let metrics = means.raft.metrics().borrow_watched().clone();
        if metrics.state != ServerState::Leader || metrics.membership_config.voter_ids().count() < 2
        {
            return None;
        }
        let replication = metrics.replication.unwrap_or_default();
        let heartbeat = metrics.heartbeat.unwrap_or_default();
        let caught_up = metrics.membership_config.voter_ids().find(|id| {
            let matched = replication.get(id).copied().flatten().map(|position| position.index);
            let heard = heartbeat.get(id).and_then(Option::as_ref).map(|at| at.elapsed());
            *id != means.node.0
                && may(NodeId(*id))
                && matched >= metrics.last_log_index
                && heard.is_some_and(|age| age < SILENCE_MAX)
        });
        if let Some(id) = caught_up {
            return Some(NodeId(id));
        }
        sleep(LOOK_EVERY).await;
    }
}

/// A leader that may not write any more gives way to a follower that may.
pub(crate) async fn when_disk_is_low(means: Means, members: BTreeSet<NodeId>) {
    let mut low = means.disk.watch();
    while low.wait_for(|low| *low).await.is_ok() {
        if means.leadership.borrow().leader == Some(means.node) {
            let roomy = roomy(&means, &members).await;
            if !roomy.is_empty() {
                to_the_most_current(&means, ASK_BOUND * 4, |id| roomy.contains(&id)).await;
            }
        }
        // Whichever comes first: room here, or the next attempt.
        timeout(DISK_PAUSE, low.wait_for(|low| !*low)).await.ok();
    }
}

async fn roomy(means: &Means, members: &BTreeSet<NodeId>) -> BTreeSet<NodeId> {
    let mut roomy = BTreeSet::new();
    for id in members.iter().filter(|id| **id != means.node) {
        let deadline = Instant::now() + ASK_BOUND;
        let reply = means.peers.call(*id, Purpose::Calls, &RequestBody::Status, deadline).await;
        if let Ok(ReplyBody::Status(status)) = reply
            && !status.disk_low
        {
            roomy.insert(*id);
        }
    }
    roomy
}
