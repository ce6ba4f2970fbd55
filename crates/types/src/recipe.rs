//! Recipes other than locks: commands, replies, events and views of latches, barriers, double barriers and counters.
//!
//! Recipes are stored outside the tree, and each kind has its own name space. Every type is append-only: the order of
//! variants and fields is part of the format.

use serde::{Deserialize, Serialize};

use crate::{
    OpenSession, Owner, RecipeName, RequestId, RequestNumber, Revision, SessionEnd, SessionId,
    SessionName, Ticket, Ttl,
};

/// A change of a recipe. See [`crate::Command::Recipe`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Recipe {
    /// Creates a latch. A latch with the same count stays as it is; another count is rejected.
    MakeLatch {
        latch: RecipeName,
        /// The number of count-downs until it opens, 1 to [`Recipe::COUNT_MAX`].
        count: u32,
    },
    /// Counts a latch down, once for each key.
    CountDown {
        latch: RecipeName,
        /// Identifies the counted event.
        key: RequestId,
    },
    /// Counts a latch down under this key when a session ends, unless the key is counted before. Replaces an earlier
    /// promise of the key.
    Promise {
        latch: RecipeName,
        /// Identifies the counted event.
        key: RequestId,
        /// The session whose end counts. It must be open.
        session: SessionName,
    },
    /// Deletes a latch; its waiters get an error.
    DeleteLatch { latch: RecipeName },
    /// Arrives at a barrier, or at the entrance of a double barrier.
    Arrive(Arrive),
    /// Leaves a barrier, which breaks it; or leaves a double barrier, from inside or while waiting to enter.
    LeaveBarrier(LeaveBarrier),
    /// Withdraws an arrival whose caller no longer waits.
    CancelArrival(CancelArrival),
    /// Changes a counter.
    ChangeCounter(ChangeCounter),
}

impl Recipe {
    /// The maximum count of a latch.
    pub const COUNT_MAX: u32 = 10_000;
    /// The maximum number of parties of a barrier.
    pub const PARTIES_MAX: u32 = 1_000;
    /// The maximum number of arrivals and promises of one session, in all recipes.
    pub const ENTRIES_PER_SESSION_MAX: u32 = 256;
    /// The maximum number of promises of one latch.
    pub const PROMISES_MAX: u32 = 1_000;
    /// The maximum number of arrivals that wait to enter one double barrier.
    pub const WAITING_ARRIVALS_MAX: u32 = 2_000;
}

/// The kind of a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BarrierKind {
    /// Opens once for each generation of members.
    Barrier,
    /// All members enter at once; the round ends when all have left.
    Double,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrive {
    pub barrier_kind: BarrierKind,
    pub name: RecipeName,
    /// The number of members that pass at once, 1 to [`Recipe::PARTIES_MAX`].
    pub parties: u32,
    /// The member's session, opened by the same command if it is new.
    pub open: OpenSession,
    pub owner: Owner,
    /// A copy of the call gets the first final reply.
    pub request: Option<RequestNumber>,
    /// Longest wait in milliseconds. `None` arrives only if the caller passes at once. A repetition replaces it. The
    /// state machine only stores it: a [`Recipe::CancelArrival`] ends the wait.
    pub wait_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaveBarrier {
    pub barrier_kind: BarrierKind,
    pub name: RecipeName,
    pub session: SessionName,
    pub owner: Owner,
    /// The generation or the round to leave; the member stays in any other. `None` means the present one.
    pub generation: Option<Revision>,
    /// The request number of the arrival to withdraw; any other arrival stays, and a later copy of that call does not
    /// arrive. `None` means the present one.
    pub request: Option<RequestNumber>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelArrival {
    pub barrier_kind: BarrierKind,
    pub name: RecipeName,
    pub session: SessionName,
    pub owner: Owner,
    /// Revision of the arrival that the caller waited on ([`Arrived::requested_in`]). Nothing changes if the member has
    /// repeated its arrival since.
    pub requested_in: Revision,
    /// The arrival. If it has a final reply, the command returns that reply.
    pub ticket: Ticket,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeCounter {
    pub counter: RecipeName,
    pub change: CounterChange,
}

/// The change of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CounterChange {
    /// Adds; rejected on overflow of 64 bits.
    Add {
        /// May be negative.
        amount: i64,
    },
    /// Replaces the value.
    Set {
        value: i64,
        /// The required version; 0 means never changed. `None` means any.
        version: Option<u64>,
    },
    /// Deletes the counter; it then reads as 0.
    Delete,
}

/// The reply to [`crate::Recipe::LeaveBarrier`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeaveBarrierReply {
    /// The round and its number of members inside, if other members have not left the double barrier.
    pub leaving: Option<(Revision, u32)>,
    /// False if the caller was not a member.
    pub changed: bool,
}

/// The reply to a change of a recipe. See [`crate::Reply::Recipe`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RecipeReply {
    /// The latch exists.
    Latch {
        view: LatchView,
        /// False if it existed before.
        created: bool,
    },
    /// The key is counted, now or before; or the latch was already open.
    Counted {
        /// The remaining count right after this key.
        left: u32,
        /// False if the latch was open before this key.
        counted: bool,
    },
    /// The end of the session will count the latch down, unless the latch is open or the key is counted.
    Promised {
        /// The remaining count.
        left: u32,
    },
    /// The recipe does not exist any more.
    Deleted {
        /// False if it did not exist before.
        existed: bool,
    },
    /// The caller has arrived and waits for other members.
    Arrived(Arrived),
    /// The caller has passed the barrier, or entered the double barrier.
    Tripped(Tripped),
    /// The caller is not a member any more.
    LeftBarrier(LeaveBarrierReply),
    /// The caller no longer waits.
    ArrivalCancelled,
    /// The counter after the change.
    Counter(CounterView),
}

/// A waiting arrival at a barrier.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Arrived {
    /// Revision of the first arrival.
    pub ticket: Ticket,
    /// Revision of the member's latest repetition of the arrival; the first one's equals the ticket.
    pub requested_in: Revision,
    /// The present generation of a barrier; 0 for a double barrier, whose round gets its number at its start.
    pub generation: Revision,
    /// The number of members that have arrived.
    pub arrived: u32,
    /// The number of members that pass at once.
    pub parties: u32,
    pub session: SessionId,
    /// The TTL of the session.
    pub ttl: Ttl,
}

/// A barrier that opened for the caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tripped {
    /// The revision of the generation's first arrival; of a double barrier, the revision that started the round. Larger
    /// than every earlier one.
    pub generation: Revision,
    /// The caller's position in the order of arrival, from 0.
    pub index: u32,
    /// The number of members that passed.
    pub parties: u32,
}

/// Why a change of a recipe was rejected. See [`crate::Rejection::Recipe`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RecipeRejection {
    /// The latch exists with another count.
    CountMismatch {
        /// The count at its creation.
        count: u32,
    },
    /// The latch does not exist.
    NoLatch,
    /// A count or a number of parties is out of its bounds.
    OutOfBounds {
        /// The maximum; the minimum is 1.
        max: u32,
    },
    /// The barrier has another number of parties.
    PartiesMismatch { parties: u32 },
    /// Other members are missing, and the caller does not wait. Its arrival does not count.
    NotYet {
        /// The number of members that have arrived.
        arrived: u32,
        /// The number of members that pass at once.
        parties: u32,
    },
    /// The generation broke before it opened.
    Broken(Breach),
    /// The counter would overflow 64 bits.
    Overflow {
        /// The present value.
        value: i64,
    },
    /// The counter has another version.
    CounterVersion {
        /// The present version.
        actual: u64,
    },
}

/// A broken generation of a barrier.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Breach {
    pub generation: Revision,
    /// The session that broke it.
    pub session: SessionName,
    pub cause: BreachCause,
}

/// Why a generation broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BreachCause {
    /// A member left.
    Left,
    /// A member's wait timed out.
    TimedOut,
    /// A member's session ended.
    SessionEnded(SessionEnd),
}

/// A change of a recipe that can end a wait. See [`crate::Event::Recipe`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RecipeEvent {
    /// A latch was counted down to zero.
    LatchOpened { latch: RecipeName },
    /// A latch was deleted.
    LatchDeleted { latch: RecipeName },
    /// A barrier opened for the members of a generation, or a round of a double barrier started.
    Opened {
        barrier_kind: BarrierKind,
        name: RecipeName,
        /// The generation, or the round.
        generation: Revision,
    },
    /// A barrier broke for all members that had arrived.
    Broken { name: RecipeName, breach: Breach },
    /// An arrival that waited to enter a double barrier was withdrawn.
    SpaceFreed { name: RecipeName },
    /// The last member has left a double barrier.
    RoundLeft { name: RecipeName, generation: Revision },
}

/// The kind of a recipe, in the order of lists and of snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum RecipeKind {
    Latch,
    Barrier,
    DoubleBarrier,
    Counter,
}

impl RecipeKind {
    pub const ALL: [Self; 4] = [Self::Latch, Self::Barrier, Self::DoubleBarrier, Self::Counter];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Latch => "latch",
            Self::Barrier => "barrier",
            Self::DoubleBarrier => "double-barrier",
            Self::Counter => "counter",
        }
    }
}

/// A recipe in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipeView {
    pub name: RecipeName,
    pub state: RecipeState,
}

/// The state of a recipe in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecipeState {
    /// The initial and the remaining count.
    Latch {
        count: u32,
        left: u32,
    },
    /// The members that pass together, and those that wait.
    Barrier {
        parties: u32,
        arrived: u32,
    },
    /// The members that pass together, those that wait, and those inside.
    DoubleBarrier {
        parties: u32,
        arrived: u32,
        inside: u32,
    },
    Counter {
        value: i64,
    },
}

impl RecipeState {
    pub const fn kind(self) -> RecipeKind {
        match self {
            Self::Latch { .. } => RecipeKind::Latch,
            Self::Barrier { .. } => RecipeKind::Barrier,
            Self::DoubleBarrier { .. } => RecipeKind::DoubleBarrier,
            Self::Counter { .. } => RecipeKind::Counter,
        }
    }
}

/// A latch at one revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LatchView {
    /// The count at its creation.
    pub count: u32,
    /// The remaining count; 0 means open.
    pub left: u32,
    /// The number of keys that are counted when their sessions end.
    pub promised: u32,
    /// Revision of its creation: distinguishes it from other latches of the same name.
    pub created_in: Revision,
}

/// A counter at one revision. A counter that was never changed is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CounterView {
    pub value: i64,
    /// Revision of the last change, so no version is reused; 0 if the counter was never changed.
    pub version: u64,
}

/// A barrier or a double barrier at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BarrierView {
    /// The number of members that pass at once; 0 without members.
    pub parties: u32,
    /// The present generation of a barrier.
    pub generation: Option<Revision>,
    /// The sessions of waiting members, in the order of arrival.
    pub arrived: Vec<SessionName>,
    /// The present round of a double barrier.
    pub round: Option<Revision>,
    /// The sessions of members inside a double barrier, in the order of arrival.
    pub inside: Vec<SessionName>,
}
