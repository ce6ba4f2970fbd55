//! What a worker process is told and what it tells: one JSON object a line, on its stdin and its stdout.
//!
//! Owns the words. Refuses to know who speaks them. Times are nanoseconds of the machine's monotonic clock.

use serde::{Deserialize, Serialize};

use crate::connect::Addresses;

/// The first line that a worker reads: what it works with until it ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Shown in the store's books.
    pub name: String,
    /// Which lock, as rows call it.
    pub system: String,
    /// Where it is.
    pub addresses: Addresses,
    /// The name of the lock that is taken.
    pub lock: String,
    /// How long a hold outlives its holder, where that can be chosen; milliseconds.
    pub lease_ms: u64,
    /// The store's database.
    pub store: String,
    /// Whether the token goes with every write, and the store refuses a stale one.
    pub fenced: bool,
    /// Between reading and writing, milliseconds.
    pub think_ms: u64,
}

/// Every further line that a worker reads. One after the other is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// So many sales, or fewer if the shelf is empty before.
    Sell(u32),
    /// One sale that stops in its middle until [`Order::GoOn`].
    Halt(Halt),
    /// To whoever stopped in the middle of a sale; overtakes all others.
    GoOn,
}

/// Where a sale stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Halt {
    /// Before the worker looks at its own clock whether it still has the lock.
    BeforeLook,
    /// Between that look and the write, where no look helps any more.
    AfterLook,
}

/// How a critical section ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// One piece is sold.
    Sold,
    /// There was none left.
    Empty,
    /// The fence refused the token.
    Refused,
    /// The worker saw by its own clock that its time had passed, and wrote nothing.
    GaveUp,
    /// The store did not answer.
    Failed,
}

/// What a worker says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// It has its connections.
    Ready,
    /// It asks for the lock.
    Asks,
    /// It believes to have the lock.
    Entered {
        /// After the lock's answer.
        at_ns: u64,
    },
    /// It stands in the middle of a sale.
    MidSale,
    /// It gives the lock back now.
    Left {
        /// Before the release is sent; or when it stopped to believe, if that was before.
        at_ns: u64,
        /// How it ended.
        ended: Ended,
    },
    /// The lock did not do what it was asked; a busy lock is none.
    LockError {
        /// What it says.
        words: String,
    },
    /// An order to sell is done.
    Idle,
}
