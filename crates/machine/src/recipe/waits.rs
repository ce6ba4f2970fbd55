//! Deadlines of waiting arrivals, in the order of their calls, for the leader to end waits whose node is gone.
//!
//! Bound: one line for each waiting arrival.

use holdfast_types::{BarrierKind, CancelArrival, RecipeName, Revision, SessionName};
use imbl::OrdMap;

use super::gate::Member;
use crate::Machine;

/// An arrival whose caller waits no longer than it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivalWait {
    /// What ends it, without the id of the arrival; without effect once the member has asked again, has passed, or has left.
    pub give_up: CancelArrival,
    /// How long the caller waits at most, milliseconds from when the arrival was applied.
    pub wait_ms: u64,
}

/// Arrivals that wait, in the order in which they asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Waits {
    /// Barrier and ticket by the revision of the asking, which no two arrivals share.
    by_asked: OrdMap<Revision, (BarrierKind, RecipeName, Revision)>,
}

impl Waits {
    /// An arrival waits. False if another one asked in the same revision.
    pub(super) fn enter(
        &mut self,
        gate: BarrierKind,
        name: &RecipeName,
        ticket: Revision,
        member: &Member,
    ) -> bool {
        self.by_asked.insert(member.asked, (gate, name.clone(), ticket)).is_none()
    }

    pub(super) fn leave(&mut self, member: &Member) {
        self.by_asked.remove(&member.asked);
    }
}

impl Machine {
    /// Arrivals that were asked for after a revision and wait, oldest first; at most `count_max`.
    pub fn arrival_waits_after(&self, asked: Revision, count_max: usize) -> Vec<ArrivalWait> {
        let later = self.recipes.waits.by_asked.range(Revision(asked.0.saturating_add(1))..);
        later.filter_map(|(_, place)| self.arrival_wait_of(place)).take(count_max).collect()
    }

    /// How many arrivals wait.
    pub fn arrival_waits(&self) -> usize {
        self.recipes.waits.by_asked.len()
    }

    /// The arrival that was asked for in a revision, if it still waits.
    pub fn arrival_asked_in(&self, asked: Revision) -> Option<ArrivalWait> {
        self.arrival_wait_of(self.recipes.waits.by_asked.get(&asked)?)
    }

    fn arrival_wait_of(&self, place: &(BarrierKind, RecipeName, Revision)) -> Option<ArrivalWait> {
        let (gate, name, ticket) = place;
        let member = self.member(*gate, name, *ticket)?;
        let session = self.session_name(member.session);
        let give_up = CancelArrival {
            gate: *gate,
            name: name.clone(),
            session: session.unwrap_or_else(|| SessionName::of(member.session)),
            owner: member.owner.clone(),
            asked: member.asked,
            request: None,
        };
        Some(ArrivalWait { give_up, wait_ms: member.wait_ms })
    }
}
