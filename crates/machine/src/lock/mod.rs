//! Locks: queues, grants and fencing tokens.
//!
//! A lock is a directory of the tree, `/locks/<name>`. A queue entry is an ephemeral sequential child: a holder or a
//! waiter. HTTP clients and unmodified ZooKeeper clients therefore share one queue. [`index::LockIndex`] holds the
//! same information, arranged for the engine. Each of its functions that changes an entry also writes the znode.
//!
//! # Example
//!
//! Each line shows the revision, the command, the queue after it (holder first), and the events. `apply` mints the
//! token in the command that creates the hold:
//!
//! ```text
//! r1  acquire a, session s1          [s1 #1]           granted a to s1, token 1
//! r2  acquire a, session s2          [s1 #1, s2]
//! r3  acquire b, session s2          b: [s2 #2]        granted b to s2, token 2
//! r4  acquire a, session s3 no-wait  [s1 #1, s2]       rejected: lock-busy, holder s1, 1 waiter
//! r5  acquire b, session s1          [s1 #1, s2]       rejected: deadlock, s1 waits for b, s2 waits for a
//! r6  acquire a, session s1          [s1 #1, s2]       the same token: a renewal mints none
//! r7  release a, session s1          [s2 #3]           s1 lost a, granted a to s2, token 3
//! r8  expire session s2              [], b: []         s2 lost a and b; both directories stay
//! r9  acquire a, session s3          [s3 #4]           granted a to s3, token 4
//! ```
//!
//! # From `apply` to the grant
//!
//! 1. `Machine::apply` assigns a revision to the command and runs the expired timers of the locks that it names
//!    (`timers.rs`).
//! 2. `Machine::acquire` (`acquire/mod.rs`, `acquire/new.rs`) checks everything, in the order that these files list. A
//!    rejection changes nothing.
//! 3. [`index::Lock::position`] ranks the entry, and decides once whether the lock is granted to it immediately: the lock
//!    has no cooldown, no waiter ranks before it, and it is compatible with the current holders. `Machine::enqueue`
//!    (`grant.rs`) adds the entry, and mints the token of its hold.
//! 4. Each other command that changes a queue ends with `Machine::grant_next` (`grant.rs`). While the first waiter is
//!    compatible with the holders, it becomes a holder with the next token.
//!
//! # Invariants
//!
//! `invariants.rs` checks them after each command of the tests and when a snapshot is loaded.
//!
//! - An exclusive holder is the only one, and there is at most one upgradable holder.
//! - The policy of a lock admits the request of each entry of an HTTP caller (`policy.rs`).
//! - Permits stay within the limit, and no slot is held twice.
//! - In a semaphore each attempt has its own entry (`owner_entries.rs`).
//! - An entry has the strongest mode of its claims (`claims.rs`), or waits for it as an upgradable holder.
//! - Each grant mints a token greater than every earlier token. A renewal keeps its token; an upgrade and a hand-over
//!   are grants.
//! - No lock without a cooldown has a first waiter that could hold it. A multi-lock entry counts only if the entry of
//!   each of its locks is first and could hold.
//! - Each waiter gets its rank once, and the queue is in rank order (`rank.rs`). An entry of a ZooKeeper client or a
//!   multi-lock is never overtaken.
//! - The index equals the state of the znodes, field by field.
//! - Tokens stay below 2^53. At the end of the counter waiters stay queued and new acquires are rejected.
//!
//! The random histories of `tests/shards.rs` check two more. A shard that a waiter of another shard could hold has waiters of
//! its own (`shard_moves.rs`), except in a full tree. An owner with several entries has all of them in one shard.

mod acquire;
pub(crate) mod bypass;
pub(crate) mod claims;
pub(crate) mod cooldown;
pub(crate) mod deadlock;
pub(crate) mod durable;
pub(crate) mod entry_name;
pub(crate) mod explain;
pub(crate) mod foreign;
mod grant;
mod handover;
pub(crate) mod holders;
pub(crate) mod index;
mod invariants;
pub(crate) mod lock_entry;
mod operator;
mod owner_entries;
pub(crate) mod policy;
pub(crate) mod rank;
mod release;
mod shard_moves;
mod shards;
pub(crate) mod timers;
mod views;
pub(crate) mod wait_deadlines;
mod wait_graph;
