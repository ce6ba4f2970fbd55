//! Many znodes in directories of a thousand: how fast they are created, what they cost each node, what survives
//! restarts.
//!
//! They are created by transactions of [`PER_CALL`], so that the rate is not that of single calls. At the end, after
//! every node was restarted, the directories are asked how many children they have.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Deserialize;

use super::bulk::Bulk;
use super::connection::Connection;
use super::footprint;
use super::report::BulkReport;
use super::requests::{get, post};
use super::target::Own;
use crate::cli::ZnodesArgs;
use crate::exit::Stop;

/// Znodes of one transaction.
const PER_CALL: u32 = 500;
/// Transactions that fill one directory.
const CALLS_PER_DIRECTORY: u32 = 2;
/// The data of each.
const DATA: &str = "a hundred bytes, as a configuration value or the address of a service would have: 0123456789abcdefgh";

/// Measures and reports.
pub(super) async fn run(args: &ZnodesArgs) -> Result<(), Stop> {
    let mut own = Own::start(3).await.map_err(Stop::Failed)?;
    let measured = measure(args, &mut own).await;
    own.stop().await;
    measured.map_err(Stop::Failed)?.finish(args.output)
}

/// Makes so many of them, rounded up to whole transactions; answers the errors met on the way.
///
/// # Errors
/// A call failed again and again.
pub(super) async fn create(
    count: u32,
    clients: u32,
    endpoints: &[String],
) -> Result<BTreeMap<String, u64>, String> {
    let bulk = Bulk {
        what: "creating znodes",
        calls: count.div_ceil(PER_CALL),
        clients,
        request: |number| Ok(transaction(number)),
        is_done: |kind| kind == "node-exists",
    };
    bulk.make(endpoints).await
}

async fn measure(args: &ZnodesArgs, own: &mut Own) -> Result<BulkReport, String> {
    let calls = args.count.div_ceil(PER_CALL);
    let began = Instant::now();
    let errors = create(args.count, args.clients, &own.cluster.layout().endpoints()).await?;
    let elapsed = began.elapsed();
    let nodes = footprint::measure(own).await?;
    let endpoint = own.cluster.layout().endpoints().into_iter().next().unwrap_or_default();
    let found = count_children(&endpoint, calls.div_ceil(CALLS_PER_DIRECTORY)).await?;
    let what = "znodes of 100 bytes";
    Ok(BulkReport::new(what, calls * PER_CALL, elapsed, errors, nodes, found))
}

/// Creates the n-th [`PER_CALL`] znodes, all or none.
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

/// What a directory says about itself.
#[derive(Deserialize)]
struct Children {
    children: u64,
}

async fn count_children(endpoint: &str, directories: u32) -> Result<u64, String> {
    let mut connection = Connection::open(endpoint).await.map_err(|error| error.to_string())?;
    let mut found = 0;
    for directory in 0..directories {
        let request = get(&format!("/v1/tree/bench/{directory}?stat"));
        let answer = connection.exchange(&request).await.map_err(|error| error.to_string())?;
        let stat: Children = serde_json::from_slice(answer.body)
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
