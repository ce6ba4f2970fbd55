//! Starts, watches and stops the processes of a development cluster.
//!
//! One task for each child signals and reaps the child, so a signal never reaches another process with a reused id.
//! The stdin of a child is a pipe from this process; the child stops when this process ends. Queues: signals for a
//! child (4), exits of children (64).

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use holdfast_api::{ClusterBody, NodeBody};
use holdfast_client::Client;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::layout::Layout;
use super::node_log;

/// The time from SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(10);
/// The time between two reads of the leader while the cluster starts.
const INTERVAL: Duration = Duration::from_millis(20);

/// The exit of a node.
#[derive(Debug)]
pub struct NodeExit {
    pub node: u64,
    pid: u32,
    status: std::io::Result<ExitStatus>,
    /// The last error in the log of this process.
    last_error: Option<String>,
}

impl fmt::Display for NodeExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} (pid {}) ended: ", self.node, self.pid)?;
        let status = match &self.status {
            Ok(status) => status,
            Err(error) => return write!(f, "{error}"),
        };
        write!(f, "{status}")?;
        // An error that a node logged before a signal killed it did not end it.
        let error = self.last_error.as_ref().filter(|_| status.code().is_some());
        if let Some(error) = error {
            write!(f, ": {error}")?;
        }
        Ok(())
    }
}

struct NodeProcess {
    pid: u32,
    signals: mpsc::Sender<Signal>,
    paused: bool,
    /// The write end of the child's stdin. Dropping it stops the child.
    _stdin: Option<ChildStdin>,
}

/// A running development cluster. Dropping it kills the nodes.
pub struct DevCluster {
    layout: Layout,
    nodes: BTreeMap<u64, NodeProcess>,
    exits: mpsc::Receiver<NodeExit>,
    report: mpsc::Sender<NodeExit>,
}

impl DevCluster {
    /// Checks the ports, writes the files and starts every node.
    ///
    /// # Errors
    /// The problem, and what to do.
    pub fn start(layout: Layout) -> Result<Self, String> {
        layout.check_ports()?;
        layout.write()?;
        let (report, exits) = mpsc::channel(64);
        let mut cluster = Self { layout, nodes: BTreeMap::new(), exits, report };
        for node in cluster.layout.ids() {
            cluster.spawn(node)?;
        }
        Ok(cluster)
    }

    /// Starts a node that is not running.
    pub fn spawn(&mut self, node: u64) -> Result<(), String> {
        let log = self.layout.log_file(node);
        let log_start = node_log::len(&log);
        let mut child =
            self.command(node).map_err(|error| format!("cannot start node {node}: {error}"))?;
        let pid = child.id().ok_or_else(|| format!("node {node} ended at its start"))?;
        let stdin = child.stdin.take();
        let (signals, inbox) = mpsc::channel(4);
        let report = self.report.clone();
        tokio::spawn(async move {
            let status = run_child(child, inbox).await;
            let last_error = node_log::last_error(&log, log_start);
            // An error means that the cluster was dropped.
            drop(report.send(NodeExit { node, pid, status, last_error }).await);
        });
        self.nodes.insert(node, NodeProcess { pid, signals, paused: false, _stdin: stdin });
        Ok(())
    }

    fn command(&self, node: u64) -> std::io::Result<Child> {
        let log = File::options().create(true).append(true).open(self.layout.log_file(node))?;
        let mut command = Command::new(self.layout.program()?);
        command
            .arg("serve")
            .arg("--config")
            .arg(self.layout.config_file(node))
            .arg("--exit-with-parent")
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            // A ^C in the terminal reaches only this process, which stops the nodes.
            .process_group(0)
            .kill_on_drop(true);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HOLDFAST_") {
                command.env_remove(name);
            }
        }
        command.spawn()
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the process id of a running node.
    pub fn pid(&self, node: u64) -> Option<u32> {
        self.nodes.get(&node).map(|node| node.pid)
    }

    /// Returns the number of running nodes.
    pub fn running(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the number of nodes, running or not.
    pub(super) fn size(&self) -> usize {
        self.layout.ids().count()
    }

    /// Returns the number of running nodes that are not paused.
    pub(super) fn active(&self) -> usize {
        self.nodes.values().filter(|node| !node.paused).count()
    }

    pub(super) fn is_paused(&self, node: u64) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.paused)
    }

    /// Pauses or resumes a node with SIGSTOP or SIGCONT, if it is running.
    pub(super) async fn set_paused(&mut self, node: u64, paused: bool) {
        self.signal(node, if paused { Signal::SIGSTOP } else { Signal::SIGCONT }).await;
        if let Some(node) = self.nodes.get_mut(&node) {
            node.paused = paused;
        }
    }

    /// Resolves with the next exit of a node.
    pub async fn next_exit(&mut self) -> NodeExit {
        match self.exits.recv().await {
            Some(exit) => {
                self.nodes.remove(&exit.node);
                exit
            }
            // Unreachable: `self` holds a sender.
            None => std::future::pending().await,
        }
    }

    /// Resolves when every node reports the same leader, with the view of the first node.
    ///
    /// # Errors
    /// A node ended or timed out; the error contains the end of its log.
    pub async fn wait_ready(&mut self, timeout: Duration) -> Result<ClusterBody, String> {
        let until = Instant::now() + timeout;
        let mut clients = BTreeMap::new();
        for node in self.layout.ids() {
            clients.insert(node, self.layout.client(node)?);
        }
        loop {
            match agreed(&clients).await {
                Ok(view) => return Ok(view),
                Err(laggard) if Instant::now() >= until => {
                    return Err(self.not_ready(laggard, timeout));
                }
                Err(_) => {}
            }
            tokio::select! {
                exit = self.next_exit() => {
                    let log = self.log_tail(exit.node);
                    return Err(format!("{exit}\nthe end of its log:\n{log}"));
                }
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
    }

    fn not_ready(&self, node: u64, timeout: Duration) -> String {
        let log = self.log_tail(node);
        let file = self.layout.log_file(node);
        format!(
            "node {node} reports no leader after {timeout:?}; its log {} ends with:\n{log}",
            file.display()
        )
    }

    /// Returns the last lines of the log of a node.
    pub fn log_tail(&self, node: u64) -> String {
        node_log::tail(&self.layout.log_file(node))
    }

    /// Sends a signal to a node, if it is running.
    pub async fn signal(&self, node: u64, signal: Signal) {
        if let Some(node) = self.nodes.get(&node) {
            // An error means that the child has ended.
            let _ended = node.signals.send(signal).await;
        }
    }

    /// Stops every node, and kills nodes that exceed the time limit. Resolves when all nodes have ended.
    pub async fn stop(&mut self) {
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            for node in self.layout.ids() {
                self.signal(node, signal).await;
                // A paused process handles SIGTERM only after SIGCONT.
                self.signal(node, Signal::SIGCONT).await;
            }
            let all_ended = async {
                while self.running() > 0 {
                    self.next_exit().await;
                }
            };
            if tokio::time::timeout(GRACE, all_ended).await.is_ok() {
                return;
            }
        }
    }
}

/// Sends signals to a child until the child has ended.
async fn run_child(
    mut child: Child,
    mut inbox: mpsc::Receiver<Signal>,
) -> std::io::Result<ExitStatus> {
    loop {
        let signal = tokio::select! {
            status = child.wait() => return status,
            signal = inbox.recv() => signal,
        };
        // A closed channel means that the cluster was dropped.
        let signal = signal.unwrap_or(Signal::SIGKILL);
        if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
            // The child may have ended in the meantime; then `wait` returns.
            let _ended = nix::sys::signal::kill(Pid::from_raw(pid), signal);
        }
        if signal == Signal::SIGKILL {
            return child.wait().await;
        }
    }
}

/// Returns the view of the first node, if all nodes report its leader and all voters know that they vote. The error is the id of
/// a node that is not ready.
async fn agreed(clients: &BTreeMap<u64, Client>) -> Result<ClusterBody, u64> {
    let mut first: Option<ClusterBody> = None;
    for (node, client) in clients {
        let view = client.cluster().await.map_err(|_| *node)?;
        let leader = view.leader.ok_or(*node)?;
        match &first {
            Some(first) if first.leader != Some(leader) => return Err(*node),
            Some(_) => {}
            None => first = Some(view),
        }
    }
    let view = first.ok_or(1_u64)?;
    match starting_node(&view) {
        Some(node) => Err(node),
        None => Ok(view),
    }
}

/// Returns a node that has no leader yet, or has not received the first log entry. A voter without that entry reports itself as a
/// learner. The node of the view reports no voters without it.
fn starting_node(view: &ClusterBody) -> Option<u64> {
    let has_voters = view.nodes.iter().any(|node| node.votes);
    let starts =
        |node: &&NodeBody| !node.healthy || !has_voters || (node.votes && node.role == "learner");
    view.nodes.iter().find(starts).map(|node| node.id.0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn a_voter_without_the_first_log_entry_is_still_starting() {
        let view = |roles: [(&str, bool); 2]| -> ClusterBody {
            let node = |id: u64, (role, votes): (&str, bool)| {
                serde_json::json!({
                    "id": id, "role": role, "votes": votes, "healthy": true, "applied_revision": 1,
                    "http": "h:1", "peer": "h:2", "zookeeper": "h:3",
                })
            };
            let [first, second] = roles;
            serde_json::from_value(serde_json::json!({
                "cluster": "dev", "cluster_id": null, "level": 1, "term": 1, "leader": 1,
                "nodes": [node(1, first), node(2, second)],
            }))
            .unwrap()
        };
        assert_eq!(starting_node(&view([("leader", true), ("follower", true)])), None);
        assert_eq!(starting_node(&view([("leader", true), ("learner", true)])), Some(2));
        assert_eq!(starting_node(&view([("leader", true), ("learner", false)])), None);
        assert_eq!(starting_node(&view([("learner", false), ("learner", false)])), Some(1));
    }

    #[test]
    fn the_last_error_is_shown_for_a_node_that_ended_by_itself() {
        let exit = |raw: i32, last_error: Option<&str>| {
            let (status, last_error) =
                (Ok(ExitStatus::from_raw(raw)), last_error.map(str::to_owned));
            NodeExit { node: 2, pid: 812, status, last_error }.to_string()
        };
        let error = Some("holdfast: the log is corrupt");
        assert_eq!(exit(9, error), "node 2 (pid 812) ended: signal: 9 (SIGKILL)");
        let ended = "node 2 (pid 812) ended: exit status: 70";
        assert_eq!(exit(70 << 8, None), ended);
        assert_eq!(exit(70 << 8, error), format!("{ended}: holdfast: the log is corrupt"));
    }
}
