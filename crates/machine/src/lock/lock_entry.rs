//! An entry in a lock's queue, held or waiting, and the claims that keep it.
//!
//! The entry is the typed metadata of its znode. A queue may have many waiters, so rarely used fields are behind a
//! pointer ([`AcquireOptions`], [`Hold`]). Bounds: claims by `hold_count_max`, the value by
//! [`AcquireOptions::VALUE_MAX`], slots by the permits, which `LockPolicy::LIMIT_MAX` bounds.

use std::sync::Arc;

use holdfast_types::{
    AcquireOptions, Attempt, Data, FencingToken, LockName, LockSet, LossCause, Mode, Owner,
    ReleaseRequest, Revision, SessionId, SessionName, ShardRequest, Stamp, Ticket, ZnodePath,
};
use serde::{Deserialize, Serialize};

use crate::context::ApplyContext;
use crate::lock::claims::Claims;
use crate::lock::entry_name::{EntryRecipe, is_own_name_shared};
use crate::lock::rank::{GrantRequest, PlaceAhead, Rank};

/// A holder or a waiter. The znode and the index share it; a change replaces it in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockEntry {
    pub(crate) path: ZnodePath,
    /// The position in the queue; includes the sequence number in the directory.
    pub(crate) rank: Rank,
    pub(crate) session: SessionId,
    pub(crate) session_name: SessionName,
    pub(crate) owner: Owner,
    pub(crate) ticket: Ticket,
    /// The revision of the owner's latest acquire; initially the ticket.
    pub(crate) requested_in: Revision,
    pub(crate) since: Stamp,
    /// The maximum wait of the caller in milliseconds after `requested_in`; `None` waits as long as the session lives.
    pub(crate) wait_ms: Option<u64>,
    pub(crate) claims: Claims,
    /// The requested mode: the strongest one of the claims. A holder in another mode waits for the conversion.
    pub(crate) mode: Mode,
    pub(crate) permits: u32,
    /// Never overtaken: a ZooKeeper client decides by the order of the children itself.
    pub(crate) never_overtaken: bool,
    /// The attempt that set the value. An older one does not replace it.
    pub(crate) value_by: Attempt,
    /// Options that differ from the default. Invariant: never [`AcquireOptions::PLAIN`].
    pub(crate) options: Option<Box<AcquireOptions>>,
    /// Whether it may move to another shard of the lock while it waits.
    pub(crate) any_shard: bool,
    /// All locks of the multi-lock, including this one; `None` for a single lock.
    pub(crate) multi_lock: Option<Arc<LockSet>>,
    /// `Some` exactly while the entry holds the lock.
    pub(crate) hold: Option<Box<Hold>>,
}

/// A waiter for any shard of a lock, in the order in which these waiters get a shard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AnyShardWaiter {
    pub(crate) sharded: LockName,
    precedence: (u8, i64, Ticket),
    pub(crate) shard: LockName,
    pub(crate) rank: Rank,
}

impl AnyShardWaiter {
    /// `None` for a holder, and for a waiter that stays in its queue.
    pub(crate) fn of(shard: &LockName, entry: &LockEntry) -> Option<Self> {
        let may_move = entry.any_shard && entry.hold.is_none();
        let sharded = ShardRequest::sharded_name(shard).filter(|_| may_move)?;
        Some(Self {
            sharded: LockName::new(sharded).ok()?,
            precedence: entry.precedence(),
            shard: shard.clone(),
            rank: entry.rank,
        })
    }
}

/// The state that a grant adds to an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Hold {
    pub(crate) token: FencingToken,
    /// The token of the first grant; an upgrade replaces `token` alone.
    pub(crate) first_token: FencingToken,
    pub(crate) granted_at: Stamp,
    pub(crate) granted_in: Revision,
    pub(crate) mode: Mode,
    /// The first grant; unlike `granted_at`, an upgrade does not change it.
    pub(crate) since: Stamp,
    /// The slots of a semaphore, one for each permit, sorted; empty for other locks.
    pub(crate) slots: Arc<[u32]>,
    pub(crate) release_request: Option<Box<ReleaseRequest>>,
}

/// An owner in a live session.
#[derive(Debug)]
pub(crate) struct SessionOwner {
    pub(crate) id: SessionId,
    pub(crate) session: SessionName,
    pub(crate) owner: Owner,
}

/// The bytes of one of [`Hold::slots`].
pub(crate) const SLOT_BYTES: usize = size_of::<u32>();

/// Returns `None` for the default options.
pub(crate) fn boxed_unless_plain(options: AcquireOptions) -> Option<Box<AcquireOptions>> {
    (options != AcquireOptions::PLAIN).then(|| Box::new(options))
}

impl LockEntry {
    /// Creates a waiting entry of an acquire without options.
    pub(crate) fn new(
        path: ZnodePath,
        rank: Rank,
        owner: SessionOwner,
        claims: Claims,
        ctx: &ApplyContext<'_>,
    ) -> Self {
        let SessionOwner { id, session, owner } = owner;
        Self {
            path,
            rank,
            session: id,
            session_name: session,
            owner,
            ticket: Ticket(ctx.revision.0),
            requested_in: ctx.revision,
            since: ctx.now,
            wait_ms: None,
            mode: claims.mode(),
            value_by: claims.newest(),
            claims,
            permits: 1,
            never_overtaken: false,
            any_shard: false,
            options: None,
            multi_lock: None,
            hold: None,
        }
    }

    /// Bytes that the client has stored in the entry. A grant must not exceed the bound, so the slots of a waiter count. A
    /// client of ZooKeeper cannot choose its permits: they do not count.
    pub(crate) fn bytes(&self) -> usize {
        let AcquireOptions { value, durable, .. } = self.options();
        let value = value.as_ref().map_or(0, |value| value.len());
        let reason = durable.as_ref().map_or(0, |reason| reason.as_str().len());
        let slots = self.permits.saturating_sub(1);
        let slots = if slots > 0 && self.recipe() != EntryRecipe::Own { 0 } else { slots };
        let names = self.multi_lock.iter().flat_map(|locks| locks.iter());
        self.owner.as_str().len()
            + value
            + SLOT_BYTES * slots as usize
            + reason
            + names.map(|lock| lock.as_str().len()).sum::<usize>()
    }

    pub(crate) fn options(&self) -> &AcquireOptions {
        self.options.as_deref().unwrap_or(&AcquireOptions::PLAIN)
    }

    pub(crate) fn has_value(&self, value: &Data) -> bool {
        self.options().value.as_ref() == Some(value)
    }

    pub(crate) fn request(&self) -> GrantRequest {
        let priority = self.options().priority;
        GrantRequest {
            mode: self.mode,
            permits: self.permits,
            priority,
            never_overtaken: self.never_overtaken,
            recipe: self.recipe(),
        }
    }

    pub(super) fn place_ahead(&self) -> PlaceAhead<'_> {
        PlaceAhead {
            request: self.request(),
            rank: self.rank,
            any_shard: self.any_shard,
            agent: (self.session, &self.owner),
        }
    }

    /// The program that orders the queue for this entry.
    pub(crate) fn recipe(&self) -> EntryRecipe {
        if self.never_overtaken && !self.is_of_multi_lock() {
            EntryRecipe::of(self.path.file_name())
        } else {
            EntryRecipe::Own
        }
    }

    /// Whether Curator's readers take this entry for exclusive. The name keeps the mode that the entry had at first.
    pub(crate) fn is_read_as_exclusive(&self) -> bool {
        self.recipe() == EntryRecipe::Own && !is_own_name_shared(self.path.file_name())
    }

    /// Whether an entry of this recipe waits for this holder, even if their modes are compatible.
    pub(crate) fn makes_wait(&self, recipe: EntryRecipe) -> bool {
        match recipe {
            EntryRecipe::KazooReader => self.recipe() == EntryRecipe::Own,
            EntryRecipe::CuratorReader => self.is_read_as_exclusive(),
            EntryRecipe::Own | EntryRecipe::Exclusive | EntryRecipe::Unknown => false,
        }
    }

    /// The order of the waiters of different queues.
    pub(crate) fn precedence(&self) -> (u8, i64, Ticket) {
        (self.rank.class, self.rank.at, self.ticket)
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.rank.sequence
    }

    pub(crate) fn token(&self) -> Option<FencingToken> {
        self.hold.as_ref().map(|hold| hold.token)
    }

    /// Whether a release by its owner means the hold. A release that was sent before an upgrade has an earlier token.
    pub(crate) fn is_named_by(&self, token: FencingToken) -> bool {
        self.hold.as_ref().is_some_and(|hold| (hold.first_token..=hold.token).contains(&token))
    }

    /// True for a waiter, and for a holder that waits for another mode.
    pub(crate) fn waits(&self) -> bool {
        self.hold.as_ref().is_none_or(|hold| hold.mode != self.mode)
    }

    /// True for a holder that waits for another mode.
    pub(crate) fn converts(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.mode != self.mode)
    }

    pub(crate) fn held_mode(&self) -> Option<Mode> {
        self.hold.as_ref().map(|hold| hold.mode)
    }

    /// Ends the wait of the call that began in this revision ([`Claims::end_wait`]).
    pub(crate) fn end_wait(&self, began: Revision) -> Option<(Option<Claims>, Attempt)> {
        self.claims.end_wait(self.held_mode(), began)
    }

    /// The stamp at which its `max_hold` ends, or a release request revokes it.
    pub(crate) fn ends_at(&self) -> Option<Stamp> {
        self.next_end().map(|(at, _)| at)
    }

    /// The end of its `min_hold`, which may have passed; `None` for a waiter.
    pub(crate) fn min_hold_ends_at(&self) -> Option<Stamp> {
        let since = self.hold.as_ref()?.since;
        Some(Stamp(since.0.saturating_add(self.options().min_hold_ms?)))
    }

    fn max_hold_ends_at(&self) -> Option<Stamp> {
        let since = self.hold.as_ref()?.since;
        Some(Stamp(since.0.saturating_add(self.options().max_hold_ms?)))
    }

    pub(crate) fn release_request(&self) -> Option<&ReleaseRequest> {
        self.hold.as_ref()?.release_request.as_deref()
    }

    /// The stamp at which a timer ends its hold, and the cause.
    pub(crate) fn next_end(&self) -> Option<(Stamp, LossCause)> {
        let ends = self.max_hold_ends_at().map(|end| (end, LossCause::MaxHold));
        let revoked = self.release_request().filter(|request| request.revoke);
        let revoked = revoked.map(|request| (request.deadline, LossCause::Revoked));
        [ends, revoked].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}
