//! The section "Backup and restore" of docs/operations.md: every command works, in the order of the page.

use std::path::Path;
use std::process::Command;

use super::{TestNode, acquire, cluster_of_three};
use crate::program::{Program, eventually, holdfast};

const PAGE: &str = include_str!("../../../../../docs/operations.md");

/// The blocks of one language in the section.
fn blocks(language: &str) -> Vec<&'static str> {
    let (_, section) = PAGE.split_once("\n## Backup and restore\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let fence = format!("```{language}\n");
    section.split(fence.as_str()).skip(1).map(|block| block.split("```").next().unwrap()).collect()
}

/// A shell in the directory of the test.
fn shell(dir: &Path, command: &str, address: &str) -> Command {
    let bin = Path::new(env!("CARGO_BIN_EXE_holdfast")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    // A node rejects unknown variables of this name.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HOLDFAST_") {
            shell.env_remove(name);
        }
    }
    // The shell is the command, so that its end is the end of the command.
    shell.args(["-c", command]).current_dir(dir).env("PATH", path);
    shell.env("HOLDFAST_ADDR", address);
    shell
}

fn run(dir: &Path, command: &str, address: &str) {
    let output = shell(dir, command, address).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "$ {command}\n{stderr}");
}

/// Starts the node of the page with its own configuration, on the ports of node 1.
fn serve(dir: &Path, command: &str, node: &TestNode) -> Program {
    let own = &node.members.addresses[0];
    let config = blocks("toml")[0]
        .replace("127.0.0.1:7400", &own.http.to_string())
        .replace("127.0.0.1:7401", &own.peer.to_string())
        .replace("127.0.0.1:7402", &own.zookeeper.to_string())
        .replace("\"holdfast\"", "\"prod\"");
    std::fs::write(dir.join("restored.toml"), config).unwrap();
    Program::start(shell(dir, &format!("exec {command}"), ""))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_runbook_works() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster_of_three(dir.path());
    let last = acquire(&nodes[0].http(), "orders", "old").await;
    let address = nodes[0].address();
    let commands = blocks("sh");
    let [backup, restore, seal, keep, recover] = commands.as_slice() else {
        panic!("{commands:?}")
    };
    for command in backup.lines().chain(seal.lines()) {
        run(dir.path(), command, &address);
    }
    nodes.iter_mut().for_each(TestNode::kill);
    run(dir.path(), keep, &address);
    let moved = TestNode::start_alone(1, &dir.path().join("moved"));
    assert_eq!(acquire(&moved.http(), "orders", "old").await, last);
    drop(moved);

    let (restore, start) = restore.trim().split_once('\n').unwrap();
    run(dir.path(), restore, &address);
    let restored = serve(dir.path(), start, &nodes[0]);
    let ready = || holdfast(&["status", "--addr", &address]).code == Some(0);
    eventually("the restored node to be ready", ready);
    assert!(acquire(&nodes[0].http(), "orders", "new").await > last);
    drop(restored);

    for command in recover.lines() {
        run(dir.path(), command, &address);
    }
    let recovered = TestNode::start_alone(3, &nodes[2].data_dir);
    assert!(acquire(&recovered.http(), "orders", "new").await > last);
    assert!(dir.path().join("node3.before-recovery").is_dir());
}
