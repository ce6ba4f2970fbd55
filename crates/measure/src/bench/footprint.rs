//! Measures the memory and the disk use of each node of a full cluster, and the time of its restart.
//!
//! Memory is the resident memory in `/proc/<pid>/status`; disk use is the blocks of the files in the data directory.
//! The nodes restart one after the other.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde::Serialize;

use super::target::OwnCluster;
use holdfast_cli::dev::START_TIMEOUT;

/// The time limit of a restart, which reads the whole state.
const RESTART_TIMEOUT: Duration = Duration::from_mins(5);

/// One node of a full cluster.
#[derive(Debug, Serialize)]
pub(super) struct NodeFootprint {
    pub(super) node: u64,
    pub(super) resident_bytes: u64,
    pub(super) data_bytes: u64,
    pub(super) restart_ms: f64,
    pub(super) resident_after_restart_bytes: u64,
}

/// Measures every node before and after its restart.
pub(super) async fn measure(own: &mut OwnCluster) -> Result<Vec<NodeFootprint>, String> {
    let mut nodes = Vec::new();
    for node in own.cluster.layout().ids() {
        nodes.push(NodeFootprint {
            node,
            resident_bytes: resident(own, node)?,
            data_bytes: occupied(&own.cluster.layout().node_dir(node)),
            restart_ms: 0.0,
            resident_after_restart_bytes: 0,
        });
    }
    for footprint in &mut nodes {
        footprint.restart_ms = restart(own, footprint.node).await?.as_secs_f64() * 1_000.0;
        footprint.resident_after_restart_bytes = resident(own, footprint.node)?;
    }
    Ok(nodes)
}

/// Returns the time from the end of the node until all nodes report one leader.
async fn restart(own: &mut OwnCluster, node: u64) -> Result<Duration, String> {
    own.cluster.signal(node, Signal::SIGTERM).await;
    own.cluster.next_exit().await;
    let start = Instant::now();
    own.cluster.spawn(node)?;
    own.cluster.wait_ready(RESTART_TIMEOUT.max(START_TIMEOUT)).await?;
    Ok(start.elapsed())
}

/// Returns the resident memory of a node, bytes.
pub(super) fn resident(own: &OwnCluster, node: u64) -> Result<u64, String> {
    let pid = own.cluster.pid(node).ok_or_else(|| format!("node {node} does not run"))?;
    let file = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok())
        .ok_or_else(|| format!("{file} has no resident memory"))?;
    Ok(kib * 1024)
}

/// Returns the disk blocks of the files of a directory, bytes; a file deleted meanwhile counts as 0.
fn occupied(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => occupied(&entry.path()),
            Ok(data) => data.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}
