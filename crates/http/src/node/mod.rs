//! Calls that one node answers by itself: the cluster as it sees it, health, metrics, release.

pub(crate) mod cluster;
pub(crate) mod health;
pub(crate) mod metrics;
pub(crate) mod unmatched;
pub(crate) mod version;
