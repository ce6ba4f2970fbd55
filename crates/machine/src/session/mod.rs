//! Sessions: the commands that open, renew, attach and end them, and what a session owns outside the tree.
//!
//! A session expires by a command that names the generation of its lease, so a renewal that reached the log first wins.
//! When it ends, its entries in queues, its ephemerals and its places in recipes go in the same command (`end.rs`), and
//! a tombstone remembers how it ended (`store.rs`). Request ids (`memo.rs`) and attempts (`attempts.rs`) make retries
//! safe.

pub(crate) mod attempts;
mod commands;
mod end;
mod ended_attempts;
pub(crate) mod memo;
mod once;
pub(crate) mod store;
