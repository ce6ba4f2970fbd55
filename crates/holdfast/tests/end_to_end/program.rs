//! The binary under test as a child process, and clusters of it on free ports.

use std::net::TcpListener;
use std::process::Command;
use std::sync::Mutex;

pub(crate) use holdfast_lab::{End, Program, eventually, is_running, send};

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

/// Returns the first port of a free range for `nodes` nodes. The range stays reserved until the end of this process,
/// because the process listens on its last port.
pub(crate) fn free_ports(nodes: u16) -> u16 {
    static OURS: Mutex<Vec<TcpListener>> = Mutex::new(Vec::new());
    let offset = u16::try_from(std::process::id() % 180).unwrap() * 50;
    let ranges = (0..180).map(|range| 20_000 + (offset + range * 50) % 9_000);
    let bind = |port: u16| TcpListener::bind(("127.0.0.1", port)).ok();
    let all_free = |first: u16| {
        (0..nodes).all(|node| (0..3).all(|port| bind(first + node * 10 + port).is_some()))
    };
    let free = ranges.into_iter().find_map(|first| {
        let last = bind(first + 49)?;
        all_free(first).then_some((first, last))
    });
    let (first, last) = free.expect("a free range of ports");
    OURS.lock().unwrap().push(last);
    first
}

/// A ready `holdfast dev`. Drop stops it in order, so that it removes its temporary directory.
pub(crate) struct DevCluster {
    program: Program,
    port: u16,
    nodes: u16,
    before_ready: String,
    ready: String,
}

impl DevCluster {
    /// Starts the cluster and waits for the ready line.
    pub(crate) fn start(args: &[&str]) -> Self {
        let port = free_ports(5);
        let port_text = port.to_string();
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
        let mut cluster = Self { program, port, nodes: 0, before_ready, ready };
        cluster.nodes = u16::try_from(cluster.node_pids().len()).unwrap();
        assert!(cluster.nodes > 0, "{}", cluster.before_ready);
        cluster
    }

    /// The HTTP port of the first node.
    pub(crate) fn port(&self) -> u16 {
        self.port
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
            (0..self.nodes).map(|node| format!("127.0.0.1:{}", self.port + 10 * node)).collect();
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
