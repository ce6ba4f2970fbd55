//! What the node is and how it fares: `srvr`, `mntr`, `conf`, `envi`, `dirs`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use holdfast_service::Role;

use super::VERSION;
use crate::connection::Front;

/// Where Linux counts a process's open files; elsewhere the number is left out.
const OPEN_FILES: &str = "/proc/self/fd";
/// Where Linux tells a process's limits.
const LIMITS: &str = "/proc/self/limits";
/// Where Linux tells the name of the host, and its own version.
const KERNEL: &str = "/proc/sys/kernel";

/// `srvr`; `stat` shows the connections behind the version.
pub(super) fn server(front: &Front, clients: &str) -> String {
    let figures = front.ledger.totals();
    format!(
        "Zookeeper version: {VERSION}\n{clients}\
         Latency min/avg/max: {}/{}/{}\n\
         Received: {}\nSent: {}\nConnections: {}\nOutstanding: {}\n\
         Zxid: {:#x}\nMode: {}\nNode count: {}\n",
        figures.least().as_millis(),
        decimal(figures.average_ms()),
        figures.most.as_millis(),
        figures.received,
        figures.sent,
        front.ledger.count(),
        figures.outstanding,
        front.service.revision().0,
        mode(front),
        front.service.counts().znodes,
    )
}

/// `leader` on exactly one node of a cluster that agrees.
fn mode(front: &Front) -> &'static str {
    if front.config.members.len() == 1 {
        "standalone"
    } else if front.service.leader() == Some(front.service.node()) {
        "leader"
    } else {
        "follower"
    }
}

/// A number with one to four digits behind the point.
fn decimal(number: f64) -> String {
    let text = format!("{number:.4}");
    let kept = text.trim_end_matches('0');
    if kept.ends_with('.') { format!("{kept}0") } else { kept.to_owned() }
}

/// `mntr`: one value a line.
pub(super) async fn monitor(front: &Front) -> String {
    let (figures, counts) = (front.ledger.totals(), front.service.counts());
    let watches = front.service.watch_counts();
    let mode = mode(front);
    let mut values: Vec<(&str, String)> = vec![
        ("version", VERSION.to_owned()),
        ("server_state", mode.to_owned()),
        ("znode_count", counts.znodes.to_string()),
        ("ephemerals_count", counts.ephemerals.to_string()),
        ("approximate_data_size", counts.znode_bytes.to_string()),
        ("local_sessions", "0".to_owned()),
        ("global_sessions", counts.sessions.to_string()),
        ("num_alive_connections", front.ledger.count().to_string()),
        ("outstanding_requests", figures.outstanding.to_string()),
        ("min_latency", figures.least().as_millis().to_string()),
        ("avg_latency", decimal(figures.average_ms())),
        ("max_latency", figures.most.as_millis().to_string()),
        ("packets_received", figures.received.to_string()),
        ("packets_sent", figures.sent.to_string()),
        ("watch_count", watches.watches.to_string()),
        ("connection_rejected", front.metrics.refused().get().to_string()),
        ("uptime", front.ledger.uptime().as_millis().to_string()),
    ];
    if let Ok(files) = std::fs::read_dir(OPEN_FILES) {
        values.push(("open_file_descriptor_count", files.count().to_string()));
    }
    if let Some(files) = open_files_max() {
        values.push(("max_file_descriptor_count", files));
    }
    if mode != "standalone" {
        let state = if mode == "leader" { "leading" } else { "following" };
        values.push(("peer_state", format!("{state} - broadcast")));
        values.push(("quorum_size", front.config.members.len().to_string()));
    }
    if mode == "leader" {
        let followers = followers(front).await.to_string();
        values.push(("learners", followers.clone()));
        values.push(("synced_followers", followers));
    }
    let lines = values.into_iter().map(|(name, value)| format!("zk_{name}\t{value}\n"));
    lines.collect()
}

/// Members that follow this node and are well. Asks them.
async fn followers(front: &Front) -> usize {
    let nodes = front.service.cluster().await.nodes;
    nodes.iter().filter(|node| node.healthy && node.role == Role::Follower).count()
}

/// How many files the process may open.
fn open_files_max() -> Option<String> {
    let limits = std::fs::read_to_string(LIMITS).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next().map(str::to_owned)
}

/// `conf`.
pub(super) async fn configuration(front: &Front) -> String {
    let config = &front.config;
    let (min, max) = config.timeouts();
    let size = size_of(config.data_dir.clone()).await;
    let dir = config.data_dir.display();
    let mut text = format!(
        "clientPort={}\nsecureClientPort=-1\ndataDir={dir}\ndataDirSize={size}\ndataLogDir={dir}\ndataLogSize={size}\n\
         tickTime={}\nmaxClientCnxns={}\nminSessionTimeout={min}\nmaxSessionTimeout={max}\n\
         clientPortListenBacklog=-1\nserverId={}\n",
        front.address.map_or(0, |address| address.port()),
        config.tick.as_millis(),
        config.connections_per_address_max,
        front.service.node(),
    );
    if let (Some(members), Some(own)) = (&front.members, config.members.get(&front.service.node()))
    {
        let port = own.peer.rsplit(':').next().unwrap_or_default();
        let _infallible = write!(
            text,
            "electionPort={port}\nquorumPort={port}\npeerType=0\nmembership: \n{members}"
        );
    }
    text
}

/// `dirs`: log and snapshots lie in one directory.
pub(super) async fn directories(front: &Front) -> String {
    let size = size_of(front.config.data_dir.clone()).await;
    format!("datadir_size: {size}\nlogdir_size: {size}\n")
}

/// `envi`.
pub(super) fn environment() -> String {
    let kernel = |name| std::fs::read_to_string(format!("{KERNEL}/{name}")).unwrap_or_default();
    format!(
        "Environment:\nzookeeper.version={VERSION}\nhost.name={}\nos.name={}\nos.arch={}\nos.version={}\n",
        kernel("hostname").trim(),
        std::env::consts::OS,
        std::env::consts::ARCH,
        kernel("osrelease").trim(),
    )
}

/// Bytes of all files below a directory, as far as they can be seen.
async fn size_of(dir: PathBuf) -> u64 {
    tokio::task::spawn_blocking(move || size_below(&dir, DEPTH_MAX)).await.unwrap_or(0)
}

/// Directories within directories that are looked into.
const DEPTH_MAX: usize = 8;

fn size_below(dir: &Path, depth: usize) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() && depth > 0 => size_below(&entry.path(), depth - 1),
        Ok(meta) if meta.is_file() => meta.len(),
        Ok(_) | Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_have_at_least_one_digit_behind_the_point() {
        assert_eq!([0.0, 6.75, 1.23456, 2.0].map(decimal), ["0.0", "6.75", "1.2346", "2.0"]);
    }

    #[test]
    fn a_directory_is_as_large_as_its_files() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), [0; 10]).unwrap();
        std::fs::create_dir(dir.path().join("b")).unwrap();
        std::fs::write(dir.path().join("b/c"), [0; 5]).unwrap();
        assert_eq!(size_below(dir.path(), 1), 15);
        assert_eq!(size_below(&dir.path().join("none"), 1), 0);
    }
}
