//! Compares the states of the nodes. A node whose state differs from the majority's stops (guarantee 10).
//!
//! Each node records its machine's digest at the same revisions and regularly compares digests with its peers, at its start
//! before it serves clients. Nodes compare digests of one schema, also across builds.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use holdfast_machine::DIGEST_SCHEMA;
use holdfast_types::{Actor, NodeId, Revision};

use crate::digest_log::DigestAt;
use crate::failure::Failure;
use crate::service::Service;
use crate::service_call::{NodeDigests, ReadDigests};
use crate::state_check::StateCheck;

/// The interval between two comparisons.
const COMPARE_INTERVAL: Duration = Duration::from_secs(5);
const CALL_TIMEOUT: Duration = Duration::from_secs(1);
/// The interval before the node serves clients.
const START_INTERVAL: Duration = Duration::from_millis(50);
/// A node that has caught up with a leader serves after this time, also without a majority to compare with: the others may have
/// failed, or have an older program.
const START_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DigestComparison {
    /// No node differs, and a majority, this node included, has the same digest at this revision, the newest such one.
    Agree(Revision),
    /// No node differs, and no revision is common to a majority.
    Unknown,
    /// A node differs, and no majority decides.
    Unclear(Revision),
    /// A majority of the members has another digest.
    Diverged(Revision),
}

fn compare(own: &[DigestAt], others: &[Vec<DigestAt>], members: usize) -> DigestComparison {
    let others: Vec<BTreeMap<Revision, u64>> =
        others.iter().map(|digests| digests.iter().copied().collect()).collect();
    let mut comparison = DigestComparison::Unknown;
    for &(revision, digest) in own {
        let replies: Vec<u64> =
            others.iter().filter_map(|digests| digests.get(&revision).copied()).collect();
        let count = |wanted: &u64| replies.iter().filter(|reply| *reply == wanted).count();
        let different = replies.iter().filter(|reply| **reply != digest).max_by_key(|it| count(it));
        match (different, comparison) {
            (Some(other), _) if count(other) > members / 2 => {
                return DigestComparison::Diverged(revision);
            }
            (Some(_), _) => comparison = DigestComparison::Unclear(revision),
            (None, DigestComparison::Unknown | DigestComparison::Agree(_))
                if 1 + count(&digest) > members / 2 =>
            {
                comparison = DigestComparison::Agree(revision);
            }
            (None, _) => {}
        }
    }
    comparison
}

/// Compares digests until the service is stopped.
pub(crate) async fn run(service: Service) {
    let mut start = StartOfNode::default();
    loop {
        let others = read_other_digests(&service).await;
        let own = service.observer().digests.lock().list();
        start.see(&own, &others, service.leader().is_some());
        match compare(&own, &others, service.members().len()) {
            DigestComparison::Agree(revision) => {
                service.note_difference(None);
                if start.newest.is_none_or(|newest| revision >= newest) {
                    service.parts.state_check.send_replace(StateCheck::Verified);
                }
            }
            DigestComparison::Unknown => service.note_difference(None),
            DigestComparison::Unclear(revision) => {
                service.note_difference(Some(revision));
                tracing::error!(revision = revision.0, "the states of the nodes differ, and no majority has the same state");
            }
            DigestComparison::Diverged(revision) => service.fail(format!(
                "this node's state differs from the majority's at revision {revision}: stop it, keep its data \
                 directory for analysis, and add it again as a new member with an empty directory"
            )),
        }
        if start.caught_up_since.is_some_and(|since| since.elapsed() >= START_TIMEOUT) {
            service.serve_unverified();
        }
        let is_pending = service.state_check() == StateCheck::Pending;
        let pause = if is_pending { START_INTERVAL } else { COMPARE_INTERVAL };
        tokio::select! {
            () = service.stopped().cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// What a node that starts has seen of the others.
#[derive(Debug, Default)]
struct StartOfNode {
    /// The newest revision of the first replies. Earlier ones say nothing about the entries that this node has not applied.
    newest: Option<Revision>,
    /// Since when this node has had a leader, and as many entries as the others had.
    caught_up_since: Option<Instant>,
}

impl StartOfNode {
    fn see(&mut self, own: &[DigestAt], others: &[Vec<DigestAt>], has_leader: bool) {
        let last = |digests: &[DigestAt]| digests.last().map(|(revision, _)| *revision);
        self.newest = self.newest.or_else(|| others.iter().filter_map(|it| last(it)).max());
        if has_leader && last(own) >= self.newest {
            self.caught_up_since.get_or_insert_with(Instant::now);
        }
    }
}

async fn read_other_digests(service: &Service) -> Vec<Vec<DigestAt>> {
    let deadline = Instant::now() + CALL_TIMEOUT;
    let others = service.members().into_keys().filter(|id| *id != service.node());
    let reads = others.map(|id| read_digests(service, id, deadline));
    futures_util::future::join_all(reads).await.into_iter().flatten().collect()
}

async fn read_digests(service: &Service, node: NodeId, deadline: Instant) -> Option<Vec<DigestAt>> {
    let reply = service.call_service(node, ReadDigests, deadline).await.ok()?;
    (reply.schema == DIGEST_SCHEMA).then_some(reply.digests)
}

impl Service {
    pub(crate) fn state_check(&self) -> StateCheck {
        *self.parts.state_check.borrow()
    }

    /// Resolves when this node serves clients. Its own work does not wait.
    pub(crate) async fn compared(&self) -> Result<(), Failure> {
        if *self.actor() == Actor::Node || self.state_check() != StateCheck::Pending {
            return Ok(());
        }
        let mut state_check = self.parts.state_check.subscribe();
        let compared = state_check.wait_for(|check| *check != StateCheck::Pending);
        match tokio::time::timeout_at(self.deadline().into(), compared).await {
            Ok(_) => Ok(()),
            Err(_) if self.leader().is_none() => Err(self.no_leader()),
            Err(_) => {
                let why = "this node compares its state with the other nodes before it serves";
                Err(Failure::Starting(why.to_owned()))
            }
        }
    }

    fn serve_unverified(&self) {
        if self.state_check() == StateCheck::Pending {
            tracing::warn!("serving, although no majority confirmed the state of this node");
            self.parts.state_check.send_replace(StateCheck::Unverified);
        }
    }

    fn note_difference(&self, at: Option<Revision>) {
        let digests_differ_at = &self.parts.digests_differ_at;
        digests_differ_at.store(at.map_or(0, |at| at.0), std::sync::atomic::Ordering::Relaxed);
    }

    pub(crate) fn digests(&self) -> NodeDigests {
        NodeDigests { schema: DIGEST_SCHEMA, digests: self.observer().digests.lock().list() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(digests: &[u64]) -> Vec<DigestAt> {
        (1..).map(Revision).zip(digests.iter().copied()).collect()
    }

    #[test]
    fn nodes_with_equal_digests_agree() {
        let own = digests(&[5, 6]);
        let agree = |revision| DigestComparison::Agree(Revision(revision));
        assert_eq!(compare(&own, &[digests(&[5, 6]), digests(&[5])], 3), agree(2));
        assert_eq!(compare(&own, &[digests(&[5])], 3), agree(1));
        assert_eq!(compare(&own, &[], 1), agree(2));
    }

    #[test]
    fn a_starting_node_catches_up_with_the_first_replies() {
        let mut start = StartOfNode::default();
        start.see(&digests(&[5, 6]), &[], false);
        assert!(start.caught_up_since.is_none(), "without a leader");
        start.see(&digests(&[5, 6]), &[digests(&[5, 6, 7])], true);
        assert_eq!((start.newest, start.caught_up_since), (Some(Revision(3)), None));
        start.see(&digests(&[5, 6, 7]), &[digests(&[5, 6, 7, 8])], true);
        assert_eq!(start.newest, Some(Revision(3)));
        assert!(start.caught_up_since.is_some());
    }

    #[test]
    fn without_a_majority_at_one_revision_nothing_is_known() {
        let own = digests(&[5, 6]);
        assert_eq!(compare(&own, &[], 3), DigestComparison::Unknown);
        assert_eq!(compare(&own, &[digests(&[5])], 5), DigestComparison::Unknown);
        let elsewhere = vec![(Revision(9), 5)];
        assert_eq!(compare(&own, &[elsewhere.clone(), elsewhere], 3), DigestComparison::Unknown);
    }

    #[test]
    fn a_node_that_the_majority_contradicts_has_diverged() {
        let own = digests(&[5, 7]);
        let others = [digests(&[5, 6]), digests(&[5, 6])];
        assert_eq!(compare(&own, &others, 3), DigestComparison::Diverged(Revision(2)));
    }

    #[test]
    fn a_difference_without_a_majority_is_unclear() {
        let own = digests(&[5, 7]);
        assert_eq!(compare(&own, &[digests(&[5, 6])], 3), DigestComparison::Unclear(Revision(2)));
        let three_ways = [digests(&[5, 6]), digests(&[5, 8])];
        assert_eq!(compare(&own, &three_ways, 3), DigestComparison::Unclear(Revision(2)));
    }

    #[test]
    fn a_node_in_the_majority_keeps_running() {
        let own = digests(&[5, 6]);
        let others = [digests(&[5, 6]), digests(&[5, 7])];
        assert_eq!(compare(&own, &others, 3), DigestComparison::Unclear(Revision(2)));
    }
}
