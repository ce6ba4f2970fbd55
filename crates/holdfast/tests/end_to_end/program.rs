//! The binary under test as a child process, and clusters of it on free ports.

use std::process::Command;

pub(crate) use holdfast_lab::{End, PortRange, Program, eventually, is_running, send};

/// The child processes of a process.
pub(crate) fn children(process: u32) -> Vec<u32> {
    let path = format!("/proc/{process}/task/{process}/children");
    let children = std::fs::read_to_string(path).unwrap_or_default();
    children.split_whitespace().map(|id| id.parse().unwrap()).collect()
}

/// Starts the binary under test, without the variables that configure the client.
pub(crate) fn spawn(args: &[&str], environment: &[(&str, &str)]) -> Program {
    Program::start(command(args, environment))
}

fn command(args: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HOLDFAST_") {
            command.env_remove(name);
        }
    }
    command.args(args).envs(environment.iter().copied());
    command
}

/// Runs the binary under test to its end.
pub(crate) fn holdfast(args: &[&str]) -> End {
    spawn(args, &[]).wait()
}

/// A ready `holdfast dev`. Drop stops it in order, so that it removes its temporary directory.
pub(crate) struct DevCluster {
    program: Program,
    ports: PortRange,
    nodes: u16,
    before_ready: String,
    ready: String,
}

impl DevCluster {
    /// Starts the cluster and waits for the ready line.
    pub(crate) fn start(args: &[&str]) -> Self {
        let ports = PortRange::reserve();
        let port_text = ports.first().to_string();
        let args = [&["dev", "--port", &port_text], args].concat();
        let mut program = Program::start_with_input(command(&args, &[]));
        let mut before_ready = String::new();
        let ready = loop {
            let line = program.next_stdout_line();
            if line.starts_with("ready ") {
                break line;
            }
            before_ready.extend([line.as_str(), "\n"]);
        };
        let mut cluster = Self { program, ports, nodes: 0, before_ready, ready };
        cluster.nodes = u16::try_from(cluster.node_pids().len()).unwrap();
        assert!(cluster.nodes > 0, "{}", cluster.before_ready);
        cluster
    }

    /// The HTTP port of the first node.
    pub(crate) fn port(&self) -> u16 {
        self.ports.first()
    }

    /// The data directory of the first node.
    pub(crate) fn data_dir(&self) -> String {
        let line = self.before_ready.lines().find_map(|line| line.strip_prefix("data and logs: "));
        let (dir, _) = line.unwrap().rsplit_once(" (").unwrap();
        format!("{dir}/node1/data")
    }

    /// Adds the first administrator through the first node.
    pub(crate) fn bootstrap(&self, args: &[&str]) -> End {
        let (dir, address) = (self.data_dir(), format!("127.0.0.1:{}", self.port()));
        let own = ["auth", "bootstrap", "--data-dir", &dir, "--addr", &address];
        self.client(&[&own, args].concat())
    }

    /// The output before the ready line.
    pub(crate) fn output_before_ready(&self) -> &str {
        &self.before_ready
    }

    /// The ready line.
    pub(crate) fn ready_line(&self) -> &str {
        &self.ready
    }

    /// The supervisor process.
    pub(crate) fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    /// The process ids in the table, by node.
    pub(crate) fn node_pids(&self) -> Vec<u32> {
        let second = |line: &str| line.split_whitespace().nth(1)?.parse().ok();
        self.before_ready.lines().skip(1).map_while(second).collect()
    }

    /// Runs a client command against all nodes to its end.
    pub(crate) fn client(&self, args: &[&str]) -> End {
        self.spawn_client(args).wait()
    }

    /// Starts a client command against all nodes.
    pub(crate) fn spawn_client(&self, args: &[&str]) -> Program {
        let addresses: Vec<String> =
            (0..self.nodes).map(|node| format!("127.0.0.1:{}", self.port() + 10 * node)).collect();
        spawn(args, &[("HOLDFAST_ADDR", &addresses.join(","))])
    }
}

impl Drop for DevCluster {
    fn drop(&mut self) {
        if self.program.ended().is_none() {
            self.program.interrupt();
            self.program.wait();
        }
    }
}
