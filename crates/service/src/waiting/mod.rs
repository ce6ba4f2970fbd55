//! Waiting: what a call does while its result is not available yet, for every kind of waiting call.
//!
//! A call takes a [`WaiterPermit`] before it proposes a command, parks under a key ([`ParkedCalls`]), and handles its
//! [`WaitEvent`]s in order. `apply` on this node wakes the calls whose key an event names. While a call waits, its node
//! renews the caller's session at a third of its TTL. If the caller disconnects, an [`AbandonedEntryGuard`] cancels its
//! queue entry; if the caller's node fails, the leader cancels it ([`OrphanedWaits`]).
//! Bound: `ServiceConfig::waiters_max` permits on one node, shared by all kinds of waits.

mod orphans;
mod parked;
mod wait;

pub(crate) use self::orphans::{OrphanedWaits, WaitSource};
pub(crate) use self::parked::{
    AppliedWaiters, Parked, ParkedCalls, QueueEvent, WaiterPermit, WaiterPermits, WakeUp,
};
pub(crate) use self::wait::{
    AbandonedEntryGuard, UnansweredSessionGuard, Wait, WaitEvent, close_session_within,
};
