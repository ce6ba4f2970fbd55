//! The measurements: of holdfast alone (`bench`), and of the same work under the locks of other systems, on real servers.
//!
//! `load` generates the load of both. `adapters` has one client for each lock, including its known faults. `servers`
//! starts and stops real servers. `workload`, `fairness`, `failover` and `safety` measure, and `report` converts the
//! recorded rows to pages. A missing, ended or rejecting server becomes a row with the error, and the run continues.
//!
//! Bounds: a case ends at its own deadline. A client holds at most one lock. A watch or a subscription keeps at most
//! [`WAKEUPS_MAX`] unread wake-ups.

#![expect(
    clippy::missing_errors_doc,
    reason = "an error in words goes into a row or to the terminal as it is"
)]

pub mod adapters;
pub mod bench;
pub mod catalogue;
pub mod failover;
pub mod fairness;
mod limitation;
pub mod load;
pub mod lock;
pub mod machine;
pub mod nodes;
pub mod plays;
mod polling;
pub mod progress;
pub mod record;
pub mod report;
pub mod safety;
pub mod servers;
pub mod settings;
pub mod statistics;
pub mod wait;
pub mod workload;
pub mod writers;

pub use limitation::Limitation;
pub use lock::LockError;
pub use record::{Records, Row};
pub use settings::Settings;

/// The maximum number of unread wake-ups of a client.
pub const WAKEUPS_MAX: usize = 16;
