//! Calls about a node and its cluster: the members, backups, health, metrics, release.

pub(crate) mod backup;
pub(crate) mod cluster;
pub(crate) mod health;
pub(crate) mod metrics;
pub(crate) mod unmatched;
pub(crate) mod version;
