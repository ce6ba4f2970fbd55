//! What latches, barriers, double barriers and counters answer, and the facts of their problems.

use serde::{Deserialize, Serialize};

use holdfast_types::{
    BarrierView, Breach, BreachCause, CounterView, LatchView, RecipeName, RequestId, Revision,
    SessionEnd, SessionName, Tripped,
};

/// A latch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatchBody {
    /// Its name.
    pub latch: RecipeName,
    /// What it was made with.
    pub count: u32,
    /// What is left.
    pub left: u32,
    /// True at zero, and from then on.
    pub open: bool,
    /// Keys that are counted when their sessions end.
    pub promised: u32,
    /// The revision of this answer.
    pub revision: Revision,
}

impl LatchBody {
    /// The body for a latch.
    pub fn new(latch: RecipeName, view: LatchView, revision: Revision) -> Self {
        let LatchView { count, left, promised, made: _ } = view;
        Self { latch, count, left, open: left == 0, promised, revision }
    }
}

/// The answer to a count-down; the same for every retry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountDownBody {
    /// The latch.
    pub latch: RecipeName,
    /// What was counted.
    pub key: RequestId,
    /// What was left right after it was counted.
    pub left: u32,
    /// False if it was not counted: the latch was open before, or the session still lives.
    pub counted: bool,
}

/// The answer to an arrival that passed; the same for every retry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PassedBody {
    /// The barrier, or the double barrier.
    pub barrier: RecipeName,
    /// Larger than that of every generation before.
    pub generation: Revision,
    /// The place in the order of arrival, from 0.
    pub index: u32,
    /// How many passed together.
    pub parties: u32,
}

impl PassedBody {
    /// The body for an arrival that passed.
    pub fn new(barrier: RecipeName, passed: &Tripped) -> Self {
        let Tripped { generation, index, parties } = *passed;
        Self { barrier, generation, index, parties }
    }
}

/// The answer to leaving a double barrier: everybody is out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftBody {
    /// The double barrier.
    pub barrier: RecipeName,
    /// False if there was nothing to leave, any more.
    pub left: bool,
}

/// A barrier, or a double barrier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GateBody {
    /// Its name.
    pub barrier: RecipeName,
    /// How many pass together; 0 if nobody is there.
    pub parties: u32,
    /// Of a barrier: the generation that gathers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<Revision>,
    /// Who has arrived and waits, in order; at most 100.
    pub arrived: Vec<SessionName>,
    /// Of a double barrier: the round that goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<Revision>,
    /// Of a double barrier: who is inside, in order; at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<SessionName>,
    /// The revision of this answer.
    pub revision: Revision,
}

impl GateBody {
    /// The body for a barrier.
    pub fn new(barrier: RecipeName, view: BarrierView, revision: Revision) -> Self {
        let BarrierView { parties, generation, arrived, round, inside } = view;
        Self { barrier, parties, generation, arrived, round, inside, revision }
    }
}

/// A counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CounterBody {
    /// Its name.
    pub counter: RecipeName,
    /// The revision of its last change; 0 if there was none. The same as `ETag`.
    pub version: u64,
    /// Its value.
    pub value: i64,
}

impl CounterBody {
    /// The body for a counter.
    pub fn new(counter: RecipeName, view: CounterView) -> Self {
        Self { counter, value: view.value, version: view.version }
    }
}

/// Why a barrier broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BreachBody {
    /// A member left.
    Left,
    /// A member's wait ended.
    TimedOut,
    /// A member's session was closed.
    SessionClosed,
    /// A member's session expired.
    SessionExpired,
}

impl From<BreachCause> for BreachBody {
    fn from(cause: BreachCause) -> Self {
        match cause {
            BreachCause::Left => Self::Left,
            BreachCause::TimedOut => Self::TimedOut,
            BreachCause::SessionEnded(SessionEnd::Closed) => Self::SessionClosed,
            BreachCause::SessionEnded(SessionEnd::Expired) => Self::SessionExpired,
        }
    }
}

/// Facts that problems of recipes carry; each only where it says something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecipeFacts {
    /// Of a latch: what it was made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Of a latch: what is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u32>,
    /// Of a barrier: how many pass together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parties: Option<u32>,
    /// Of a barrier: how many had arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived: Option<u32>,
    /// Of a double barrier: how many are still inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<u32>,
    /// Of a barrier: which generation, or which round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<Revision>,
    /// Why it broke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<BreachBody>,
    /// Of a counter: its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<i64>,
}

impl RecipeFacts {
    /// The facts of a barrier that broke; who broke it is told as the session.
    pub fn of_breach(breach: &Breach) -> Self {
        let (generation, cause) = (Some(breach.generation), Some(breach.cause.into()));
        Self { generation, cause, ..Self::default() }
    }
}
