//! Applies the commands of a running `holdfast dev` to its nodes, and prints each event as one line on stderr.
//!
//! Queue: reports of restarted nodes (16).

use std::collections::BTreeMap;
use std::io::stderr;
use std::time::Duration;

use crate::output::write_stderr;
use crate::terminal_text::{Colors, Tone};
use holdfast_client::Client;
use nix::sys::signal::Signal;
use tokio::sync::mpsc;

use super::input::NodeChange;
use super::supervisor::{DevCluster, NodeExit};

/// The time between two reads of the leader from a restarted node.
const INTERVAL: Duration = Duration::from_millis(50);
/// The time limit of one read.
const READ_TIMEOUT: Duration = Duration::from_secs(1);
const REPORTS_MAX: usize = 16;

/// The command that ends a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndedBy {
    Kill,
    Restart,
}

/// A restarted process of a node, after it reported a leader or the time limit passed.
#[derive(Debug)]
pub(super) struct RestartReport {
    node: u64,
    pid: Option<u32>,
    ready: bool,
}

/// The running cluster and the nodes that commands are ending or starting.
pub(super) struct DevConsole<'c> {
    cluster: &'c mut DevCluster,
    ending: BTreeMap<u64, EndedBy>,
    reports: mpsc::Receiver<RestartReport>,
    report: mpsc::Sender<RestartReport>,
    start_timeout: Duration,
    colors: Colors,
}

/// The next event of the cluster.
#[derive(Debug)]
pub(super) enum DevEvent {
    Ended(NodeExit),
    Restarted(RestartReport),
}

impl<'c> DevConsole<'c> {
    pub(super) fn new(cluster: &'c mut DevCluster, start_timeout: Duration) -> Self {
        let (report, reports) = mpsc::channel(REPORTS_MAX);
        let colors = Colors::of(&stderr());
        Self { cluster, ending: BTreeMap::new(), reports, report, start_timeout, colors }
    }

    /// Resolves with the next event.
    pub(super) async fn next(&mut self) -> DevEvent {
        tokio::select! {
            exit = self.cluster.next_exit() => DevEvent::Ended(exit),
            // `self` holds a sender.
            Some(report) = self.reports.recv() => DevEvent::Restarted(report),
        }
    }

    /// Prints an event, and starts a node that ended for a restart.
    pub(super) fn handle(&mut self, event: &DevEvent) {
        match event {
            DevEvent::Ended(exit) => self.ended(exit),
            DevEvent::Restarted(report) => self.restarted(report),
        }
    }

    /// Whether a node runs or starts.
    pub(super) fn has_nodes(&self) -> bool {
        self.cluster.running() > 0
    }

    fn ended(&mut self, exit: &NodeExit) {
        let node = exit.node;
        match self.ending.remove(&node) {
            Some(EndedBy::Restart) => self.start(node),
            Some(EndedBy::Kill) => self.changed(&format!("node {node} killed")),
            None => {
                self.print(Tone::Problem, &exit.to_string());
                self.print(self.quorum_tone(), &self.quorum_text());
            }
        }
    }

    fn restarted(&self, report: &RestartReport) {
        let node = report.node;
        match report.ready {
            // The process has ended since, which was printed.
            _ if self.cluster.pid(node) != report.pid => {}
            true => self.changed(&format!("node {node} restarted, ready")),
            false => {
                let (timeout, log) = (self.start_timeout, self.cluster.layout().log_file(node));
                let log = log.display();
                let text = format!(
                    "node {node} restarted, but reports no leader after {timeout:?}; its log: {log}"
                );
                self.print(Tone::Problem, &text);
            }
        }
    }

    /// Changes a node, or prints why the change is not possible.
    pub(super) async fn change(&mut self, change: NodeChange, node: u64) {
        let (is_running, is_paused) =
            (self.cluster.pid(node).is_some(), self.cluster.is_paused(node));
        match (change, is_running) {
            (NodeChange::Select, _) => {
                self.print(Tone::Plain, &format!("node {node} selected, {}", self.state(node)));
            }
            (NodeChange::Restart, false) => self.start(node),
            (_, false) => self.reject(node, "restart it first"),
            (NodeChange::Kill, true) => self.end(node, EndedBy::Kill).await,
            (NodeChange::Restart, true) => self.end(node, EndedBy::Restart).await,
            (NodeChange::Pause, true) if is_paused => self.reject(node, "resume it first"),
            (NodeChange::Resume, true) if !is_paused => self.reject(node, "pause it first"),
            (NodeChange::Pause | NodeChange::Resume | NodeChange::PauseOrResume, true) => {
                self.pause(node, !is_paused).await;
            }
        }
    }

    fn reject(&self, node: u64, next: &str) {
        self.print(Tone::Attention, &format!("node {node} is {}: {next}", self.state(node)));
    }

    fn state(&self, node: u64) -> String {
        match self.cluster.pid(node) {
            None => "not running".to_owned(),
            Some(pid) if self.cluster.is_paused(node) => format!("paused (pid {pid})"),
            Some(pid) => format!("running (pid {pid})"),
        }
    }

    /// Signals a running node; its exit is an event.
    async fn end(&mut self, node: u64, by: EndedBy) {
        self.ending.insert(node, by);
        match by {
            EndedBy::Kill => self.cluster.signal(node, Signal::SIGKILL).await,
            EndedBy::Restart => {
                self.cluster.signal(node, Signal::SIGTERM).await;
                self.cluster.set_paused(node, false).await;
            }
        }
    }

    async fn pause(&mut self, node: u64, paused: bool) {
        self.cluster.set_paused(node, paused).await;
        let done = if paused { "paused" } else { "resumed" };
        self.changed(&format!("node {node} {done}"));
    }

    /// Starts a node that is not running. A task reports when the node is ready.
    fn start(&mut self, node: u64) {
        if let Err(reason) = self.cluster.spawn(node) {
            self.print(Tone::Problem, &reason);
            return;
        }
        self.print(Tone::Plain, &format!("node {node} is starting"));
        let layout = self.cluster.layout();
        let (address, client) = (layout.http(node).to_string(), layout.client(node));
        let (report, pid, timeout) =
            (self.report.clone(), self.cluster.pid(node), self.start_timeout);
        tokio::spawn(async move {
            let ready = match client {
                Ok(client) => tokio::time::timeout(timeout, has_leader(client, address)).await,
                Err(_) => Ok(false),
            };
            let ready = ready.unwrap_or(false);
            // An error means that the cluster stops.
            drop(report.send(RestartReport { node, pid, ready }).await);
        });
    }

    /// Prints a change of the running nodes, and whether they are a majority.
    fn changed(&self, what: &str) {
        self.print(self.quorum_tone(), &format!("{what}; {}", self.quorum_text()));
    }

    fn quorum_text(&self) -> String {
        quorum_text(self.cluster.active(), self.cluster.size())
    }

    fn quorum_tone(&self) -> Tone {
        match (self.cluster.active(), self.cluster.size()) {
            (active, size) if active == size => Tone::Plain,
            (active, size) if is_quorum(active, size) => Tone::Attention,
            _ => Tone::Problem,
        }
    }

    pub(super) fn print(&self, tone: Tone, text: &str) {
        write_stderr(&self.colors.paint(tone, &format!("holdfast: {text}")));
    }
}

/// `2 of 3 nodes run, the cluster has a quorum`.
fn quorum_text(active: usize, size: usize) -> String {
    let quorum = if is_quorum(active, size) { "a" } else { "no" };
    format!("{active} of {size} nodes run, the cluster has {quorum} quorum")
}

fn is_quorum(active: usize, size: usize) -> bool {
    active > size / 2
}

/// Resolves with `true` when a node reports that it is healthy and has a leader.
async fn has_leader(client: Client, address: String) -> bool {
    loop {
        if let Ok(Ok(view)) = tokio::time::timeout(READ_TIMEOUT, client.cluster()).await {
            let healthy =
                |http: &str| view.nodes.iter().any(|node| node.http == http && node.healthy);
            if view.leader.is_some() && healthy(&address) {
                return true;
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_of_the_nodes_is_a_quorum() {
        assert_eq!(quorum_text(2, 3), "2 of 3 nodes run, the cluster has a quorum");
        assert_eq!(quorum_text(1, 3), "1 of 3 nodes run, the cluster has no quorum");
        assert!(
            quorum_text(0, 1).ends_with("no quorum") && quorum_text(3, 5).ends_with("a quorum")
        );
    }
}
