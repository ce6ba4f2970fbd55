//! Scenarios that every client library passes against real clusters, and the driver that plays them.
//!
//! [`play`] starts the cluster of a [`scenario`], sends calls to adapters by the [`protocol`], and injects faults. Each client
//! has its own [`proxy`] to every node. At the end, [`checks`] judge the whole run by the cluster's own log. [`names`] is the
//! table of what all libraries share. `README.md` describes all of it for authors of adapters. [`programs`] are those of the
//! pages, which [`program_run`] runs.
//!
//! Bounds: a scenario has one cluster of at most five nodes; the record of a run grows with its steps.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "test harness: calls and faults that a function does not handle are those of another function"
)]

pub mod adapter;
pub mod api_description;
pub mod blocks;
pub mod checks;
mod faults;
pub mod generated;
pub mod grant_log;
pub mod names;
mod observed;
pub mod operator;
pub mod play;
mod poll;
pub mod program_run;
pub mod programs;
pub mod protocol;
pub mod proxy;
pub mod rejections;
pub mod scenario;
pub mod stage;
pub mod suite;
pub mod value;
