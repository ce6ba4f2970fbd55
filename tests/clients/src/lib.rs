//! Scenarios that every client library passes against real clusters, and the driver that plays them.

pub mod protocol;
pub mod scenario;
