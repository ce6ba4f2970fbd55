//! A holdfast cluster for the length of the story.
//!
//! Owns finding free ports and the binary, `holdfast dev` as a child that cannot outlive us, and its data. Refuses
//! to know more of it than its `ready` line and `GET /v1/cluster`.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::Fallible;
use crate::scratch::leash::Leash;

const NODES: u16 = 3;
const START_DEADLINE: Duration = Duration::from_secs(40);
const PORT_TRIES: usize = 100;
/// Runs under `sh`, so that the cluster's log does not end up in the story.
const LAUNCH: &str = r#"exec "$0" dev --nodes "$1" --port "$2" --data "$3/data" 2>>"$3/log""#;

/// A running cluster. Dropping it stops all nodes and removes their data.
pub(crate) struct Cluster {
    /// `host:port` of each node's HTTP door.
    pub(crate) nodes: Vec<String>,
    pub(crate) leader: u64,
    // Dropped in this order: first the nodes end, then their directory goes.
    _nodes: Leash,
    _dir: TempDir,
}

impl Cluster {
    /// Starts three nodes and waits for a leader.
    pub(crate) async fn start(binary: &Path) -> Fallible<Self> {
        let dir = tempfile::Builder::new().prefix("holdfast-demo-").tempdir()?;
        let port = free_ports()?;
        let arguments: [OsString; 6] = [
            "-c".into(),
            LAUNCH.into(),
            binary.into(),
            NODES.to_string().into(),
            port.to_string().into(),
            dir.path().into(),
        ];
        let (leash, stdout) = Leash::spawn("sh", &arguments, "TERM", None, Stdio::piped())?;
        let url = match ready(stdout.ok_or("no stdout of the cluster")?).await {
            Ok(url) => url,
            Err(error) => {
                let log = std::fs::read_to_string(dir.path().join("log")).unwrap_or_default();
                return Err(format!("{} dev: {error}\n{log}", binary.display()).into());
            }
        };
        let cluster: Value = reqwest::get(format!("{url}/v1/cluster")).await?.json().await?;
        let nodes = cluster["nodes"].as_array().ok_or("/v1/cluster names no nodes")?;
        let nodes =
            nodes.iter().filter_map(|node| node["http"].as_str().map(str::to_owned)).collect();
        let leader = cluster["leader"].as_u64().unwrap_or(0);
        Ok(Self { nodes, leader, _nodes: leash, _dir: dir })
    }
}

/// The address in the line `ready http://...`. The rest of the output is read and dropped.
async fn ready(stdout: ChildStdout) -> Fallible<String> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let mut sender = Some(sender);
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let Some(url) = line.strip_prefix("ready ") else { continue };
            if let Some(sender) = sender.take() {
                drop(sender.send(url.trim().to_owned()));
            }
        }
    });
    match tokio::time::timeout(START_DEADLINE, receiver).await {
        Ok(Ok(url)) => Ok(url),
        Ok(Err(_)) => Err("the cluster ended before it was ready".into()),
        Err(_) => Err(format!("no leader after {START_DEADLINE:?}").into()),
    }
}

/// A port P such that P, P+1, P+2, P+10 ... are free now: three for each node, ten apart.
fn free_ports() -> Fallible<u16> {
    for _ in 0..PORT_TRIES {
        let first = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let ports = (0..NODES).flat_map(|node| (0..3).map(move |door| node * 10 + door));
        let free = |offset: u16| {
            let port = first.checked_add(offset);
            port.is_some_and(|port| TcpListener::bind(("127.0.0.1", port)).is_ok())
        };
        if ports.into_iter().all(free) {
            return Ok(first);
        }
    }
    Err("found no free ports for three nodes".into())
}

/// The binary that was named, or the one beside this program (`target/debug/holdfast`).
pub(crate) fn binary(named: Option<&str>) -> Fallible<PathBuf> {
    let path = if let Some(path) = named {
        PathBuf::from(path)
    } else {
        let exe = std::env::current_exe()?;
        let dir = exe.parent().and_then(Path::parent).ok_or("this program has no directory")?;
        dir.join("holdfast")
    };
    if path.is_file() {
        return Ok(path);
    }
    Err(format!(
        "no {}: build it with `cargo build -p holdfast`, or name it with --holdfast",
        path.display()
    )
    .into())
}
