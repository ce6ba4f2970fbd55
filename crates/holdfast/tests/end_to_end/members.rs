//! Members that join, leave and replace dead ones, with the command line and real processes, under load.

use std::path::Path;

use nix::sys::signal::Signal;

use crate::load::{ClientAccess, ClientLoad};
use crate::program::{DevCluster, End, Program, eventually, send, spawn};

/// A development cluster of three nodes, and nodes that joined it.
struct Growing {
    dev: DevCluster,
    scratch: tempfile::TempDir,
    joined: Vec<Program>,
}

impl Growing {
    fn start() -> Self {
        let dev = DevCluster::start(&["--nodes", "3"]);
        Self { dev, scratch: tempfile::tempdir().unwrap(), joined: Vec::new() }
    }

    /// The addresses of all slots: three ports each.
    fn access(&self) -> ClientAccess {
        let nodes = (0..5).map(|slot| format!("127.0.0.1:{}", self.port(slot, 0))).collect();
        ClientAccess { nodes, ca: None }
    }

    fn port(&self, slot: u16, listener: u16) -> u16 {
        self.dev.port() + 10 * slot + listener
    }

    /// Runs a command against all slots.
    fn run(&self, args: &[&str]) -> End {
        let nodes = self.access().nodes.join(",");
        spawn(args, &[("HOLDFAST_ADDR", &nodes)]).wait()
    }

    fn ok(&self, args: &[&str]) -> String {
        let end = self.run(args);
        assert_eq!(end.code, Some(0), "{args:?}: {}", end.stderr);
        end.stdout
    }

    fn path(&self, name: &str) -> String {
        self.scratch.path().join(name).display().to_string()
    }

    /// Invites a node on the ports of a slot, prepares it, starts it, and waits until it votes.
    fn join(&mut self, command: &[&str], slot: u16) {
        let http = self.start_joining(command, slot);
        eventually("the new member votes", || {
            let members = self.ok(&["member", "ls", "-o", "jsonl"]);
            let voters = members.lines().filter(|line| line.contains("\"votes\":true"));
            let joined = voters.filter(|line| line.contains(&http)).count() == 1;
            joined && !members.contains("\"change\"")
        });
    }

    /// Invites a node on the ports of a slot, prepares it and starts it. Returns its HTTP address.
    fn start_joining(&mut self, command: &[&str], slot: u16) -> String {
        let [http, peer, zookeeper] =
            [0, 1, 2].map(|listener| format!("127.0.0.1:{}", self.port(slot, listener)));
        let number = self.joined.len();
        let [token, config, data] =
            ["token", "toml", "data"].map(|kind| self.path(&format!("{number}.{kind}")));
        let addresses = ["--http", &http, "--peer", &peer, "--zookeeper", &zookeeper];
        let out = ["--out", &token, "-o", "json"];
        let invited = self.ok(&[&["member"], command, &addresses, &out].concat());
        let invited: serde_json::Value = serde_json::from_str(&invited).unwrap();
        assert!(invited["id"].is_u64() && invited["join_token"].is_null(), "{invited}");
        self.ok(&["join", &token, "--config", &config, "--data-dir", &data]);
        self.joined.push(spawn(&["serve", "--config", &config, "--log-format", "text"], &[]));
        http
    }

    /// Waits until the node at an address has a role, and no change is unfinished.
    fn wait_for_role(&self, http: &str, role: &str) {
        let role = format!("\"role\":\"{role}\"");
        eventually("the role of a member", || {
            let members = self.ok(&["member", "ls", "-o", "jsonl"]);
            let is_at = |line: &&str| line.contains(http) && line.contains(&role);
            members.lines().filter(is_at).count() == 1 && !members.contains("\"change\"")
        });
    }

    fn voters(&self) -> Vec<String> {
        let members = self.ok(&["member", "ls", "-o", "jsonl"]);
        let voters = members.lines().filter(|line| line.contains("\"votes\":true"));
        let id = |line: &str| line.split([':', ',']).nth(1).unwrap().to_owned();
        voters.map(id).collect()
    }
}

/// One command for each step of docs/operations.md. The lock that is held all the time keeps its token.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn members_come_and_go_under_load() {
    let mut cluster = Growing::start();
    let load = ClientLoad::start(cluster.access());
    load.wait_for_cycles();

    cluster.join(&["add", "--zone", "b"], 3);
    cluster.join(&["add", "--zone", "c"], 4);
    assert_eq!(cluster.voters(), ["1", "2", "3", "4", "5"]);
    load.wait_for_cycles();

    cluster
        .run(&["member", "remove", "1", "--reason", "moved"])
        .assert_code(1)
        .assert_stderr_contains(["survive the loss of 1"]);
    for leaving in ["1", "2"] {
        cluster.ok(&["member", "remove", leaving, "--reason", "moved", "--force"]);
        load.wait_for_cycles();
    }
    assert_eq!(cluster.voters(), ["3", "4", "5"]);

    let pids = cluster.dev.node_pids();
    send(pids[2], Signal::SIGKILL);
    load.wait_for_cycles();
    // At the addresses of the killed node.
    cluster.join(&["replace", "3"], 2);
    assert_eq!(cluster.voters(), ["4", "5", "6"]);
    load.wait_for_cycles();
    // Every voter that is left is one that joined: the cluster survives the loss of one of them.
    cluster.joined[0].signal(Signal::SIGKILL);
    load.wait_for_cycles();
    load.finish().await;
}

/// Each command of docs/operations.md about members without a vote.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_standby_gets_the_vote_of_a_dead_voter_under_load() {
    let mut cluster = Growing::start();
    let load = ClientLoad::start(cluster.access());
    load.wait_for_cycles();
    let standby = cluster.start_joining(&["add", "--role", "standby"], 3);
    cluster.wait_for_role(&standby, "standby");
    cluster.ok(&["member", "demote", "4"]);
    cluster.wait_for_role(&standby, "learner");
    cluster.ok(&["member", "demote", "4", "--standby"]);
    cluster.wait_for_role(&standby, "standby");
    assert_eq!(cluster.voters(), ["1", "2", "3"]);

    send(cluster.dev.node_pids()[2], Signal::SIGKILL);
    load.wait_for_cycles();
    cluster.ok(&["member", "promote", "4", "--replace", "3"]);
    assert_eq!(cluster.voters(), ["1", "2", "4"]);
    load.wait_for_cycles();
    let audit = cluster.ok(&["audit", "ls"]);
    assert!(audit.contains("voter, replaces node 3"), "{audit}");
    for (args, words) in [
        (["member", "promote", "4", "--replace", "2"], "node 4 is a voter"),
        (["member", "promote", "4", "--replace", "3"], "node 3 has left the cluster"),
    ] {
        cluster.run(&args).assert_code(1).assert_stderr_contains([words]);
    }
    load.finish().await;
}

#[test]
fn a_removed_node_stops_with_its_own_exit_code_and_the_reason() {
    let mut cluster = Growing::start();
    cluster.join(&["add"], 3);
    cluster.ok(&["member", "remove", "4", "--reason", "disk failed"]);
    cluster
        .joined
        .remove(0)
        .wait()
        .assert_code(71)
        .assert_stderr_contains(["an operator removed it: disk failed"]);
    // It does not come back, with or without its data.
    let config = cluster.path("0.toml");
    spawn(&["serve", "--config", &config], &[]).wait().assert_code(71);
    std::fs::remove_dir_all(Path::new(&cluster.path("0.data"))).unwrap();
    let empty = format!("data_dir={}", cluster.path("other"));
    spawn(&["serve", "--config", &config, "--set", &empty], &[]).wait().assert_code(71);
}

fn refused(end: &End, code: i32, words: &str) {
    assert_eq!(end.code, Some(code), "{}", end.stderr);
    assert!(end.stderr.contains(words), "{words}: {}", end.stderr);
}

#[test]
fn wrong_input_changes_nothing_and_names_the_fix() {
    let cluster = Growing::start();
    let [free, used] = [3, 1].map(|slot| format!("127.0.0.1:{}", cluster.port(slot, 1)));
    let [http, zookeeper] =
        [0, 2].map(|listener| format!("127.0.0.1:{}", cluster.port(3, listener)));
    let add = |peer: &str| {
        let args = ["--peer", peer, "--http", &http, "--zookeeper", &zookeeper];
        cluster.run(&[&["member", "add"][..], &args].concat())
    };
    refused(&add(&used), 1, "node 2 has the address");
    refused(&add("127.0.0.1"), 2, "has no port");
    let addresses = ["--peer", &free, "--http", &http, "--zookeeper", &zookeeper];
    let learner = ["member", "replace", "3", "--role", "learner"];
    refused(&cluster.run(&[&learner[..], &addresses].concat()), 1, "only a voter replaces it");
    refused(&cluster.run(&["member", "remove", "9", "--reason", "x"]), 1, "no member has the id 9");
    refused(&cluster.run(&["member", "remove", "0", "--reason", "x"]), 2, "a number from 1");
    refused(&cluster.run(&["member", "promote", "1"]), 1, "is a voter already");
    refused(&cluster.run(&["cluster", "transfer", "--to", "9"]), 1, "not a voter that works");
    cluster.run(&["member", "remove", "3", "--reason", "x", "--dry-run", "--force"]).assert_code(0);

    let token = cluster.ok(&[
        "member",
        "add",
        "--peer",
        &free,
        "--http",
        &http,
        "--zookeeper",
        &zookeeper,
        "-o",
        "value",
    ]);
    refused(
        &cluster.run(&["member", "demote", "2", "--force"]),
        1,
        "the change of node 4 is unfinished",
    );
    let [file, config, data] = ["n.join", "n.toml", "n.data"].map(|name| cluster.path(name));
    let join = || cluster.run(&["join", &file, "--config", &config, "--data-dir", &data]);
    std::fs::write(&file, &token[..token.len() / 2]).unwrap();
    refused(&join(), 2, "not a join token");
    std::fs::write(&file, &token).unwrap();
    join_reads_the_certificate(&cluster, &["join", &file, "--data-dir", &data]);
    assert_eq!(join().code, Some(0));
    refused(&join(), 2, "exists: name a new file");
    std::fs::remove_file(&config).unwrap();
    refused(&join(), 1, "join with an empty data directory");
    cluster.ok(&["member", "remove", "4", "--reason", "not needed"]);
    assert_eq!(cluster.voters(), ["1", "2", "3"]);
}

/// `join` reads the files of the certificate before it writes anything, and the configuration names them by absolute paths.
fn join_reads_the_certificate(cluster: &Growing, join: &[&str]) {
    let pki = cluster.path("pki");
    cluster.ok(&["certs", "init", "--dir", &pki]);
    for name in ["n4", "n5"] {
        cluster.ok(&["certs", "node", name, "--host", "127.0.0.1", "--dir", &pki]);
    }
    let config = cluster.path("tls.toml");
    let upwards = "../".repeat(std::env::current_dir().unwrap().components().count());
    let join_with = |certificate: &str, key: &str| {
        let [certificate, key, ca] =
            [certificate, key, "ca.pem"].map(|name| format!("{upwards}{pki}/{name}"));
        let files = ["--config", &config, "--cert", &certificate, "--key", &key, "--ca", &ca];
        cluster.run(&[join, &files].concat())
    };
    for (certificate, key, reason) in [
        ("missing.pem", "n4.key", "missing.pem"),
        ("n4.pem", "missing.key", "missing.key"),
        ("n4.pem", "n5.key", "n5.key"),
        ("n4.key", "n4.key", "n4.key"),
    ] {
        refused(&join_with(certificate, key), 2, reason);
        assert!(!Path::new(&config).exists() && !Path::new(join[3]).exists(), "{reason}");
    }
    join_with("n4.pem", "n4.key").assert_code(0);
    let written = std::fs::read_to_string(&config).unwrap();
    for key in ["cert", "key", "ca"] {
        assert!(written.contains(&format!("\n{key} = \"/")), "{written}");
    }
    std::fs::remove_dir_all(join[3]).unwrap();
}
