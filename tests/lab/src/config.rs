//! The configuration file of one node under test, as an operator would write it.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// One block `[[member]]`.
#[derive(Clone, Debug)]
pub struct Member {
    /// From 1.
    pub id: u64,
    /// Where it answers HTTP.
    pub http: SocketAddr,
    /// Where its peers reach it; in the file of another node this may be a proxy.
    pub peer: SocketAddr,
    /// Where it answers `ZooKeeper` clients.
    pub zookeeper: SocketAddr,
}

/// How fast the cluster notices that its leader is gone.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Pause between two heartbeats.
    pub heartbeat: Duration,
    /// Shortest election timeout.
    pub election_min: Duration,
    /// Longest election timeout.
    pub election_max: Duration,
}

impl Default for Timing {
    /// About one second, so that a loaded two-core machine holds no needless election.
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(150),
            election_min: Duration::from_millis(800),
            election_max: Duration::from_millis(1_400),
        }
    }
}

/// Everything in the file.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The cluster's name.
    pub cluster: String,
    /// Which member this is.
    pub node: u64,
    /// Where it keeps its data.
    pub data_dir: PathBuf,
    /// All members.
    pub members: Vec<Member>,
    /// Heartbeats and elections.
    pub timing: Timing,
    /// Further TOML, appended as it is (`[storage]` and the like).
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
        for Member { id, http, peer, zookeeper } in &self.members {
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
        // The story of a failed test, without the library's own every step.
        text.push_str("\n[log]\nlevel = \"info\"\n");
        format!("{text}\n{}", self.extra)
    }
}
