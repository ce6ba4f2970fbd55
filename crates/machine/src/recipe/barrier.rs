//! Barriers: the n-th arrival trips a barrier for all members in its log entry; a member that leaves earlier breaks it
//! for all.
//!
//! The name of a generation is the revision of its first arrival, so it is never repeated. A barrier exists only while
//! it has members.

use std::sync::Arc;

use holdfast_types::{
    BarrierKind, Breach, BreachCause, Event, RecipeEvent, RecipeName, RecipeRejection, RecipeReply,
    Reply, Revision, SessionId, SessionName, Tripped,
};
use imbl::OrdMap;

use super::arrivals::{BarrierMember, BarrierProgress, count};
use super::rejected;
use crate::Machine;
use crate::context::ApplyContext;

/// The current generation of a barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Barrier {
    /// The number of members that trip the barrier. Invariant: greater than the number of members.
    pub(crate) parties: u32,
    /// The arrived members, by the revision of the arrival. Invariant: not empty.
    pub(crate) members: OrdMap<Revision, BarrierMember>,
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
    /// Adds an arrival, which the caller has indexed. Returns its answer if it trips the barrier.
    pub(super) fn join_barrier(
        &mut self,
        name: &RecipeName,
        parties: u32,
        member: BarrierMember,
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

    /// Trips the barrier. The answer to each member has its index in the order of arrival. Returns the answer to the
    /// last member.
    fn open_barrier(&mut self, name: &RecipeName, ctx: &mut ApplyContext<'_>) -> Option<Tripped> {
        let barrier = self.clear_barrier(name)?;
        let (generation, parties) = (barrier.generation(), barrier.parties);
        let mut last = None;
        for (index, (ticket, member)) in (0..).zip(&barrier.members) {
            let passed = Tripped { generation, index, parties };
            let outcome = Ok(Reply::Recipe(RecipeReply::Tripped(passed.clone())));
            self.answer_arrival(BarrierKind::Barrier, name, *ticket, member, &outcome);
            last = Some(passed);
        }
        let (barrier_kind, name) = (BarrierKind::Barrier, name.clone());
        ctx.emit(Event::Recipe(RecipeEvent::Opened { barrier_kind, name, generation }));
        last
    }

    /// Removes the barrier and its arrivals.
    fn clear_barrier(&mut self, name: &RecipeName) -> Option<Arc<Barrier>> {
        let barrier = self.recipes.barriers.remove(name)?;
        for member in barrier.members.values() {
            self.recipes.remove(member.session, &member.participation(BarrierKind::Barrier, name));
            self.recipes.waits.leave(member);
        }
        Some(barrier)
    }

    /// Breaks the current generation for all arrived members. Has no effect without a member.
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
        let outcome = Err(rejected(RecipeRejection::Broken(breach.clone())));
        for (ticket, member) in &barrier.members {
            self.answer_arrival(BarrierKind::Barrier, name, *ticket, member, &outcome);
        }
        ctx.emit(Event::Recipe(RecipeEvent::Broken { name: name.clone(), breach }));
    }
}
