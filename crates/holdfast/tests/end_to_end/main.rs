//! The real binary, from outside: its clusters, its nodes, its commands, its committed files.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test that cannot go on says so by panicking"
)]

mod bench;
mod cluster_config;
mod dev;
mod doctor;
mod elect;
mod endpoint;
mod explain;
mod fence;
mod formats;
mod guide;
mod knowing;
#[path = "../../../fence/tests/scratch/leash.rs"]
mod leash;
mod program;
mod run;
mod run_campaign;
mod run_ends;
mod serve;
#[expect(dead_code, reason = "shared with the fencing kit, whose tests also restart servers")]
#[path = "../../../fence/tests/stores/servers.rs"]
mod servers;
mod tree;
