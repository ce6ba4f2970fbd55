//! The holders of a lock: their modes, permits, slots, tokens and ends.
//!
//! A query costs a few steps, regardless of the number of holders. Nearly all locks have one holder, which needs no
//! memory beyond its entry. Bound: the total number of entries of all sessions.

use std::sync::Arc;

use holdfast_types::{FencingToken, Mode, Stamp};
use imbl::{OrdMap, OrdSet};

use crate::lock::entry_name::EntryRecipe;
use crate::lock::lock_entry::LockEntry;

/// The holders of a lock. Invariants: each has a hold; [`ManyHolders`] has at least two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Holders {
    #[default]
    None,
    One(Arc<LockEntry>),
    Many(Box<ManyHolders>),
}

/// At least two holders. The other fields are derived from the first map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ManyHolders {
    by_sequence: OrdMap<u64, Arc<LockEntry>>,
    by_token: OrdMap<FencingToken, u64>,
    /// Ends of holds that do not depend on their sessions: `max_hold` and revoke deadlines.
    ends: OrdSet<(Stamp, u64)>,
    permits: u64,
    /// The number of exclusive holders.
    exclusive: u64,
    /// The upgradable holders; a correct grant leaves at most one.
    upgradable: OrdSet<u64>,
    /// The holders that are HTTP callers.
    own: u64,
    /// Those that Curator's readers take for exclusive.
    read_as_exclusive: u64,
    slots: Slots,
}

/// Slots in use, stored as an end and the free slots below it, so that the lowest free slot is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Slots {
    /// Invariant: the largest slot in use plus one; 0 if no slot is in use.
    end: u32,
    /// Free slots below the end.
    gaps: OrdSet<u32>,
}

impl Slots {
    fn take(&mut self, slot: u32) {
        if slot < self.end {
            self.gaps.remove(&slot);
            return;
        }
        self.gaps.extend(self.end..slot);
        self.end = slot.saturating_add(1);
    }

    fn give(&mut self, slot: u32) {
        self.gaps.insert(slot);
        while self.end > 0 && self.gaps.remove(&(self.end - 1)).is_some() {
            self.end -= 1;
        }
    }

    fn free(&self) -> impl Iterator<Item = u32> {
        self.gaps.iter().copied().chain(self.end..)
    }
}

impl ManyHolders {
    fn add(&mut self, holder: Arc<LockEntry>) {
        let (sequence, Some(hold)) = (holder.sequence(), &holder.hold) else { return };
        self.by_token.insert(hold.token, sequence);
        self.ends.extend(holder.next_end().map(|(end, _)| (end, sequence)));
        self.permits += u64::from(holder.permits);
        match hold.mode {
            Mode::Exclusive => self.exclusive += 1,
            Mode::Upgradable => drop(self.upgradable.insert(sequence)),
            Mode::Shared => {}
        }
        self.own += u64::from(holder.recipe() == EntryRecipe::Own);
        self.read_as_exclusive += u64::from(holder.is_read_as_exclusive());
        hold.slots.iter().for_each(|slot| self.slots.take(*slot));
        self.by_sequence.insert(sequence, holder);
    }

    fn remove(&mut self, sequence: u64) -> Option<Arc<LockEntry>> {
        let holder = self.by_sequence.remove(&sequence)?;
        self.own -= u64::from(holder.recipe() == EntryRecipe::Own);
        self.read_as_exclusive -= u64::from(holder.is_read_as_exclusive());
        if let Some(hold) = &holder.hold {
            self.by_token.remove(&hold.token);
            self.permits = self.permits.saturating_sub(holder.permits.into());
            match hold.mode {
                Mode::Exclusive => self.exclusive = self.exclusive.saturating_sub(1),
                Mode::Upgradable => drop(self.upgradable.remove(&sequence)),
                Mode::Shared => {}
            }
            hold.slots.iter().for_each(|slot| self.slots.give(*slot));
        }
        if let Some((end, _)) = holder.next_end() {
            self.ends.remove(&(end, sequence));
        }
        Some(holder)
    }
}

impl Holders {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(_) => 1,
            Self::Many(many) => many.by_sequence.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Adds a holder, or replaces the one with the same sequence number.
    pub(crate) fn put(&mut self, holder: Arc<LockEntry>) {
        match self {
            Self::None => *self = Self::One(holder),
            Self::One(one) if one.sequence() == holder.sequence() => *one = holder,
            Self::One(one) => {
                let mut many = Box::<ManyHolders>::default();
                many.add(Arc::clone(one));
                many.add(holder);
                *self = Self::Many(many);
            }
            Self::Many(many) => {
                many.remove(holder.sequence());
                many.add(holder);
            }
        }
    }

    pub(crate) fn remove(&mut self, sequence: u64) -> Option<Arc<LockEntry>> {
        match self {
            Self::One(one) if one.sequence() == sequence => {
                let one = Arc::clone(one);
                *self = Self::None;
                Some(one)
            }
            Self::None | Self::One(_) => None,
            Self::Many(many) => {
                let holder = many.remove(sequence);
                if many.by_sequence.len() == 1
                    && let Some((_, last)) = many.by_sequence.get_min()
                {
                    *self = Self::One(Arc::clone(last));
                }
                holder
            }
        }
    }

    pub(crate) fn get(&self, sequence: u64) -> Option<&Arc<LockEntry>> {
        match self {
            Self::One(one) if one.sequence() == sequence => Some(one),
            Self::None | Self::One(_) => None,
            Self::Many(many) => many.by_sequence.get(&sequence),
        }
    }

    /// All holders, in the order of their sequence numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<LockEntry>> {
        let (one, many) = match self {
            Self::None => (None, None),
            Self::One(one) => (Some(one), None),
            Self::Many(many) => (None, Some(many.by_sequence.values())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// The holder with the smallest sequence number.
    pub(crate) fn first(&self) -> Option<&Arc<LockEntry>> {
        self.iter().next()
    }

    pub(crate) fn of_token(&self, token: FencingToken) -> Option<&Arc<LockEntry>> {
        match self {
            Self::One(one) if one.token() == Some(token) => Some(one),
            Self::None | Self::One(_) => None,
            Self::Many(many) => many.by_sequence.get(many.by_token.get(&token)?),
        }
    }

    /// The smallest and the largest token of the holders.
    pub(crate) fn tokens(&self) -> Option<(FencingToken, FencingToken)> {
        match self {
            Self::None => None,
            Self::One(one) => one.token().map(|token| (token, token)),
            Self::Many(many) => Some((many.by_token.get_min()?.0, many.by_token.get_max()?.0)),
        }
    }

    /// The grant of the oldest hold: the one with the smallest token.
    pub(crate) fn held_since(&self) -> Option<Stamp> {
        let (oldest, _) = self.tokens()?;
        self.of_token(oldest)?.hold.as_ref().map(|hold| hold.granted_at)
    }

    /// The sum of the permits of all holders.
    pub(crate) fn permits(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::One(one) => one.permits.into(),
            Self::Many(many) => many.permits,
        }
    }

    /// The earliest end of a hold, and the sequence number of its holder.
    pub(crate) fn first_end(&self) -> Option<(Stamp, u64)> {
        match self {
            Self::None => None,
            Self::One(one) => one.next_end().map(|(end, _)| (end, one.sequence())),
            Self::Many(many) => many.ends.get_min().copied(),
        }
    }

    /// The upgradable holder.
    pub(crate) fn upgradable(&self) -> Option<&Arc<LockEntry>> {
        match self {
            Self::One(one) if holds(one, Mode::Upgradable) => Some(one),
            Self::None | Self::One(_) => None,
            Self::Many(many) => many.by_sequence.get(many.upgradable.get_min()?),
        }
    }

    /// The holder that waits for an upgrade to exclusive.
    pub(crate) fn upgrading(&self) -> Option<&Arc<LockEntry>> {
        self.upgradable().filter(|holder| holder.converts())
    }

    /// True without a ZooKeeper client, which holds a semaphore alone.
    pub(crate) fn are_http_callers(&self) -> bool {
        match self {
            Self::None => true,
            Self::One(one) => one.recipe() == EntryRecipe::Own,
            Self::Many(many) => many.own == many.by_sequence.len() as u64,
        }
    }

    pub(crate) fn have_http_caller(&self) -> bool {
        match self {
            Self::None => false,
            Self::One(one) => one.recipe() == EntryRecipe::Own,
            Self::Many(many) => many.own > 0,
        }
    }

    /// Whether the holders admit another holder, on a lock that is not a semaphore.
    pub(crate) fn admit(&self, mode: Mode, recipe: EntryRecipe) -> bool {
        let waits = match (self, recipe) {
            (Self::None, _)
            | (_, EntryRecipe::Own | EntryRecipe::Exclusive | EntryRecipe::Unknown) => false,
            (Self::One(one), _) => one.makes_wait(recipe),
            (Self::Many(many), EntryRecipe::KazooReader) => many.own > 0,
            (Self::Many(many), EntryRecipe::CuratorReader) => many.read_as_exclusive > 0,
        };
        !waits && self.admit_mode(mode)
    }

    fn admit_mode(&self, mode: Mode) -> bool {
        let exclusively = match self {
            Self::None => return true,
            Self::One(one) => holds(one, Mode::Exclusive),
            Self::Many(many) => many.exclusive > 0,
        };
        match mode {
            _ if exclusively || self.upgrading().is_some() => false,
            Mode::Exclusive => false,
            Mode::Shared => true,
            Mode::Upgradable => self.upgradable().is_none(),
        }
    }

    /// Returns the `count` lowest free slots, sorted.
    pub(crate) fn free_slots(&self, count: u32) -> Arc<[u32]> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        match self {
            Self::None => (0..).take(count).collect(),
            Self::One(one) => {
                let taken = one.hold.as_ref().map(|hold| Arc::clone(&hold.slots));
                let taken = taken.unwrap_or_default();
                (0..).filter(|slot| taken.binary_search(slot).is_err()).take(count).collect()
            }
            Self::Many(many) => many.slots.free().take(count).collect(),
        }
    }
}

fn holds(entry: &LockEntry, mode: Mode) -> bool {
    entry.hold.as_ref().is_some_and(|hold| hold.mode == mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_slots_are_reused_lowest_first() {
        let mut slots = Slots::default();
        let free = |slots: &Slots, count| slots.free().take(count).collect::<Vec<_>>();
        assert_eq!(free(&slots, 2), [0, 1]);
        (0..4).for_each(|slot| slots.take(slot));
        slots.give(1);
        assert_eq!(free(&slots, 3), [1, 4, 5]);
        slots.give(3);
        slots.give(2);
        assert_eq!((slots.end, free(&slots, 2)), (1, vec![1, 2]));
        slots.take(3);
        assert_eq!(free(&slots, 3), [1, 2, 4]);
        slots.give(3);
        slots.give(0);
        assert_eq!(slots, Slots::default());
    }
}
