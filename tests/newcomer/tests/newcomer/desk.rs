//! The desk of a new user: a development cluster, and shells in a directory that looks like a built clone.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use holdfast_lab::{End, PortRange, Program, binary, send};
use nix::sys::signal::Signal;

use crate::page::{Block, Section, Step, blocks};
use crate::shell::Shell;

/// The ports in the pages: those of `holdfast dev` without options. The pages use 8400 for a load balancer.
const SHOWN_PORT: u16 = 7_400;
const SHOWN_BALANCER: &str = "8400";

/// A development cluster. Commands of the pages run against it, whatever its ports are.
pub(crate) struct Desk {
    cluster: Program,
    ports: PortRange,
    /// The process id of each node.
    nodes: Vec<u32>,
    clone: tempfile::TempDir,
}

impl Desk {
    /// A cluster of three nodes.
    pub(crate) fn new() -> Self {
        Self::start(3)
    }

    /// A cluster of one node, for pages that do not lose one.
    pub(crate) fn with_one_node() -> Self {
        Self::start(1)
    }

    fn start(nodes: u16) -> Self {
        let (ports, count) = (PortRange::reserve(), nodes.to_string());
        let mut command = Command::new(binary());
        command.args([
            "dev",
            "--commands",
            "--port",
            &ports.first().to_string(),
            "--nodes",
            &count,
        ]);
        let mut cluster = Program::start_with_input(command);
        let nodes = processes(&mut cluster);
        assert_eq!(nodes.len().to_string(), count, "the table of the nodes");
        let clone = tempfile::tempdir().expect("a directory");
        let release = clone.path().join("target/release");
        std::fs::create_dir_all(&release).expect("a directory");
        for program in ["holdfast", "measure"] {
            let built = binary().with_file_name(program);
            std::os::unix::fs::symlink(built, release.join(program)).expect("a link");
        }
        comparison(clone.path());
        Self { cluster, ports, nodes, clone }
    }

    /// The working directory of the shells.
    pub(crate) fn directory(&self) -> &Path {
        self.clone.path()
    }

    /// A shell with more variables, in which `export` has put `holdfast` on the path.
    pub(crate) fn shell(&self, export: &Step, variables: &[(&str, &str)]) -> Shell {
        let mut bash = self.command("bash");
        bash.args(["--noprofile", "--norc"]).envs(variables.iter().copied());
        let mut shell = Shell::start(bash);
        assert_eq!(shell.run(export.clone()).code, 0);
        shell
    }

    /// Runs a command that no page has.
    pub(crate) fn holdfast(&self, args: &[&str]) -> End {
        let mut command = self.command(binary());
        command.args(args);
        Program::start(command).wait()
    }

    /// A program that runs in the clone, and finds the cluster without options.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.clone.path());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HOLDFAST_") {
                command.env_remove(name);
            }
        }
        // A list, as operators set it: no command may use it as a part of a URL.
        let address = format!("127.0.0.1:{0},localhost:{0}", self.port());
        command.env("HOLDFAST_ADDR", address);
        command
    }

    /// The section with the ports of this cluster instead of 7400, 7410 and 7420.
    pub(crate) fn localized(&self, mut section: Section) -> Section {
        for step in &mut section.steps {
            for text in [&mut step.command, &mut step.shown] {
                *text = self.localized_text(text);
            }
        }
        section
    }

    /// The blocks of a page, with the ports of this cluster.
    pub(crate) fn localized_blocks(&self, path: &str) -> Vec<Block> {
        let mut all = blocks(path);
        for block in &mut all {
            block.text = self.localized_text(&block.text);
        }
        all
    }

    /// The HTTP port of the first node.
    pub(crate) fn port(&self) -> u16 {
        self.ports.first()
    }

    /// The port of a load balancer before this cluster; no node listens on it.
    pub(crate) fn balancer_port(&self) -> u16 {
        self.port() + 3
    }

    fn localized_text(&self, text: &str) -> String {
        let text = text.replace(SHOWN_BALANCER, &self.balancer_port().to_string());
        (0..3).fold(text, |text, node| {
            let [shown, port] = [SHOWN_PORT, self.port()].map(|first| first + 10 * node);
            text.replace(&shown.to_string(), &port.to_string())
        })
    }

    /// Kills a node as `kill -9` does.
    pub(crate) fn kill(&self, node: usize) {
        send(self.nodes[node - 1], Signal::SIGKILL);
    }

    /// Restarts a node, as its key does.
    pub(crate) fn restart(&mut self, node: usize) {
        self.cluster.write_line(&format!("restart {node}"));
    }
}

/// `scripts/compare` of the clone: it runs the program beside holdfast, without building it.
fn comparison(clone: &Path) {
    let script = clone.join("scripts/compare");
    std::fs::create_dir_all(clone.join("scripts")).expect("a directory");
    let (holdfast, measure) = (binary().display(), binary().with_file_name("measure"));
    let text =
        format!("#!/bin/sh\nHOLDFAST_BIN='{holdfast}' exec '{}' \"$@\"\n", measure.display());
    std::fs::write(&script, text).expect("a script");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("a script");
}

impl Drop for Desk {
    fn drop(&mut self) {
        if self.cluster.ended().is_none() {
            self.cluster.interrupt();
            self.cluster.wait();
        }
    }
}

/// The process ids in the table that `holdfast dev` prints, in the order of the nodes.
fn processes(cluster: &mut Program) -> Vec<u32> {
    let mut nodes = Vec::new();
    loop {
        let line = cluster.next_stdout_line();
        if line.starts_with("ready ") {
            return nodes;
        }
        let mut words = line.split_whitespace();
        if words.next().is_some_and(|first| first.parse::<u16>().is_ok()) {
            nodes.extend(words.next().and_then(|pid| pid.parse::<u32>().ok()));
        }
    }
}
