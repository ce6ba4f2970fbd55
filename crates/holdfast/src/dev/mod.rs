//! `holdfast dev`: a whole cluster on this machine, as processes of this very executable.
//!
//! `layout` knows directories, ports and files, `supervisor` starts and stops processes, `table` shows them. The
//! nodes are ordinary `serve` processes with ordinary files, so what works here works in production. Refuses to
//! restart a node that died: a development cluster shows failures, it does not hide them.

mod data;
mod layout;
mod supervisor;
mod table;

pub(crate) use data::DataDir;
pub(crate) use layout::Layout;
pub(crate) use supervisor::Cluster;

use std::time::Duration;

use crate::cli::DevArgs;
use crate::exit::Stop;
use crate::output::{complain, print};

/// How long the nodes may take to start and find a leader.
pub(crate) const START_MAX: Duration = Duration::from_secs(30);

/// Runs a development cluster until ^C or SIGTERM.
///
/// # Errors
/// [`Stop::Failed`] if it does not start, or if all nodes have died.
pub(crate) fn run(args: &DevArgs) -> Result<(), Stop> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(Stop::failed)?;
    runtime.block_on(supervise(args))
}

async fn supervise(args: &DevArgs) -> Result<(), Stop> {
    // Before anything is started, so that a signal during the start stops what is there already.
    let mut signals = crate::serve::Signals::install().map_err(Stop::failed)?;
    let data = DataDir::open(args.data.as_deref()).map_err(Stop::Failed)?;
    let layout =
        Layout::new(&data, args.nodes, args.port, &args.log_level).map_err(Stop::Failed)?;
    let mut cluster = Cluster::start(layout).map_err(Stop::Failed)?;
    let ready = tokio::select! {
        ready = cluster.wait_ready(START_MAX) => Some(ready),
        _ = signals.next() => None,
    };
    let end = match ready {
        None => Ok(()),
        Some(Err(reason)) => Err(Stop::Failed(reason)),
        Some(Ok(view)) => {
            print(&table::announce(&view, &cluster, data.is_temporary()));
            watch(&mut cluster, &mut signals).await
        }
    };
    cluster.stop().await;
    drop(data);
    end
}

/// Until a signal comes; reports nodes that die.
async fn watch(cluster: &mut Cluster, signals: &mut crate::serve::Signals) -> Result<(), Stop> {
    loop {
        let exit = tokio::select! {
            exit = cluster.next_exit() => exit,
            _ = signals.next() => return Ok(()),
        };
        complain(&format!("holdfast: {exit}"));
        if cluster.running() == 0 {
            return Err(Stop::failed("no node is left; the last lines of their logs say why"));
        }
    }
}
