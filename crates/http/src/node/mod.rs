//! Calls that use local state only: the node's view of the cluster, alarms, health, metrics, log, release.

pub(crate) mod alarms;
pub(crate) mod cluster;
pub(crate) mod health;
pub(crate) mod metrics;
pub(crate) mod set_log;
pub(crate) mod unmatched;
pub(crate) mod version;
