//! Where the counters of tokens, revisions and sessions continue after a restore.
//!
//! Counters stay below 2^53, so 53 bits must serve the order of restores, and the difference between restores whose clocks
//! read the same. [`RestorePoint::after`] adds three parts:
//!
//! - 2^12 for each millisecond since 2026, a hundred times more than a cluster mints. A restore by a sane clock 18 minutes
//!   later is above everything that an earlier one has minted, whichever backups both had. 2^53 are reached in 2095.
//! - Up to 2^32 (17 minutes), equal for all restores between a start of the machine and the next one, or a step of its clock.
//! - A random part up to 2^19 (0.13 seconds), for restores on one machine at the same moment.
//!
//! The result is also above the largest known value and what the cluster can have minted since the state. A clock that is behind
//! the state is wrong: the restore then draws a jump of up to 2^42. Two restores whose clocks read the
//! same by mistake repeat tokens with the probability `2 m / 2^32`, where m is the number of minted tokens; ADR 0024 has
//! the other cases.

use holdfast_types::Stamp;

/// 2026-01-01T00:00:00Z.
const EPOCH: Stamp = Stamp(1_767_225_600_000);
/// The advance for each millisecond.
const PER_MS: u64 = 1 << 12;
/// Almost twice the tokens that a cluster mints in a millisecond.
const MINTED_PER_MS: u64 = 64;
/// The random part.
const RANDOM: u64 = 1 << 19;
/// The least advance. With [`RANDOM`] less than what the clock gives in 0.2 seconds, so that the clock decides if a restored
/// cluster is soon backed up and restored again.
const ADVANCE_MIN: u64 = 1 << 18;
/// A state that is ahead of the clock by at most this was restored a moment ago: 16 seconds.
const NEAR: u64 = 1 << 26;
/// A clock that is further behind the state is wrong, milliseconds. The clock of the old leader may be ahead.
const BEHIND_MAX: u64 = 5 * 60 * 1000;
/// The least and the random part of the advance by a wrong clock.
const JUMP_MIN: u64 = 1 << 40;
const JUMP: u64 = 1 << 42;
/// A clock that is further ahead of the state is wrong, milliseconds: ten years. It would use up the counters.
const AHEAD_MAX: u64 = 10 * 365 * 24 * 3600 * 1000;

/// The moment of a restore, as its machine knows it.
#[derive(Clone, Copy, Debug)]
pub struct RestorePoint {
    /// The wall clock.
    pub now: Stamp,
    /// Random, and equal for all restores between a start of the machine and the next one, or a step of its clock.
    pub clock_run: u32,
    /// Drawn for this restore.
    pub random: u64,
}

impl RestorePoint {
    /// Returns the years by which the clock is too far ahead of a state of time `at`.
    pub(crate) fn years_ahead(&self, at: Stamp) -> Option<u64> {
        let ahead = self.now.0.saturating_sub(at.max(EPOCH).0);
        (ahead > AHEAD_MAX).then_some(ahead / (AHEAD_MAX / 10))
    }

    /// Returns where a counter continues: above `last`, its largest value in a state. Nobody can have counted on from it
    /// before `at`.
    pub(crate) fn after(&self, last: u64, at: Stamp) -> u64 {
        let at = at.max(EPOCH);
        let is_behind = self.now.0.saturating_add(BEHIND_MAX) < at.0;
        let now = self.now.max(at);
        let since = |start: Stamp, per_ms| now.0.saturating_sub(start.0).saturating_mul(per_ms);
        let run = u64::from(self.clock_run);
        let by_clock = since(EPOCH, PER_MS).saturating_add(run);
        let by_state = last.saturating_add(since(at, MINTED_PER_MS)).saturating_add(ADVANCE_MIN);
        let base = match by_state.saturating_sub(by_clock) {
            0 => by_clock,
            // `run` is in the state, unless another machine has restored it within seconds.
            1..=NEAR => by_state,
            _ => by_state.saturating_add(run),
        };
        let drawn = if is_behind { JUMP_MIN + self.random % JUMP } else { self.random % RANDOM };
        base.saturating_add(drawn)
    }
}
