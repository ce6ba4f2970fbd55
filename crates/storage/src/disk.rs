//! The disk interface of the log: numbered segment files and the watermark; and how long the syncs of the log take.
//!
//! The log defines the content of a segment. [`DirectoryDisk`] keeps segments in a directory. [`FaultyDisk`] keeps
//! them in memory, for tests and simulations, and simulates failures and power cuts. Bound of the times of syncs: [`SLOTS`]
//! slots of [`SLOT`] each; a new slot replaces the oldest.

mod directory;
mod faulty;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use prometheus_client::metrics::histogram::Histogram;

use crate::error::StoreError;

pub use self::directory::{DirectoryDisk, has_log};
pub use self::faulty::{FaultyDisk, OpenFaultyDisk};

/// Segment files by number, and the watermark. After the open only the log thread calls this trait.
///
/// After an error of any call the log makes no further call.
pub trait Disk: Send + Sync + 'static {
    /// The numbers of the segments, ascending.
    ///
    /// # Errors
    /// [`StoreError::Io`], as for every call.
    fn segments(&self) -> Result<Vec<u32>, StoreError>;

    /// Opens an existing segment.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    fn open(&self, number: u32) -> Result<Arc<dyn SegmentFile>, StoreError>;

    /// Creates or replaces a segment with this content. On `Ok` the new file is durable; a crash leaves either the new
    /// file or the previous state.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::Full`].
    fn create(&self, number: u32, content: &[u8]) -> Result<Arc<dyn SegmentFile>, StoreError>;

    /// Removes a segment. Open handles can still read it. A power cut may restore it.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    fn remove(&self, number: u32) -> Result<(), StoreError>;

    /// The highest value passed to [`raise_watermark`](Self::raise_watermark), or an earlier one after a crash; 0 for
    /// a new disk.
    fn watermark(&self) -> u64;

    /// Records that the first `frames` frames of the log are durable. The record itself is not synced.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::Full`].
    fn raise_watermark(&self, frames: u64) -> Result<(), StoreError>;
}

/// An open segment file. One thread writes and syncs; any thread reads written bytes.
pub trait SegmentFile: Send + Sync {
    /// The whole content. The log calls it only before the first write.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    fn read_all(&self) -> Result<Bytes, StoreError>;

    /// Up to `len` bytes from `offset`; fewer at the end of the file.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, StoreError>;

    /// Makes the next reads read the disk instead of memory, where the disk has a cache. Changes no byte.
    fn drop_cached_pages(&self) {}

    /// Writes bytes at `offset`. Until the next [`sync`](Self::sync), a power cut may keep any part of them.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::Full`].
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError>;

    /// Makes all written bytes durable: after `Ok` a power cut does not remove them.
    ///
    /// # Errors
    /// [`StoreError::Io`]. The bytes written since the last `Ok` are then in an unknown state.
    fn sync(&self) -> Result<(), StoreError>;
}

/// The number of bytes that an unprivileged process can still write on the file system of `dir`.
///
/// # Errors
/// The error of `statvfs`, for example for a missing `dir`.
pub fn free_bytes(dir: &Path) -> io::Result<u64> {
    let stat = nix::sys::statvfs::statvfs(dir).map_err(io::Error::from)?;
    Ok(stat.blocks_available().saturating_mul(stat.fragment_size()))
}

/// Upper bounds of the buckets of every latency histogram of a node, seconds: from 100 µs to 30 s.
pub const LATENCY_BUCKETS: [f64; 17] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0,
];

/// A sync that takes longer is slow.
pub const SLOW_SYNC: Duration = Duration::from_millis(50);

const SLOTS: usize = 6;
const SLOT: Duration = Duration::from_secs(10);

/// The syncs of the last minute, in steps of ten seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecentSyncs {
    pub count: u64,
    /// The syncs that took longer than [`SLOW_SYNC`].
    pub slow: u64,
}

pub(crate) struct SyncTimes {
    pub(crate) seconds: Histogram,
    start: Instant,
    /// Each slot has its number, counted from `start`.
    slots: Mutex<[(u64, RecentSyncs); SLOTS]>,
}

impl SyncTimes {
    pub(crate) fn new() -> Self {
        Self {
            seconds: Histogram::new(LATENCY_BUCKETS),
            start: Instant::now(),
            slots: Mutex::default(),
        }
    }

    /// Records a sync that has just ended.
    pub(crate) fn observe(&self, took: Duration) {
        self.seconds.observe(took.as_secs_f64());
        self.observe_at(Instant::now(), took);
    }

    fn observe_at(&self, now: Instant, took: Duration) {
        let number = self.number(now);
        let mut slots = self.slots.lock();
        let slot = &mut slots[usize::try_from(number % SLOTS as u64).unwrap_or_default()];
        if slot.0 != number {
            *slot = (number, RecentSyncs::default());
        }
        slot.1.count += 1;
        slot.1.slow += u64::from(took > SLOW_SYNC);
    }

    pub(crate) fn recent(&self) -> RecentSyncs {
        self.recent_at(Instant::now())
    }

    fn recent_at(&self, now: Instant) -> RecentSyncs {
        let number = self.number(now);
        let slots = *self.slots.lock();
        let recent = slots.iter().filter(|(slot, _)| slot + SLOTS as u64 > number);
        recent.fold(RecentSyncs::default(), |sum, (_, slot)| RecentSyncs {
            count: sum.count + slot.count,
            slow: sum.slow + slot.slow,
        })
    }

    fn number(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.start).as_secs() / SLOT.as_secs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_directory_is_an_error_and_an_existing_one_has_room() {
        assert!(free_bytes(Path::new("/")).unwrap() > 0);
        assert!(free_bytes(Path::new("/no/such/place")).is_err());
    }

    #[test]
    fn slow_syncs_are_forgotten_after_a_minute() {
        let times = SyncTimes::new();
        let at = |seconds| times.start + Duration::from_secs(seconds);
        times.observe_at(at(1), Duration::from_millis(51));
        times.observe_at(at(1), SLOW_SYNC);
        times.observe_at(at(45), Duration::from_millis(2));
        assert_eq!(times.recent_at(at(59)), RecentSyncs { count: 3, slow: 1 });
        assert_eq!(times.recent_at(at(61)), RecentSyncs { count: 1, slow: 0 });
        times.observe_at(at(62), Duration::from_secs(1));
        assert_eq!(times.recent_at(at(62)), RecentSyncs { count: 2, slow: 1 });
        assert_eq!(times.recent_at(at(600)), RecentSyncs::default());
    }
}
