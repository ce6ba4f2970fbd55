//! A place in a lock's queue, holding or waiting, and the entries it counts.
//!
//! Owns the typed metadata of a contender's znode. Refuses to know queues and trees.
//! Bounds: entries by `entries_per_hold_max`, memory of entries that left by [`Entries::LEFT_MAX`].

use holdfast_types::{
    EntryId, FencingToken, Owner, Revision, SessionId, SessionName, Stamp, Ticket, ZnodePath,
};

/// One contender. Shared between its znode and the index, replaced in both when it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contender {
    /// Its znode.
    pub(crate) path: ZnodePath,
    /// Its number in the directory: the order of the queue.
    pub(crate) sequence: u64,
    pub(crate) session: SessionId,
    pub(crate) session_name: SessionName,
    pub(crate) owner: Owner,
    pub(crate) ticket: Ticket,
    /// Revision of the owner's latest acquire; equals the ticket at first.
    pub(crate) asked: Revision,
    pub(crate) since: Stamp,
    /// How long its caller waits from there on; none if as long as the session lives.
    pub(crate) wait_ms: Option<u64>,
    pub(crate) entries: Entries,
    /// Present exactly while it holds the lock.
    pub(crate) hold: Option<Hold>,
}

/// What the grant left on a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) token: FencingToken,
    pub(crate) granted_at: Stamp,
    pub(crate) granted_in: Revision,
}

/// The set of entries that keep a contender in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entries {
    /// Sorted, without duplicates, never empty.
    present: Vec<EntryId>,
    /// Those that left, oldest first.
    left: Vec<EntryId>,
}

/// What leaving did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// It was the last one: the place is to be given up.
    Last,
    /// It left, others stay.
    Left,
    /// It had left before.
    LeftBefore,
    /// It was never there, as far as is remembered.
    Unknown,
}

impl Entries {
    /// How many departed entries are remembered; the oldest is forgotten first.
    pub(crate) const LEFT_MAX: usize = 64;

    /// A set of one.
    pub(crate) fn of(entry: EntryId) -> Self {
        Self { present: vec![entry], left: Vec::new() }
    }

    /// A set read from a snapshot; none if it breaks the invariants.
    pub(crate) fn restore(present: Vec<EntryId>, left: Vec<EntryId>) -> Option<Self> {
        let sorted = present.is_sorted_by(|a, b| a < b);
        let sound = sorted && !present.is_empty() && left.len() <= Self::LEFT_MAX;
        sound.then_some(Self { present, left })
    }

    /// How many there are, at least one.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.present.len()).unwrap_or(u32::MAX)
    }

    /// True if this one is counted.
    pub(crate) fn contains(&self, entry: &EntryId) -> bool {
        self.present.binary_search(entry).is_ok()
    }

    /// Counts one more; an entry counted already changes nothing.
    pub(crate) fn enter(&mut self, entry: EntryId) {
        if let Err(at) = self.present.binary_search(&entry) {
            self.left.retain(|left| *left != entry);
            self.present.insert(at, entry);
        }
    }

    /// What [`Entries::leave`] would do.
    pub(crate) fn leaving(&self, entry: &EntryId) -> Leaving {
        match (self.contains(entry), self.present.len()) {
            (true, 1) => Leaving::Last,
            (true, _) => Leaving::Left,
            (false, _) if self.left.contains(entry) => Leaving::LeftBefore,
            (false, _) => Leaving::Unknown,
        }
    }

    /// Stops counting one, unless it is the last.
    pub(crate) fn leave(&mut self, entry: &EntryId) {
        if self.leaving(entry) != Leaving::Left {
            return;
        }
        if let Ok(at) = self.present.binary_search(entry) {
            if self.left.len() >= Self::LEFT_MAX {
                self.left.remove(0);
            }
            self.left.push(self.present.remove(at));
        }
    }

    /// Those that are counted, sorted.
    pub(crate) fn present(&self) -> &[EntryId] {
        &self.present
    }

    /// Those that left, oldest first.
    pub(crate) fn left(&self) -> &[EntryId] {
        &self.left
    }
}
