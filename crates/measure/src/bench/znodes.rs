//! Many znodes in directories of a thousand: the rate, the memory and disk use of each node, and the restart time.
//!
//! Transactions of [`PER_CALL`] znodes create them, so the rate is not the rate of single calls. After the restart of
//! every node the benchmark counts the children of the directories.

use std::collections::BTreeMap;
use std::time::Instant;

use clap::Args;
use holdfast_cli::arguments::OutputArgs;
use holdfast_cli::exit::CommandFailure;
use serde::Deserialize;

use super::access::Access;
use super::bulk::BulkCalls;
use super::connection::HttpConnection;
use super::footprint;
use super::report::BulkReport;
use super::requests::{get, post};
use super::target::OwnCluster;

/// The number of znodes of one transaction.
const PER_CALL: u32 = 500;
/// The number of transactions that fill one directory.
const CALLS_PER_DIRECTORY: u32 = 2;
/// The data of each znode.
const DATA: &str = "a hundred bytes, as a configuration value or the address of a service would have: 0123456789abcdefgh";

/// Measure many znodes: rate, memory, restart time.
#[derive(Debug, Args)]
pub(super) struct ZnodesArgs {
    /// The number of znodes, rounded up to whole transactions of 500.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=3_000_000))]
    count: u32,
    /// The number of connections that create them.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    clients: u32,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) async fn run(args: &ZnodesArgs) -> Result<(), CommandFailure> {
    let mut own = OwnCluster::start(3).await.map_err(CommandFailure::Failed)?;
    let measured = measure(args, &mut own).await;
    own.stop().await;
    measured.map_err(CommandFailure::Failed)?.finish(args.output.format)
}

/// Creates znodes, rounded up to whole transactions. Returns the errors of repeated calls.
///
/// # Errors
/// If a call fails too often.
pub(super) async fn create(
    count: u32,
    clients: u32,
    endpoints: &[String],
) -> Result<BTreeMap<String, u64>, String> {
    let bulk = BulkCalls {
        what: "creating znodes",
        calls: count.div_ceil(PER_CALL),
        clients,
        request: Box::new(|number| Ok(transaction(number))),
        is_done: |kind| kind == "znode-exists",
    };
    bulk.make(endpoints).await
}

async fn measure(args: &ZnodesArgs, own: &mut OwnCluster) -> Result<BulkReport, String> {
    let calls = args.count.div_ceil(PER_CALL);
    let start = Instant::now();
    let errors = create(args.count, args.clients, &own.cluster.layout().endpoints()).await?;
    let elapsed = start.elapsed();
    let nodes = footprint::measure(own).await?;
    let endpoint = own.cluster.layout().endpoints().into_iter().next().unwrap_or_default();
    let found = count_children(&endpoint, calls.div_ceil(CALLS_PER_DIRECTORY)).await?;
    let what = "znodes of 100 bytes";
    Ok(BulkReport::new(what, calls * PER_CALL, elapsed, errors, nodes, found))
}

/// The request of the n-th transaction.
fn transaction(number: u32) -> Vec<u8> {
    let directory = number / CALLS_PER_DIRECTORY;
    let first = number % CALLS_PER_DIRECTORY * PER_CALL;
    let creates: Vec<_> = (first..first + PER_CALL)
        .map(|node| {
            let path = format!("/bench/{directory}/{node}");
            serde_json::json!({"create": path, "data": DATA, "parents": true})
        })
        .collect();
    post("/v1/txn", &serde_json::json!({ "then": creates }).to_string())
}

/// The metadata of a directory.
#[derive(Deserialize)]
struct DirectoryStat {
    children: u64,
}

async fn count_children(endpoint: &str, directories: u32) -> Result<u64, String> {
    let mut connection = HttpConnection::open(endpoint, &Access::default())
        .await
        .map_err(|error| error.to_string())?;
    let mut found = 0;
    for directory in 0..directories {
        let request = get(&format!("/v1/tree/bench/{directory}?stat"));
        let answer = connection.exchange(&request).await.map_err(|error| error.to_string())?;
        let stat: DirectoryStat = serde_json::from_slice(answer.body)
            .map_err(|error| format!("/bench/{directory}: status {}: {error}", answer.status))?;
        found += stat.children;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_znode_is_in_one_transaction() {
        let paths = |number| {
            let request = String::from_utf8(transaction(number)).unwrap();
            let body = request.split_once("\r\n\r\n").unwrap().1;
            let body: serde_json::Value = serde_json::from_str(body).unwrap();
            let creates = body["then"].as_array().unwrap().clone();
            creates.iter().map(|op| op["create"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(paths(0)[0], "/bench/0/0");
        assert_eq!(paths(1)[499], "/bench/0/999");
        assert_eq!(paths(2)[0], "/bench/1/0");
        assert_eq!(DATA.len(), 100);
    }
}
