//! The orders to a worker process and its reports: one JSON object per line, on its stdin and its stdout.
//!
//! Times are nanoseconds of the machine's monotonic clock.

use serde::{Deserialize, Serialize};

use crate::lock::ServerAddresses;

/// The first line that a worker reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerPlan {
    pub name: String,
    /// The participant, as in rows.
    pub participant: String,
    pub addresses: ServerAddresses,
    pub lock: String,
    /// How long the lock outlives its holder, where that can be chosen.
    pub lease_ms: u64,
    /// The URL of the database with the inventory.
    pub database: String,
    /// Between reading and writing.
    pub think_ms: u64,
}

/// Every further line that a worker reads, executed in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerOrder {
    /// So many sales, or fewer if the stock is empty before.
    Sell(u32),
    /// One sale that halts between reading and writing until [`WorkerOrder::Resume`].
    SellAndHalt(HaltAt),
    /// Overtakes all other orders.
    Resume,
}

/// Where a sale halts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HaltAt {
    /// Before the worker checks by its own clock that it still holds the lock.
    BeforeCheck,
    /// Between that check and the write, where no check helps.
    AfterCheck,
}

/// How a critical section ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SaleEnd {
    Sold,
    /// The stock was empty.
    SoldOut,
    /// The fence rejected the token.
    Stale,
    /// By its own clock the worker no longer held the lock, so it wrote nothing.
    Expired,
    /// The database did not reply.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerReport {
    Connected,
    Acquiring,
    /// The worker believes that it holds the lock.
    Entered {
        at_ns: u64,
    },
    /// The sale has halted.
    Halted {
        token: Option<u64>,
        stock: i64,
    },
    /// Before the release is sent, or when the worker stopped believing, whichever was earlier.
    Left {
        at_ns: u64,
        end: SaleEnd,
    },
    /// The fence's own words.
    StaleWrite {
        error: String,
    },
    Error {
        text: String,
    },
    /// An order is done.
    Idle,
}
