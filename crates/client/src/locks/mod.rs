//! Locks: the builder of an acquire, the guards of its holds, and what ends a hold.

pub(crate) mod acquire;
pub(crate) mod guard;
pub(crate) mod held_locks;
pub(crate) mod hold;
pub(crate) mod hold_limits;
pub(crate) mod lock;
pub(crate) mod lock_calls;
pub(crate) mod lock_request;
pub(crate) mod mode_change;
pub(crate) mod queue_entry;
pub(crate) mod transfer;
