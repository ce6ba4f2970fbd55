//! Digests of the whole state of this node, for `holdfast cluster verify`.
//!
//! All nodes have the same log entries, so each takes a copy of its state after the same entry. A thread hashes the copy.
//! Bounds: [`DIGESTS_MAX`] digests, and [`RUNNING_MAX`] threads; a further request has no digest.

use std::collections::VecDeque;
use std::sync::Arc;

use holdfast_machine::Machine;
use holdfast_types::{Applied, Event, Revision};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

const DIGESTS_MAX: usize = 8;
const RUNNING_MAX: usize = 2;

#[derive(Debug)]
pub(crate) struct StateDigests {
    /// By the revisions of the commands that requested them, oldest first.
    computed: Arc<Mutex<VecDeque<(Revision, u64)>>>,
    /// A permit for each thread.
    threads: Arc<Semaphore>,
}

impl StateDigests {
    pub(crate) fn new() -> Self {
        Self { computed: Arc::default(), threads: Arc::new(Semaphore::new(RUNNING_MAX)) }
    }

    /// Runs inside the apply step.
    pub(crate) fn on_applied(&self, machine: &Machine, applied: &Applied) {
        for (revision, event) in &applied.events {
            if *event == Event::VerifyState {
                self.compute(*revision, machine.clone());
            }
        }
    }

    pub(crate) fn get(&self, requested_in: Revision) -> Option<u64> {
        let computed = self.computed.lock();
        computed.iter().find(|(revision, _)| *revision == requested_in).map(|(_, digest)| *digest)
    }

    fn compute(&self, requested_in: Revision, machine: Machine) {
        let Ok(permit) = self.threads.clone().try_acquire_owned() else { return };
        let computed = self.computed.clone();
        let named = std::thread::Builder::new().name("state-digest".to_owned());
        let spawned = named.spawn(move || {
            let _permit = permit;
            let digest = machine.state_digest();
            let mut computed = computed.lock();
            computed.push_back((requested_in, digest));
            if computed.len() > DIGESTS_MAX {
                computed.pop_front();
            }
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "cannot start the thread that computes the digest of the state");
        }
    }
}
