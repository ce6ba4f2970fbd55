//! The model's latches and counters.

use holdfast_types::*;

use super::{Latch, Model, full, rejected, replied};

impl Model {
    pub(super) fn make_latch(&mut self, name: RecipeName, count: u32) -> Outcome {
        if count == 0 {
            return rejected(RecipeRejection::OutOfBounds { max: Recipe::COUNT_MAX });
        }
        if let Some(known) = self.latches.iter().find(|latch| latch.name == name) {
            if known.view.count != count {
                return rejected(RecipeRejection::CountMismatch { count: known.view.count });
            }
            return replied(RecipeReply::Latch { view: known.view, created: false });
        }
        if self.recipes() >= self.limits.recipes_max {
            return full(Bound::Recipes, self.limits.recipes_max);
        }
        let view =
            LatchView { count, left: count, promised: 0, created_in: Revision(self.revision) };
        self.latches.push(Latch { name, view, counted: Vec::new(), promised: Vec::new() });
        replied(RecipeReply::Latch { view, created: true })
    }

    pub(in super::super) fn latch(&self, name: &RecipeName) -> Option<LatchView> {
        self.latches.iter().find(|latch| latch.name == *name).map(|latch| latch.view)
    }

    /// The remembered answers, and each counted or promised key with 64 bytes beside its text.
    pub(in crate::tests) fn bytes_stored(&self) -> usize {
        let counted = self.latches.iter().flat_map(|latch| &latch.counted);
        let promised = self.latches.iter().flat_map(|latch| &latch.promised);
        let keys = counted.map(|(key, _)| key).chain(promised.map(|(key, _)| key));
        self.bytes_remembered() + keys.map(|key| key.as_str().len() + 64).sum::<usize>()
    }

    pub(super) fn count_down(&mut self, name: &RecipeName, key: RequestId) -> Outcome {
        let Some(latch) = self.latches.iter_mut().find(|latch| latch.name == *name) else {
            return rejected(RecipeRejection::NoLatch);
        };
        if let Some((_, left)) = latch.counted.iter().find(|(known, _)| *known == key) {
            return replied(RecipeReply::Counted { left: *left, counted: true });
        }
        if latch.view.left == 0 {
            return replied(RecipeReply::Counted { left: 0, counted: false });
        }
        latch.view.left -= 1;
        let left = latch.view.left;
        latch.promised.retain(|(promised, _)| *promised != key && left > 0);
        latch.view.promised = latch.promised.len() as u32;
        latch.counted.push((key, left));
        replied(RecipeReply::Counted { left, counted: true })
    }

    pub(super) fn promise(
        &mut self,
        name: &RecipeName,
        key: RequestId,
        session: SessionName,
    ) -> Outcome {
        let Some(id) = self.live(&session) else { return self.gone(session) };
        let Some(latch) = self.latches.iter_mut().find(|latch| latch.name == *name) else {
            return rejected(RecipeRejection::NoLatch);
        };
        let is_counted = latch.counted.iter().any(|(known, _)| *known == key);
        if latch.view.left > 0 && !is_counted {
            latch.promised.retain(|(promised, _)| *promised != key);
            latch.promised.push((key, id));
            latch.view.promised = latch.promised.len() as u32;
        }
        replied(RecipeReply::Promised { left: latch.view.left })
    }

    pub(in super::super) fn counter(&self, name: &RecipeName) -> CounterView {
        let known = self.counters.iter().find(|(known, _)| known == name);
        known.map(|(_, view)| *view).unwrap_or_default()
    }

    pub(super) fn count(&mut self, count: ChangeCounter) -> Outcome {
        let ChangeCounter { counter: name, change } = count;
        let existed = self.counters.iter().any(|(known, _)| *known == name);
        let now = self.counter(&name);
        let value = match change {
            CounterChange::Delete => {
                self.counters.retain(|(known, _)| *known != name);
                return replied(RecipeReply::Deleted { existed });
            }
            CounterChange::Add { amount } => {
                let sum = i128::from(now.value) + i128::from(amount);
                let Ok(sum) = i64::try_from(sum) else {
                    return rejected(RecipeRejection::Overflow { value: now.value });
                };
                sum
            }
            CounterChange::Set { value, version } => {
                if version.is_some_and(|version| version != now.version) {
                    return rejected(RecipeRejection::CounterVersion { actual: now.version });
                }
                value
            }
        };
        if !existed && self.recipes() >= self.limits.recipes_max {
            return full(Bound::Recipes, self.limits.recipes_max);
        }
        let view = CounterView { value, version: self.revision };
        self.counters.retain(|(known, _)| *known != name);
        self.counters.push((name, view));
        replied(RecipeReply::Counter(view))
    }
}
