//! The free space of the disk.
//!
//! Below the reserve a node rejects appends, so that a write never fails partially on a full disk. The node recovers
//! automatically when space is free again.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use crate::config::FreeBytes;

/// The result of the last check.
#[derive(Debug)]
pub(crate) struct DiskGauge {
    free_bytes: AtomicU64,
    low: AtomicBool,
    changed: watch::Sender<bool>,
}

impl DiskGauge {
    pub(crate) fn new() -> Self {
        let changed = watch::Sender::new(false);
        Self { free_bytes: AtomicU64::new(u64::MAX), low: AtomicBool::new(false), changed }
    }

    /// The free bytes at the last check.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.free_bytes.load(Ordering::Relaxed)
    }

    /// Returns `true` if the free space is below the reserve.
    pub(crate) fn is_low(&self) -> bool {
        self.low.load(Ordering::Relaxed)
    }

    /// Watches the value of [`Self::is_low`].
    pub(crate) fn watch(&self) -> watch::Receiver<bool> {
        self.changed.subscribe()
    }

    pub(crate) fn update(&self, free: u64, reserve: u64) {
        self.free_bytes.store(free, Ordering::Relaxed);
        let low = free < reserve;
        if self.low.swap(low, Ordering::Relaxed) == low {
            return;
        }
        if low {
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
        self.changed.send_replace(low);
    }
}

/// Checks the disk periodically.
pub(crate) struct DiskMonitor {
    pub(crate) dir: PathBuf,
    pub(crate) free_bytes: FreeBytes,
    pub(crate) reserve: u64,
    pub(crate) every: Duration,
}

impl DiskMonitor {
    /// Checks once. After an error the gauge keeps its last value.
    pub(crate) async fn check(&self, gauge: &DiskGauge) {
        let (free_bytes, dir) = (self.free_bytes.clone(), self.dir.clone());
        match tokio::task::spawn_blocking(move || free_bytes(&dir)).await {
            Ok(Ok(free)) => gauge.update(free, self.reserve),
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
