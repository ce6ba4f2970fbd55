//! Calls about a node and its cluster: the members, alarms, backups, health, metrics, the log, release.

pub(crate) mod alarms;
pub(crate) mod backup;
pub(crate) mod cluster;
mod foreign_paths;
pub(crate) mod health;
pub(crate) mod metrics;
mod prometheus_text;
pub(crate) mod set_log;
pub(crate) mod unmatched;
pub(crate) mod version;
