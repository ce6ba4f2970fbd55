//! Recipes that are not locks: latches, barriers, double barriers and counters. What can be asked of them, what they
//! answer, and how they look.
//!
//! Owns their words. They live beside the tree, each kind with names of its own. Everything here is append-only: the
//! order of variants and fields is part of the format.

use serde::{Deserialize, Serialize};

use crate::{
    OpenSession, Owner, RecipeName, RequestId, Revision, SessionEnd, SessionId, SessionName,
    Ticket, Ttl,
};

/// A change of a recipe. See [`crate::Command::Recipe`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Recipe {
    /// Makes a latch; nothing changes if there is one of the same count.
    MakeLatch {
        latch: RecipeName,
        /// How often it has to be counted down, 1 to [`Recipe::COUNT_MAX`].
        count: u32,
    },
    /// Counts a latch down, once for each key.
    CountDown {
        latch: RecipeName,
        /// Names the event that is counted.
        key: RequestId,
    },
    /// Promises that a latch is counted down under this key when a session ends, if it was not before.
    Promise {
        latch: RecipeName,
        /// Names the event that is counted.
        key: RequestId,
        /// Whose end counts. It must be open.
        session: SessionName,
    },
    /// Removes a latch; whoever waits for it is told.
    DeleteLatch { latch: RecipeName },
    /// Arrives at a barrier, or at a double barrier in order to enter.
    Arrive(Arrive),
    /// Leaves: a barrier breaks, an entered double barrier is left, a place to enter is free again.
    LeaveBarrier(LeaveBarrier),
    /// Ends the wait of an arrival whose caller waits no longer.
    CancelArrival(CancelArrival),
    /// Changes a counter.
    ChangeCounter(ChangeCounter),
}

impl Recipe {
    /// The largest count of a latch.
    pub const COUNT_MAX: u32 = 10_000;
    /// The most parties of a barrier.
    pub const PARTIES_MAX: u32 = 1_000;
    /// Places that one session has in all recipes together: arrivals, and promises.
    pub const PLACES_MAX: u32 = 256;
    /// Promises of one latch at most.
    pub const PROMISES_MAX: u32 = 1_000;
    /// Arrivals that wait to enter one double barrier at most.
    pub const ENTRANTS_MAX: u32 = 2_000;
}

/// Which kind of barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BarrierKind {
    /// Opens once for each generation.
    Barrier,
    /// Is entered together and left together.
    Double,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrive {
    /// Of which kind.
    pub gate: BarrierKind,
    pub name: RecipeName,
    /// How many pass together, 1 to [`Recipe::PARTIES_MAX`].
    pub parties: u32,
    /// For which session; opened in the same step if it is new.
    pub open: OpenSession,
    pub owner: Owner,
    /// A retry under the same id gets the first final answer.
    pub request: Option<RequestId>,
    /// How long the caller waits, milliseconds; none arrives only if that lets it pass at once. Asking again replaces
    /// it. The machine only remembers it: a [`Recipe::CancelArrival`] ends the wait.
    pub wait_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaveBarrier {
    /// Of which kind.
    pub gate: BarrierKind,
    pub name: RecipeName,
    pub session: SessionName,
    pub owner: Owner,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelArrival {
    /// Of which kind.
    pub gate: BarrierKind,
    pub name: RecipeName,
    pub session: SessionName,
    pub owner: Owner,
    /// Revision of the arrival that the caller waited on ([`Arrived::asked`]). If the same member has asked again since,
    /// it still wants the place, and nothing changes.
    pub asked: Revision,
    /// The id of that arrival: what it was answered in the end is the answer to this.
    pub request: Option<RequestId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeCounter {
    pub counter: RecipeName,
    /// Keeper of the memo. It must be open; the change does not renew it.
    pub session: Option<SessionName>,
    /// With a session: a retry under the same id gets the first answer.
    pub request: Option<RequestId>,
    /// What to do.
    pub change: CounterChange,
}

/// What to do with a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CounterChange {
    /// Adds; refused beyond the ends of 64 bits.
    Add {
        /// How much; may be negative.
        amount: i64,
    },
    /// Replaces the value.
    Set {
        /// The new one.
        value: i64,
        /// Only if the counter has this version; 0 means that it has never been changed.
        version: Option<u64>,
    },
    /// Forgets the counter: its value is 0 again.
    Delete,
}

/// The answer to [`crate::Recipe::LeaveBarrier`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeaveBarrierReply {
    /// Of a double barrier that others have not left yet: the round, and how many are inside.
    pub leaving: Option<(Revision, u32)>,
    /// False if there was nothing to leave.
    pub changed: bool,
}

/// What a change of a recipe did. See [`crate::Reply::Recipe`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RecipeReply {
    /// The latch exists.
    Latch {
        /// As it is now.
        view: LatchView,
        /// False if it existed before.
        created: bool,
    },
    /// The latch was counted down under this key, now or before; or it was open already.
    Counted {
        /// What was left right after the key was counted.
        left: u32,
        /// False if the latch was open before the key came.
        counted: bool,
    },
    /// The latch will be counted down when the session ends.
    Promised {
        /// What is left now.
        left: u32,
    },
    /// It is gone.
    Deleted {
        /// False if there was none.
        existed: bool,
    },
    /// The caller has arrived and waits for others.
    Arrived(Arrived),
    /// The caller has passed the barrier, or entered the double barrier.
    Tripped(Tripped),
    /// The caller has left, or was not there.
    LeftBarrier(LeaveBarrierReply),
    /// The caller no longer waits.
    ArrivalCancelled,
    /// The counter as it is now.
    Counter(CounterView),
}

/// A place at a barrier.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Arrived {
    /// The place: revision of the arrival.
    pub ticket: Ticket,
    /// Revision of the member's latest arrival for this place.
    pub asked: Revision,
    /// Of a barrier: the generation that gathers. 0 for a double barrier, whose rounds are numbered when they begin.
    pub generation: Revision,
    /// How many have arrived.
    pub arrived: u32,
    /// How many pass together.
    pub parties: u32,
    pub session: SessionId,
    /// The session's time-to-live.
    pub ttl: Ttl,
}

/// A barrier that opened for the caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tripped {
    /// Of a barrier: the revision of its generation's first arrival; of a double barrier: the revision in which the
    /// round began. Larger than every one before.
    pub generation: Revision,
    /// The caller's place in the order of arrival, from 0.
    pub index: u32,
    /// How many passed together.
    pub parties: u32,
}

/// Why a change of a recipe was refused. See [`crate::Rejection::Recipe`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RecipeRejection {
    /// There is a latch of another count.
    CountMismatch {
        /// The count it was made with.
        count: u32,
    },
    /// There is no such latch.
    NoLatch,
    /// A count or a number of parties is out of its bounds.
    OutOfBounds {
        /// The largest allowed; the smallest is 1.
        max: u32,
    },
    /// The others who have arrived are to pass in another number.
    PartiesMismatch {
        /// Theirs.
        parties: u32,
    },
    /// Others are missing, and the caller did not want to wait. It has not arrived.
    NotYet {
        /// Who has arrived.
        arrived: u32,
        /// How many pass together.
        parties: u32,
    },
    /// The generation broke before it opened.
    Broken(Breach),
    /// The counter would pass an end of 64 bits.
    Overflow {
        /// What it is.
        value: i64,
    },
    /// The counter has another version.
    CounterVersion {
        /// The version it has.
        actual: u64,
    },
}

/// How a generation broke.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Breach {
    pub generation: Revision,
    /// Who broke it.
    pub session: SessionName,
    pub cause: BreachCause,
}

/// Why a generation broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BreachCause {
    /// A member left.
    Left,
    /// A member's wait ended.
    TimedOut,
    /// A member's session ended.
    SessionEnded(SessionEnd),
}

/// What happened to a recipe that somebody may wait for. See [`crate::Event::Recipe`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RecipeEvent {
    /// A latch was counted down to zero.
    LatchOpened { latch: RecipeName },
    /// A latch was removed.
    LatchDeleted { latch: RecipeName },
    /// A generation of a barrier opened for all who had arrived, or a round of a double barrier began.
    Opened {
        /// Of which kind.
        gate: BarrierKind,
        name: RecipeName,
        /// The generation, or the round.
        generation: Revision,
    },
    /// A generation of a barrier broke for all who had arrived.
    Broken { name: RecipeName, breach: Breach },
    /// A place to enter a double barrier is free again.
    PlaceFreed { name: RecipeName },
    /// The last one has left a double barrier.
    Out { name: RecipeName, generation: Revision },
}

/// A latch at one revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LatchView {
    /// What it was made with.
    pub count: u32,
    /// What is left; zero means open.
    pub left: u32,
    /// Keys that are counted when their sessions end.
    pub promised: u32,
    /// Revision that made it: another latch of the same name is another one.
    pub made: Revision,
}

/// A counter at one revision. One that nobody changed is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CounterView {
    pub value: i64,
    /// Revision of its last change; 0 if there was none. So no version ever comes back.
    pub version: u64,
}

/// A barrier or a double barrier at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BarrierView {
    /// How many pass together; 0 if nobody is there.
    pub parties: u32,
    /// Of a barrier: the generation that gathers.
    pub generation: Option<Revision>,
    /// Who has arrived and waits, in order.
    pub arrived: Vec<SessionName>,
    /// Of a double barrier: the round that is inside.
    pub round: Option<Revision>,
    /// Who is inside and has not left, in the order of arrival.
    pub inside: Vec<SessionName>,
}
