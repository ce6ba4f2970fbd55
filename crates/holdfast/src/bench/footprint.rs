//! What a full cluster costs each node, and how long a node needs to come back.
//!
//! Memory is what the kernel counts as resident (`/proc/<pid>/status`), disk what the files of the data directory
//! occupy. Each node in turn is asked to stop and started again.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde::Serialize;

use super::target::Own;
use crate::dev::START_MAX;

/// A restart reads all state; a large one takes its time.
const RESTART_MAX: Duration = Duration::from_mins(5);

/// One node of a full cluster.
#[derive(Debug, Serialize)]
pub(super) struct NodeFootprint {
    pub(super) node: u64,
    pub(super) resident_bytes: u64,
    pub(super) data_bytes: u64,
    pub(super) restart_ms: f64,
    pub(super) resident_after_restart_bytes: u64,
}

/// Looks at every node as it runs, and then at each after a restart.
///
/// # Errors
/// A node does not run, or does not come back.
pub(super) async fn measure(own: &mut Own) -> Result<Vec<NodeFootprint>, String> {
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

/// From the node's end to the moment when all nodes, this one included, know one leader.
async fn restart(own: &mut Own, node: u64) -> Result<Duration, String> {
    own.cluster.signal(node, Signal::SIGTERM).await;
    own.cluster.next_exit().await;
    let began = Instant::now();
    own.cluster.spawn(node)?;
    own.cluster.wait_ready(RESTART_MAX.max(START_MAX)).await?;
    Ok(began.elapsed())
}

/// Resident memory of a node, bytes.
///
/// # Errors
/// The node does not run.
pub(super) fn resident(own: &Own, node: u64) -> Result<u64, String> {
    let pid = own.cluster.pid(node).ok_or_else(|| format!("node {node} does not run"))?;
    let file = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok())
        .ok_or_else(|| format!("{file} does not tell the resident memory"))?;
    Ok(kib * 1024)
}

/// What the files of a directory occupy on disk, bytes; what vanishes meanwhile counts nothing.
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
