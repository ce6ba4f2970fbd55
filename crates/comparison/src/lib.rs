//! The comparison: the same work under holdfast's lock and under the locks of other systems, on their real servers.
//!
//! `adapters` holds one client for each lock, with the faults it is known for; `servers` starts and stops real servers;
//! `workload`, `fairness`, `failover` and `safety` measure; `report` turns the recorded rows into pages. A server that
//! is missing, ends or refuses is a row that says so, and the run goes on.
//!
//! Bounds: a case ends at its own deadline. A client holds at most one lock. A watch or a subscription keeps at most
//! [`WAKEUPS_MAX`] unread wake-ups.

#![expect(
    clippy::missing_errors_doc,
    reason = "an error in words goes into a row or to the terminal as it is"
)]

pub mod adapters;
pub mod catalogue;
pub mod failover;
pub mod fairness;
mod limitation;
pub mod lock;
pub mod machine;
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

pub use limitation::Limitation;
pub use lock::LockError;
pub use record::{Records, Row};
pub use settings::Settings;

/// Wake-ups that a client keeps unread.
pub const WAKEUPS_MAX: usize = 16;
