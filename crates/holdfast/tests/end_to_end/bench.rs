//! The measurements run, detect violations, and print machine-readable reports. The tests do not assert the measured
//! values.

use crate::program::{DevCluster, End, holdfast};
use crate::tls::SecureCluster;

fn report(end: &End) -> serde_json::Value {
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    serde_json::from_str(&end.stdout).unwrap()
}

#[test]
fn load_is_measured_and_judged_on_a_given_cluster() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let address = format!("127.0.0.1:{}", cluster.port());
    for locks in ["spread", "hot"] {
        let flags = ["--clients", "4", "--seconds", "1", "--warmup", "0", "-o", "json"];
        let args = [&["bench", "--addr", &address, "--locks", locks], flags.as_slice()].concat();
        let report = report(&holdfast(&args));
        assert!(report["cycles"].as_u64().unwrap() > 0, "{report}");
        assert!(report["p99.9_ms"].is_number() && report["p50_ms"].is_number(), "{report}");
        assert_eq!(report["violations"], 0, "{report}");
        assert_eq!(report["locks"], locks);
        let costs = report["processor_us_per_cycle"].as_object().unwrap();
        let names: Vec<&str> = costs.keys().map(String::as_str).collect();
        assert_eq!(names, ["all", "generator", "node 1 (leader)"], "{report}");
        assert!(costs.values().all(|micros| micros.as_f64().unwrap() > 0.0), "{report}");
    }
    // The benchmark has closed its sessions.
    assert_eq!(cluster.client(&["ls", "bench", "-o", "value"]).stdout, "");
}

/// With TLS, and with an access token that may only acquire below `team`.
#[test]
fn load_is_measured_on_a_secure_cluster() {
    let cluster = SecureCluster::start_all(&["--log-level", "warn"]);
    let ca = cluster.path("pki/ca.pem");
    let address = format!("127.0.0.1:{}", cluster.port());
    let tls = ["--addr", &address, "--cacert", &ca];
    cluster.wait_healthy(3, &["--cacert", &ca]);
    let ok = |args: &[&str], token: &[&str]| {
        let end = holdfast(&[args, &tls, token].concat());
        assert_eq!(end.code, Some(0), "{args:?}: {}", end.stderr);
        end.stdout
    };
    let [admin, team] = ["admin", "team"].map(|name| cluster.path(name));
    let own_dir = cluster.path("data-1");
    ok(&["auth", "bootstrap", "--data-dir", &own_dir, "--out", &admin], &[]);
    let as_admin = ["--access-token-file", &admin];
    ok(&["auth", "role", "set", "team", "--permission", "lock acquire team/*"], &as_admin);
    ok(&["auth", "subject", "set", "team", "--role", "team"], &as_admin);
    ok(&["auth", "token", "new", "team", "--out", &team], &as_admin);
    ok(&["auth", "mode", "on"], &as_admin);
    let flags = ["--clients", "4", "--seconds", "1", "--warmup", "0", "-o", "json"];
    let https = format!("https://{address}");
    let bench = |more: &[&str]| {
        holdfast(&[&["bench", "--addr", &https, "--prefix", "team"], &flags[..], more].concat())
    };
    let measured = report(&bench(&["--cacert", &ca, "--access-token-file", &team]));
    assert!(measured["cycles"].as_u64().unwrap() > 0, "{measured}");
    let without = bench(&["--access-token-file", &team]);
    assert!(without.code == Some(2) && without.stderr.contains("--cacert"), "{}", without.stderr);
    let doctor = ["doctor", "--load", "--probe", "team/doctor", "-o", "jsonl"];
    let findings = holdfast(&[&doctor[..], &tls, &as_admin].concat()).stdout;
    let load = findings.lines().find(|line| line.contains("\"load\"")).unwrap();
    assert!(load.contains("lock cycles/s") && load.contains("\"ok\""), "{load}");
}

#[test]
fn two_programs_are_measured_by_turns() {
    let args =
        ["bench", "--against", env!("CARGO_BIN_EXE_holdfast"), "--rounds", "2", "--nodes", "1"];
    let load = ["--clients", "4", "--seconds", "1", "--warmup", "0", "-o", "json"];
    let report = report(&holdfast(&[&args[..], &load[..]].concat()));
    for program in ["this", "against"] {
        assert_eq!(report[program].as_array().unwrap().len(), 2, "{report}");
    }
    let measures = report["rows"].as_array().unwrap().iter().map(|row| row["measure"].as_str());
    let expected = ["cycles/s", "p50 ms", "p99 ms", "processor µs a cycle"].map(Some);
    assert_eq!(measures.collect::<Vec<_>>(), expected, "{report}");
    for row in report["rows"].as_array().unwrap() {
        let value = |program: &str| row[program]["median"].as_f64().unwrap();
        let ratio = value("this") / value("against");
        assert!((row["ratio"].as_f64().unwrap() - ratio).abs() < 1e-9, "{report}");
    }
}

#[test]
fn growth_has_a_curve_for_each_dimension() {
    let args = ["bench", "growth", "--up-to", "1", "--seconds", "1", "--rounds", "1", "-o", "json"];
    let report = report(&holdfast(&args));
    let curves = report["curves"].as_array().unwrap();
    let over: Vec<_> = curves.iter().map(|curve| curve["over"].as_str().unwrap()).collect();
    let expected =
        ["clients", "waiters for one lock", "bytes in the value of a lock", "held locks", "nodes"];
    assert_eq!(over, expected);
    for curve in curves {
        let point = curve["points"].as_array().unwrap().last().unwrap();
        assert!(point["at"].as_u64().unwrap() <= 1, "{curve}");
        assert!(point["cycles_per_second"]["median"].as_f64().unwrap() > 0.0, "{curve}");
        assert!(point["p99_ms"]["count"].as_u64().unwrap() == 1, "{curve}");
    }
}

#[test]
fn a_program_that_cannot_run_is_named() {
    let end =
        holdfast(&["bench", "--against", "/nowhere/holdfast", "--rounds", "1", "--seconds", "1"]);
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(end.stderr.contains("/nowhere/holdfast: cannot start node 1"), "{}", end.stderr);
}

#[test]
fn a_failover_is_measured_on_a_cluster_of_its_own() {
    let report = report(&holdfast(&["bench", "failover", "--rounds", "2", "-o", "json"]));
    assert_eq!(report["gaps_ms"].as_array().unwrap().len(), 2, "{report}");
    assert!(report["client"]["p50_ms"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(report["violations"], 0, "{report}");
}

#[test]
fn sessions_survive_the_restart_of_every_node() {
    let report = report(&holdfast(&["bench", "sessions", "--count", "200", "-o", "json"]));
    assert_eq!(report["lost"], 0, "{report}");
    assert_eq!(report["nodes"].as_array().unwrap().len(), 3, "{report}");
    assert!(report["nodes"][0]["resident_bytes"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn znodes_survive_the_restart_of_every_node() {
    let report = report(&holdfast(&["bench", "znodes", "--count", "1500", "-o", "json"]));
    assert_eq!(report["count"], 1500, "{report}");
    assert_eq!(report["errors"], serde_json::json!({}), "{report}");
    assert_eq!(report["lost"], 0, "{report}");
    assert!(report["nodes"][2]["restart_ms"].as_f64().unwrap() > 0.0, "{report}");
}

#[test]
fn a_release_wakes_one_waiter_and_hand_overs_are_counted() {
    let args = ["bench", "waiters", "--count", "300", "--few", "4", "--seconds", "2", "-o", "json"];
    let report = report(&holdfast(&args));
    for row in [&report["few"], &report["many"]] {
        let (hand_overs, wake_ups) =
            (row["hand_overs"].as_u64().unwrap(), row["wake_ups"].as_u64().unwrap());
        assert!(hand_overs > 10, "{report}");
        // At the end of the measurement, a client may count a wake-up slightly later or earlier than the node.
        assert!(wake_ups.abs_diff(hand_overs) <= hand_overs / 10 + 4, "{report}");
        assert_eq!((&row["errors"], &row["violations"]), (&serde_json::json!({}), &0.into()));
    }
    assert_eq!(report["many"]["waiters"], 300);
}

#[test]
fn cycles_during_snapshots_are_counted_separately() {
    let options =
        ["--znodes", "20000", "--clients", "4", "--snapshots", "2", "--snapshot-log", "128KiB"];
    let report = report(&holdfast(&[&["bench", "snapshots", "-o", "json"], &options[..]].concat()));
    assert!(report["cycles"].as_u64().unwrap() > 0, "{report}");
    assert!(report["cycles_during"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(report["violations"], 0, "{report}");
}

#[test]
fn an_unreachable_cluster_fails_the_run() {
    let end = holdfast(&[
        "bench",
        "--addr",
        "127.0.0.1:1",
        "--clients",
        "1",
        "--seconds",
        "1",
        "--warmup",
        "0",
    ]);
    assert_eq!(end.code, Some(1));
    assert!(
        end.stderr.contains("no cycle was completed") && end.stderr.contains("connect"),
        "{}",
        end.stderr
    );
}
