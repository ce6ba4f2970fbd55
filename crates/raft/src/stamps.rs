//! The log's time: the clock that stamps entries (design D15).
//!
//! A node continues from the last applied stamp with the time that its monotonic clock measures. Its wall clock only
//! changes the rate, by at most one part in [`SLEW`]. So two stamps never differ by more than the time between them plus
//! a thousandth of it. That holds whatever the wall clocks show, whichever node leads, and however late a node applied.
//!
//! A node that has applied no stamp uses its wall clock directly: the first leader of a new cluster. Time in which no
//! node runs does not count. The code is pure: both clocks are arguments.

use std::time::{Duration, Instant};

use holdfast_types::{NodeId, Stamp};
use parking_lot::Mutex;

/// The log's time moves towards the wall clock by at most this part of the time that passes: faster than any
/// working oscillator drifts, and a tenth of the margin that clients leave before their own deadlines.
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

/// The log's time as one node knows it; `None` until the node has applied a stamp.
#[derive(Clone, Copy, Debug, Default)]
struct LogTime(Option<Reading>);

impl LogTime {
    fn read(&mut self, now: Instant, wall: Stamp) -> Stamp {
        let Some(last) = self.0 else { return wall };
        let (free, wall) = (last.after(now), Duration::from_millis(wall.0));
        let most = now.saturating_duration_since(last.at) / SLEW;
        let time = wall.clamp(free.saturating_sub(most), free.saturating_add(most));
        // Two threads may arrive in another order than they read the clock.
        self.0 = Some(Reading { time, at: now.max(last.at) });
        stamp(time)
    }

    /// Time continues from a stamp of another node even if this node's own time is ahead: a lock may have been granted at
    /// that stamp. This node read its own stamps itself, and its time has advanced from there since.
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
}

impl Stamps {
    pub(crate) fn new(node: NodeId) -> Self {
        Self { node, time: Mutex::default() }
    }

    /// The stamp of an entry proposed now. A node that leads must have applied everything committed before.
    pub(crate) fn read(&self, now: Instant, wall: Stamp) -> Stamp {
        self.time.lock().read(now, wall)
    }

    /// Notes that the machine has reached the stamp `applied`: by an entry of the leader `by`, or by a snapshot (`None`).
    pub(crate) fn applied(&self, applied: Stamp, by: Option<NodeId>, now: Instant) {
        self.time.lock().applied(applied, by == Some(self.node), now);
    }
}

#[cfg(test)]
mod tests;
