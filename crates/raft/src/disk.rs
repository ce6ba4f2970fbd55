//! How full the disk is.
//!
//! Owns the last look at it and the verdict: below the reserve a node appends nothing, so that it never meets a full
//! disk in the middle of a write. It recovers by itself when space comes back.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use crate::config::FreeBytes;

/// The last look at the disk.
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

    /// Bytes free at the last look.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.free_bytes.load(Ordering::Relaxed)
    }

    /// Whether that is below the reserve.
    pub(crate) fn is_low(&self) -> bool {
        self.low.load(Ordering::Relaxed)
    }

    /// Tells when [`Self::is_low`] changes.
    pub(crate) fn watch(&self) -> watch::Receiver<bool> {
        self.changed.subscribe()
    }

    /// Notes what a look saw.
    pub(crate) fn note(&self, free: u64, reserve: u64) {
        self.free_bytes.store(free, Ordering::Relaxed);
        let low = free < reserve;
        if self.low.swap(low, Ordering::Relaxed) == low {
            return;
        }
        if low {
            tracing::error!(
                free,
                reserve,
                "disk below its reserve: no more writes until space is freed"
            );
        } else {
            tracing::info!(free, reserve, "disk above its reserve again: writes go on");
        }
        self.changed.send_replace(low);
    }
}

/// Where to look, and how often.
pub(crate) struct Inspector {
    pub(crate) dir: PathBuf,
    pub(crate) free_bytes: FreeBytes,
    pub(crate) reserve: u64,
    pub(crate) every: Duration,
}

impl Inspector {
    /// Looks once. A disk that cannot be asked keeps its last verdict.
    pub(crate) async fn look(&self, gauge: &DiskGauge) {
        let (free_bytes, dir) = (self.free_bytes.clone(), self.dir.clone());
        match tokio::task::spawn_blocking(move || free_bytes(&dir)).await {
            Ok(Ok(free)) => gauge.note(free, self.reserve),
            Ok(Err(error)) => {
                tracing::warn!(%error, "failed to ask for the free bytes of the disk");
            }
            Err(error) => tracing::warn!(%error, "failed to look at the disk"),
        }
    }

    /// Looks again and again.
    pub(crate) async fn run(self, gauge: Arc<DiskGauge>) {
        loop {
            tokio::time::sleep(self.every).await;
            self.look(&gauge).await;
        }
    }
}
