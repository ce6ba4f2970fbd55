//! The comparison: the same work under many locks, on real servers, and a report of it.
//!
//! Owns what is measured (speed, fairness, safety, failover), the rows that are written down while it is, and the report
//! that is made of rows alone. Refuses to know how a lock works (`holdfast_rivals` does), and to forgive: a server that
//! is missing, dies or refuses is a row that says so, and the others go on.
//!
//! What speaks to servers is behind the feature `all`, like the drivers that it needs; rows and reports need none.
//! Bounds: a case ends at its own deadline, whatever a lock does; clients and rates are those of the command line.

pub mod catalogue;
#[cfg(feature = "all")]
pub mod connect;
#[cfg(feature = "all")]
pub mod failover;
#[cfg(feature = "all")]
pub mod fairness;
pub mod fault;
pub mod machine;
pub mod progress;
pub mod record;
pub mod report;
#[cfg(feature = "all")]
pub mod safety;
pub mod settings;
#[cfg(feature = "all")]
pub mod speed;
#[cfg(feature = "all")]
pub mod stage;
pub mod statistics;

pub use record::{Records, Row};
pub use settings::Settings;
