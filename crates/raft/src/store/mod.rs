//! What a node keeps on its disk: openraft's log and snapshots over `holdfast_storage`, their checks, and the free space.

pub(crate) mod background;
pub(crate) mod cache;
pub(crate) mod disk;
pub(crate) mod log_store;
pub(crate) mod scrub;
pub(crate) mod snapshot;
