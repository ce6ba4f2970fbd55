//! Calls on the members of the cluster: one file for each call. `GET /v1/cluster` lists them.

pub(crate) mod add;
pub(crate) mod remove;
pub(crate) mod seal;
pub(crate) mod set;
pub(crate) mod set_level;
pub(crate) mod transfer_leadership;
pub(crate) mod verify_state;
