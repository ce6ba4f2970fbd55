//! The orders for a worker process and its reports: one JSON object per line, on its stdin and its stdout.
//!
//! Times are nanoseconds of the machine's monotonic clock.

use serde::{Deserialize, Serialize};

use crate::lock::ServerAddresses;

/// The first input line of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerPlan {
    pub name: String,
    /// The name of the participant, as in rows.
    pub participant: String,
    pub addresses: ServerAddresses,
    pub lock: String,
    /// The time for which the lock outlives its holder, if the lock supports the setting.
    pub lease_ms: u64,
    /// The URL of the database with the inventory.
    pub database: String,
    /// The time between the read and the write.
    pub think_ms: u64,
}

/// Every later input line of a worker, executed in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerOrder {
    /// Make this many sales, or fewer if the stock becomes empty.
    Sell(u32),
    /// Make one sale that halts between the read and the write until [`WorkerOrder::Resume`].
    SellAndHalt(HaltAt),
    /// Continue the halted sale. Precedes all other orders.
    Resume,
}

/// The point at which a sale halts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HaltAt {
    /// Before the worker checks its deadline by its own clock.
    BeforeCheck,
    /// Between that check and the write, where no check helps.
    AfterCheck,
}

/// The end of a critical section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SaleEnd {
    Sold,
    /// The stock was empty.
    SoldOut,
    /// The fence rejected the token.
    Stale,
    /// By its own clock the worker no longer held the lock, and wrote nothing.
    Expired,
    /// The database did not reply.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerReport {
    Connected,
    Acquiring,
    /// The worker assumes to hold the lock.
    Entered {
        at_ns: u64,
    },
    /// The sale has halted.
    Halted {
        token: Option<u64>,
        stock: i64,
    },
    /// The critical section ended: before the release, or at the deadline of the lock, if that is earlier.
    Left {
        at_ns: u64,
        end: SaleEnd,
    },
    /// The error text of the fence.
    StaleWrite {
        error: String,
    },
    Error {
        text: String,
    },
    /// An order is complete.
    Idle,
}
