//! Signed 64-bit counters. An addition that would overflow is rejected.
//!
//! A version is the revision of the last change. It is therefore never repeated, even if a counter is deleted and
//! created again.

use holdfast_types::{
    ChangeCounter, CounterChange, CounterView, Outcome, RecipeRejection, RecipeReply, Reply,
};

use super::rejected;
use crate::Machine;
use crate::context::ApplyContext;

impl Machine {
    pub(super) fn change_counter(
        &mut self,
        ChangeCounter { counter: name, change }: ChangeCounter,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        let known = self.recipes.counters.get(&name).copied();
        let now = known.unwrap_or_default();
        let value = match change {
            CounterChange::Delete => {
                self.recipes.counters.remove(&name);
                return Ok(Reply::Recipe(RecipeReply::Deleted { existed: known.is_some() }));
            }
            CounterChange::Add { amount } => now
                .value
                .checked_add(amount)
                .ok_or_else(|| rejected(RecipeRejection::Overflow { value: now.value }))?,
            CounterChange::Set { version, .. } if version.is_some_and(|v| v != now.version) => {
                let actual = now.version;
                return Err(rejected(RecipeRejection::CounterVersion { actual }));
            }
            CounterChange::Set { value, .. } => value,
        };
        if known.is_none() {
            self.check_room_for_recipe()?;
        }
        let view = CounterView { value, version: ctx.revision.0 };
        self.recipes.counters.insert(name, view);
        Ok(Reply::Recipe(RecipeReply::Counter(view)))
    }
}
