//! Latches: created with a count, counted down once for each key, and open once the count is zero.
//!
//! A promise counts a key down when a session ends. Bounds: as many keys as the count; [`Recipe::PROMISES_MAX`]
//! promises, and none once the latch is open.

use std::sync::Arc;

use holdfast_types::{
    Bound, Event, LatchView, Outcome, Recipe, RecipeEvent, RecipeName, RecipeRejection,
    RecipeReply, Reply, RequestId, Revision, SessionId, SessionName,
};
use imbl::OrdMap;

use super::{Participation, check_range, rejected};
use crate::Machine;
use crate::context::{ApplyContext, limit_reached};

/// A latch. It is open when [`Latch::left`] is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Latch {
    pub(crate) count: u32,
    /// The revision of its creation.
    pub(crate) created_in: Revision,
    /// Counted keys, each with the remaining count after it. Invariant: one key for each number from `count - 1` down
    /// to [`Latch::left`].
    pub(crate) keys: OrdMap<RequestId, u32>,
    /// The session whose end counts a key. Invariant: empty if the latch is open; no key in it is counted.
    pub(crate) promises: OrdMap<RequestId, SessionId>,
}

/// What a counted or promised key adds to the stored bytes beyond its text: its node in a map.
const KEY_BYTES: u64 = 64;

/// The bytes that a counted or promised key stores.
fn key_bytes(key: &RequestId) -> u64 {
    key.as_str().len() as u64 + KEY_BYTES
}

impl Latch {
    /// The bytes of its counted and promised keys.
    pub(super) fn bytes(&self) -> u64 {
        self.keys.keys().chain(self.promises.keys()).map(key_bytes).sum()
    }

    /// The remaining count.
    pub(crate) fn left(&self) -> u32 {
        self.count.saturating_sub(u32::try_from(self.keys.len()).unwrap_or(u32::MAX))
    }

    pub(crate) fn view(&self) -> LatchView {
        let promised = u32::try_from(self.promises.len()).unwrap_or(u32::MAX);
        LatchView { count: self.count, left: self.left(), promised, created_in: self.created_in }
    }
}

impl Machine {
    pub(super) fn make_latch(
        &mut self,
        latch: RecipeName,
        count: u32,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        check_range(count, Recipe::COUNT_MAX)?;
        let (view, created) = if let Some(known) = self.recipes.latches.get(&latch) {
            if known.count != count {
                return Err(rejected(RecipeRejection::CountMismatch { count: known.count }));
            }
            (known.view(), false)
        } else {
            self.check_room_for_recipe()?;
            let (keys, promises) = (OrdMap::new(), OrdMap::new());
            let new = Latch { count, created_in: ctx.revision, keys, promises };
            let view = new.view();
            self.recipes.latches.insert(latch, Arc::new(new));
            (view, true)
        };
        Ok(Reply::Recipe(RecipeReply::Latch { view, created }))
    }

    /// Counts a key down. A counted key gets its first answer. On an open latch, a new key has no effect.
    pub(super) fn count_down(
        &mut self,
        name: &RecipeName,
        key: RequestId,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        let Some(latch) = self.recipes.latches.get(name) else {
            return Err(rejected(RecipeRejection::NoLatch));
        };
        let (left, promised) = (latch.left(), latch.promises.get(&key).copied());
        if let Some(left) = latch.keys.get(&key).copied() {
            return Ok(Reply::Recipe(RecipeReply::Counted { left, counted: true }));
        }
        if left == 0 {
            return Ok(Reply::Recipe(RecipeReply::Counted { left, counted: false }));
        }
        let left = left - 1;
        if let Some(session) = promised {
            self.recipes.remove(session, &Participation::Promise(name.clone(), key.clone()));
        } else {
            self.recipes.bytes += key_bytes(&key);
        }
        if let Some(latch) = self.recipes.latches.get_mut(name).map(Arc::make_mut) {
            latch.promises.remove(&key);
            latch.keys.insert(key, left);
        }
        if left == 0 {
            self.open_latch(name, ctx);
        }
        Ok(Reply::Recipe(RecipeReply::Counted { left, counted: true }))
    }

    fn open_latch(&mut self, name: &RecipeName, ctx: &mut ApplyContext<'_>) {
        let Some(latch) = self.recipes.latches.get_mut(name).map(Arc::make_mut) else { return };
        let promises = std::mem::take(&mut latch.promises);
        for (key, session) in promises {
            self.recipes.bytes -= key_bytes(&key);
            self.recipes.remove(session, &Participation::Promise(name.clone(), key));
        }
        ctx.emit(Event::Recipe(RecipeEvent::LatchOpened { latch: name.clone() }));
    }

    /// Promises to count a key down when a session ends. A repeated promise for the key, even for another session,
    /// replaces the earlier one.
    pub(super) fn promise(
        &mut self,
        name: &RecipeName,
        key: RequestId,
        session: &SessionName,
    ) -> Outcome {
        let id = self.open_session_named(session)?;
        let Some(latch) = self.recipes.latches.get(name) else {
            return Err(rejected(RecipeRejection::NoLatch));
        };
        let (left, created_in) = (latch.left(), latch.created_in);
        let before = latch.promises.get(&key).copied();
        if left == 0 || latch.keys.contains_key(&key) || before == Some(id) {
            return Ok(Reply::Recipe(RecipeReply::Promised { left }));
        }
        if before.is_none() && latch.promises.len() as u64 >= u64::from(Recipe::PROMISES_MAX) {
            return Err(limit_reached(Bound::RecipeEntries, Recipe::PROMISES_MAX));
        }
        self.check_room_for_participation(id)?;
        let participation = Participation::Promise(name.clone(), key.clone());
        match before {
            Some(before) => self.recipes.remove(before, &participation),
            None => self.recipes.bytes += key_bytes(&key),
        }
        self.recipes.add(id, participation, created_in);
        if let Some(latch) = self.recipes.latches.get_mut(name) {
            Arc::make_mut(latch).promises.insert(key, id);
        }
        Ok(Reply::Recipe(RecipeReply::Promised { left }))
    }

    /// Counts the key of a promise down, because its session has ended.
    pub(super) fn count_promise_down(
        &mut self,
        name: &RecipeName,
        key: &RequestId,
        ctx: &mut ApplyContext<'_>,
    ) {
        // Another promise of the same session may have opened the latch.
        let known = self.recipes.latches.get(name);
        if known.is_some_and(|latch| latch.promises.contains_key(key)) {
            drop(self.count_down(name, key.clone(), ctx));
        }
    }

    pub(super) fn delete_latch(&mut self, name: &RecipeName, ctx: &mut ApplyContext<'_>) -> Reply {
        let Some(latch) = self.recipes.latches.remove(name) else {
            return Reply::Recipe(RecipeReply::Deleted { existed: false });
        };
        self.recipes.bytes -= latch.bytes();
        for (key, session) in &latch.promises {
            self.recipes.remove(*session, &Participation::Promise(name.clone(), key.clone()));
        }
        let latch = name.clone();
        ctx.emit(Event::Recipe(RecipeEvent::LatchDeleted { latch }));
        Reply::Recipe(RecipeReply::Deleted { existed: true })
    }
}
