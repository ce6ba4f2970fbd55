//! Restores of any backups of a cluster: never the same token twice, and larger tokens by a sane clock.

use std::ops::Range;

use holdfast_types::Stamp;

use super::restore::NOW;
use crate::RestorePoint;

/// Small numbers without a pattern (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn run(&mut self) -> u32 {
        u32::try_from(self.below(1 << 32)).unwrap()
    }
}

/// A backup: the last token and the time of its state.
#[derive(Clone, Copy)]
struct Backup {
    last: u64,
    at: Stamp,
}

/// All clusters that began with one cluster, its backups, and the tokens that each has minted.
struct Family {
    /// The true time.
    time: u64,
    backups: Vec<Backup>,
    minted: Vec<Range<u64>>,
}

impl Family {
    fn new() -> Self {
        let first = Backup { last: 40, at: NOW };
        Self { time: NOW.0, backups: vec![first], minted: std::iter::once(0..41).collect() }
    }

    /// Restores any backup, mints tokens for some time, with a backup in between.
    fn restore(&mut self, point: RestorePoint, random: &mut Random, grants_max: u64) -> Range<u64> {
        let backup =
            self.backups[usize::try_from(random.below(self.backups.len() as u64)).unwrap()];
        let base = point.after(backup.last, backup.at);
        assert!(base > backup.last && base < 1 << 53, "{base}");
        let (first, more) = (random.below(grants_max), random.below(grants_max));
        self.backups.push(Backup { last: base + first, at: point.now.max(backup.at) });
        let minted = base + 1..base + 2 + first + more;
        self.minted.push(minted.clone());
        minted
    }

    fn repeats(&self, new: &Range<u64>) -> bool {
        let others = &self.minted[..self.minted.len() - 1];
        others.iter().any(|other| other.start < new.end && new.start < other.end)
    }
}

#[test]
fn a_later_restore_of_any_backup_has_larger_tokens_by_a_sane_clock() {
    for seed in 0..300 {
        let (mut random, mut family) = (Random(seed), Family::new());
        let (run, mut largest) = (random.run(), 0);
        for _ in 0..40 {
            // From a second to three months.
            family.time += 1_000 << random.below(23);
            let point =
                RestorePoint { now: Stamp(family.time), clock_run: run, random: random.next() };
            let minted = family.restore(point, &mut random, 30_000);
            assert!(minted.start > largest, "seed {seed}: {minted:?} after {largest}");
            largest = minted.end;
        }
    }
}

/// Another machine draws another clock run, so the order needs 18 minutes.
#[test]
fn a_later_restore_on_any_machine_has_larger_tokens_after_half_an_hour() {
    for seed in 0..300 {
        let (mut random, mut family) = (Random(seed), Family::new());
        let mut largest = 0;
        for _ in 0..40 {
            family.time += 1_800_000 << random.below(12);
            let clock_run = random.run();
            let point = RestorePoint { now: Stamp(family.time), clock_run, random: random.next() };
            let minted = family.restore(point, &mut random, 30_000_000);
            assert!(minted.start > largest, "seed {seed}: {minted:?} after {largest}");
            largest = minted.end;
        }
    }
}

/// The clock stands still, jumps back, or is years behind.
#[test]
fn no_token_repeats_whatever_the_clocks_say() {
    for seed in 0..300 {
        let (mut random, mut family) = (Random(seed), Family::new());
        for _ in 0..12 {
            family.time += random.below(3_600_000);
            let now = match random.below(4) {
                0 => NOW.0,
                1 => family.time - random.below(family.time - NOW.0 + 1),
                2 => random.below(NOW.0),
                _ => family.time,
            };
            let (clock_run, drawn) = (random.run(), random.next());
            let point = RestorePoint { now: Stamp(now), clock_run, random: drawn };
            let minted = family.restore(point, &mut random, 3_000);
            assert!(!family.repeats(&minted), "seed {seed}: {minted:?}");
        }
    }
}

#[test]
fn a_clock_behind_the_state_draws_from_a_larger_range() {
    let after = |random| RestorePoint { now: Stamp(0), clock_run: 0, random }.after(40, NOW);
    let (first, second) = (after(0), after((1 << 41) + 1));
    assert_eq!(second - first, (1 << 41) + 1);
    let sane = RestorePoint { now: NOW, clock_run: u32::MAX, random: u64::MAX };
    assert!(first > sane.after(40, NOW) + (1 << 39));
}

#[test]
fn two_restores_at_the_same_moment_of_one_machine_differ() {
    let after = |random| RestorePoint { now: NOW, clock_run: 3, random }.after(40, NOW);
    assert_eq!(after(500_000) - after(2), 499_998);
}

/// As after a floor, or after a restore by a clock that was ahead.
#[test]
fn a_state_that_is_ahead_of_the_clock_continues_with_it() {
    let after =
        |ms| RestorePoint { now: Stamp(NOW.0 + ms), clock_run: 0, random: 0 }.after(1 << 50, NOW);
    let (first, hour) = (after(0), after(3_600_000));
    assert!(first > 1 << 50 && hour - first > 35_000 * 3_600, "{first} {hour}");
}

#[test]
fn the_tokens_suffice_for_a_restore_each_hour_until_2094() {
    let hour = 3_600_000;
    let (mut last, mut at) = (40, NOW.0);
    let mut random = Random(1);
    while at < NOW.0 + 67 * 365 * 24 * hour {
        at += hour;
        let point = RestorePoint { now: Stamp(at), clock_run: random.run(), random: random.next() };
        last = point.after(last, Stamp(at - hour / 2)) + 1_000_000;
    }
    assert!(last < 1 << 53, "{last}");
}
