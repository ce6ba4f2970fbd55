//! `holdfast bench`: load in a closed loop, the gap of a failover, many sessions, znodes or waiters, snapshots under load,
//! measured and judged.
//!
//! `connection` is the wire, `client` a client of the load generator (`holdfast_client::load`), `load`, `failover`, `sessions`, `znodes`, `waiters` and `snapshots` are the measurements (`bulk` and `footprint` what several
//! share), `report` what they print. A run whose judge found a violation
//! fails, however fast it was. Progress goes to stderr, and only to a terminal.

mod bulk;
mod client;
mod connection;
mod failover;
mod footprint;
mod load;
mod report;
mod requests;
mod sessions;
mod snapshots;
mod target;
mod waiters;
mod znodes;

use crate::cli::{BenchArgs, BenchCommand};
use crate::exit::Stop;

/// Measures.
///
/// # Errors
/// [`Stop::Failed`] if the cluster cannot be reached or started, or if the judge found a violation.
pub(crate) fn run(args: &BenchArgs) -> Result<(), Stop> {
    let threads = if args.what.is_none() { args.load.threads } else { 1 };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(usize::try_from(threads).map_err(Stop::failed)?)
        .enable_all()
        .build()
        .map_err(Stop::failed)?;
    runtime.block_on(async {
        match &args.what {
            None => load::run(&args.load).await,
            Some(BenchCommand::Failover(args)) => failover::run(args).await,
            Some(BenchCommand::Sessions(args)) => sessions::run(args).await,
            Some(BenchCommand::Znodes(args)) => znodes::run(args).await,
            Some(BenchCommand::Waiters(args)) => waiters::run(args).await,
            Some(BenchCommand::Snapshots(args)) => snapshots::run(args).await,
        }
    })
}
