//! The members of the cluster, and the leader's changes of openraft's membership.

pub(crate) mod membership;
pub(crate) mod table;
