//! The campaign: several workers sell from one shelf, each under the lock, and the shelf is counted afterwards.
//!
//! Owns the shelf, a store that reads and writes apart from each other, so that two holders lose an update.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast_comparison::{Hold, LockClient, System};

const WORKERS: usize = 5;
const ROUNDS: usize = 12;
/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A number that is read, thought about, and written.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    sold: AtomicU64,
    inside: AtomicU64,
    overlaps: AtomicU64,
    fences: Mutex<Vec<u64>>,
}

impl Shelf {
    /// What is written there.
    pub(crate) fn read(&self) -> u64 {
        self.sold.load(SeqCst)
    }

    /// Writes, whoever asks.
    pub(crate) fn write(&self, sold: u64) {
        self.sold.store(sold, SeqCst);
    }

    /// Sells one piece as a holder does that believes to be alone.
    async fn sell(&self, hold: &Hold) {
        let others = self.inside.fetch_add(1, SeqCst);
        self.overlaps.fetch_add(u64::from(others > 0), SeqCst);
        self.fences.lock().unwrap().extend(hold.fence);
        let sold = self.read();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        self.write(sold + 1);
        self.inside.fetch_sub(1, SeqCst);
    }
}

/// What became of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Sales that are not in the books.
    pub(crate) lost: u64,
    /// Times that somebody was inside when another came.
    pub(crate) overlaps: u64,
    /// Fencing tokens that were not greater than the one before.
    pub(crate) backwards: usize,
}

/// The verdict on a lock that excludes.
pub(crate) const EXACT: Verdict = Verdict { lost: 0, overlaps: 0, backwards: 0 };

/// Sells, and counts.
pub(crate) async fn campaign(system: Arc<dyn System>) -> Verdict {
    let shelf = Arc::new(Shelf::default());
    let workers: Vec<_> =
        (0..WORKERS).map(|_| tokio::spawn(work(Arc::clone(&system), Arc::clone(&shelf)))).collect();
    for worker in workers {
        worker.await.unwrap();
    }
    let fences = shelf.fences.lock().unwrap();
    Verdict {
        lost: (WORKERS * ROUNDS) as u64 - shelf.read(),
        overlaps: shelf.overlaps.load(SeqCst),
        backwards: fences.windows(2).filter(|pair| pair[0] >= pair[1]).count(),
    }
}

async fn work(system: Arc<dyn System>, shelf: Arc<Shelf>) {
    let name = system.name();
    let mut client = system.client().await.unwrap_or_else(|error| panic!("{name}: {error}"));
    for _ in 0..ROUNDS {
        let hold = client.acquire("shelf", PATIENCE).await;
        let hold = hold.unwrap_or_else(|error| panic!("{name}: {error}"));
        shelf.sell(&hold).await;
        let released = client.release(hold).await;
        released.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    assert!(client.usage().round_trips > 0, "{name} counts its round trips");
}

/// Every one of these excludes.
pub(crate) async fn all_exclude(systems: impl IntoIterator<Item = impl System + 'static>) {
    for system in systems {
        let name = system.name();
        assert_eq!(campaign(Arc::new(system)).await, EXACT, "{name}");
    }
}

/// A client of each system, to be used at once.
pub(crate) async fn clients<const N: usize>(system: &dyn System) -> [Box<dyn LockClient>; N] {
    let mut clients = Vec::new();
    for _ in 0..N {
        clients.push(system.client().await.unwrap());
    }
    clients.try_into().ok().unwrap()
}
