//! Who held a lock when: holds that are over, kept on this node's disk where a restart finds them again.
//!
//! Owns the keys and bounds of a database that can be rebuilt, or lost, without harm to anybody. What is not known is
//! said: everything that ended after [`Archive::complete_after`] is here, and of a lock whose oldest holds made room,
//! everything after the youngest of those. Refuses to know where holds come from (`chronicle.rs`) and who asks.
//! Bounds: [`Bounds::holds_max`] holds in all and [`Bounds::per_lock_max`] of one lock, the oldest make room.
//!
//! Keys: `h` lock 0 token -> the hold; `o` revision token -> lock, the order in which holds ended; `c` lock -> the
//! revision after which a lock is whole; `m` -> the marks of all. Numbers are big-endian.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use holdfast_codec::Kind;
use holdfast_storage::{Engine, Order, StoreError, WriteBatch, open_rebuildable};
use holdfast_types::{FencingToken, LockName, LossCause, Owner, Revision, SessionName, Stamp};
use serde::{Deserialize, Serialize};

/// The database's cache.
const CACHE_BYTES: u64 = 4 << 20;
const MARKS: &[u8] = b"m";

/// A hold that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastHold {
    /// Of which lock.
    pub lock: LockName,
    /// Whose.
    pub session: SessionName,
    /// Who within the session.
    pub owner: Owner,
    /// Its token.
    pub token: FencingToken,
    /// When it began.
    pub since: Stamp,
    /// The revision of the grant.
    pub granted_in: Revision,
    /// When it ended.
    pub until: Stamp,
    /// The revision that ended it.
    pub ended_in: Revision,
    /// Why.
    pub cause: LossCause,
}

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) lock: LockName,
    /// Only the hold at this time.
    pub(crate) at: Option<Stamp>,
    pub(crate) limit: usize,
}

/// What is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The youngest first.
    pub(crate) holds: Vec<PastHold>,
    /// All that ended after this is known.
    pub(crate) complete_after: Revision,
}

/// How much of the past is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// In all.
    pub holds_max: usize,
    /// Of one lock.
    pub per_lock_max: usize,
}

/// See the module.
pub(crate) struct Archive {
    engine: Box<dyn Engine>,
    bounds: Bounds,
    /// Holds of each lock.
    counts: BTreeMap<LockName, usize>,
    total: usize,
    /// Nothing that ended after this is missing, whatever the lock.
    complete_after: Revision,
    /// Everything up to this is here, or known to be missing.
    stored: Revision,
    /// Something was written since the last sync.
    dirty: bool,
}

impl Archive {
    /// Opens the archive of a node, or an empty one.
    pub(crate) fn open(dir: &Path, bounds: Bounds) -> Result<Self, StoreError> {
        let engine = open_rebuildable(dir, CACHE_BYTES)?;
        let (complete_after, stored) = marks(engine.get(MARKS)?.as_deref());
        let mut counts: BTreeMap<LockName, usize> = BTreeMap::new();
        let mut total = 0;
        engine.scan(b"o", b"p", Order::Ascending, &mut |_, lock| {
            if let Some(lock) = lock_of(&lock) {
                *counts.entry(lock).or_default() += 1;
                total += 1;
            }
            Ok(true)
        })?;
        let dirty = false;
        Ok(Self { engine, bounds, counts, total, complete_after, stored, dirty })
    }

    /// Everything up to here is stored.
    pub(crate) fn stored(&self) -> Revision {
        self.stored
    }

    /// Something that ended up to here is not known. Kept with the next holds that are added.
    pub(crate) fn gap(&mut self, until: Revision) {
        self.complete_after = self.complete_after.max(until);
    }

    /// Nothing that ended after this is missing, whatever the lock.
    pub(crate) fn complete_after(&self) -> Revision {
        self.complete_after
    }

    /// Adds holds; those that are there already change nothing. `stored`: nothing up to here is missing with them.
    pub(crate) fn add(
        &mut self,
        holds: &[PastHold],
        stored: Option<Revision>,
    ) -> Result<(), StoreError> {
        let mut batch = WriteBatch::default();
        let mut touched = BTreeSet::new();
        for hold in holds.iter().filter(|hold| hold.ended_in > self.stored) {
            let Ok(bytes) = holdfast_codec::encode(Kind::PastHold, hold) else { continue };
            batch.put(&hold_key(&hold.lock, hold.token), bytes);
            batch
                .put(&order_key(hold.ended_in, hold.token), hold.lock.as_str().as_bytes().to_vec());
            *self.counts.entry(hold.lock.clone()).or_default() += 1;
            self.total += 1;
            touched.insert(hold.lock.clone());
        }
        self.stored = self.stored.max(stored.unwrap_or_default());
        self.put_marks(&mut batch);
        self.dirty = true;
        self.engine.write(&batch)?;
        for lock in &touched {
            self.trim_lock(lock)?;
        }
        self.trim_all()
    }

    /// Makes what was added survive.
    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        if !std::mem::take(&mut self.dirty) {
            return Ok(());
        }
        self.engine.sync()
    }

    /// What is known of a lock.
    pub(crate) fn find(&self, question: &Question) -> Result<Found, StoreError> {
        let (from, to) = range_of(&question.lock);
        let mut holds = Vec::new();
        self.engine.scan(&from, &to, Order::Descending, &mut |_, bytes| {
            if let Ok(hold) = holdfast_codec::decode::<PastHold>(Kind::PastHold, &bytes) {
                match question.at {
                    Some(at) if hold.until <= at => return Ok(false),
                    Some(at) if hold.since > at => return Ok(true),
                    Some(_) | None => holds.push(hold),
                }
            }
            Ok(holds.len() < question.limit)
        })?;
        let of_lock = self.engine.get(&complete_key(&question.lock))?;
        let of_lock = Revision(of_lock.as_deref().and_then(number).unwrap_or_default());
        Ok(Found { holds, complete_after: self.complete_after.max(of_lock) })
    }

    /// The oldest holds of a lock that has too many go.
    fn trim_lock(&mut self, lock: &LockName) -> Result<(), StoreError> {
        let count = self.counts.get(lock).copied().unwrap_or_default();
        let mut excess = count.saturating_sub(self.bounds.per_lock_max);
        if excess == 0 {
            return Ok(());
        }
        let (from, to) = range_of(lock);
        let (mut batch, mut gone, mut after) = (WriteBatch::default(), 0, Revision(0));
        self.engine.scan(&from, &to, Order::Ascending, &mut |key, bytes| {
            batch.delete(key);
            if let Ok(hold) = holdfast_codec::decode::<PastHold>(Kind::PastHold, &bytes) {
                batch.delete(&order_key(hold.ended_in, hold.token));
                after = after.max(hold.ended_in);
            }
            (gone, excess) = (gone + 1, excess - 1);
            Ok(excess > 0)
        })?;
        batch.put(&complete_key(lock), after.0.to_be_bytes().to_vec());
        self.counts.insert(lock.clone(), count - gone);
        self.total -= gone;
        self.engine.write(&batch)
    }

    /// The oldest holds of all go, if there are too many.
    fn trim_all(&mut self) -> Result<(), StoreError> {
        let mut excess = self.total.saturating_sub(self.bounds.holds_max);
        if excess == 0 {
            return Ok(());
        }
        let (mut batch, mut gone) = (WriteBatch::default(), Vec::new());
        self.engine.scan(b"o", b"p", Order::Ascending, &mut |key, lock| {
            batch.delete(key);
            if let (Some(lock), Some((ended_in, token))) = (lock_of(&lock), order_of(key)) {
                batch.delete(&hold_key(&lock, token));
                gone.push((lock, ended_in));
            }
            excess -= 1;
            Ok(excess > 0)
        })?;
        for (lock, ended_in) in gone {
            self.complete_after = self.complete_after.max(ended_in);
            self.total -= 1;
            if let Some(count) = self.counts.get_mut(&lock) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&lock);
                    batch.delete(&complete_key(&lock));
                }
            }
        }
        self.put_marks(&mut batch);
        self.engine.write(&batch)
    }

    fn put_marks(&self, batch: &mut WriteBatch) {
        let mut marks = self.complete_after.0.to_be_bytes().to_vec();
        marks.extend(self.stored.0.to_be_bytes());
        batch.put(MARKS, marks);
    }
}

fn marks(bytes: Option<&[u8]>) -> (Revision, Revision) {
    let (first, second) = bytes.and_then(|bytes| bytes.split_at_checked(8)).unwrap_or_default();
    (Revision(number(first).unwrap_or_default()), Revision(number(second).unwrap_or_default()))
}

fn number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

fn lock_of(bytes: &[u8]) -> Option<LockName> {
    LockName::new(std::str::from_utf8(bytes).ok()?).ok()
}

fn hold_key(lock: &LockName, token: FencingToken) -> Vec<u8> {
    let mut key = range_of(lock).0;
    key.extend(token.0.to_be_bytes());
    key
}

/// All holds of a lock: no name contains a zero.
fn range_of(lock: &LockName) -> (Vec<u8>, Vec<u8>) {
    let end = |last| [b"h", lock.as_str().as_bytes(), &[last]].concat();
    (end(0), end(1))
}

fn order_key(ended_in: Revision, token: FencingToken) -> Vec<u8> {
    [b"o".as_slice(), &ended_in.0.to_be_bytes(), &token.0.to_be_bytes()].concat()
}

fn order_of(key: &[u8]) -> Option<(Revision, FencingToken)> {
    let (ended_in, token) = key.get(1..)?.split_at_checked(8)?;
    Some((Revision(number(ended_in)?), FencingToken(number(token)?)))
}

fn complete_key(lock: &LockName) -> Vec<u8> {
    [b"c", lock.as_str().as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { holds_max: 6, per_lock_max: 3 };

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

    fn tokens(archive: &Archive, name: &str, at: Option<u64>) -> (Vec<u64>, u64) {
        let question = Question { lock: lock(name), at: at.map(Stamp), limit: 100 };
        let found = archive.find(&question).unwrap();
        (found.holds.iter().map(|hold| hold.token.0).collect(), found.complete_after.0)
    }

    #[test]
    fn the_hold_at_a_time_is_found_and_neighbouring_names_are_not_mixed_up() {
        let dir = tempfile::tempdir().unwrap();
        let mut archive = Archive::open(dir.path(), BOUNDS).unwrap();
        archive.add(&[hold("a", 1), hold("a/b", 2), hold("a", 3)], None).unwrap();
        assert_eq!(tokens(&archive, "a", None), (vec![3, 1], 0));
        assert_eq!(tokens(&archive, "a/b", None), (vec![2], 0));
        assert_eq!(tokens(&archive, "a", Some(15)), (vec![1], 0));
        assert_eq!(tokens(&archive, "a", Some(25)), (vec![], 0));
        assert_eq!(tokens(&archive, "a", Some(30)), (vec![3], 0));
        assert_eq!(tokens(&archive, "a", Some(40)), (vec![], 0));
    }

    #[test]
    fn the_oldest_make_room_and_it_is_said_from_where_on_all_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let mut archive = Archive::open(dir.path(), BOUNDS).unwrap();
        let holds: Vec<_> = (1..=5).map(|revision| hold("a", revision)).collect();
        archive.add(&holds, None).unwrap();
        assert_eq!(tokens(&archive, "a", None), (vec![5, 4, 3], 2));
        assert_eq!(tokens(&archive, "b", None), (vec![], 0));
        archive.add(&[hold("b", 6), hold("c", 7), hold("d", 8), hold("e", 9)], None).unwrap();
        assert_eq!(tokens(&archive, "a", None), (vec![5, 4], 3));
        assert_eq!(tokens(&archive, "b", None), (vec![6], 3));
        assert_eq!((archive.total, archive.counts.len()), (6, 5));
    }

    #[test]
    fn a_restart_finds_everything_again_and_a_replay_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut archive = Archive::open(dir.path(), BOUNDS).unwrap();
        let holds: Vec<_> = (1..=5).map(|revision| hold("a", revision)).collect();
        archive.add(&holds, Some(Revision(5))).unwrap();
        archive.sync().unwrap();
        drop(archive);
        let mut archive = Archive::open(dir.path(), BOUNDS).unwrap();
        assert_eq!(archive.stored(), Revision(5));
        archive.add(&holds, None).unwrap();
        assert_eq!(tokens(&archive, "a", None), (vec![5, 4, 3], 2));
        archive.gap(Revision(9));
        archive.add(&[hold("a", 10)], Some(Revision(10))).unwrap();
        assert_eq!(tokens(&archive, "a", None), (vec![10, 5, 4], 9));
    }
}
