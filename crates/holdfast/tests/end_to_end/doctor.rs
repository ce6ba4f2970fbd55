//! `holdfast doctor` on healthy and unhealthy clusters: its findings and its exit code.

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::program::{DevCluster, PortRange, eventually, send, spawn};
use crate::tls::SecureNode;

/// The verdict and the finding of each check, without the address.
fn checks(json: &str) -> Vec<(String, String, String)> {
    let examination: Value = serde_json::from_str(json).unwrap_or_else(|_| panic!("{json}"));
    let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let all = examination["checks"].as_array().unwrap().iter();
    all.map(|check| (text(check, "verdict"), text(check, "check"), text(check, "found"))).collect()
}

#[test]
fn a_healthy_cluster_passes_and_every_node_is_checked() {
    let cluster = DevCluster::start(&["--nodes", "3"]);
    let end = cluster.client(&["doctor", "-o", "json"]);
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""), "{}", end.stdout);
    let found = checks(&end.stdout);
    let count = |check: &str| found.iter().filter(|(_, name, _)| name == check).count();
    for (check, times) in [
        ("answers", 3),
        ("ready", 3),
        ("round trip", 3),
        ("cluster", 1),
        ("leader", 1),
        ("members", 1),
        ("version", 1),
        ("clock", 1),
    ] {
        assert_eq!(count(check), times, "{check}: {found:?}");
    }
    // The tests cannot guarantee the disk space and the load of the test machine.
    let of_machine = ["round trip", "alarms"];
    assert!(count("alarms") >= 1, "{found:?}");
    let ill = found.iter().filter(|(verdict, check, _)| {
        verdict == "fail" || (verdict == "warn" && !of_machine.contains(&check.as_str()))
    });
    assert_eq!(ill.count(), 0, "{found:?}");
    assert!(cluster.client(&["ls"]).stdout.lines().count() == 1, "the probe lock is released");
    let lines = cluster.client(&["doctor", "-o", "jsonl", "--look-only"]).stdout;
    assert!(!lines.contains("round trip") && lines.lines().count() >= 12, "{lines}");
    assert!(lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{lines}");
}

#[test]
fn a_dead_node_is_found_and_sets_the_exit_code() {
    let cluster = DevCluster::start(&["--nodes", "3"]);
    send(cluster.node_pids()[2], Signal::SIGKILL);
    let doctor = || cluster.client(&["doctor"]);
    eventually("the others detect it", || doctor().stdout.contains("one-failure-left"));
    let end = doctor();
    assert_eq!(end.code, Some(1), "{}", end.stdout);
    let gone = format!("127.0.0.1:{}", cluster.port() + 20);
    let row = |check: &str| {
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let rows = end.stdout.lines().map(words);
        rows.filter(|row| row.split_once(' ').is_some_and(|(_, row)| row.starts_with(check)))
            .collect::<Vec<_>>()
    };
    assert!(
        row("answers").iter().any(|row| row.starts_with("fail") && row.contains(&gone)),
        "{}",
        end.stdout
    );
    assert!(row("answers")[2].contains("start the node"), "{}", end.stdout);
    let alarms = row("alarms").join("\n");
    assert!(alarms.contains("fail alarms - one-failure-left: 2 of 3 voters answer"), "{alarms}");
    assert!(alarms.contains("warn alarms - member-silent: no acknowledgement: node 3"), "{alarms}");
    assert_eq!(row("members").len(), 0, "the alarms have the member: {}", end.stdout);
    assert_eq!(row("round trip").len(), 2, "{}", end.stdout);
}

#[test]
fn an_address_without_a_node_is_a_failure_and_one_address_of_three_a_warning() {
    let ports = PortRange::reserve();
    let port = ports.first();
    let address = format!("127.0.0.1:{port}");
    let mut doctor_of_none = spawn(&["doctor", "-o", "value", "--addr", &address], &[]);
    let end = doctor_of_none.wait();
    assert_eq!((end.code, end.stdout.as_str()), (Some(1), "fail\n"), "{}", end.stderr);
    let cluster = DevCluster::start(&["--nodes", "3"]);
    let first = format!("127.0.0.1:{}", cluster.port());
    let end = cluster.client(&["doctor", "--look-only", "--addr", &first]);
    assert_eq!(end.code, Some(0), "{}", end.stdout);
    assert!(end.stdout.contains(&format!("HOLDFAST_ADDR={first},127.0.0.1:")), "{}", end.stdout);
}

#[test]
fn addresses_of_two_clusters_are_detected() {
    let (one, other) = (DevCluster::start(&["--nodes", "1"]), DevCluster::start(&["--nodes", "1"]));
    let both = format!("127.0.0.1:{},127.0.0.1:{}", one.port(), other.port());
    let end = one.client(&["doctor", "--addr", &both]);
    assert_eq!(end.code, Some(1), "{}", end.stdout);
    assert!(end.stdout.contains("not one cluster"), "{}", end.stdout);
}

#[test]
fn a_probe_lock_that_is_held_is_a_warning() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let mut holder = cluster.spawn_client(&["lock", "probe", "--session", "me"]);
    holder.next_stdout_line();
    let end = cluster.client(&["doctor", "--probe", "probe"]);
    assert_eq!(end.code, Some(0), "{}", end.stdout);
    assert!(end.stdout.contains("probe is held by me"), "{}", end.stdout);
}

/// `SSL_CERT_FILE` names the CAs of the system.
#[test]
fn https_without_a_ca_option_trusts_the_system_for_every_node() {
    let node = SecureNode::new();
    node.certs(&["init"]);
    node.certs(&["node", "node-1", "--host", "127.0.0.1"]);
    let _running = node.start();
    let address = format!("https://{}", node.address());
    let ca = node.path("pki/ca.pem").display().to_string();
    let environment = [("HOLDFAST_ADDR", address.as_str()), ("SSL_CERT_FILE", ca.as_str())];
    for args in [&["status"][..], &["audit", "verify"], &["doctor"]] {
        let end = spawn(args, &environment).wait();
        assert_eq!(end.code, Some(0), "{args:?}: {} {}", end.stdout, end.stderr);
    }
}
