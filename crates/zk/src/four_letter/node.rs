//! The state of the node: `srvr`, `mntr`, `conf`, `envi` and `dirs`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use holdfast_service::MemberRole;

use super::VERSION;
use crate::context::{ServerContext, members_text};

/// The open files of the process on Linux; other systems omit the number.
const OPEN_FILES: &str = "/proc/self/fd";
/// The limits of the process on Linux.
const LIMITS: &str = "/proc/self/limits";
/// The name of the host and the version of the kernel on Linux.
const KERNEL: &str = "/proc/sys/kernel";

/// `srvr`; `stat` adds the connections after the version.
pub(super) fn server(context: &ServerContext, clients: &str) -> String {
    let stats = context.connections.totals();
    format!(
        "Zookeeper version: {VERSION}\n{clients}\
         Latency min/avg/max: {}/{}/{}\n\
         Received: {}\nSent: {}\nConnections: {}\nOutstanding: {}\n\
         Zxid: {:#x}\nMode: {}\nNode count: {}\n",
        stats.latency_min().as_millis(),
        decimal(stats.latency_average_ms()),
        stats.latency_max.as_millis(),
        stats.received,
        stats.sent,
        context.connections.count(),
        stats.outstanding,
        context.service.revision().0,
        mode(context),
        context.service.counts().znodes,
    )
}

fn mode(context: &ServerContext) -> &'static str {
    if context.service.members().len() == 1 {
        "standalone"
    } else if context.service.leader() == Some(context.service.node()) {
        "leader"
    } else {
        "follower"
    }
}

/// A number with one to four decimal places.
fn decimal(number: f64) -> String {
    let text = format!("{number:.4}");
    let kept = text.trim_end_matches('0');
    if kept.ends_with('.') { format!("{kept}0") } else { kept.to_owned() }
}

/// `mntr`: one value on each line.
pub(super) async fn monitor(context: &ServerContext) -> String {
    let (stats, counts) = (context.connections.totals(), context.service.counts());
    let watches = context.service.watch_counts();
    let mode = mode(context);
    let mut values: Vec<(&str, String)> = vec![
        ("version", VERSION.to_owned()),
        ("server_state", mode.to_owned()),
        ("znode_count", counts.znodes.to_string()),
        ("ephemerals_count", counts.ephemerals.to_string()),
        ("approximate_data_size", counts.znode_bytes.to_string()),
        ("local_sessions", "0".to_owned()),
        ("global_sessions", counts.sessions.to_string()),
        ("num_alive_connections", context.connections.count().to_string()),
        ("outstanding_requests", stats.outstanding.to_string()),
        ("min_latency", stats.latency_min().as_millis().to_string()),
        ("avg_latency", decimal(stats.latency_average_ms())),
        ("max_latency", stats.latency_max.as_millis().to_string()),
        ("packets_received", stats.received.to_string()),
        ("packets_sent", stats.sent.to_string()),
        ("watch_count", watches.watches.to_string()),
        ("connection_rejected", context.metrics.0.refused.get().to_string()),
        ("uptime", context.connections.uptime().as_millis().to_string()),
    ];
    if let Ok(files) = std::fs::read_dir(OPEN_FILES) {
        values.push(("open_file_descriptor_count", files.count().to_string()));
    }
    if let Some(files) = open_files_max() {
        values.push(("max_file_descriptor_count", files));
    }
    if mode != "standalone" {
        let peer_state = if mode == "leader" { "leading" } else { "following" };
        values.push(("peer_state", format!("{peer_state} - broadcast")));
        values.push(("quorum_size", context.service.members().len().to_string()));
    }
    if mode == "leader" {
        let followers = followers(context).await.to_string();
        values.push(("learners", followers.clone()));
        values.push(("synced_followers", followers));
    }
    let lines = values.into_iter().map(|(name, value)| format!("zk_{name}\t{value}\n"));
    lines.collect()
}

/// The healthy followers. Calls all members.
async fn followers(context: &ServerContext) -> usize {
    let nodes = context.service.cluster().await.nodes;
    nodes.iter().filter(|node| node.healthy && node.role == MemberRole::Follower).count()
}

fn open_files_max() -> Option<String> {
    let limits = std::fs::read_to_string(LIMITS).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next().map(str::to_owned)
}

/// `conf`.
pub(super) async fn configuration(context: &ServerContext) -> String {
    let config = &context.config;
    let (min, max) = config.timeouts();
    let size = size_of(config.data_dir.clone()).await;
    let dir = config.data_dir.display();
    let mut text = format!(
        "clientPort={}\nsecureClientPort=-1\ndataDir={dir}\ndataDirSize={size}\ndataLogDir={dir}\ndataLogSize={size}\n\
         tickTime={}\nmaxClientCnxns={}\nminSessionTimeout={min}\nmaxSessionTimeout={max}\n\
         clientPortListenBacklog=-1\nserverId={}\n",
        context.address.map_or(0, |address| address.port()),
        config.tick.as_millis(),
        config.connections_per_address_max,
        context.service.node(),
    );
    if let (Some(members), Some(own)) = (
        members_text(&context.service.members()),
        context.service.members().get(&context.service.node()),
    ) {
        let port = own.peer.port();
        let _infallible = write!(
            text,
            "electionPort={port}\nquorumPort={port}\npeerType=0\nmembership: \n{members}"
        );
    }
    text
}

/// `dirs`: the log and the snapshots share one directory.
pub(super) async fn directories(context: &ServerContext) -> String {
    let size = size_of(context.config.data_dir.clone()).await;
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

/// Bytes of all readable files below a directory.
async fn size_of(dir: PathBuf) -> u64 {
    tokio::task::spawn_blocking(move || size_below(&dir, DEPTH_MAX)).await.unwrap_or(0)
}

/// The depth of nested directories that count.
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
    fn averages_have_at_least_one_decimal_place() {
        assert_eq!([0.0, 6.75, 1.23456, 2.0].map(decimal), ["0.0", "6.75", "1.2346", "2.0"]);
    }

    #[test]
    fn the_size_of_a_directory_is_the_sum_of_its_files() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), [0; 10]).unwrap();
        std::fs::create_dir(dir.path().join("b")).unwrap();
        std::fs::write(dir.path().join("b/c"), [0; 5]).unwrap();
        assert_eq!(size_below(dir.path(), 1), 15);
        assert_eq!(size_below(&dir.path().join("none"), 1), 0);
    }
}
