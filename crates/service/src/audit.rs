//! Do the nodes still agree? Each node notes its machine's digest at the same points of the log; now and then it
//! compares notes with its peers, and a node that a majority contradicts stops (promise 10): it never guesses.
//!
//! Digests of two builds say nothing about each other: during an upgrade only nodes of one build compare notes.
//!
//! Bound: the last [`KEPT`] notes are kept.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use holdfast_types::{NodeId, Revision};

use crate::service::Service;
use crate::service_call::{NodeDigests, ReadDigests};

/// A note is taken at the first entry that reaches a further multiple of this many revisions.
const EVERY: u64 = 1_024;
/// Notes kept: enough for nodes some tens of thousands of revisions apart.
const KEPT: usize = 64;
/// How often notes are compared.
const PERIOD: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(1);
/// Nodes of the same build make the same digests.
const BUILD: &str = env!("CARGO_PKG_VERSION");

/// A digest at a revision.
pub(crate) type Note = (Revision, u64);

/// The digests a node remembers.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    last: VecDeque<Note>,
    bucket: u64,
}

impl Notes {
    /// Takes a note if the log has come far enough. Every node sees the same entries, so all note the same points.
    pub(crate) fn see(&mut self, revision: Revision, digest: impl FnOnce() -> u64) {
        if revision.0 / EVERY == self.bucket {
            return;
        }
        self.bucket = revision.0 / EVERY;
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back((revision, digest()));
    }

    /// Entries were skipped: the next note must be one that the others take too.
    pub(crate) fn skip_to(&mut self, revision: Revision) {
        self.bucket = revision.0 / EVERY;
    }

    pub(crate) fn list(&self) -> Vec<Note> {
        self.last.iter().copied().collect()
    }
}

/// What comparing notes showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Agree,
    /// Somebody differs, but no majority says who is right.
    Unclear(Revision),
    /// A majority of the members says otherwise.
    Diverged(Revision),
}

fn compare(own: &[Note], others: &[Vec<Note>], members: usize) -> Verdict {
    let mut verdict = Verdict::Agree;
    for &(revision, digest) in own {
        let theirs = |notes: &Vec<Note>| notes.iter().find(|note| note.0 == revision).map(|n| n.1);
        let answers: Vec<u64> = others.iter().filter_map(theirs).collect();
        let contradicting = |other: &&u64| answers.iter().filter(|answer| answer == other).count();
        let different =
            answers.iter().filter(|answer| **answer != digest).max_by_key(contradicting);
        match different {
            None => {}
            Some(other) if contradicting(&other) > members / 2 => {
                return Verdict::Diverged(revision);
            }
            Some(_) => verdict = Verdict::Unclear(revision),
        }
    }
    verdict
}

/// Compares notes until the service is stopped.
pub(crate) async fn run(service: Service) {
    let mut period = tokio::time::interval(PERIOD);
    loop {
        tokio::select! {
            () = service.stopped().cancelled() => return,
            _ = period.tick() => {}
        }
        let others = ask_others(&service).await;
        let own = service.notes();
        match compare(&own, &others, service.config().members.len()) {
            Verdict::Agree => {}
            Verdict::Unclear(revision) => {
                tracing::error!(revision = revision.0, "nodes disagree about the state, and no majority says who is right");
            }
            Verdict::Diverged(revision) => service.fail(format!(
                "this node's state differs from the majority's at revision {revision}: stop it, keep its data \
                 directory for analysis, and let it come back empty as a new member"
            )),
        }
    }
}

async fn ask_others(service: &Service) -> Vec<Vec<Note>> {
    let deadline = Instant::now() + PATIENCE;
    let others = service.config().members.keys().filter(|id| **id != service.node());
    let asked = others.map(|id| ask(service, *id, deadline));
    futures_util::future::join_all(asked).await.into_iter().flatten().collect()
}

async fn ask(service: &Service, node: NodeId, deadline: Instant) -> Option<Vec<Note>> {
    let reply = service.call_service(node, ReadDigests, deadline).await.ok()?;
    (reply.build == BUILD).then_some(reply.digests)
}

impl Service {
    pub(crate) fn digests(&self) -> NodeDigests {
        NodeDigests { build: BUILD.to_owned(), digests: self.notes() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(digests: &[u64]) -> Vec<Note> {
        (1..).map(Revision).zip(digests.iter().copied()).collect()
    }

    #[test]
    fn nodes_with_equal_digests_agree() {
        let own = notes(&[5, 6]);
        assert_eq!(compare(&own, &[notes(&[5, 6]), notes(&[5])], 3), Verdict::Agree);
        assert_eq!(compare(&own, &[], 3), Verdict::Agree);
    }

    #[test]
    fn a_node_that_the_majority_contradicts_has_diverged() {
        let own = notes(&[5, 7]);
        let others = [notes(&[5, 6]), notes(&[5, 6])];
        assert_eq!(compare(&own, &others, 3), Verdict::Diverged(Revision(2)));
    }

    #[test]
    fn one_voice_against_another_is_unclear() {
        let own = notes(&[5, 7]);
        assert_eq!(compare(&own, &[notes(&[5, 6])], 3), Verdict::Unclear(Revision(2)));
        let three_ways = [notes(&[5, 6]), notes(&[5, 8])];
        assert_eq!(compare(&own, &three_ways, 3), Verdict::Unclear(Revision(2)));
    }

    #[test]
    fn a_node_in_the_majority_stays() {
        let own = notes(&[5, 6]);
        let others = [notes(&[5, 6]), notes(&[5, 7])];
        assert_eq!(compare(&own, &others, 3), Verdict::Unclear(Revision(2)));
    }

    #[test]
    fn notes_are_taken_at_the_same_points_and_bounded() {
        let mut notes = Notes::default();
        for revision in 0..200 * EVERY {
            notes.see(Revision(revision), || revision);
        }
        assert_eq!(notes.list().len(), KEPT);
        assert!(notes.list().iter().all(|(revision, _)| revision.0 % EVERY == 0));
    }

    #[test]
    fn after_a_snapshot_the_next_note_is_one_that_the_others_take() {
        let mut notes = Notes::default();
        notes.skip_to(Revision(3 * EVERY + 17));
        notes.see(Revision(3 * EVERY + 18), || 1);
        assert_eq!(notes.list(), []);
        notes.see(Revision(4 * EVERY), || 2);
        assert_eq!(notes.list(), [(Revision(4 * EVERY), 2)]);
    }
}
