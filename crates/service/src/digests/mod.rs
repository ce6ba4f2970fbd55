//! Digests of entries and of whole states, which show that a node has diverged from the others.

pub(crate) mod entry_check;
pub(crate) mod entry_log;
pub(crate) mod state_digests;
pub(crate) mod verification;
