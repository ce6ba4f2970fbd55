//! Deadlines of waiting arrivals, in the order of their calls. The leader ends waits whose node has failed.
//!
//! Bound: one record for each waiting arrival.

use holdfast_types::{BarrierKind, CancelArrival, RecipeName, Revision, SessionName, Ticket};
use imbl::OrdMap;

use super::arrivals::BarrierMember;
use crate::Machine;

/// A waiting arrival and its deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivalWait {
    /// The command that ends the wait, It has no effect once the member has repeated its call,
    /// has entered, or has left.
    pub cancel: CancelArrival,
    /// The maximum wait in milliseconds, counted from the apply of the arrival.
    pub wait_ms: u64,
}

/// Waiting arrivals, in the order of their latest calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ArrivalDeadlines {
    /// Barrier and ticket, by the revision of the latest call. No two arrivals share a revision.
    by_request: OrdMap<Revision, (BarrierKind, RecipeName, Revision)>,
}

impl ArrivalDeadlines {
    /// Adds a waiting arrival. Returns false if another arrival has the same call revision.
    pub(super) fn enter(
        &mut self,
        barrier_kind: BarrierKind,
        name: &RecipeName,
        ticket: Revision,
        member: &BarrierMember,
    ) -> bool {
        self.by_request.insert(member.requested_in, (barrier_kind, name.clone(), ticket)).is_none()
    }

    pub(super) fn leave(&mut self, member: &BarrierMember) {
        self.by_request.remove(&member.requested_in);
    }
}

impl Machine {
    /// Returns waiting arrivals whose latest call is after a revision, oldest first; at most `count_max`.
    pub fn arrival_waits_after(
        &self,
        requested_in: Revision,
        count_max: usize,
    ) -> Vec<ArrivalWait> {
        let later =
            self.recipes.waits.by_request.range(Revision(requested_in.0.saturating_add(1))..);
        later.filter_map(|(_, arrival)| self.arrival_wait_of(arrival)).take(count_max).collect()
    }

    /// The number of waiting arrivals.
    pub fn arrival_waits(&self) -> usize {
        self.recipes.waits.by_request.len()
    }

    /// Returns the arrival whose latest call has this revision, if it still waits.
    pub fn arrival_requested_in(&self, requested_in: Revision) -> Option<ArrivalWait> {
        self.arrival_wait_of(self.recipes.waits.by_request.get(&requested_in)?)
    }

    fn arrival_wait_of(
        &self,
        arrival: &(BarrierKind, RecipeName, Revision),
    ) -> Option<ArrivalWait> {
        let (barrier_kind, name, ticket) = arrival;
        let member = self.barrier_member(*barrier_kind, name, *ticket)?;
        let session = self.session_name(member.session);
        let cancel = CancelArrival {
            barrier_kind: *barrier_kind,
            name: name.clone(),
            session: session.unwrap_or_else(|| SessionName::of(member.session)),
            owner: member.owner.clone(),
            requested_in: member.requested_in,
            ticket: Ticket(ticket.0),
        };
        Some(ArrivalWait { cancel, wait_ms: member.wait_ms })
    }
}
