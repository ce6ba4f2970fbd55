//! Compares the states of the nodes. A node whose state differs from the majority's stops (guarantee 10).
//!
//! Each node records its machine's digest at the same revisions and regularly compares digests with its peers. Nodes
//! compare digests of one schema, also across builds.

use std::time::{Duration, Instant};

use holdfast_machine::DIGEST_SCHEMA;
use holdfast_types::{NodeId, Revision};

use crate::digest_log::DigestAt;
use crate::service::Service;
use crate::service_call::{NodeDigests, ReadDigests};

/// The interval between two comparisons.
const COMPARE_INTERVAL: Duration = Duration::from_secs(5);
const CALL_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DigestComparison {
    Agree,
    /// A node differs, and no majority decides.
    Unclear(Revision),
    /// A majority of the members has another digest.
    Diverged(Revision),
}

fn compare(own: &[DigestAt], others: &[Vec<DigestAt>], members: usize) -> DigestComparison {
    let mut comparison = DigestComparison::Agree;
    for &(revision, digest) in own {
        let theirs = |digests: &Vec<DigestAt>| {
            digests.iter().find(|recorded| recorded.0 == revision).map(|n| n.1)
        };
        let answers: Vec<u64> = others.iter().filter_map(theirs).collect();
        let contradicting = |other: &&u64| answers.iter().filter(|answer| answer == other).count();
        let different =
            answers.iter().filter(|answer| **answer != digest).max_by_key(contradicting);
        match different {
            None => {}
            Some(other) if contradicting(&other) > members / 2 => {
                return DigestComparison::Diverged(revision);
            }
            Some(_) => comparison = DigestComparison::Unclear(revision),
        }
    }
    comparison
}

/// Compares digests until the service is stopped.
pub(crate) async fn run(service: Service) {
    let mut period = tokio::time::interval(COMPARE_INTERVAL);
    loop {
        tokio::select! {
            () = service.stopped().cancelled() => return,
            _ = period.tick() => {}
        }
        let others = read_other_digests(&service).await;
        let own = service.observer().digests.lock().list();
        match compare(&own, &others, service.members().len()) {
            DigestComparison::Agree => service.note_difference(None),
            DigestComparison::Unclear(revision) => {
                service.note_difference(Some(revision));
                tracing::error!(revision = revision.0, "the states of the nodes differ, and no majority has the same state");
            }
            DigestComparison::Diverged(revision) => service.fail(format!(
                "this node's state differs from the majority's at revision {revision}: stop it, keep its data \
                 directory for analysis, and add it again as a new member with an empty directory"
            )),
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
        assert_eq!(compare(&own, &[digests(&[5, 6]), digests(&[5])], 3), DigestComparison::Agree);
        assert_eq!(compare(&own, &[], 3), DigestComparison::Agree);
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
