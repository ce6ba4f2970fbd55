//! The quotas of subjects and namespaces: what they may use, and what they use on this node.

pub(crate) mod local_uses;
pub(crate) mod namespaces;
pub(crate) mod subject_limits;
mod tree_quotas;
