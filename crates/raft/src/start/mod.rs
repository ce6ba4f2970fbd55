//! How a cluster starts, how a node joins it, also with an emptied disk, and which data directory belongs to which node.

pub(crate) mod bootstrap;
pub(crate) mod identity;
pub(crate) mod join;
pub(crate) mod new_cluster;
pub(crate) mod stopped_node;
