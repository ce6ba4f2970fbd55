//! Barriers: the n-th arrival trips a barrier for all members in its log entry; a member that leaves earlier breaks it
//! for all.
//!
//! A generation is named by the revision of its first arrival. A barrier exists only while it has members, so nothing
//! is remembered between generations, and no name is repeated.

use std::sync::Arc;

use holdfast_types::{
    BarrierKind, Breach, BreachCause, Event, RecipeEvent, RecipeName, RecipeRejection, RecipeReply,
    Reply, Revision, SessionId, SessionName, Tripped,
};
use imbl::OrdMap;

use super::gate::{BarrierProgress, Member, count};
use super::refused;
use crate::Machine;
use crate::context::ApplyContext;

/// A generation that gathers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Barrier {
    /// How many pass together. Invariant: more than have arrived.
    pub(crate) parties: u32,
    /// Who has arrived, by the revision of the arrival. Invariant: not empty.
    pub(crate) members: OrdMap<Revision, Member>,
}

impl Barrier {
    /// The revision of the first arrival.
    pub(crate) fn generation(&self) -> Revision {
        self.members.get_min().map_or(Revision(0), |(first, _)| *first)
    }

    pub(super) fn progress(&self) -> BarrierProgress {
        let (parties, arrived) = (self.parties, count(self.members.len()));
        BarrierProgress { parties, arrived, is_last: arrived + 1 >= parties, exists: true }
    }
}

impl Machine {
    /// Adds a member, whose place is noted. Answers how it passed, if it was the last.
    pub(super) fn join_barrier(
        &mut self,
        name: &RecipeName,
        parties: u32,
        member: Member,
        ctx: &mut ApplyContext<'_>,
    ) -> Option<Tripped> {
        let known = self.recipes.barriers.get(name);
        let mut barrier = known
            .map_or_else(|| Barrier { parties, members: OrdMap::new() }, |known| (**known).clone());
        barrier.members.insert(ctx.revision, member);
        let arrived = count(barrier.members.len());
        let opens = arrived >= barrier.parties;
        self.recipes.barriers.insert(name.clone(), Arc::new(barrier));
        opens.then(|| self.open_barrier(name, ctx)).flatten()
    }

    /// Lets everybody pass, each told its place in the order of arrival. Answers the last one's.
    fn open_barrier(&mut self, name: &RecipeName, ctx: &mut ApplyContext<'_>) -> Option<Tripped> {
        let barrier = self.clear_barrier(name)?;
        let (generation, parties) = (barrier.generation(), barrier.parties);
        let mut last = None;
        for (index, member) in (0..).zip(barrier.members.values()) {
            let passed = Tripped { generation, index, parties };
            let outcome = Ok(Reply::Recipe(RecipeReply::Tripped(passed.clone())));
            self.remember(member.session, member.request.as_ref(), outcome);
            last = Some(passed);
        }
        let (gate, name) = (BarrierKind::Barrier, name.clone());
        ctx.emit(Event::Recipe(RecipeEvent::Opened { gate, name, generation }));
        last
    }

    /// Takes the members and their places away.
    fn clear_barrier(&mut self, name: &RecipeName) -> Option<Arc<Barrier>> {
        let barrier = self.recipes.barriers.remove(name)?;
        for member in barrier.members.values() {
            self.recipes.forget(member.session, &member.place(BarrierKind::Barrier, name));
            self.recipes.waits.leave(member);
        }
        Some(barrier)
    }

    /// Breaks the generation that gathers, for everybody who has arrived. Nothing if nobody has.
    pub(super) fn break_barrier(
        &mut self,
        name: &RecipeName,
        by: SessionId,
        cause: BreachCause,
        ctx: &mut ApplyContext<'_>,
    ) {
        let Some(barrier) = self.clear_barrier(name) else { return };
        let session = self.session_name(by).unwrap_or_else(|| SessionName::of(by));
        let breach = Breach { generation: barrier.generation(), session, cause };
        for member in barrier.members.values() {
            let outcome = Err(refused(RecipeRejection::Broken(breach.clone())));
            self.remember(member.session, member.request.as_ref(), outcome);
        }
        ctx.emit(Event::Recipe(RecipeEvent::Broken { name: name.clone(), breach }));
    }
}
