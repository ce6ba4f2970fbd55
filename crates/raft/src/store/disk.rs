//! The free space of the disk.
//!
//! Below the reserve a node rejects appends and snapshots of peers, so that a write never fails partially on a full disk. The
//! node recovers automatically when space is free again. Between two checks, the bytes that the node writes count as used: a
//! fast disk takes more than the reserve in that time.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use crate::config::FreeBytes;
use crate::store::log_store::LogStore;

#[derive(Debug)]
pub(crate) struct DiskGauge {
    /// At the last check, less the bytes written since; `u64::MAX` before the first check.
    free_bytes: AtomicU64,
    reserve: u64,
    low: watch::Sender<bool>,
}

impl DiskGauge {
    pub(crate) fn new(reserve: u64) -> Self {
        Self { free_bytes: AtomicU64::new(u64::MAX), reserve, low: watch::Sender::new(false) }
    }

    /// The free bytes, at least.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.free_bytes.load(Ordering::Relaxed)
    }

    /// Returns `true` if the free space is below the reserve.
    pub(crate) fn is_low(&self) -> bool {
        *self.low.borrow()
    }

    /// Whether the reserve stays free after a write of these bytes.
    pub(crate) fn has_space_for(&self, bytes: u64) -> bool {
        self.free_bytes() >= self.reserve.saturating_add(bytes)
    }

    /// Whether half of the reserve is free. A snapshot of this node may use the other half, because it makes space: the log is
    /// purged after it.
    pub(crate) fn has_half_of_reserve(&self) -> bool {
        self.free_bytes() >= self.reserve / 2
    }

    /// Watches the value of [`Self::is_low`].
    pub(crate) fn watch(&self) -> watch::Receiver<bool> {
        self.low.subscribe()
    }

    /// Counts bytes that this node is about to write.
    pub(crate) fn count(&self, bytes: usize) {
        let less = |free: u64| (free < u64::MAX).then(|| free.saturating_sub(bytes as u64));
        if self.free_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
            self.compare();
        }
    }

    pub(crate) fn update(&self, free: u64) {
        self.free_bytes.store(free, Ordering::Relaxed);
        self.compare();
    }

    /// Compares the free space with the reserve. Several threads change it, so the lock of `low` orders the decisions.
    fn compare(&self) {
        let reserve = self.reserve;
        if (self.free_bytes() < reserve) == self.is_low() {
            return;
        }
        self.low.send_if_modified(|low| {
            let free = self.free_bytes();
            if (free < reserve) == *low {
                return false;
            }
            *low = free < reserve;
            if *low {
                tracing::error!(
                    free,
                    reserve,
                    "free disk space is below the reserve: rejecting writes until space is freed"
                );
            } else {
                tracing::info!(
                    free,
                    reserve,
                    "free disk space is above the reserve again: accepting writes"
                );
            }
            true
        });
    }
}

/// Checks the disk periodically.
pub(crate) struct DiskMonitor {
    /// The directories that the node writes; the fullest file system counts.
    pub(crate) dirs: Vec<PathBuf>,
    pub(crate) free_bytes: FreeBytes,
    pub(crate) every: Duration,
    pub(crate) log: LogStore,
}

impl DiskMonitor {
    /// Checks once. After an error the gauge keeps its last value.
    pub(crate) async fn check(&self, gauge: &DiskGauge) {
        let (free_bytes, dirs) = (self.free_bytes.clone(), self.dirs.clone());
        let least = move || {
            dirs.iter().try_fold(u64::MAX, |least, dir| free_bytes(dir).map(|free| least.min(free)))
        };
        // Read before the free bytes: an entry that the log writes in between counts twice, instead of never.
        let unwritten = self.log.unwritten_bytes();
        match tokio::task::spawn_blocking(least).await {
            Ok(Ok(free)) => gauge.update(free.saturating_sub(unwritten)),
            Ok(Err(error)) => {
                tracing::warn!(%error, "failed to read the free bytes of the disk");
            }
            Err(error) => tracing::warn!(%error, "failed to check the disk"),
        }
    }

    pub(crate) async fn run(self, gauge: Arc<DiskGauge>) {
        loop {
            tokio::time::sleep(self.every).await;
            self.check(&gauge).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_written_between_two_checks_count_as_used() {
        let gauge = DiskGauge::new(50);
        gauge.count(10);
        assert_eq!((gauge.free_bytes(), gauge.is_low()), (u64::MAX, false), "not checked yet");
        gauge.update(100);
        gauge.count(50);
        assert!(!gauge.is_low() && gauge.has_space_for(0) && !gauge.has_space_for(1));
        gauge.count(1);
        assert!(gauge.is_low() && *gauge.watch().borrow());
        gauge.count(100);
        assert_eq!(gauge.free_bytes(), 0);
        gauge.update(50);
        assert!(!gauge.is_low());
    }

    #[test]
    fn simultaneous_changes_leave_the_state_of_the_last_one() {
        let gauge = DiskGauge::new(50);
        for _ in 0..200 {
            gauge.update(100);
            std::thread::scope(|scope| {
                scope.spawn(|| gauge.count(60));
                scope.spawn(|| gauge.update(100));
                scope.spawn(|| gauge.count(60));
            });
            assert_eq!(gauge.is_low(), gauge.free_bytes() < 50);
        }
    }
}
