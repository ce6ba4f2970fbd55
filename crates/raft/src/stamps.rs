//! The log's time: the clock that stamps entries (design D15).
//!
//! A node continues from the last applied stamp with the time of its monotonic clock. The wall clocks of a majority only
//! change the rate, by at most one part in [`SLEW`]. Two stamps therefore never differ by more than the time between them
//! plus a thousandth of it. This holds for all wall clocks, leaders and apply delays.
//!
//! Time in which no node ran is not measured by a monotonic clock: `agreement.rs` says when the wall clocks of a majority
//! replace it. A node that has applied no stamp uses its wall clock directly: the first leader of a new cluster. The code
//! is pure: both clocks are arguments.

pub(crate) mod agreement;

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use std::time::{Duration, Instant};

use holdfast_types::{NodeId, Stamp};
use parking_lot::Mutex;

/// The log's time approaches the wall clock by at most 1/`SLEW` of the elapsed time. This exceeds the drift of any
/// working oscillator, and is a tenth of the margin that clients keep before their own deadlines.
pub(crate) const SLEW: u32 = 1_000;

/// The log's time, since the Unix epoch, at a moment of the monotonic clock.
#[derive(Clone, Copy, Debug)]
struct Reading {
    time: Duration,
    at: Instant,
}

impl Reading {
    fn after(self, now: Instant) -> Duration {
        self.time.saturating_add(now.saturating_duration_since(self.at))
    }
}

/// The log's time on one node; `None` until the node has applied a stamp.
#[derive(Clone, Copy, Debug, Default)]
struct LogTime(Option<Reading>);

impl LogTime {
    fn read(&mut self, now: Instant, wall: Stamp) -> Stamp {
        let Some(last) = self.0 else { return wall };
        let (free, wall) = (last.after(now), Duration::from_millis(wall.0));
        let most = now.saturating_duration_since(last.at) / SLEW;
        let time = wall.clamp(free.saturating_sub(most), free.saturating_add(most));
        // Two threads may arrive in a different order than they read the clock.
        self.0 = Some(Reading { time, at: now.max(last.at) });
        stamp(time)
    }

    /// Continues from a stamp of another node even if this node's time is ahead, because a grant may carry that stamp.
    /// For its own stamps a node keeps its time, which has advanced since.
    fn applied(&mut self, applied: Stamp, ours: bool, now: Instant) {
        let time = Duration::from_millis(applied.0);
        if !ours || self.0.is_none_or(|last| last.after(now) < time) {
            self.0 = Some(Reading { time, at: now });
        }
    }
}

fn stamp(time: Duration) -> Stamp {
    Stamp(holdfast_types::millis(time))
}

/// The clock of one node, shared by the proposer and the state machine.
#[derive(Debug)]
pub(crate) struct Stamps {
    node: NodeId,
    time: Mutex<LogTime>,
    /// How far the clocks of a majority are ahead of this node's, milliseconds.
    correction: AtomicI64,
    settled: AtomicBool,
}

impl Stamps {
    pub(crate) fn new(node: NodeId) -> Self {
        Self {
            node,
            time: Mutex::default(),
            correction: AtomicI64::new(0),
            settled: AtomicBool::new(true),
        }
    }

    /// Returns the stamp of an entry proposed now. A leader must have applied all entries committed before.
    pub(crate) fn read(&self, now: Instant, wall: Stamp) -> Stamp {
        let correction = self.correction.load(Ordering::Relaxed);
        self.time.lock().read(now, Stamp(wall.0.saturating_add_signed(correction)))
    }

    /// Makes the time follow the clocks of a majority, which are ahead of this node's by `ms` milliseconds.
    pub(crate) fn correct_wall_clock(&self, ms: i64) {
        self.correction.store(ms, Ordering::Relaxed);
    }

    pub(crate) fn settle(&self, settled: bool) {
        self.settled.store(settled, Ordering::Release);
    }

    /// False while time may be lost that the wall clocks have measured.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    /// Records that the machine has reached the stamp `applied`, by an entry of the leader `by` or by a snapshot
    /// (`None`).
    pub(crate) fn applied(&self, applied: Stamp, by: Option<NodeId>, now: Instant) {
        self.time.lock().applied(applied, by == Some(self.node), now);
    }
}

#[cfg(test)]
mod tests;
