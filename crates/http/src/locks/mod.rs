//! Locks: a large call has a file of its own, small ones share the file of their noun.

pub(crate) mod acquire;
mod acquire_stream;
pub(crate) mod acquiring;
pub(crate) mod history;
pub(crate) mod multi_lock;
pub(crate) mod policy;
pub(crate) mod read;
pub(crate) mod release;
pub(crate) mod transfer;
