//! What narrator and workers say to each other: one JSON line each, over the worker's stdin and stdout.
//!
//! Owns the shape of the plan, of orders and of reports. Refuses to know who acts on them.

use serde::{Deserialize, Serialize};

/// A worker's whole life, given on its command line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The process's name; its sellers are called `name-s1`, `name-s2` ...
    pub(crate) name: String,
    /// Concurrent sellers in the process.
    pub(crate) sellers: usize,
    /// Connection string of the shop's database.
    pub(crate) database: String,
    /// `host:port` of every node; sellers are spread over them.
    pub(crate) nodes: Vec<String>,
    /// Whether the sellers carry their token into the database.
    pub(crate) fenced: bool,
}

/// From the narrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// All sellers of the process sell until the shelf says at most this; then [`Report::Idle`].
    SellDownTo(i64),
    /// One seller sells one piece, and says [`Report::MidSale`] between its read and its write.
    SellOneWatched,
    /// The watched seller may go on to its write.
    GoOn,
}

/// From a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// A watched seller holds the lock, has read the stock and has not written yet.
    MidSale { seller: String, token: u64, stock: i64 },
    /// A watched sale went through.
    Sold { seller: String, token: u64, stock: i64 },
    /// The database refused a write; the error's own words.
    Refused { seller: String, error: String },
    /// The order is done.
    Idle { sold: usize },
    /// The worker cannot go on.
    Failed { error: String },
}
