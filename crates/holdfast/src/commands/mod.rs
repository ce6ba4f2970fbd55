//! The commands that start or repair a node, or that explain the program: each file has the arguments, the help, the
//! handlers and the output of one command, or of a few of one noun. The crate `holdfast-cli` has those that only talk to a
//! cluster.

pub(crate) mod backup;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod new_node;
pub(crate) mod recover;
pub(crate) mod restore;
