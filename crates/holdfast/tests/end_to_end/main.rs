//! End-to-end tests of the binary: clusters, nodes, commands and committed files.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot continue panics")]

mod audit_copies;
mod browser;
mod cluster_config;
mod denied_certificates;
mod dev;
mod doctor;
mod elect;
mod endpoint;
mod exit_codes;
mod explain;
mod fence;
mod fence_postgres;
mod formats;
mod frozen;
mod group;
mod hints;
mod load;
mod lock_views;
mod members;
mod memory;
mod metrics;
mod monitoring;
mod nesting;
mod options;
mod output;
mod package;
mod program;
mod restore;
mod rotation;
mod run;
mod run_campaign;
mod run_descendants;
mod run_ends;
mod scheduled_backup;
#[path = "../../../fence/tests/scratch/mod.rs"]
mod scratch;
mod secrets;
mod serve;
#[expect(dead_code, reason = "shared with the fencing kit, whose tests also restart servers")]
#[path = "../../../fence/tests/stores/servers.rs"]
mod servers;
#[path = "../../../fence/tests/skip/mod.rs"]
mod skip;
mod strangers;
mod tls;
mod token_files;
mod tree;

use scratch::child_process;
