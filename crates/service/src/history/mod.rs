//! What happened to locks: past holds, waiting times, and the notices of changes of holds.

pub(crate) mod contention;
pub(crate) mod hold_history;
pub(crate) mod hold_notice;
pub(crate) mod hold_recorder;
