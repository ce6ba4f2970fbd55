//! The members of the cluster: their view, changes of them, the feature level, and who should lead.

pub(crate) mod changes;
pub(crate) mod checks;
pub(crate) mod cluster;
pub(crate) mod leader_priority;
