//! Latches, barriers, double barriers and counters: bodies.

use holdfast_types::{
    BarrierView, Breach, BreachCause, CounterView, LatchView, Page, RecipeKind, RecipeName,
    RecipeState, RecipeView, RequestId, Revision, SessionEnd, SessionName, Tripped,
};
use serde::{Deserialize, Serialize};

/// A page of the latches, barriers, double barriers and counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecipesBody {
    /// The recipes, ordered by kind and name.
    pub recipes: Vec<ListedRecipeBody>,
    /// The `page_token` of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
    /// The revision of the read.
    pub revision: Revision,
}

impl RecipesBody {
    pub fn new(page: Page<RecipeView>) -> Self {
        Self {
            recipes: page.items.into_iter().map(ListedRecipeBody::new).collect(),
            next_page_token: page.next,
            revision: page.revision,
        }
    }
}

/// A latch, a barrier, a double barrier or a counter, in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListedRecipeBody {
    /// The kind.
    pub kind: RecipeKind,
    /// The name.
    pub name: RecipeName,
    /// The initial count of a latch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// The remaining count of a latch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u32>,
    /// The number of members that pass a barrier together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parties: Option<u32>,
    /// The number of members that wait at a barrier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived: Option<u32>,
    /// The number of members inside a double barrier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<u32>,
    /// The value of a counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<i64>,
}

impl ListedRecipeBody {
    pub fn new(recipe: RecipeView) -> Self {
        let RecipeView { name, state } = recipe;
        let mut body = Self {
            kind: state.kind(),
            name,
            count: None,
            left: None,
            parties: None,
            arrived: None,
            inside: None,
            value: None,
        };
        match state {
            RecipeState::Latch { count, left } => {
                (body.count, body.left) = (Some(count), Some(left));
            }
            RecipeState::Barrier { parties, arrived } => {
                (body.parties, body.arrived) = (Some(parties), Some(arrived));
            }
            RecipeState::DoubleBarrier { parties, arrived, inside } => {
                (body.parties, body.arrived) = (Some(parties), Some(arrived));
                body.inside = Some(inside);
            }
            RecipeState::Counter { value } => body.value = Some(value),
        }
        body
    }

    /// The state in words: `1 of 3 left`, `2 of 3 wait, 1 inside`, `42`.
    pub fn state_text(&self) -> String {
        match (self.left.zip(self.count), self.arrived.zip(self.parties), self.value) {
            (Some((0, _)), ..) => "open".to_owned(),
            (Some((left, count)), ..) => format!("{left} of {count} left"),
            (_, Some((arrived, parties)), _) => {
                let inside = self.inside.map(|inside| format!(", {inside} inside"));
                format!("{arrived} of {parties} wait{}", inside.unwrap_or_default())
            }
            (.., value) => value.unwrap_or_default().to_string(),
        }
    }
}

/// A latch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatchBody {
    /// The name.
    pub latch: RecipeName,
    /// The initial count.
    pub count: u32,
    /// The remaining count.
    pub left: u32,
    /// Whether the count reached zero.
    pub open: bool,
    /// The number of keys that are counted when their sessions end.
    pub promised: u32,
    /// The revision of this response.
    pub revision: Revision,
}

impl LatchBody {
    pub fn new(latch: RecipeName, view: LatchView, revision: Revision) -> Self {
        let LatchView { count, left, promised, created_in: _ } = view;
        Self { latch, count, left, open: left == 0, promised, revision }
    }
}

/// The response to a count-down; the same for every retry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatchCountBody {
    /// The latch.
    pub latch: RecipeName,
    /// The key that was counted.
    pub key: RequestId,
    /// The remaining count after this key.
    pub left: u32,
    /// False if the key was not counted: the latch was open before, or the session is still open.
    pub counted: bool,
}

/// The response to an arrival that passed the barrier; the same for every retry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrippedBody {
    /// The barrier, or the double barrier.
    pub barrier: RecipeName,
    /// The generation, larger than every earlier one.
    pub generation: Revision,
    /// The position in the order of arrival, from 0.
    pub index: u32,
    /// The number of members that passed.
    pub parties: u32,
}

impl TrippedBody {
    pub fn new(barrier: RecipeName, passed: &Tripped) -> Self {
        let Tripped { generation, index, parties } = *passed;
        Self { barrier, generation, index, parties }
    }
}

/// The response to a leave of a double barrier: all members have left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftBody {
    /// The double barrier.
    pub barrier: RecipeName,
    /// False if the member was not inside.
    pub left: bool,
}

/// A barrier, or a double barrier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BarrierBody {
    /// The name.
    pub barrier: RecipeName,
    /// The number of members that pass together; 0 without members.
    pub parties: u32,
    /// The current generation of a barrier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<Revision>,
    /// The waiting members, in order of arrival; at most 100.
    pub arrived: Vec<SessionName>,
    /// The current round of a double barrier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<Revision>,
    /// The members inside a double barrier, in order of arrival; at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<SessionName>,
    /// The revision of this response.
    pub revision: Revision,
}

impl BarrierBody {
    pub fn new(barrier: RecipeName, view: BarrierView, revision: Revision) -> Self {
        let BarrierView { parties, generation, arrived, round, inside } = view;
        Self { barrier, parties, generation, arrived, round, inside, revision }
    }
}

/// A counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CounterBody {
    /// The name.
    pub counter: RecipeName,
    /// The revision of the last change, or 0 without changes; the same as `ETag`.
    pub version: u64,
    /// The value.
    pub value: i64,
}

impl CounterBody {
    pub fn new(counter: RecipeName, view: CounterView) -> Self {
        Self { counter, value: view.value, version: view.version }
    }
}

/// Why a barrier broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BreachCauseBody {
    /// A member left.
    Left,
    /// A member's wait timed out.
    TimedOut,
    /// A member's session was closed.
    SessionClosed,
    /// A member's session expired.
    SessionExpired,
}

impl From<BreachCause> for BreachCauseBody {
    fn from(cause: BreachCause) -> Self {
        match cause {
            BreachCause::Left => Self::Left,
            BreachCause::TimedOut => Self::TimedOut,
            BreachCause::SessionEnded(SessionEnd::Closed) => Self::SessionClosed,
            BreachCause::SessionEnded(SessionEnd::Expired) => Self::SessionExpired,
        }
    }
}

/// Facts of the errors of recipes; each only where it applies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecipeFacts {
    /// The initial count of the latch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// The remaining count of the latch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u32>,
    /// The number of members that pass the barrier together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parties: Option<u32>,
    /// The number of members that had arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived: Option<u32>,
    /// The number of members still inside the double barrier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<u32>,
    /// The generation or round of the barrier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<Revision>,
    /// Why the barrier broke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<BreachCauseBody>,
    /// The value of the counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<i64>,
}

impl RecipeFacts {
    /// The facts of a barrier that broke. The problem's session is the member that broke it.
    pub fn of_breach(breach: &Breach) -> Self {
        let (generation, cause) = (Some(breach.generation), Some(breach.cause.into()));
        Self { generation, cause, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::{Breach, BreachCause, Revision, SessionEnd, SessionName, Tripped};

    use super::*;

    #[test]
    fn bodies_look_as_specified() {
        let barrier = RecipeName::new("start").unwrap();
        let passed = Tripped { generation: Revision(7), index: 2, parties: 3 };
        let json = serde_json::to_string(&TrippedBody::new(barrier, &passed)).unwrap();
        assert_eq!(json, r#"{"barrier":"start","generation":7,"index":2,"parties":3}"#);
        let breach = Breach {
            generation: Revision(7),
            session: SessionName::new("w1").unwrap(),
            cause: BreachCause::SessionEnded(SessionEnd::Expired),
        };
        let json = serde_json::to_string(&RecipeFacts::of_breach(&breach)).unwrap();
        assert_eq!(json, r#"{"generation":7,"cause":"session-expired"}"#);
    }
}
