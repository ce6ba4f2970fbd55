//! `serve` starts from the committed files of `cluster-config/`; the tests change only ports and data directories.

use std::path::{Path, PathBuf};

use crate::program::{self, PortRange, Program, spawn};

/// The files of a cluster, in order of their nodes.
fn committed(dir: &str, nodes: u16) -> Vec<PathBuf> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cluster-config").join(dir);
    (1..=nodes).map(|node| top.join(format!("node{node}.toml"))).collect()
}

/// Copies the files and replaces their consecutive ports, which start at `first`, with free ports. Everything else
/// stays as committed, including comments.
fn on_free_ports(files: &[PathBuf], first: u16, dir: &Path) -> (Vec<PathBuf>, PortRange) {
    let nodes = u16::try_from(files.len()).unwrap();
    let ports = PortRange::reserve();
    let port = ports.first();
    let copies = files.iter().map(|file| {
        let mut text = std::fs::read_to_string(file).unwrap();
        for offset in (0..nodes).flat_map(|node| (0..3).map(move |listener| node * 10 + listener)) {
            let committed = format!("127.0.0.1:{}\"", first + offset);
            assert!(text.contains(&committed), "{} does not name {committed}", file.display());
            text = text.replace(&committed, &format!("127.0.0.1:{}\"", port + offset));
        }
        let copy = dir.join(file.file_name().unwrap());
        std::fs::write(&copy, text).unwrap();
        copy
    });
    (copies.collect(), ports)
}

fn a_lock_is_taken_on(dir: &str, nodes: u16, first_port: u16) {
    let scratch = tempfile::tempdir().unwrap();
    let (files, ports) = on_free_ports(&committed(dir, nodes), first_port, scratch.path());
    let mut servers: Vec<Program> = Vec::new();
    for file in &files {
        let data = scratch.path().join("data").join(file.file_stem().unwrap());
        let (file, data) = (file.to_str().unwrap(), data.to_str().unwrap());
        servers.push(spawn(&["serve", "--config", file], &[("HOLDFAST_DATA_DIR", data)]));
    }
    // Each node alone must serve requests for the whole cluster.
    let mut newest = 0;
    for node in 0..nodes {
        let address = format!("127.0.0.1:{}", ports.first() + 10 * node);
        program::eventually("the node has a leader", || {
            program::holdfast(&["status", "--addr", &address]).code == Some(0)
        });
        let mut holder = spawn(&["lock", "orders", "--addr", &address], &[]);
        let token: u64 = holder.next_stdout_line().parse().unwrap();
        assert!(token > newest, "tokens grow");
        newest = token;
        holder.interrupt();
        assert_eq!(holder.wait().code, Some(0));
    }
    for server in &servers {
        server.signal(nix::sys::signal::Signal::SIGTERM);
    }
    for server in &mut servers {
        server.wait().assert_code(0);
    }
}

#[test]
fn three_nodes_start_from_the_committed_files() {
    a_lock_is_taken_on(".", 3, 7400);
}

#[test]
fn five_nodes_start_from_the_committed_files() {
    a_lock_is_taken_on("five", 5, 7500);
}

#[test]
fn the_container_file_is_complete_with_what_the_image_sets() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cluster-config/container.toml");
    let scratch = tempfile::tempdir().unwrap();
    let pki = scratch.path().join("pki").display().to_string();
    // As the services of docker-compose.yml do, which run at each start. Two were killed between their two files.
    for start in 0..4 {
        if start == 1 {
            std::fs::remove_file(scratch.path().join("pki/node-2.pem")).unwrap();
        } else if start == 2 {
            std::fs::remove_file(scratch.path().join("pki/node-2.pem")).unwrap();
            std::fs::remove_file(scratch.path().join("pki/ca.pem")).unwrap();
        }
        for what in [&["init"][..], &["node", "node-2", "--host", "localhost,127.0.0.1"]] {
            program::holdfast(&[&["certs"], what, &["--dir", &pki, "--keep"]].concat())
                .assert_code(0);
        }
    }
    for mode in ["--replace", "--keep"] {
        program::holdfast(&["certs", "node", "ca", "--host", "h", "--dir", &pki, mode])
            .assert_code(2)
            .assert_stderr_contains(["another name"]);
    }
    let [certificate, key, ca] =
        ["node-2.pem", "node-2.key", "ca.pem"].map(|file| format!("{pki}/{file}"));
    let ports = PortRange::reserve();
    let port = ports.first();
    let [http, peer, zookeeper] =
        [0, 1, 2].map(|listener| format!("127.0.0.1:{}", port + listener));
    let data = scratch.path().join("data").display().to_string();
    let environment = [
        ("HOLDFAST_NODE", "2"),
        ("HOLDFAST_DATA_DIR", data.as_str()),
        ("HOLDFAST_HTTP_LISTEN", http.as_str()),
        ("HOLDFAST_RAFT_LISTEN", peer.as_str()),
        ("HOLDFAST_ZOOKEEPER_LISTEN", zookeeper.as_str()),
        ("HOLDFAST_TLS_CERT", certificate.as_str()),
        ("HOLDFAST_TLS_KEY", key.as_str()),
        ("HOLDFAST_TLS_CA", ca.as_str()),
    ];
    let mut server = spawn(&["serve", "--config", file.to_str().unwrap()], &environment);
    // Its peers do not exist in this test, so there is no leader, but the node replies.
    program::eventually("the node answers", || {
        let status = program::holdfast(&["status", "--addr", &http, "--cacert", &ca, "-o", "json"]);
        status.stdout.contains("\"cluster\":\"holdfast\"")
    });
    server.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(server.wait().code, Some(0));
}
