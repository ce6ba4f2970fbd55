//! The real binary, from outside: its clusters, its nodes, its commands, its committed files.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod bench;
mod cluster_config;
mod dev;
mod guide;
mod knowing;
mod program;
mod run;
mod run_ends;
mod serve;
mod tree;
