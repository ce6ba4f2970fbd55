//! Compares the states of the nodes. A node whose state differs from the majority's stops (guarantee 10).
//!
//! Each node records its machine's digest at the same revisions and regularly compares digests with its peers, at its start
//! before it serves clients. Nodes compare digests of one schema, also across builds.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use holdfast_machine::DIGEST_SCHEMA;
use holdfast_types::{Actor, NodeId, Revision};

use crate::digests::{DigestAt, StateCheck};
use crate::request::Failure;
use crate::service::Service;
use crate::service_call::{NodeDigests, ReadDigests};

/// The interval between two comparisons, and the time limit of a call.
const COMPARE_INTERVAL: Duration = Duration::from_secs(5);
const CALL_TIMEOUT: Duration = Duration::from_secs(1);
/// The same before the node serves clients.
const START_INTERVAL: Duration = Duration::from_millis(50);
const START_CALL_TIMEOUT: Duration = Duration::from_millis(200);
/// A node that has caught up serves after this time, if no majority can be compared. The others may have failed, or have an older
/// program.
const START_TIMEOUT: Duration = Duration::from_secs(2);

/// The result of comparing the digests of this node with those of the voters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DigestComparison {
    /// The newest revision at which a majority of the voters has the digest of this node.
    agreed: Option<Revision>,
    /// The newest revision at which a voter has another digest.
    different: Option<Revision>,
    /// A revision at which a majority of the voters has the same other digest.
    diverged: Option<Revision>,
    /// The newest revision of the other voters; `None` without a reply.
    newest_of_others: Option<Revision>,
}

/// Compares the digests of this node with those of the other voters. `own_vote` is 1 if this node votes.
fn compare(
    own: &[DigestAt],
    others: &[Vec<DigestAt>],
    own_vote: usize,
    voters: usize,
) -> DigestComparison {
    let others: Vec<BTreeMap<Revision, u64>> =
        others.iter().map(|digests| digests.iter().copied().collect()).collect();
    let newest = others.iter().filter_map(|digests| digests.keys().last().copied()).max();
    let mut comparison = DigestComparison { newest_of_others: newest, ..Default::default() };
    for &(revision, digest) in own {
        let replies: Vec<u64> =
            others.iter().filter_map(|digests| digests.get(&revision).copied()).collect();
        let count = |wanted: &u64| replies.iter().filter(|reply| *reply == wanted).count();
        if own_vote + count(&digest) > voters / 2 {
            comparison.agreed = Some(revision);
        }
        let different = replies.iter().filter(|reply| **reply != digest);
        if let Some(other) = different.max_by_key(|reply| count(reply)) {
            comparison.different = Some(revision);
            if count(other) > voters / 2 {
                comparison.diverged.get_or_insert(revision);
            }
        }
    }
    comparison
}

/// A node that has caught up to `revision` serves if a majority agrees there, or if nothing differs for [`START_TIMEOUT`]. A
/// follower whose state is ahead of all others serves only after them: they may have lost entries.
fn after_comparison(
    before: StateCheck,
    comparison: &DigestComparison,
    revision: Revision,
    waited: Duration,
    leads: bool,
) -> StateCheck {
    if comparison.agreed.is_some_and(|agreed| agreed >= revision) {
        return StateCheck::Verified;
    }
    let is_ahead = !leads && comparison.newest_of_others.is_some_and(|newest| newest < revision);
    let differs = comparison.different.is_some() || is_ahead;
    match before {
        StateCheck::Pending if !differs && waited >= START_TIMEOUT => StateCheck::Unverified,
        StateCheck::Pending | StateCheck::Unverified | StateCheck::Verified => before,
    }
}

/// Compares digests until the service is stopped.
pub(crate) async fn run(service: Service) {
    let mut caught_up = None;
    loop {
        let is_pending = service.state_check() == StateCheck::Pending;
        if is_pending && caught_up.is_none() {
            caught_up = service.catch_up_at_start().await;
        }
        let comparison = service.compare_digests(is_pending).await;
        let is_new = service.note_difference(comparison.different);
        if let Some(revision) = comparison.diverged {
            service.fail(format!(
                "this node's state differs from the majority's at revision {revision}: stop it, keep its data \
                 directory for analysis, and replace it: holdfast member replace"
            ));
        } else if let Some(revision) = comparison.different.filter(|_| is_new) {
            tracing::error!(
                revision = revision.0,
                "the states of the nodes differ, and no majority has the same state"
            );
        }
        if let Some((revision, since)) = caught_up {
            service.end_start(&comparison, revision, since);
        }
        let is_pending = service.state_check() == StateCheck::Pending;
        let pause = if is_pending { START_INTERVAL } else { COMPARE_INTERVAL };
        tokio::select! {
            () = service.stopped().cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
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
    pub(crate) async fn wait_until_compared(&self) -> Result<(), Failure> {
        if *self.actor() == Actor::Node || self.state_check() != StateCheck::Pending {
            return Ok(());
        }
        let mut state_check = self.parts.state_check.subscribe();
        let compared = state_check.wait_for(|check| *check != StateCheck::Pending);
        match tokio::time::timeout(self.raft().leader_wait(), compared).await {
            Ok(_) => Ok(()),
            Err(_) if self.leader().is_none() => Err(self.no_leader()),
            Err(_) => {
                let differs_at = self.parts.digests_differ_at.load(Ordering::Relaxed);
                Err(Failure::Starting(comparison_text(differs_at)))
            }
        }
    }

    /// Applies everything that was committed before. Returns the revision after it, and the time; `None` without a leader.
    async fn catch_up_at_start(&self) -> Option<(Revision, Instant)> {
        let caught_up = self.raft().read_barrier(Instant::now() + CALL_TIMEOUT).await;
        caught_up.ok().map(|()| (self.revision(), Instant::now()))
    }

    async fn compare_digests(&self, is_pending: bool) -> DigestComparison {
        let timeout = if is_pending { START_CALL_TIMEOUT } else { CALL_TIMEOUT };
        let deadline = Instant::now() + timeout;
        let voters = self.raft().status().voters;
        if voters.is_empty() {
            return DigestComparison::default();
        }
        let others = voters.iter().copied().filter(|id| *id != self.node());
        let reads = others.map(|id| read_digests(self, id, deadline));
        let others: Vec<_> =
            futures_util::future::join_all(reads).await.into_iter().flatten().collect();
        let own = self.observer().digests.lock().list();
        let own_vote = usize::from(voters.contains(&self.node()));
        compare(&own, &others, own_vote, voters.len())
    }

    /// Serves clients from now on, if the comparison allows it.
    fn end_start(&self, comparison: &DigestComparison, revision: Revision, since: Instant) {
        let before = self.state_check();
        let leads = self.leader() == Some(self.node());
        let next = after_comparison(before, comparison, revision, since.elapsed(), leads);
        if next == before {
            return;
        }
        if next == StateCheck::Unverified {
            tracing::warn!("serving, although no majority confirmed the state of this node");
        }
        self.parts.state_check.send_replace(next);
        self.raft().refuse_forwarded(false);
    }

    /// Returns `true` if the nodes did not differ before.
    fn note_difference(&self, at: Option<Revision>) -> bool {
        let at = at.map_or(0, |at| at.0);
        let before = self.parts.digests_differ_at.swap(at, Ordering::Relaxed);
        before == 0 && at > 0
    }

    pub(crate) fn digests(&self) -> NodeDigests {
        NodeDigests { schema: DIGEST_SCHEMA, digests: self.observer().digests.lock().list() }
    }
}

/// Why the node does not serve yet. `differs_at` is 0 if no other node has a different state.
fn comparison_text(differs_at: u64) -> String {
    let before = "this node compares its state with the other nodes before it serves";
    match differs_at {
        0 => before.to_owned(),
        revision => format!(
            "{before}: another node has a different state at revision {revision}, and no majority has the same state; \
             start the other nodes"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(digests: &[u64]) -> Vec<DigestAt> {
        (1..).map(Revision).zip(digests.iter().copied()).collect()
    }

    const AT_1: Option<Revision> = Some(Revision(1));
    const AT_2: Option<Revision> = Some(Revision(2));

    /// Without the newest revision of the others.
    fn differences(
        own: &[DigestAt],
        others: &[Vec<DigestAt>],
        own_vote: usize,
        voters: usize,
    ) -> DigestComparison {
        DigestComparison { newest_of_others: None, ..compare(own, others, own_vote, voters) }
    }

    /// This node votes, and all have three voters.
    fn of_three(own: &[u64], others: &[&[u64]]) -> DigestComparison {
        let others: Vec<_> = others.iter().map(|other| digests(other)).collect();
        differences(&digests(own), &others, 1, 3)
    }

    #[test]
    fn a_waiting_node_names_the_difference_and_what_to_do() {
        let text = "this node compares its state with the other nodes before it serves: another node has a different state \
            at revision 7, and no majority has the same state; start the other nodes";
        assert_eq!(comparison_text(7), text);
        assert!(text.starts_with(&comparison_text(0)));
    }

    #[test]
    fn nodes_with_equal_digests_agree() {
        let agree =
            |revision| DigestComparison { agreed: Some(Revision(revision)), ..Default::default() };
        assert_eq!(of_three(&[5, 6], &[&[5, 6], &[5]]), agree(2));
        assert_eq!(of_three(&[5, 6], &[&[5]]), agree(1));
        assert_eq!(differences(&digests(&[5, 6]), &[], 1, 1), agree(2));
        // A learner needs the voters.
        let learner = |others: &[Vec<DigestAt>]| differences(&digests(&[5]), others, 0, 3);
        assert_eq!(learner(&[digests(&[5])]), DigestComparison::default());
        assert_eq!(learner(&[digests(&[5]), digests(&[5])]), agree(1));
    }

    #[test]
    fn without_a_majority_at_one_revision_nothing_is_known() {
        assert_eq!(of_three(&[5, 6], &[]), DigestComparison::default());
        let later = vec![(Revision(9), 5)];
        let compared = differences(&digests(&[5, 6]), &[later.clone(), later], 1, 3);
        assert_eq!(compared, DigestComparison::default());
    }

    #[test]
    fn a_node_that_the_majority_contradicts_has_diverged() {
        let compared = of_three(&[5, 7, 7], &[&[5, 6, 6], &[5, 6, 6]]);
        assert_eq!((compared.agreed, compared.diverged), (AT_1, AT_2));
    }

    #[test]
    fn a_difference_without_a_majority_is_no_divergence() {
        let expected = DigestComparison { agreed: AT_1, different: AT_2, ..Default::default() };
        assert_eq!(of_three(&[5, 7], &[&[5, 6]]), expected);
        assert_eq!(of_three(&[5, 7], &[&[5, 6], &[5, 8]]), expected);
    }

    #[test]
    fn a_node_in_the_majority_agrees_although_another_one_differs() {
        let compared = of_three(&[5, 6], &[&[5, 6], &[5, 7]]);
        assert_eq!((compared.agreed, compared.different), (AT_2, AT_2));
        assert_eq!(compared.diverged, None);
    }

    #[test]
    fn the_newest_revision_of_the_others_is_known() {
        let newest = |others: &[&[u64]]| {
            let others: Vec<_> = others.iter().map(|other| digests(other)).collect();
            compare(&digests(&[5]), &others, 1, 3).newest_of_others
        };
        assert_eq!(newest(&[]), None);
        assert_eq!(newest(&[&[], &[5, 6], &[5]]), AT_2);
    }

    #[test]
    fn a_node_serves_when_a_majority_agrees_or_nothing_differs_for_some_time() {
        use StateCheck::{Pending, Unverified, Verified};
        let early = START_TIMEOUT.mul_f64(0.999);
        let check = |before, comparison, waited| {
            after_comparison(before, &comparison, Revision(2), waited, false)
        };
        let agreed = DigestComparison { agreed: AT_2, ..Default::default() };
        let behind = DigestComparison { agreed: AT_1, ..Default::default() };
        let differs = DigestComparison { different: AT_2, ..Default::default() };
        for before in [Pending, Unverified, Verified] {
            assert_eq!(check(before, agreed, Duration::ZERO), Verified);
        }
        for comparison in [behind, DigestComparison::default()] {
            assert_eq!(check(Pending, comparison, early), Pending);
            assert_eq!(check(Pending, comparison, START_TIMEOUT), Unverified);
            assert_eq!(check(Verified, comparison, START_TIMEOUT), Verified);
        }
        let shorter = DigestComparison { newest_of_others: AT_1, ..Default::default() };
        assert_eq!(check(Pending, shorter, START_TIMEOUT), Pending);
        let leads = after_comparison(Pending, &shorter, Revision(2), START_TIMEOUT, true);
        assert_eq!(leads, Unverified);
        let equal = DigestComparison { newest_of_others: AT_2, ..Default::default() };
        assert_eq!(check(Pending, equal, START_TIMEOUT), Unverified);
        assert_eq!(check(Pending, differs, START_TIMEOUT), Pending);
        assert_eq!(check(Unverified, differs, START_TIMEOUT), Unverified);
    }
}
