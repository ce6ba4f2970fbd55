//! `holdfast node`: operations on single nodes. Each address in `--addr` is one node.

use std::time::Duration;

use clap::{Args, Subcommand};
use holdfast_api::parameters::member::{LOG, LOG_FOR};
use holdfast_api::{NodeLogBody, Query};
use holdfast_client::Call;
use holdfast_client::http::Method;

use crate::arguments::{ClusterArgs, Format, duration};
use crate::exit::CommandFailure;
use crate::output::{answer_rows, short_time, table};

/// Operate the nodes in --addr.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Change what the nodes log, for a time.
    #[command(
        after_help = "Without LEVEL, the configured filter applies again at once. A filter: info,holdfast_raft=debug"
    )]
    Log(NodeLogArgs),
}

#[derive(Debug, Args)]
pub(crate) struct NodeLogArgs {
    /// error, warn, info, debug, trace, or a filter.
    level: Option<String>,
    /// The time after which the configured filter applies again.
    #[arg(long = "for", value_name = "DURATION", default_value = "10m", value_parser = duration)]
    lasts: Duration,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(crate) async fn run(command: NodeCommand) -> Result<(), CommandFailure> {
    match command {
        NodeCommand::Log(args) => log(&args).await,
    }
}

async fn log(args: &NodeLogArgs) -> Result<(), CommandFailure> {
    let query = Query::default().with(&LOG_FOR, &args.lasts);
    let query = args.level.iter().fold(query, |query, level| query.with(&LOG, level));
    let call = Call::new(Method::PATCH, query.target("/v1/node"));
    let nodes = &args.cluster.nodes;
    // Reports a malformed address before the first change.
    nodes.client()?;
    let (mut changed, mut failed) = (Vec::new(), Vec::new());
    for address in &nodes.addr {
        // Another node must not answer for this one.
        match nodes.only(address).client()?.call::<NodeLogBody>(&call).await {
            Ok(body) => changed.push(body),
            Err(error) => failed.push((address.as_str(), error)),
        }
    }
    if !changed.is_empty() {
        show(args.cluster.format(), &changed);
    }
    if failed.is_empty() { Ok(()) } else { Err(nodes.failure(failed)) }
}

fn show(format: Format, changed: &[NodeLogBody]) {
    let ends = |of: &NodeLogBody| of.ends_in_ms.map_or_else(|| "-".to_owned(), short_time);
    let rows = changed
        .iter()
        .map(|of| [of.node.to_string(), of.log.clone(), ends(of), of.configured.clone()]);
    let text = table(["node", "log", "for", "configured"], rows);
    let filters = changed.iter().map(|of| &of.log);
    answer_rows(format, &changed, changed, filters, &text);
}
