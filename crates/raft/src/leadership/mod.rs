//! Who leads, since when this node may act as the leader, and how the next leader takes over soon.

pub(crate) mod acknowledged;
pub(crate) mod contact;
pub(crate) mod current;
pub(crate) mod fast_election;
pub(crate) mod handover;
