//! The desk of a new user: a development cluster, and shells with `holdfast` on their path.

use std::path::Path;
use std::process::Command;

use holdfast_lab::{End, Program, binary};
use nix::sys::signal::Signal;

/// A development cluster of three nodes. Commands of the pages run against it, whatever its ports are.
pub(crate) struct Desk {
    cluster: Program,
    port: u16,
    /// The process id of each node.
    nodes: Vec<u32>,
    directory: tempfile::TempDir,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let port = free_ports();
        let mut command = Command::new(binary());
        command.args(["dev", "--port", &port.to_string()]);
        let mut cluster = Program::start(command);
        let mut nodes = Vec::new();
        loop {
            let line = cluster.next_stdout_line();
            let second: Option<u32> =
                line.split_whitespace().nth(1).and_then(|word| word.parse().ok());
            nodes.extend(second.filter(|_| line.starts_with(|first: char| first.is_ascii_digit())));
            if line.starts_with("ready ") {
                break;
            }
        }
        assert_eq!(nodes.len(), 3, "the table of the nodes");
        Self { cluster, port, nodes, directory: tempfile::tempdir().expect("a directory") }
    }

    /// The working directory of the shells.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Runs a command of a page in a shell of its own, as `bash` does it.
    pub(crate) fn start(&self, command: &str) -> Program {
        let bin = binary().parent().expect("a directory").display();
        let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("exec {}", self.localized(command))]);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HOLDFAST_") {
                shell.env_remove(name);
            }
        }
        shell.env("PATH", path).env("HOLDFAST_ADDR", format!("127.0.0.1:{}", self.port));
        shell.current_dir(self.directory.path());
        Program::start(shell)
    }

    pub(crate) fn run(&self, command: &str) -> End {
        self.start(command).wait()
    }

    /// Kills a node, counted from 0, as `kill -9` does.
    pub(crate) fn kill_node(&self, node: usize) {
        holdfast_lab::send(self.nodes[node], Signal::SIGKILL);
    }

    /// The HTTP address of a node, counted from 0.
    pub(crate) fn address(&self, node: u16) -> String {
        format!("127.0.0.1:{}", self.port + 10 * node)
    }

    /// The command with the ports of this cluster instead of 7400, 7410 and 7420.
    fn localized(&self, command: &str) -> String {
        (0..3).fold(command.to_owned(), |command, node| {
            let port = (self.port + 10 * node).to_string();
            command.replace(&format!("{}", 7_400 + 10 * node), &port)
        })
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        if self.cluster.ended().is_none() {
            self.cluster.interrupt();
            self.cluster.wait();
        }
    }
}

/// The first of the ports that three nodes need: three each, ten apart.
fn free_ports() -> u16 {
    let is_free = |port: u16| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    let all_free =
        |first: &u16| (0..3).all(|node| (0..3).all(|port| is_free(first + 10 * node + port)));
    let begin = 12_000 + u16::try_from(std::process::id() % 100).unwrap_or_default() * 40;
    let mut candidates = (0..100).map(|step| 12_000 + (begin - 12_000 + step * 40) % 4_000);
    candidates.find(all_free).expect("free ports")
}
