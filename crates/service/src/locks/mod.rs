//! Calls on locks: acquires with their waits and queue positions, reads, and the acts of operators.

pub(crate) mod acquire;
pub(crate) mod operator;
pub(crate) mod pending_acquire;
pub(crate) mod queue_positions;
pub(crate) mod queued;
pub(crate) mod read;
pub(crate) mod watched_queues;
