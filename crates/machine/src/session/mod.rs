//! Sessions: the commands that open, renew, attach and end them, and their state outside the tree.
//!
//! The command that expires a session names the generation of its lease, so an earlier renewal in the log prevents the
//! expiry. The end of a session removes its queue entries, ephemerals and recipe arrivals in the same command
//! (`end.rs`). A tombstone records the end (`store.rs`). Request ids (`memo.rs`) and attempts (`attempts.rs`) make
//! retries safe.

pub(crate) mod attempts;
mod commands;
mod end;
mod ended_attempts;
pub(crate) mod lease_records;
pub(crate) mod memo;
pub(crate) mod store;
mod subject_counts;
pub(crate) mod subject_use;
