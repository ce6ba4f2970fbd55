//! Failed starts and ends of a node: exit codes and messages of the binary.

use std::os::unix::net::UnixDatagram;
use std::path::Path;

use holdfast_lab::DEADLINE;
use tempfile::TempDir;

use crate::program::{self, PortRange, Program, holdfast, spawn};

/// A file for a cluster of one node.
fn single(dir: &Path, port: u16, more: &str) -> String {
    let file = dir.join("node.toml");
    let data = dir.join("data");
    let text = format!(
        "cluster = \"test\"\nnode = 1\ndata_dir = {:?}\n{more}\n[[member]]\nid = 1\nhttp = \"127.0.0.1:{port}\"\n\
         peer = \"127.0.0.1:{}\"\nzookeeper = \"127.0.0.1:{}\"\n",
        data.display().to_string(),
        port + 1,
        port + 2
    );
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

/// The directory and the configuration of the only node of a cluster. The node is not started.
struct Single {
    dir: TempDir,
    _ports: PortRange,
    port: u16,
    address: String,
    file: String,
}

impl Single {
    fn new() -> Self {
        let (dir, ports) = (tempfile::tempdir().unwrap(), PortRange::reserve());
        let port = ports.first();
        let file = single(dir.path(), port, "");
        Self { dir, _ports: ports, port, address: format!("127.0.0.1:{port}"), file }
    }

    /// Starts the node, and waits until it leads.
    fn start(&self) -> Program {
        let server = spawn(&["serve", "--config", &self.file], &[]);
        program::eventually("the node leads", || self.leads());
        server
    }

    fn leads(&self) -> bool {
        holdfast(&["status", "--addr", &self.address]).code == Some(0)
    }

    /// The body and the status of a call.
    fn probe(&self, path: &str) -> String {
        let url = format!("http://{}{path}", self.address);
        let mut curl = std::process::Command::new("curl");
        let output = curl.args(["-s", "-w", " %{http_code}", &url]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn a_bad_configuration_is_exit_code_1_with_file_key_and_fix() {
    let dir = tempfile::tempdir().unwrap();
    let file = single(dir.path(), 20_000, "hartbeat = \"1s\"");
    let end = holdfast(&["serve", "--config", &file]).assert_code(1);
    end.assert_stderr_contains(["node.toml", "\"hartbeat\""]);
    assert_eq!(end.stderr.lines().count(), 1, "{}", end.stderr);
}

#[test]
fn serve_check_prints_a_valid_configuration_and_starts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = single(dir.path(), 20_000, "");
    let end = holdfast(&["serve", "--config", &file, "--check"]).assert_code(0);
    assert!(end.stdout.starts_with("the configuration is valid\n"), "{}", end.stdout);
    assert!(end.stdout.contains("127.0.0.1:20000"), "{}", end.stdout);
    assert!(!dir.path().join("data").exists(), "the check creates no data directory");
    let bad = single(dir.path(), 20_000, "hartbeat = \"1s\"");
    assert_eq!(holdfast(&["serve", "--config", &bad, "--check"]).code, Some(1));
}

#[test]
fn a_flag_that_sets_an_unknown_key_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = single(dir.path(), 20_000, "");
    holdfast(&["serve", "--config", &file, "--set", "raft.hartbeat=1s"])
        .assert_code(1)
        .assert_stderr_contains(["flag --set", "did you mean \"raft.heartbeat\"?"]);
}

#[test]
fn a_port_in_use_is_named_with_the_key() {
    let node = Single::new();
    let taken = std::net::TcpListener::bind(("127.0.0.1", node.port)).unwrap();
    let end = holdfast(&["serve", "--config", &node.file]);
    drop(taken);
    assert_eq!(end.code, Some(1));
    end.assert_stderr_contains([&node.address, "http.listen"]);
}

#[test]
fn a_data_directory_of_another_node_is_rejected() {
    let node = Single::new();
    let mut server = node.start();
    server.interrupt();
    assert_eq!(server.wait().code, Some(0));

    let text = std::fs::read_to_string(&node.file).unwrap().replace("\"test\"", "\"other\"");
    std::fs::write(&node.file, text).unwrap();
    holdfast(&["serve", "--config", &node.file])
        .assert_code(1)
        .assert_stderr_contains(["other", "test"]);
}

#[test]
fn data_that_cannot_be_trusted_is_exit_code_70_with_what_to_do() {
    let node = Single::new();
    let mut server = node.start();
    server.interrupt();
    assert_eq!(server.wait().code, Some(0));

    // The file with the identity of the log is missing.
    let data = node.dir.path().join("data");
    let files = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path());
    for identity in files.filter(|path| path.is_file()) {
        std::fs::remove_file(identity).unwrap();
    }
    holdfast(&["serve", "--config", &node.file])
        .assert_code(70)
        .assert_stderr_contains(["identity", "member replace"]);

    // On Kubernetes the process stays, and only the probes get an answer.
    let mut stays = spawn(&["serve", "--config", &node.file, "--stay-when-halted"], &[]);
    program::eventually("the liveness probe", || node.probe("/livez").ends_with(" 200"));
    let ready = node.probe("/readyz");
    assert!(ready.ends_with(" 503") && ready.contains("member replace"), "{ready}");
    assert!(node.probe("/v1/locks/a").ends_with(" 503"));
    stays.interrupt();
    assert_eq!(stays.wait().code, Some(70));

    // A readmitted node reads its identity before anything else.
    std::fs::write(data.join("configured-id"), "1").unwrap();
    std::fs::write(data.join("identity"), "damaged").unwrap();
    let flags = ["--set", "raft.rejoin_when_emptied=true", "--stay-when-halted"];
    let mut stays = spawn(&[&["serve", "--config", &node.file][..], &flags].concat(), &[]);
    program::eventually("the liveness probe", || node.probe("/livez").ends_with(" 200"));
    assert!(node.probe("/readyz").ends_with(" 503"));
    stays.interrupt();
    assert_eq!(stays.wait().code, Some(70));
}

#[test]
fn a_graceful_shutdown_ends_waiters_with_exit_code_0() {
    let node = Single::new();
    let mut server = node.start();
    let mut holder = spawn(&["lock", "job", "--session", "a", "--addr", &node.address], &[]);
    holder.next_stdout_line();
    let waits = ["lock", "job", "--session", "b", "--ttl", "3s", "--addr", &node.address];
    let mut waiter = spawn(&waits, &[]);
    waiter.next_stderr_line();
    server.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(server.wait().code, Some(0));
    // No node is left, so the waiter times out. It must not report that it has the lock.
    let end = waiter.wait().assert_code(1);
    assert!(end.stdout.is_empty(), "{}", end.stdout);
    holder.kill();
}

#[test]
fn logs_are_json_with_the_node_id_without_a_terminal() {
    let node = Single::new();
    let mut server = spawn(&["serve", "--config", &node.file], &[]);
    let line: serde_json::Value = serde_json::from_str(&server.next_stderr_line()).unwrap();
    assert_eq!(line["node"], 1, "{line}");
    assert!(line["level"].is_string() && line["message"].is_string(), "{line}");
}

#[test]
fn systemd_gets_readiness_a_status_and_signs_of_life() {
    let node = Single::new();
    let socket = node.dir.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(DEADLINE)).unwrap();
    let environment = [("NOTIFY_SOCKET", socket.to_str().unwrap()), ("WATCHDOG_USEC", "400000")];
    let server = spawn(&["serve", "--config", &node.file], &environment);
    let receive = |fits: &dyn Fn(&str) -> bool| {
        let mut buffer = [0; 1_000];
        loop {
            let len = manager.recv(&mut buffer).unwrap();
            let message = String::from_utf8_lossy(&buffer[..len]);
            if fits(message.trim_end()) {
                return;
            }
        }
    };
    receive(&|message| message == "READY=1");
    receive(&|message| message.starts_with("STATUS=leads, term 1, 0 locks held"));
    for _ in 0..3 {
        receive(&|message| message == "WATCHDOG=1");
    }
    server.signal(nix::sys::signal::Signal::SIGTERM);
    receive(&|message| message == "STOPPING=1");
}

#[test]
fn the_log_of_a_running_node_changes_for_a_time() {
    let node = Single::new();
    let mut server = node.start();
    holdfast(&["node", "log", "loud", "--addr", &node.address])
        .assert_code(2)
        .assert_stderr_contains(["\"loud\" is not a log level: write error, warn"]);
    let end = holdfast(&["node", "log", "debug", "--for", "1s", "--addr", &node.address]);
    assert_eq!((end.code, end.stdout.lines().count()), (Some(0), 2), "{}", end.stderr);
    let mut line = |fits: fn(&str) -> bool| while !fits(&server.next_stderr_line()) {};
    line(|line| line.contains("\"level\":\"DEBUG\""));
    line(|line| line.contains("the configured filter of the log applies again"));
    let end = holdfast(&["node", "log", "--addr", &node.address, "-o", "value"]);
    assert_eq!(end.stdout, "info\n", "{}", end.stderr);
    // A node that does not answer does not hide the change of another one.
    let both = format!("127.0.0.1:1,{}", node.address);
    let end = holdfast(&["node", "log", "debug", "--addr", &both, "-o", "json"]).assert_code(1);
    assert!(end.stdout.contains("\"log\":\"debug\""), "{} {}", end.stdout, end.stderr);
    assert!(
        end.stderr.contains("127.0.0.1:1: ") && !end.stderr.contains("nothing was done"),
        "{}",
        end.stderr
    );
}

#[test]
fn the_zookeeper_port_in_use_is_named_with_its_key_unless_the_front_end_is_disabled() {
    let node = Single::new();
    let taken = std::net::TcpListener::bind(("127.0.0.1", node.port + 2)).unwrap();
    holdfast(&["serve", "--config", &node.file])
        .assert_code(1)
        .assert_stderr_contains([&format!("127.0.0.1:{}", node.port + 2), "zookeeper.listen"]);
    let shut = ["serve", "--config", &node.file, "--set", "zookeeper.enabled=false"];
    let mut server = spawn(&shut, &[]);
    program::eventually("the node answers over HTTP", || node.leads());
    drop(taken);
    server.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(server.wait().code, Some(0));
}

/// Rust's debug text of options, structs and lists.
const DEBUG_TEXT: [&str; 6] = ["Some(", "None", "Ok(", "Err(", " { ", "["];

#[test]
fn json_log_lines_carry_plain_values_and_each_field_once() {
    let node = Single::new();
    let args = ["serve", "--config", &node.file, "--log-format", "json", "--log-level", "debug"];
    let mut server = spawn(&args, &[]);
    program::eventually("the node leads", || node.leads());
    let mut holder = spawn(&["lock", "a b", "--session", "me", "--addr", &node.address], &[]);
    let token: u64 = holder.next_stdout_line().parse().unwrap();
    let args = ["unlock", "a b", "--force", "--reason", "on call", "--addr", &node.address];
    assert_eq!(holdfast(&args).code, Some(0));
    holder.kill();
    server.interrupt();
    let log = server.wait().stderr;

    let mut ours = Vec::new();
    for line in log.lines() {
        let fields: serde_json::Map<_, _> = serde_json::from_str(line).unwrap();
        let target = fields["target"].as_str().unwrap();
        if !target.starts_with("holdfast") && target != "audit" {
            continue;
        }
        for (name, value) in &fields {
            assert_eq!(line.matches(&format!("\"{name}\":")).count(), 1, "{name}: {line}");
            let text = value.as_str().unwrap_or_default();
            assert!(!DEBUG_TEXT.iter().any(|debug| text.contains(debug)), "{name}: {line}");
        }
        ours.push(fields);
    }
    let find = |message: &str| {
        let found = ours.iter().find(|fields| fields["message"] == message);
        found.unwrap_or_else(|| panic!("no line {message:?} in {log}"))
    };
    assert_eq!(find("the leader is known")["leader"], 1);
    assert_eq!(find("bootstrapped a new cluster")["members"], "1");
    assert!(find("new leadership: all leases restart")["term"].is_u64());
    assert_eq!(find("granted")["token"], token);
    let audit = find("an operator broke a lock");
    assert_eq!((&audit["lock"], &audit["reason"]), (&"a b".into(), &"on call".into()));
    assert_eq!((&audit["done"], &audit["holds_ended"]), (&"yes".into(), &1.into()));
}

/// A node that other machines reach does not take a lost data directory for a new cluster.
#[test]
fn an_empty_data_directory_becomes_a_new_cluster_only_after_init() {
    let node = Single::new();
    let more = format!("security.mode = \"open\"\nraft.listen = \"0.0.0.0:{}\"", node.port + 1);
    let file = single(node.dir.path(), node.port, &more);
    let data = node.dir.path().join("data");
    let waits = || {
        program::eventually("the node waits for a permission", || {
            let ready = format!("http://{}/readyz?verbose", node.address);
            let output = std::process::Command::new("curl").args(["-s", &ready]).output().unwrap();
            String::from_utf8(output.stdout).unwrap().contains("holdfast init")
        });
    };
    let mut server = spawn(&["serve", "--config", &file], &[]);
    waits();
    assert!(!node.leads());
    let init = ["init", "--data-dir", data.to_str().unwrap()];
    assert_eq!(holdfast(&init).code, Some(0));
    program::eventually("the node leads", || node.leads());
    let again = holdfast(&init);
    assert!(again.code == Some(1) && again.stderr.contains("belongs to"), "{}", again.stderr);
    server.interrupt();
    server.wait();

    std::fs::remove_dir_all(&data).unwrap();
    let mut emptied = spawn(&["serve", "--config", &file], &[]);
    waits();
    assert!(!node.leads());
    emptied.interrupt();
    emptied.wait();
}
