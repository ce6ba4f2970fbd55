//! Barriers and double barriers. Both exist only while they have members.
//!
//! The n-th arrival trips a barrier for all members in its log entry; a member that leaves earlier breaks it for all. The
//! name of a generation is the revision of its first arrival, so it is never repeated.
//!
//! The members of a double barrier enter together, and the round is over when all of them have left. A round starts for the
//! first members when none is inside and enough wait. A member inside leaves by a call or at the end of its session. A
//! waiting member that leaves has no other effect.

use std::sync::Arc;

use holdfast_types::{
    BarrierKind, Breach, BreachCause, Event, Owner, RecipeEvent, RecipeName, RecipeRejection,
    RecipeReply, Reply, Revision, SessionId, SessionName, Tripped,
};
use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use super::arrivals::{BarrierMember, BarrierProgress, count};
use super::{Participation, rejected};
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

/// A member that entered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct RoundMember {
    /// The revision of its arrival.
    pub(crate) ticket: Revision,
    pub(crate) session: SessionId,
    pub(crate) owner: Owner,
    pub(crate) left: bool,
}

/// The members that entered together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct BarrierRound {
    /// The revision in which it started.
    pub(crate) generation: Revision,
    /// The members in the order of arrival. Invariant: as many as the parties; not all have left.
    pub(crate) entered: Vec<RoundMember>,
}

impl BarrierRound {
    /// The number of members that have not left.
    pub(crate) fn inside(&self) -> u32 {
        count(self.entered.iter().filter(|entered| !entered.left).count())
    }
}

/// A double barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DoubleBarrierState {
    /// The number of members of a round.
    pub(crate) parties: u32,
    /// The members that wait to enter, by the revision of the arrival. Invariant: without a round, fewer than the
    /// parties.
    pub(crate) waiting: OrdMap<Revision, BarrierMember>,
    /// The current round.
    pub(crate) round: Option<BarrierRound>,
}

impl DoubleBarrierState {
    pub(super) fn progress(&self) -> BarrierProgress {
        let (parties, arrived) = (self.parties, count(self.waiting.len()));
        let is_last = self.round.is_none() && arrived + 1 >= parties;
        BarrierProgress { parties, arrived, is_last, exists: true }
    }

    /// Returns the answer to the arrival of a member that is inside; `None` for any other ticket.
    pub(super) fn passed(&self, ticket: Revision) -> Option<Tripped> {
        let round = self.round.as_ref()?;
        let entered = (0..).zip(&round.entered);
        let (index, _) = entered.into_iter().find(|(_, e)| e.ticket == ticket && !e.left)?;
        Some(Tripped { generation: round.generation, index, parties: self.parties })
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

    /// Adds an arrival, which the caller has indexed. Returns its answer if it enters immediately.
    pub(super) fn join_double(
        &mut self,
        name: &RecipeName,
        parties: u32,
        member: BarrierMember,
        ctx: &mut ApplyContext<'_>,
    ) -> Option<Tripped> {
        let known = self.recipes.doubles.get(name);
        let new = || DoubleBarrierState { parties, waiting: OrdMap::new(), round: None };
        let mut double = known.map_or_else(new, |known| (**known).clone());
        double.waiting.insert(ctx.revision, member);
        self.recipes.doubles.insert(name.clone(), Arc::new(double));
        self.settle_double(name, ctx);
        self.recipes.doubles.get(name)?.passed(ctx.revision)
    }

    /// Ends a round that all members have left, starts the next one if enough members wait, and removes an empty
    /// barrier.
    pub(super) fn settle_double(&mut self, name: &RecipeName, ctx: &mut ApplyContext<'_>) {
        let Some(double) = self.recipes.doubles.get_mut(name).map(Arc::make_mut) else { return };
        if let Some(over) = double.round.take_if(|round| round.inside() == 0) {
            let (name, generation) = (name.clone(), over.generation);
            ctx.emit(Event::Recipe(RecipeEvent::RoundLeft { name, generation }));
        }
        let enough = count(double.waiting.len()) >= double.parties;
        if double.round.is_none() && enough {
            self.start_round(name, ctx);
        } else if double.round.is_none() && double.waiting.is_empty() {
            self.recipes.doubles.remove(name);
        }
    }

    fn start_round(&mut self, name: &RecipeName, ctx: &mut ApplyContext<'_>) {
        let Some(double) = self.recipes.doubles.get_mut(name).map(Arc::make_mut) else { return };
        let (parties, generation) = (double.parties, ctx.revision);
        let first: Vec<(Revision, BarrierMember)> = double
            .waiting
            .iter()
            .take(usize::try_from(parties).unwrap_or(usize::MAX))
            .map(|(ticket, member)| (*ticket, member.clone()))
            .collect();
        for (ticket, _) in &first {
            double.waiting.remove(ticket);
        }
        let entered = first.iter().map(|(ticket, member)| RoundMember {
            ticket: *ticket,
            session: member.session,
            owner: member.owner.clone(),
            left: false,
        });
        double.round = Some(BarrierRound { generation, entered: entered.collect() });
        for (index, (ticket, member)) in (0..).zip(&first) {
            self.recipes.waits.leave(member);
            let passed = Tripped { generation, index, parties };
            let outcome = Ok(Reply::Recipe(RecipeReply::Tripped(passed)));
            self.answer_arrival(BarrierKind::Double, name, *ticket, member, &outcome);
        }
        let (barrier_kind, name) = (BarrierKind::Double, name.clone());
        ctx.emit(Event::Recipe(RecipeEvent::Opened { barrier_kind, name, generation }));
    }

    /// Removes a member, inside or waiting. Returns the current round and the number of members inside, if the member
    /// was part of that round.
    pub(super) fn leave_double(
        &mut self,
        name: &RecipeName,
        session: SessionId,
        owner: &Owner,
        participation: Option<Revision>,
        ctx: &mut ApplyContext<'_>,
    ) -> Option<(Revision, u32)> {
        let waits = participation
            .is_some_and(|ticket| self.barrier_member(BarrierKind::Double, name, ticket).is_some());
        if let Some(ticket) = participation {
            self.remove_member(name, session, owner, ticket, ctx);
            self.settle_double(name, ctx);
        }
        let round = self.recipes.doubles.get(name)?.round.as_ref()?;
        let mut entered = round.entered.iter();
        let was_inside = entered.any(|e| e.session == session && e.owner == *owner && e.left);
        (was_inside && !waits).then(|| (round.generation, round.inside()))
    }

    /// Removes a waiting member, or marks a member inside as left. The caller then calls [`Machine::settle_double`].
    pub(super) fn remove_member(
        &mut self,
        name: &RecipeName,
        session: SessionId,
        owner: &Owner,
        ticket: Revision,
        ctx: &mut ApplyContext<'_>,
    ) {
        let Some(double) = self.recipes.doubles.get(name).cloned() else { return };
        let mut double = (*double).clone();
        if let Some(member) = double.waiting.remove(&ticket) {
            self.recipes.waits.leave(&member);
            self.end_request(BarrierKind::Double, name, session, owner, member.request);
            ctx.emit(Event::Recipe(RecipeEvent::SpaceFreed { name: name.clone() }));
        } else {
            let entered = double.round.iter_mut().flat_map(|round| &mut round.entered);
            entered
                .filter(|entered| entered.ticket == ticket)
                .for_each(|entered| entered.left = true);
        }
        let participation =
            Participation::Arrival(BarrierKind::Double, name.clone(), owner.clone());
        self.recipes.remove(session, &participation);
        self.recipes.doubles.insert(name.clone(), Arc::new(double));
    }
}
