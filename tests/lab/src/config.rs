//! The configuration file of one node under test, in the format that operators write.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// One block `[[member]]`.
#[derive(Clone, Debug)]
pub struct NodeAddresses {
    /// From 1.
    pub id: u64,
    /// Address of the HTTP front-end.
    pub http: SocketAddr,
    /// Address for peers; in the file of another node this may be a proxy.
    pub peer: SocketAddr,
    /// Address of the ZooKeeper front-end.
    pub zookeeper: SocketAddr,
}

/// Heartbeat interval and election timeouts.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Interval between two heartbeats.
    pub heartbeat: Duration,
    /// Shortest election timeout.
    pub election_min: Duration,
    /// Longest election timeout.
    pub election_max: Duration,
}

impl Default for Timing {
    /// About one second, to avoid unnecessary elections on a loaded two-core machine.
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(150),
            election_min: Duration::from_millis(800),
            election_max: Duration::from_millis(1_400),
        }
    }
}

/// The contents of the file.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The cluster's name.
    pub cluster: String,
    /// The id of this member.
    pub node: u64,
    /// Data directory.
    pub data_dir: PathBuf,
    /// All members.
    pub members: Vec<NodeAddresses>,
    /// Heartbeats and elections.
    pub timing: Timing,
    /// Additional TOML, appended unchanged (e.g. `[storage]`).
    pub extra: String,
}

impl NodeConfig {
    /// The file's text.
    pub fn to_toml(&self) -> String {
        let mut text = format!(
            "cluster = {:?}\nnode = {}\ndata_dir = {:?}\n",
            self.cluster,
            self.node,
            self.data_dir.display().to_string()
        );
        for NodeAddresses { id, http, peer, zookeeper } in &self.members {
            let block = format!(
                "\n[[member]]\nid = {id}\nhttp = \"{http}\"\npeer = \"{peer}\"\nzookeeper = \"{zookeeper}\"\n"
            );
            text.push_str(&block);
        }
        let Timing { heartbeat, election_min, election_max } = self.timing;
        let raft = [
            ("heartbeat", heartbeat),
            ("election_min", election_min),
            ("election_max", election_max),
        ];
        text.push_str("\n[raft]\n");
        for (key, value) in raft {
            writeln!(text, "{key} = \"{}ms\"", value.as_millis()).expect("a string takes it");
        }
        // `info` explains a failed test without the Raft library's debug output.
        text.push_str("\n[log]\nlevel = \"info\"\n");
        format!("{text}\n{}", self.extra)
    }
}
