//! The campaign: several workers increment one counter, each under the lock, and the test checks the counter
//! afterwards.
//!
//! The counter reads and writes in separate steps, so two concurrent holders lose an update.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast_measure::catalogue::System;
use holdfast_measure::lock::{Connector, HeldLock, LockClient, LockSettings, ServerAddresses};

const WORKERS: usize = 5;
const ROUNDS: usize = 12;
/// The time limit, sufficient on a loaded machine.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A counter with separate read and write steps.
#[derive(Debug, Default)]
pub(crate) struct SharedCounter {
    sold: AtomicU64,
    inside: AtomicU64,
    overlaps: AtomicU64,
    fences: Mutex<Vec<u64>>,
}

impl SharedCounter {
    /// The number of sales.
    pub(crate) fn read(&self) -> u64 {
        self.sold.load(SeqCst)
    }

    /// Writes without a check.
    pub(crate) fn write(&self, sold: u64) {
        self.sold.store(sold, SeqCst);
    }

    /// Sells one piece under the hold.
    async fn sell(&self, hold: &HeldLock) {
        let others = self.inside.fetch_add(1, SeqCst);
        self.overlaps.fetch_add(u64::from(others > 0), SeqCst);
        self.fences.lock().unwrap().extend(hold.token);
        let sold = self.read();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        self.write(sold + 1);
        self.inside.fetch_sub(1, SeqCst);
    }
}

/// The result of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CampaignResult {
    /// Sales that the counter lost.
    pub(crate) lost: u64,
    /// The number of times that a worker entered while another was inside.
    pub(crate) overlaps: u64,
    /// The number of fencing tokens that were not greater than the previous token.
    pub(crate) backwards: usize,
}

/// The result of a lock with mutual exclusion.
pub(crate) const EXACT: CampaignResult = CampaignResult { lost: 0, overlaps: 0, backwards: 0 };

/// Runs the workers and counts the errors.
pub(crate) async fn campaign(connector: &Connector) -> CampaignResult {
    let shelf = Arc::new(SharedCounter::default());
    let workers: Vec<_> =
        (0..WORKERS).map(|_| tokio::spawn(work(connector.clone(), Arc::clone(&shelf)))).collect();
    for worker in workers {
        worker.await.unwrap();
    }
    let fences = shelf.fences.lock().unwrap();
    CampaignResult {
        lost: (WORKERS * ROUNDS) as u64 - shelf.read(),
        overlaps: shelf.overlaps.load(SeqCst),
        backwards: fences.windows(2).filter(|pair| pair[0] >= pair[1]).count(),
    }
}

async fn work(connector: Connector, shelf: Arc<SharedCounter>) {
    let mut client = connector.client().await.unwrap();
    for _ in 0..ROUNDS {
        let hold = client.acquire("shelf", TIMEOUT).await.unwrap();
        shelf.sell(&hold).await;
        client.release(hold).await.unwrap();
    }
    assert!(client.usage().round_trips > 0, "the client must count its round trips");
}

/// Asserts that each of these systems excludes on these servers.
pub(crate) async fn all_exclude<'a>(
    systems: impl IntoIterator<Item = &'a System>,
    addresses: &ServerAddresses,
) {
    for system in systems {
        let connector = system.connector(addresses.clone(), LockSettings::default());
        assert_eq!(campaign(&connector).await, EXACT, "{}", system.name);
    }
}

/// Clients of one lock.
pub(crate) async fn clients<const N: usize>(connector: &Connector) -> [Box<dyn LockClient>; N] {
    let mut clients = Vec::new();
    for _ in 0..N {
        clients.push(connector.client().await.unwrap());
    }
    clients.try_into().ok().unwrap()
}
