//! The audit trail: reads of it, and its copy to a sink outside of the cluster.

pub(crate) mod sink;
pub(crate) mod trail;
