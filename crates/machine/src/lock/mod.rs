//! Locks: queues, grants and fencing tokens.
//!
//! A lock is a directory of the tree, `/locks/<name>`. An entry in its queue is an ephemeral sequential child: a holder or a
//! waiter. HTTP clients and unmodified `ZooKeeper` clients therefore stand in one queue. [`index::LockIndex`] is the
//! same information arranged for the engine: each function of it that changes an entry writes the znode as well.
//!
//! # Example
//!
//! Revision, command, queue of lock `a` after it (holder first), events. `apply` mints the token in the same command that
//! makes the holder:
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
//! 1. `Machine::apply` gives the command a revision and runs the expired timers of the locks that it names (`timers.rs`).
//! 2. `Machine::acquire` (`acquire.rs`) checks everything: bounds, session, attempt, room, deadlock. A rejection changes nothing.
//! 3. `Machine::enqueue` (`grant.rs`) adds the entry. It holds at once if [`index::Lock::admits`] it: the lock has no
//!    cooldown, no waiter goes before it, and the present holders leave room.
//! 4. Each other command that changes a queue ends with `Machine::grant_next` (`grant.rs`): while the first waiter fits beside
//!    the holders, it becomes a holder with the next token.
//!
//! # Invariants
//!
//! `invariants.rs` and `rebuild.rs` check them after each command of the tests and when a snapshot is loaded.
//!
//! - An exclusive holder is the only one; there is at most one upgradable holder; permits stay within the limit, and no
//!   slot is held twice.
//! - Each grant mints a token greater than each token before. A renewal keeps its token; an upgrade and a hand-over are grants.
//! - No lock without a cooldown has a first waiter that could hold it. The waiter of a multi-lock counts if it is first and
//!   could hold in each of its locks: they are granted in one command, or none of them.
//! - Waiters are ordered by rank, given once (`rank.rs`). An entry of a `ZooKeeper` client or a multi-lock is never overtaken.
//! - The index equals what the znodes say, field by field.
//! - Tokens stay below 2^53. At the end of the counter waiters stay queued and new acquires are rejected.

mod acquire;
mod convert;
pub(crate) mod cooldown;
pub(crate) mod deadlock;
mod entry_location;
pub(crate) mod explain;
mod grant;
mod handover;
pub(crate) mod holders;
pub(crate) mod index;
mod invariants;
pub(crate) mod lock_entry;
mod multi_lock;
mod operator;
mod policy;
pub(crate) mod rank;
mod rebuild;
mod release;
mod shards;
pub(crate) mod timers;
mod views;
pub(crate) mod wait_deadlines;

pub(crate) use grant::mode_of_name;
