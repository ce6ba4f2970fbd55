//! Power cuts and kills of the store at random moments.
//!
//! A worker process (`worker`) runs the log, the snapshots and the small files of one node on an ext4 file system in
//! an image (`lab`), and reports its acknowledged operations. At a random moment the lab shuts the file system down
//! without writing another byte to the image. The campaign (`campaign`) kills the worker, mounts the image again and
//! starts the next worker. It compares the state that this worker finds with the acknowledged operations. The tests
//! need root and loop devices; without them they print `SKIPPED` and test nothing.
//!
//! `HOLDFAST_POWER_CUTS` is the number of cuts (60), `HOLDFAST_POWER_SEED` the seed of the moments and operations.

#![expect(
    clippy::print_stdout,
    reason = "a campaign shows what it did, and says when it cannot run"
)]

mod campaign;
mod lab;
#[path = "../support/model.rs"]
#[allow(dead_code, reason = "the log tests use the rest")]
#[allow(clippy::allow_attributes, reason = "it depends on the target")]
mod model;
mod worker;

use campaign::{Campaign, Mutation, StoreFailure};

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(value) => value.parse().unwrap_or_else(|_| panic!("{variable}={value} is not a number")),
        Err(_) => default,
    }
}

/// A campaign on a new image, or `None` if an image is not possible.
fn campaign(mutation: Option<Mutation>, seed: u64) -> Option<Campaign> {
    match Campaign::new(mutation, seed) {
        Ok(campaign) => Some(campaign),
        Err(missing) => {
            println!("SKIPPED: no power can be cut here: {missing}");
            None
        }
    }
}

/// The worker process. Returns at once unless a campaign has started it.
#[test]
fn worker() {
    worker::main();
}

#[test]
fn power_cuts_lose_nothing_acknowledged() {
    let seed = number("HOLDFAST_POWER_SEED", 1);
    let Some(mut campaign) = campaign(None, seed) else { return };
    campaign.run(number("HOLDFAST_POWER_CUTS", 60), |_| false);
    let table = campaign.end();
    println!("{table}");
    assert_eq!(table.faults, [], "seed {seed}");
}

/// Runs a mutation until the campaign detects it.
fn must_be_caught(mutation: Mutation) {
    let Some(mut campaign) = campaign(Some(mutation), number("HOLDFAST_POWER_SEED", 1)) else {
        return;
    };
    campaign.run(60, |faults: &[StoreFailure]| !faults.is_empty());
    let table = campaign.end();
    match (table.first_fault, table.faults.first()) {
        (Some(cut), Some(fault)) => println!("{mutation:?} was caught by cut {cut}: {fault:?}"),
        _ => panic!("{mutation:?} was not caught in {} cuts", table.cuts),
    }
}

#[test]
fn a_log_without_fdatasync_is_caught() {
    must_be_caught(Mutation::WriteWithoutSync);
}

#[test]
fn a_log_that_acknowledges_before_the_sync_is_caught() {
    must_be_caught(Mutation::WriteLate);
}

#[test]
fn a_snapshot_without_fsync_is_caught() {
    must_be_caught(Mutation::SnapshotWithoutSync);
}

#[test]
fn a_killed_process_loses_nothing_acknowledged() {
    let mut campaign = Campaign::without_power(number("HOLDFAST_POWER_SEED", 1));
    campaign.run(number("HOLDFAST_KILLS", 12), |_| false);
    let table = campaign.end();
    println!("{table}");
    assert_eq!(table.faults, []);
}
