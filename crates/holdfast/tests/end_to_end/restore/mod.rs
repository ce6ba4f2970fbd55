//! Backup, restore and recovery with real processes.

mod commands;
mod fenced;
mod moved;
mod recovery;
mod runbook;
mod whole;

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use holdfast_lab::{Http, Method, NodeAddresses, NodeConfig, Reply, Timing};
use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use serde_json::Value;

use crate::program::{End, PortRange, Program, eventually, holdfast, spawn};

/// One node of a cluster, with the files of every start in the directory of the test.
pub(crate) struct TestNode {
    id: u64,
    members: Arc<Members>,
    data_dir: PathBuf,
    process: Option<Program>,
}

/// The addresses of members on free ports.
pub(crate) struct Members {
    addresses: Vec<NodeAddresses>,
    _ports: PortRange,
}

fn members(ids: &[u64]) -> Arc<Members> {
    let ports = PortRange::reserve();
    let first = ports.first();
    let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let addresses = (0..)
        .zip(ids)
        .map(|(number, id)| {
            let port = first + 3 * number;
            NodeAddresses {
                id: *id,
                http: address(port),
                peer: address(port + 1),
                zookeeper: address(port + 2),
            }
        })
        .collect();
    Arc::new(Members { addresses, _ports: ports })
}

impl TestNode {
    /// Starts node `id` of these members, with data in `data_dir`.
    fn start(id: u64, members: &Arc<Members>, data_dir: &Path) -> Self {
        let config = data_dir.with_extension("toml");
        let file = NodeConfig {
            cluster: "prod".into(),
            node: id,
            data_dir: data_dir.to_owned(),
            members: members.addresses.clone(),
            timing: Timing::default(),
            extra: String::new(),
        };
        std::fs::write(&config, file.to_toml()).unwrap();
        let process = Some(spawn(&["serve", "--config", &config.display().to_string()], &[]));
        Self { id, members: members.clone(), data_dir: data_dir.to_owned(), process }
    }

    /// Starts the only node of a restored cluster.
    fn start_alone(id: u64, data_dir: &Path) -> Self {
        let node = Self::start(id, &members(&[id]), data_dir);
        node.wait_ready();
        node
    }

    fn address(&self) -> String {
        let own = self.members.addresses.iter().find(|member| member.id == self.id).unwrap();
        own.http.to_string()
    }

    fn wait_ready(&self) {
        let address = self.address();
        let ready = || holdfast(&["status", "--addr", &address]).code == Some(0);
        eventually("the node to be ready", ready);
    }

    /// Runs a client command against this node.
    fn client(&self, args: &[&str]) -> End {
        holdfast(&[args, &["--addr", &self.address()]].concat())
    }

    fn http(&self) -> Http {
        Http::new(self.address())
    }

    fn kill(&mut self) {
        drop(self.process.take());
    }

    /// Stops the process in order, and returns its log.
    fn stop(&mut self) -> String {
        let mut process = self.process.take().unwrap();
        process.signal(Signal::SIGTERM);
        let end = process.wait().assert_code(0);
        end.stderr
    }
}

/// Three nodes that are ready, with data in `dir`.
fn cluster_of_three(dir: &Path) -> Vec<TestNode> {
    let members = members(&[1, 2, 3]);
    let start = |id| TestNode::start(id, &members, &dir.join(format!("node{id}")));
    let nodes: Vec<_> = (1..=3).map(start).collect();
    nodes.iter().for_each(TestNode::wait_ready);
    nodes
}

/// Runs a command that must succeed, and returns its JSON document.
#[track_caller]
fn json(args: &[&str]) -> Value {
    let end = holdfast(&[args, &["-o", "json"]].concat());
    assert_eq!(end.code, Some(0), "{args:?}: {}", end.stderr);
    serde_json::from_str(&end.stdout).unwrap_or_else(|error| panic!("{error}: {}", end.stdout))
}

/// The user of a service, which does not run as root.
const SERVICE: u32 = 65_532;

/// Gives a directory to the service, which can reach it. Only root can give.
fn give_to_a_service(dir: &Path) {
    std::fs::set_permissions(dir.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    let mut chown = Command::new("chown");
    let given = chown.args(["-R", &format!("{SERVICE}:{SERVICE}")]).arg(dir).status().unwrap();
    assert_eq!(given.success(), geteuid().is_root());
}

/// Without root, every file is that of the test.
fn assert_all_of_the_service(dir: &Path) {
    let user = if geteuid().is_root() { SERVICE } else { geteuid().as_raw() };
    let mut others = Command::new("find");
    let others = others.arg(dir).args(["!", "-uid", &user.to_string()]).output().unwrap();
    assert!(others.status.success(), "{others:?}");
    assert_eq!(String::from_utf8_lossy(&others.stdout), "");
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Acquires a free lock, and returns the token.
async fn acquire(http: &Http, lock: &str, session: &str) -> u64 {
    let target = format!("/v1/locks/{lock}?session={session}&ttl=60s");
    http.put(&target).await.assert_status(200).token()
}

async fn release(http: &Http, lock: &str, session: &str) -> Reply {
    http.call(Method::DELETE, &format!("/v1/locks/{lock}?session={session}")).await
}
