//! The copy of the audit trail that a node writes: it has the lines of `audit follow`, and continues after a restart.

use std::net::SocketAddr;
use std::path::Path;

use holdfast_lab::{NodeAddresses, NodeConfig, Timing};
use nix::sys::signal::Signal;

use crate::program::{PortRange, Program, eventually, holdfast, spawn};

/// The only node of a cluster, which writes the trail to `file`.
fn start(directory: &Path, ports: &PortRange, file: &Path) -> (Program, String) {
    let address = |offset| SocketAddr::from(([127, 0, 0, 1], ports.first() + offset));
    let member = NodeAddresses { id: 1, http: address(0), peer: address(1), zookeeper: address(2) };
    let config = directory.join("node.toml");
    let text = NodeConfig {
        cluster: "prod".into(),
        node: 1,
        data_dir: directory.join("data"),
        members: vec![member],
        timing: Timing::default(),
        extra: format!("[audit]\nfile = \"{}\"\n", file.display()),
    };
    std::fs::write(&config, text.to_toml()).unwrap();
    let process = spawn(&["serve", "--config", &config.display().to_string()], &[]);
    let address = address(0).to_string();
    eventually("the node", || holdfast(&["status", "--addr", &address]).code == Some(0));
    (process, address)
}

#[track_caller]
fn client(address: &str, args: &[&str]) -> String {
    let end = holdfast(&[args, &["--addr", address]].concat());
    assert_eq!(end.code, Some(0), "{args:?}: {}", end.stderr);
    end.stdout
}

#[test]
fn a_node_writes_the_lines_of_audit_follow_and_continues_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let ports = PortRange::reserve();
    let file = directory.path().join("audit.jsonl");
    let (mut process, address) = start(directory.path(), &ports, &file);
    let followed = |count: &str| {
        let args = ["audit", "follow", "--after", "0", "--count", count, "-o", "jsonl"];
        client(&address, &args)
    };
    let written = || std::fs::read_to_string(&file).unwrap_or_default();
    for lock in ["a", "b"] {
        client(&address, &["policy", lock, "--limit", "2"]);
    }
    eventually("the records in the file", || written() == followed("2"));
    process.signal(Signal::SIGTERM);
    process.wait();
    let (_process, _) = start(directory.path(), &ports, &file);
    client(&address, &["policy", "c", "--limit", "2"]);
    eventually("the next record in the file", || written() == followed("3"));
}

#[test]
fn a_full_disk_is_an_alarm() {
    let directory = tempfile::tempdir().unwrap();
    let ports = PortRange::reserve();
    let (_process, address) = start(directory.path(), &ports, Path::new("/dev/full"));
    client(&address, &["policy", "a", "--limit", "2"]);
    let alarm = || holdfast(&["alarms", "--addr", &address]).stdout;
    eventually("the alarm", || {
        let alarm = alarm();
        alarm.contains("audit-behind") && alarm.contains("/dev/full: No space left on device")
    });
}
