//! One lock: its policy, holders, waiters and cooldowns, and the position that it gives to a new entry.
//!
//! Only [`super::LockIndex`] changes a lock. All other code reads it.

use std::sync::Arc;

use holdfast_types::{FencingToken, LockPolicy, Stamp, ZnodePath};
use imbl::{OrdMap, OrdSet};
use serde::{Deserialize, Serialize};

use crate::lock::cooldown::Cooldowns;
use crate::lock::entry_name::{EntryRecipe, is_own_name_shared};
use crate::lock::holders::Holders;
use crate::lock::lock_entry::LockEntry;
use crate::lock::rank::{GrantRequest, Rank};

/// One lock. It exists from its first grant or policy, or while a multi-lock waits for it, until its directory is
/// deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lock {
    pub(crate) directory: ZnodePath,
    /// The last token minted for it; `None` if it has never been granted.
    pub(crate) last_token: Option<FencingToken>,
    pub(crate) holders: Holders,
    /// Waiters in the order in which they are granted.
    pub(crate) waiters: OrdMap<Rank, Arc<LockEntry>>,
    /// Waiters that are never overtaken.
    pub(crate) never_overtaken: OrdSet<Rank>,
    /// The number of waiters that are multi-lock entries.
    pub(crate) multi_waiters: u32,
    /// The number of waiters that are HTTP callers.
    pub(crate) http_waiters: u32,
    pub(crate) stored_policy: Option<Arc<StoredPolicy>>,
    /// Present while the lock is in cooldown, even if it is held.
    pub(crate) cooldowns: Option<Arc<Cooldowns>>,
}

/// The policy of one lock, as its directory stores it. Invariant: it differs from the default policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct StoredPolicy {
    pub(crate) policy: LockPolicy,
    /// An operator has set the policy: the directory is not swept, so the policy stays.
    pub(crate) kept: bool,
}

/// The position that a lock gives to a new entry. The sequence number of the entry does not change it, because a new entry
/// has the largest one of its directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryPosition {
    /// The rank, with a larger sequence number than every entry.
    pub(crate) rank: Rank,
    /// True if the lock is granted to the entry at once.
    pub(crate) is_admitted: bool,
}

impl EntryPosition {
    /// The position in a lock without entries, policy and cooldown.
    pub(super) fn of_free_lock(request: GrantRequest, now: Stamp) -> Self {
        let rank = Rank::of(&LockPolicy::DEFAULT, request, now, u64::MAX);
        Self { rank, is_admitted: true }
    }

    /// The rank of the entry, once its sequence number is known.
    pub(crate) fn numbered(self, sequence: u64) -> Rank {
        Rank { sequence, ..self.rank }
    }
}

impl Lock {
    pub(crate) fn cooldowns(&self) -> Cooldowns {
        self.cooldowns.as_deref().cloned().unwrap_or(Cooldowns::NONE)
    }

    pub(crate) fn new(directory: ZnodePath) -> Self {
        Self {
            directory,
            last_token: None,
            holders: Holders::default(),
            waiters: OrdMap::new(),
            never_overtaken: OrdSet::new(),
            multi_waiters: 0,
            http_waiters: 0,
            stored_policy: None,
            cooldowns: None,
        }
    }

    pub(crate) fn policy(&self) -> &LockPolicy {
        self.stored_policy
            .as_ref()
            .map_or(&LockPolicy::DEFAULT, |stored_policy| &stored_policy.policy)
    }

    pub(crate) fn waiting(&self) -> u32 {
        u32::try_from(self.waiters.len()).unwrap_or(u32::MAX)
    }

    /// The start of the longest wait. Costs a step for each waiter that a priority has moved forward.
    pub(crate) fn waiting_since(&self) -> Option<Stamp> {
        let mut oldest: Option<Stamp> = None;
        for class in 0..=Rank::CLASS_MAX {
            let of_class = self.waiters.range(Rank::first_of(class)..);
            for (rank, waiter) in of_class.take_while(|(rank, _)| rank.class == class) {
                if oldest.is_some_and(|oldest| rank.is_since(oldest)) {
                    break;
                }
                oldest = Some(oldest.map_or(waiter.since, |oldest| oldest.min(waiter.since)));
            }
        }
        oldest
    }

    /// The number of holders and waiters.
    pub(crate) fn entries(&self) -> u32 {
        let holders = u32::try_from(self.holders.len()).unwrap_or(u32::MAX);
        holders.saturating_add(self.waiting())
    }

    pub(crate) fn entry(&self, rank: &Rank) -> Option<&Arc<LockEntry>> {
        self.holders.get(rank.sequence).or_else(|| self.waiters.get(rank))
    }

    /// The number of waiters before this rank. Costs one step for each of them, except for the last rank.
    pub(crate) fn ahead_of(&self, rank: &Rank) -> u32 {
        match self.waiters.get_max() {
            Some((last, _)) if last == rank => self.waiting() - 1,
            Some(_) | None => {
                u32::try_from(self.waiters.range(..*rank).count()).unwrap_or(u32::MAX)
            }
        }
    }

    /// True if the lock has no cooldown, or the cooldown is over.
    pub(crate) fn is_out_of_cooldown(&self, now: Stamp) -> bool {
        self.cooldowns.as_ref().is_none_or(|cooldowns| cooldowns.until() <= now)
    }

    /// True if an entry is compatible with the current holders.
    pub(crate) fn has_room_for(&self, request: GrantRequest) -> bool {
        match self.policy().limit {
            Some(_) if request.recipe != EntryRecipe::Own => self.holders.is_empty(),
            Some(limit) => {
                self.holders.are_http_callers()
                    && self.holders.permits() + u64::from(request.permits) <= limit.into()
            }
            None => self.holders.admit(request.mode, request.recipe),
        }
    }

    /// True if no other entry holds the lock beside a holder. A reader of Curator that waits here, such as in a cooldown, has
    /// entered unless an earlier name is that of an entry that is not shared.
    pub(crate) fn is_alone(&self, holder: &LockEntry) -> bool {
        let lets_pass = is_own_name_shared(holder.path.file_name());
        let is_inside = |reader: &LockEntry| lets_pass || reader.sequence() < holder.sequence();
        self.holders.len() == 1 && !self.waiting_curator_readers().any(is_inside)
    }

    /// True if a reader of Curator may find another name of a holder that is shared now, and would wait for it.
    pub(crate) fn would_stop_readers(&self, holder: &LockEntry) -> bool {
        is_own_name_shared(holder.path.file_name())
            && (self.holders.iter().any(|other| other.recipe() == EntryRecipe::CuratorReader)
                || self.waiting_curator_readers().next().is_some())
    }

    /// The readers of Curator that wait. Reads all waiters that nobody overtakes.
    fn waiting_curator_readers(&self) -> impl Iterator<Item = &LockEntry> {
        let waiters = self.never_overtaken.iter().filter_map(|rank| self.waiters.get(rank));
        waiters.map(|entry| &**entry).filter(|e| e.recipe() == EntryRecipe::CuratorReader)
    }

    /// The position of a new entry.
    pub(crate) fn position(&self, request: GrantRequest, now: Stamp) -> EntryPosition {
        let rank = Rank::of(self.policy(), request, now, u64::MAX);
        let rank = if request.never_overtaken {
            rank.behind(self.waiters.get_max().map(|(last, _)| last))
        } else {
            rank.behind(self.never_overtaken.get_max())
        };
        let is_first = self.waiters.get_min().is_none_or(|(first, _)| rank < *first);
        let is_admitted = is_first && self.is_out_of_cooldown(now) && self.has_room_for(request);
        EntryPosition { rank, is_admitted }
    }

    /// Adds an entry to the holders or the waiters. Returns false if an entry with its sequence number or rank existed.
    pub(super) fn put(&mut self, entry: Arc<LockEntry>) -> bool {
        if entry.hold.is_some() {
            let own = self.holders.get(entry.sequence()).is_none();
            self.holders.put(entry);
            return own;
        }
        if entry.never_overtaken {
            self.never_overtaken.insert(entry.rank);
        }
        let (of_multi_lock, is_http) = (entry.is_of_multi_lock(), is_http_caller(&entry));
        let new = self.waiters.insert(entry.rank, entry).is_none();
        self.multi_waiters += u32::from(of_multi_lock && new);
        self.http_waiters += u32::from(is_http && new);
        new
    }

    /// As [`Lock::put`], for an entry that may have a new token.
    pub(super) fn put_granted(&mut self, entry: Arc<LockEntry>) -> bool {
        self.last_token = self.last_token.max(entry.token());
        self.put(entry)
    }

    pub(super) fn take(&mut self, rank: &Rank) -> Option<Arc<LockEntry>> {
        if let Some(holder) = self.holders.remove(rank.sequence) {
            return Some(holder);
        }
        self.never_overtaken.remove(rank);
        let waiter = self.waiters.remove(rank)?;
        self.multi_waiters =
            self.multi_waiters.saturating_sub(u32::from(waiter.is_of_multi_lock()));
        self.http_waiters = self.http_waiters.saturating_sub(u32::from(is_http_caller(&waiter)));
        Some(waiter)
    }

    /// True if a holder or a waiter is an HTTP caller.
    pub(crate) fn has_http_caller(&self) -> bool {
        self.http_waiters > 0 || self.holders.have_http_caller()
    }

    /// True if the lock has no state to keep: it was never granted, and has no policy and no entry.
    pub(super) fn is_forgettable(&self) -> bool {
        self.last_token.is_none()
            && self.stored_policy.is_none()
            && self.holders.is_empty()
            && self.waiters.is_empty()
    }

    /// True if no wait and no cooldown can end in this lock.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiters.is_empty() && self.cooldowns.is_none() && self.holders.upgrading().is_none()
    }

    /// True if one of its timers has expired.
    pub(crate) fn is_due(&self, now: Stamp) -> bool {
        self.due().is_some_and(|due| due <= now)
    }

    /// The stamp at which its next timer expires.
    pub(super) fn due(&self) -> Option<Stamp> {
        let end = self.holders.first_end().map(|(end, _)| end);
        let cooldown_end = self.cooldowns.as_ref().map(|cooldowns| cooldowns.until());
        [end, cooldown_end].into_iter().flatten().min()
    }
}

fn is_http_caller(entry: &LockEntry) -> bool {
    entry.recipe() == EntryRecipe::Own
}
