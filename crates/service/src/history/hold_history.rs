//! The lock history: ended holds, on this node's disk.
//!
//! The database can be lost or rebuilt without harm. It has every hold that ended after
//! [`HoldHistory::complete_after`]. If a lock's oldest holds were discarded, its history is complete after the end of
//! the last discarded hold.
//!
//! Holds are written in blocks. When the blocks have twice as many holds as are kept, the oldest block is removed, and
//! its kept holds are written again. Log-structured file systems clean segments in the same way (Rosenblum and
//! Ousterhout, 1992).
//!
//! Keys: `b` number -> a block; `c` lock -> the revision after which a lock's history is complete; `marks` -> the same
//! for all locks, and the last stored revision. Numbers are big-endian.
//!
//! Bounds: [`HistoryBounds`] in memory; on disk twice as many holds plus [`SLACK`].

mod table;

use std::collections::VecDeque;
use std::path::Path;

use bytes::Bytes;
use holdfast_codec::Kind;
use holdfast_storage::{RebuildableDatabase, StoreError, WriteBatch};
use holdfast_types::{FencingToken, LockName, LossCause, Owner, Revision, SessionName, Stamp};
use serde::{Deserialize, Serialize};

use self::table::HoldTable;

const CACHE_BYTES: u64 = 4 << 20;
/// The maximum number of holds in one block.
const BLOCK_MAX: usize = 64;
/// Surplus holds in blocks before the oldest block is cleaned.
const SLACK: usize = 16 * BLOCK_MAX;
const REVISIONS_KEY: &[u8] = b"marks";
/// Keys removed in one batch from a database of another layout.
const DELETE_BATCH_MAX: usize = 1_024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastHold {
    pub lock: LockName,
    pub session: SessionName,
    pub owner: Owner,
    pub token: FencingToken,
    pub since: Stamp,
    /// The revision of the grant.
    pub granted_in: Revision,
    pub until: Stamp,
    /// The revision that ended the hold.
    pub ended_in: Revision,
    pub cause: LossCause,
}

#[derive(Clone, Debug)]
pub struct HistoryRequest {
    pub lock: LockName,
    /// If set, only the hold at this time is returned.
    pub at: Option<Stamp>,
    /// The maximum number of past holds to return.
    pub limit: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HistoryResult {
    /// The newest first.
    pub(crate) holds: Vec<PastHold>,
    /// All holds that ended after this revision are included.
    pub(crate) complete_after: Revision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HistoryBounds {
    pub(crate) holds_max: usize,
    pub(crate) per_lock_max: usize,
}

impl HistoryBounds {
    pub(crate) const DEFAULT: Self = Self { holds_max: 100_000, per_lock_max: 1_000 };
}

pub(crate) struct HoldHistory {
    database: RebuildableDatabase,
    table: HoldTable,
    /// Number and hold count of each block, the oldest first.
    blocks: VecDeque<(u64, usize)>,
    /// Holds in all blocks.
    in_blocks: usize,
    next_block: u64,
    /// All holds up to this revision are stored, or marked as missing.
    stored: Revision,
    /// The database has unsynced writes.
    dirty: bool,
}

impl HoldHistory {
    /// Opens or creates the history of a node.
    pub(crate) fn open(dir: &Path, bounds: HistoryBounds) -> Result<Self, StoreError> {
        let database = RebuildableDatabase::open(dir, CACHE_BYTES)?;
        let marks = database.get(REVISIONS_KEY)?;
        if marks.is_none() {
            delete_all_keys(&database)?;
        }
        let (complete_after, stored) = marks_of(marks.as_deref());
        let mut table = HoldTable::new(bounds);
        table.gap(complete_after);
        let (blocks, in_blocks, next_block, dirty) = (VecDeque::new(), 0, 0, false);
        let mut history = Self { database, table, blocks, in_blocks, next_block, stored, dirty };
        history.load_blocks()?;
        Ok(history)
    }

    fn load_blocks(&mut self) -> Result<(), StoreError> {
        let Self { database, table, blocks, in_blocks, next_block, stored, .. } = self;
        database.scan(b"b", b"c", |key, bytes| {
            if let Some(number) = key.get(1..).and_then(number) {
                let holds = readable(block_of(&bytes), table, *stored);
                blocks.push_back((number, holds.len()));
                *in_blocks += holds.len();
                *next_block = number + 1;
                for hold in holds {
                    table.add(hold);
                }
            }
            Ok(true)
        })?;
        let mut stale = WriteBatch::default();
        database.scan(b"c", b"d", |key, bytes| {
            match (lock_of(key.get(1..).unwrap_or_default()), number(&bytes)) {
                (Some(lock), Some(until)) if table.complete_of(&lock).is_some() => {
                    table.gap_of(&lock, Revision(until));
                }
                _ => stale.delete(key),
            }
            Ok(true)
        })?;
        database.write(&stale)
    }

    /// Returns the revision up to which all holds are stored, or marked as missing.
    pub(crate) fn stored(&self) -> Revision {
        self.stored
    }

    /// Marks the history as incomplete up to a revision; the next [`Self::add`] writes the mark.
    pub(crate) fn gap(&mut self, until: Revision) {
        self.table.gap(until);
    }

    /// Returns the revision after which the history of every lock is complete.
    pub(crate) fn complete_after(&self) -> Revision {
        self.table.complete_after()
    }

    /// Adds new holds. With them, all holds up to `stored` are stored.
    pub(crate) fn add(
        &mut self,
        holds: &[PastHold],
        stored: Option<Revision>,
    ) -> Result<(), StoreError> {
        let mut batch = WriteBatch::default();
        let is_new = |hold: &&PastHold| hold.ended_in > self.stored && !self.table.has(hold);
        let fresh: Vec<&PastHold> = holds.iter().filter(is_new).collect();
        for &hold in &fresh {
            if let Some(discarded) = self.table.add(hold.clone()) {
                batch.delete(&complete_key(&discarded));
            }
        }
        let mut rewritten = RewrittenHolds::default();
        rewritten.add(&self.table, fresh.into_iter().cloned());
        self.clean(&mut rewritten, &mut batch)?;
        for hold in rewritten.discarded {
            // A restart can no longer derive the lock's revision from its holds.
            if let Some(complete) = self.table.complete_of(&hold.lock) {
                batch.put(&complete_key(&hold.lock), complete.0.to_be_bytes().to_vec());
            }
        }
        for block in rewritten.kept.chunks(BLOCK_MAX) {
            self.put_block(block, &mut batch);
        }
        self.stored = self.stored.max(stored.unwrap_or_default());
        let marks = [self.complete_after(), self.stored];
        batch.put(REVISIONS_KEY, marks.map(|at| at.0.to_be_bytes()).concat());
        self.dirty = true;
        self.database.write(&batch)
    }

    /// Removes the oldest blocks while the blocks have too many discarded holds, at most two for each new block. Kept
    /// holds of these blocks are written again.
    fn clean(
        &mut self,
        rewritten: &mut RewrittenHolds,
        batch: &mut WriteBatch,
    ) -> Result<(), StoreError> {
        for _ in 0..2 * rewritten.kept.len().div_ceil(BLOCK_MAX) {
            if self.in_blocks + rewritten.kept.len() <= 2 * self.table.len() + SLACK {
                break;
            }
            let Some((number, count)) = self.blocks.pop_front() else { break };
            let key = block_key(number);
            let holds = self.database.get(&key)?.and_then(|bytes| block_of(&bytes));
            let holds = readable(holds, &mut self.table, self.stored);
            rewritten.add(&self.table, holds);
            batch.delete(&key);
            self.in_blocks -= count;
        }
        Ok(())
    }

    fn put_block(&mut self, holds: &[PastHold], batch: &mut WriteBatch) {
        // A block of holds is far smaller than the largest envelope.
        let Ok(bytes) = holdfast_codec::encode(Kind::PastHolds, holds) else { return };
        batch.put(&block_key(self.next_block), bytes);
        self.blocks.push_back((self.next_block, holds.len()));
        self.in_blocks += holds.len();
        self.next_block += 1;
    }

    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        if !std::mem::take(&mut self.dirty) {
            return Ok(());
        }
        self.database.sync()
    }

    pub(crate) fn find(&self, query: &HistoryRequest) -> HistoryResult {
        self.table.find(query)
    }
}

/// Holds to write, and discarded holds.
#[derive(Default)]
struct RewrittenHolds {
    kept: Vec<PastHold>,
    discarded: Vec<PastHold>,
}

impl RewrittenHolds {
    fn add(&mut self, table: &HoldTable, holds: impl IntoIterator<Item = PastHold>) {
        for hold in holds {
            let list = if table.has(&hold) { &mut self.kept } else { &mut self.discarded };
            list.push(hold);
        }
    }
}

/// Empties a database of another layout.
fn delete_all_keys(database: &RebuildableDatabase) -> Result<(), StoreError> {
    loop {
        let mut batch = WriteBatch::default();
        database.scan(&[], &[u8::MAX], |key, _| {
            batch.delete(key);
            Ok(batch.len() < DELETE_BATCH_MAX)
        })?;
        if batch.is_empty() {
            return Ok(());
        }
        database.write(&batch)?;
    }
}

/// The holds of a block; `None` if it is damaged.
fn block_of(bytes: &Bytes) -> Option<Vec<PastHold>> {
    holdfast_codec::decode(Kind::PastHolds, bytes).ok()
}

/// The holds of a block. All holds of a damaged block ended at or before `stored`, so they are marked as missing.
fn readable(
    holds: Option<Vec<PastHold>>,
    table: &mut HoldTable,
    stored: Revision,
) -> Vec<PastHold> {
    holds.unwrap_or_else(|| {
        table.gap(stored);
        Vec::new()
    })
}

fn marks_of(bytes: Option<&[u8]>) -> (Revision, Revision) {
    let (first, second) = bytes.and_then(|bytes| bytes.split_at_checked(8)).unwrap_or_default();
    (Revision(number(first).unwrap_or_default()), Revision(number(second).unwrap_or_default()))
}

fn number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

fn lock_of(bytes: &[u8]) -> Option<LockName> {
    LockName::new(std::str::from_utf8(bytes).ok()?).ok()
}

fn block_key(number: u64) -> Vec<u8> {
    [b"b".as_slice(), &number.to_be_bytes()].concat()
}

fn complete_key(lock: &LockName) -> Vec<u8> {
    [b"c", lock.as_str().as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: HistoryBounds = HistoryBounds { holds_max: 6, per_lock_max: 3 };

    fn lock(name: &str) -> LockName {
        LockName::new(name).unwrap()
    }

    /// A hold of ten milliseconds that ended in a revision.
    fn hold(name: &str, revision: u64) -> PastHold {
        PastHold {
            lock: lock(name),
            session: SessionName::new("me").unwrap(),
            owner: Owner::unnamed(),
            token: FencingToken(revision),
            since: Stamp(revision * 10),
            granted_in: Revision(revision - 1),
            until: Stamp(revision * 10 + 10),
            ended_in: Revision(revision),
            cause: LossCause::Released,
        }
    }

    fn tokens(history: &HoldHistory, name: &str, at: Option<u64>) -> (Vec<u64>, u64) {
        let query = HistoryRequest { lock: lock(name), at: at.map(Stamp), limit: 100 };
        let found = history.find(&query);
        (found.holds.iter().map(|hold| hold.token.0).collect(), found.complete_after.0)
    }

    #[test]
    fn the_hold_at_a_time_is_found_and_neighbouring_names_are_not_mixed_up() {
        let dir = tempfile::tempdir().unwrap();
        let mut history = HoldHistory::open(dir.path(), BOUNDS).unwrap();
        history.add(&[hold("a", 1), hold("a/b", 2), hold("a", 3)], None).unwrap();
        assert_eq!(tokens(&history, "a", None), (vec![3, 1], 0));
        assert_eq!(tokens(&history, "a/b", None), (vec![2], 0));
        assert_eq!(tokens(&history, "a", Some(15)), (vec![1], 0));
        assert_eq!(tokens(&history, "a", Some(25)), (vec![], 0));
        assert_eq!(tokens(&history, "a", Some(30)), (vec![3], 0));
        assert_eq!(tokens(&history, "a", Some(40)), (vec![], 0));
    }

    #[test]
    fn the_oldest_holds_are_discarded_and_complete_after_covers_them() {
        let dir = tempfile::tempdir().unwrap();
        let mut history = HoldHistory::open(dir.path(), BOUNDS).unwrap();
        let holds: Vec<_> = (1..=5).map(|revision| hold("a", revision)).collect();
        history.add(&holds, None).unwrap();
        assert_eq!(tokens(&history, "a", None), (vec![5, 4, 3], 2));
        assert_eq!(tokens(&history, "b", None), (vec![], 0));
        history.add(&[hold("b", 6), hold("c", 7), hold("d", 8), hold("e", 9)], None).unwrap();
        assert_eq!(tokens(&history, "a", None), (vec![5, 4], 3));
        assert_eq!(tokens(&history, "b", None), (vec![6], 3));
        assert_eq!(history.table.len(), 6);
    }

    #[test]
    fn a_restart_loads_all_holds_and_a_replay_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut history = HoldHistory::open(dir.path(), BOUNDS).unwrap();
        let holds: Vec<_> = (1..=5).map(|revision| hold("a", revision)).collect();
        history.add(&holds, Some(Revision(5))).unwrap();
        history.sync().unwrap();
        drop(history);
        let mut history = HoldHistory::open(dir.path(), BOUNDS).unwrap();
        assert_eq!(history.stored(), Revision(5));
        history.add(&holds, None).unwrap();
        assert_eq!(tokens(&history, "a", None), (vec![5, 4, 3], 2));
        history.gap(Revision(9));
        history.add(&[hold("a", 10)], None).unwrap();
        assert_eq!(history.in_blocks, 4);
        history.add(&[hold("a", 10)], Some(Revision(10))).unwrap();
        assert_eq!(history.in_blocks, 4, "an existing hold is not written again");
        assert_eq!(tokens(&history, "a", None), (vec![10, 5, 4], 9));
    }

    #[test]
    fn a_short_shared_hold_does_not_hide_an_earlier_longer_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut history = HoldHistory::open(dir.path(), BOUNDS).unwrap();
        let long = PastHold { until: Stamp(100), ended_in: Revision(9), ..hold("a", 1) };
        history.add(&[hold("a", 2), long], None).unwrap();
        assert_eq!(tokens(&history, "a", Some(50)), (vec![1], 0));
    }

    #[test]
    fn another_layout_is_deleted_and_a_damaged_block_is_marked_as_missing() {
        let dir = tempfile::tempdir().unwrap();
        let mut other = WriteBatch::default();
        for number in 0..3_000_u32 {
            other.put(&[b"h".as_slice(), &number.to_be_bytes()].concat(), b"x".as_slice());
        }
        RebuildableDatabase::open(dir.path(), CACHE_BYTES).unwrap().write(&other).unwrap();
        let mut history = HoldHistory::open(dir.path(), BOUNDS).unwrap();
        let mut keys = 0;
        let count = &mut |_: &[u8], _| {
            keys += 1;
            Ok(true)
        };
        history.database.scan(&[], &[u8::MAX], count).unwrap();
        assert_eq!(keys, 0);
        history.add(&[hold("a", 1)], Some(Revision(1))).unwrap();
        history.add(&[hold("a", 2)], Some(Revision(2))).unwrap();
        let mut damage = WriteBatch::default();
        damage.put(&block_key(0), b"damage".as_slice());
        history.database.write(&damage).unwrap();
        drop(history);
        let history = HoldHistory::open(dir.path(), BOUNDS).unwrap();
        assert_eq!(tokens(&history, "a", None), (vec![2], 2));
    }

    /// Checks that each lock has all holds after `complete_after` and no invented hold, within the bounds.
    #[track_caller]
    fn check(history: &HoldHistory, all: &[PastHold], names: &[String]) {
        let HistoryBounds { holds_max, per_lock_max } = history.table.bounds();
        assert!(history.table.len() <= holds_max);
        for name in names {
            let query = HistoryRequest { lock: lock(name), at: None, limit: usize::MAX };
            let found = history.find(&query);
            assert!(found.holds.len() <= per_lock_max);
            let of_lock = all.iter().rev().filter(|hold| hold.lock == query.lock);
            let expected = of_lock.clone().filter(|hold| hold.ended_in > found.complete_after);
            let returned: Vec<_> = found.holds.iter().collect();
            assert!(expected.clone().count() <= returned.len());
            assert!(expected.zip(&returned).all(|(hold, found)| hold == *found), "{name}");
            assert!(
                returned.iter().all(|found| of_lock.clone().any(|hold| hold == *found)),
                "{name}"
            );
        }
    }

    #[test]
    fn random_holds_are_kept_up_to_the_bounds_across_restarts() {
        let bounds = HistoryBounds { holds_max: 300, per_lock_max: 40 };
        let names: Vec<String> = (0..30).map(|number| format!("l{number}")).collect();
        for seed in 0..3_u64 {
            let dir = tempfile::tempdir().unwrap();
            let mut history = HoldHistory::open(dir.path(), bounds).unwrap();
            let (mut all, mut state) = (Vec::new(), seed + 1);
            let mut random = |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % below
            };
            for _ in 0..120 {
                let before = all.len();
                for _ in 0..random(200) {
                    // Few locks are busy, and at times only one.
                    let busy = random(30).min(random(30)).min(random(30)) / (seed / 2 + 1);
                    let name = &names[usize::try_from(busy).unwrap()];
                    all.push(hold(name, all.len() as u64 + 1));
                }
                let stored = Revision(all.len() as u64);
                history.add(&all[before..], Some(stored)).unwrap();
                assert!(history.in_blocks <= 2 * bounds.holds_max + SLACK + 200);
                if random(10) == 0 {
                    drop(history);
                    history = HoldHistory::open(dir.path(), bounds).unwrap();
                    assert_eq!(history.stored(), stored);
                }
                check(&history, &all, &names);
            }
            assert!(all.len() > 10 * bounds.holds_max);
        }
    }
}
