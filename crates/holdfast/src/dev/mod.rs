//! `holdfast dev`: a whole cluster on this machine.
//!
//! The nodes are ordinary `serve` processes of this executable with ordinary configuration files. The supervisor
//! reports a dead node and does not restart it, so failures are visible. `layout` has the directories, ports and
//! files, `supervisor` starts and stops the processes, and `table` formats the output.

mod data;
mod layout;
mod supervisor;
mod table;

pub(crate) use data::DevDataDir;
pub(crate) use layout::Layout;
pub(crate) use supervisor::DevCluster;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::exit::CommandFailure;
use crate::output::{print, write_stderr};
use crate::signals::StopSignals;

/// The time limit for the nodes to start and elect a leader.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Start a whole cluster on this machine, for development.
#[derive(Clone, Debug, Args)]
pub(crate) struct DevArgs {
    /// The number of nodes: 1, 3 or 5. The default is the number of nodes in --data, or 3.
    #[arg(long, value_name = "N", value_parser = node_count)]
    nodes: Option<u64>,
    /// The directory of the data, which is kept; by default a temporary directory that is removed at the end.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Node n serves HTTP on PORT + 10(n-1), its peers on the next port, and `ZooKeeper` clients on the one after.
    #[arg(long, value_name = "PORT", default_value_t = 7400, value_parser = clap::value_parser!(u16).range(1024..))]
    port: u16,
    /// The level of the logs of the nodes in node.log.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: String,
}

fn node_count(text: &str) -> Result<u64, String> {
    match text {
        "1" | "3" | "5" => text.parse().map_err(|_| String::new()),
        "2" | "4" => {
            Err(format!("{text} nodes survive no more failures than one node less: use 1, 3 or 5"))
        }
        other => Err(format!("{other} is not a number of nodes: use 1, 3 or 5")),
    }
}

/// Runs a development cluster until ^C or SIGTERM.
///
/// # Errors
/// [`CommandFailure::Failed`] if it does not start, or if all nodes have died.
pub(crate) fn run(args: &DevArgs) -> Result<(), CommandFailure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(CommandFailure::failed)?;
    runtime.block_on(supervise(args))
}

async fn supervise(args: &DevArgs) -> Result<(), CommandFailure> {
    // The handlers precede the nodes, so that a signal during the start stops the nodes.
    let mut signals = StopSignals::install().map_err(CommandFailure::failed)?;
    let data = DevDataDir::open(args.data.as_deref()).map_err(CommandFailure::Failed)?;
    let layout = Layout::new(&data, args.nodes, args.port, &args.log_level)
        .map_err(CommandFailure::Failed)?;
    let mut cluster = DevCluster::start(layout).map_err(CommandFailure::Failed)?;
    let ready = tokio::select! {
        ready = cluster.wait_ready(START_TIMEOUT) => Some(ready),
        _ = signals.next() => None,
    };
    let end = match ready {
        None => Ok(()),
        Some(Err(reason)) => Err(CommandFailure::Failed(reason)),
        Some(Ok(view)) => {
            print(&table::announce(&view, &cluster, data.is_temporary()));
            watch(&mut cluster, &mut signals).await
        }
    };
    cluster.stop().await;
    drop(data);
    end
}

/// Reports dead nodes until a signal arrives.
async fn watch(cluster: &mut DevCluster, signals: &mut StopSignals) -> Result<(), CommandFailure> {
    loop {
        let exit = tokio::select! {
            exit = cluster.next_exit() => exit,
            _ = signals.next() => return Ok(()),
        };
        write_stderr(&format!("holdfast: {exit}"));
        if cluster.running() == 0 {
            return Err(CommandFailure::failed(
                "all nodes have ended; the last lines of their logs have the reason",
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parse;

    #[test]
    fn dev_accepts_one_three_or_five_nodes() {
        let args = parse::<DevArgs>("dev --nodes 5 --port 8400").unwrap();
        assert_eq!((args.nodes, args.port), (Some(5), 8400));
        assert!(parse::<DevArgs>("dev --nodes 4").unwrap_err().contains("use 1, 3 or 5"));
        assert!(parse::<DevArgs>("dev --nodes 0").unwrap_err().contains("use 1, 3 or 5"));
    }
}
