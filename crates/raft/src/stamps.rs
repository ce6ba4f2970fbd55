//! The log's time: the clock that stamps entries (design D15).
//!
//! A node continues from the last applied stamp with the time of its monotonic clock. The wall clocks of a majority only
//! change the rate, by at most one part in [`SLEW`]. Two stamps therefore never differ by more than the time between them
//! plus a thousandth of it. This holds for all wall clocks, leaders and apply delays.
//!
//! Time in which no node ran is not measured by a monotonic clock: `agreement.rs` says when the wall clocks of a majority
//! replace it. A late entry of another leader sets a node's time back: the monotonic clock of that node has then not
//! measured the time since the last record either. A node that has applied no stamp uses its wall clock directly: the first leader of a new cluster. The code
//! is pure: both clocks are arguments.

pub(crate) mod agreement;

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use holdfast_types::{NodeId, Stamp};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::type_config::LeaderEpoch;

/// The log's time approaches the wall clock by at most 1/`SLEW` of the elapsed time. This exceeds the drift of any
/// working oscillator, and is a tenth of the margin that clients keep before their own deadlines.
pub(crate) const SLEW: u32 = 1_000;

/// An entry that is later than this sets a node's time back, instead of correcting it.
const SETBACK_MIN: Duration = Duration::from_secs(1);

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

/// The log's time on one node.
#[derive(Clone, Copy, Debug, Default)]
struct LogTime {
    /// `None` until the node has applied a stamp.
    last: Option<Reading>,
    /// The latest applied time. An entry that is late by less than [`SETBACK_MIN`] does not set it back.
    reached: Option<Reading>,
    /// How often an entry has set the time back by [`SETBACK_MIN`] or more.
    setbacks: u64,
}

impl LogTime {
    fn read(&mut self, now: Instant, wall: Stamp) -> Stamp {
        let Some(last) = self.last else { return wall };
        let (free, wall) = (last.after(now), Duration::from_millis(wall.0));
        let most = now.saturating_duration_since(last.at) / SLEW;
        let time = wall.clamp(free.saturating_sub(most), free.saturating_add(most));
        // Two threads may arrive in a different order than they read the clock.
        self.last = Some(Reading { time, at: now.max(last.at) });
        stamp(time)
    }

    /// A time that the log has reached, unless a leader whose time is behind has followed. It advances more slowly than the
    /// log's time can.
    fn reached(&self, now: Instant) -> Option<Duration> {
        let reached = self.reached?;
        let slower = now.saturating_duration_since(reached.at) / SLEW * 2;
        Some(reached.after(now).saturating_sub(slower))
    }

    /// Continues from a stamp of another node even if this node's time is ahead, because a grant may carry that stamp.
    /// For its own stamps a node keeps its time, which has advanced since.
    fn applied(&mut self, applied: Stamp, ours: bool, now: Instant) {
        let time = Duration::from_millis(applied.0);
        let back = self.last.map_or(Duration::ZERO, |last| last.after(now).saturating_sub(time));
        let reached =
            self.reached(now).filter(|_| back < SETBACK_MIN).unwrap_or_default().max(time);
        self.reached = Some(Reading { time: reached, at: now });
        if !ours || back.is_zero() {
            self.last = Some(Reading { time, at: now });
            self.setbacks += u64::from(back >= SETBACK_MIN);
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
    settled: watch::Sender<SettledTime>,
}

/// The leaderships in which the log's time is settled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SettledTime {
    /// In all of them: nobody settles it.
    Always,
    /// In this one.
    In(Option<LeaderEpoch>),
}

impl Stamps {
    pub(crate) fn new(node: NodeId) -> Self {
        Self {
            node,
            time: Mutex::default(),
            correction: AtomicI64::new(0),
            settled: watch::Sender::new(SettledTime::Always),
        }
    }

    /// Returns the stamp of an entry proposed now. A leader must have applied all entries committed before.
    pub(crate) fn read(&self, now: Instant, wall: Stamp) -> Stamp {
        let correction = self.correction.load(Ordering::Relaxed);
        self.time.lock().read(now, Stamp(wall.0.saturating_add_signed(correction)))
    }

    /// Returns the time from which remaining times are counted. A node that applies entries late does not count its delay
    /// as remaining time.
    pub(crate) fn read_for_ends(&self, now: Instant, wall: Stamp) -> Stamp {
        let read = self.read(now, wall);
        self.time.lock().reached(now).map_or(read, |reached| read.max(stamp(reached)))
    }

    /// Makes the time follow the clocks of a majority, which are ahead of this node's by `ms` milliseconds.
    pub(crate) fn correct_wall_clock(&self, ms: i64) {
        self.correction.store(ms, Ordering::Relaxed);
    }

    /// Settles the time of a leadership; `None` for no leadership.
    pub(crate) fn settle(&self, epoch: Option<LeaderEpoch>) {
        self.settled.send_replace(SettledTime::In(epoch));
    }

    /// Watches the leadership whose time is settled.
    pub(crate) fn settled(&self) -> watch::Receiver<SettledTime> {
        self.settled.subscribe()
    }

    /// False while time may be lost that the wall clocks have measured.
    pub(crate) fn is_settled(&self, epoch: LeaderEpoch) -> bool {
        match *self.settled.borrow() {
            SettledTime::Always => true,
            SettledTime::In(settled) => settled == Some(epoch),
        }
    }

    /// How often a late entry has set this node's time back.
    pub(crate) fn setbacks(&self) -> u64 {
        self.time.lock().setbacks
    }

    /// Records that the machine has reached the stamp `applied`, by an entry of the leader `by` or by a snapshot
    /// (`None`).
    pub(crate) fn applied(&self, applied: Stamp, by: Option<NodeId>, now: Instant) {
        self.time.lock().applied(applied, by == Some(self.node), now);
    }
}

#[cfg(test)]
mod tests;
