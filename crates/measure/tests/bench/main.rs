//! `measure bench` and `measure failover` run, detect violations, and print machine-readable reports. The tests do not
//! assert the measured values.

#![expect(
    clippy::unwrap_used,
    reason = "a harness: what does not hold is a failed test, everywhere"
)]

use std::path::PathBuf;
use std::process::Command;

use holdfast_cli::dev::{
    DevCluster, DevDataDir, DevTls, Layout, START_TIMEOUT, first_administrator,
};
use holdfast_client::http::{ClientTls, Method};
use holdfast_client::{AccessToken, Call, Client, Copies};
use holdfast_lab::{End, PortRange, Program};
use holdfast_measure::Records;
use holdfast_measure::record::Row;
use holdfast_measure::servers::holdfast_program;
use serde_json::Value;

fn measure(args: &[&str]) -> End {
    let mut command = Command::new(env!("CARGO_BIN_EXE_measure"));
    command.args(args);
    Program::start(command).wait()
}

fn report(end: &End) -> Value {
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    serde_json::from_str(&end.stdout).unwrap()
}

/// A cluster that the measurement does not start.
struct GivenCluster {
    cluster: DevCluster,
    runtime: tokio::runtime::Runtime,
    _data: DevDataDir,
    _ports: PortRange,
}

impl GivenCluster {
    fn start(nodes: u64, tls: DevTls) -> Self {
        let (data, ports) = (DevDataDir::open(None).unwrap(), PortRange::reserve());
        let layout = Layout::new(&data, Some(nodes), ports.first(), "warn").unwrap();
        let layout = layout.with_program(&holdfast_program().unwrap()).with_tls(tls);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let cluster = runtime.block_on(async {
            let mut cluster = DevCluster::start(layout).unwrap();
            cluster.wait_ready(START_TIMEOUT).await.unwrap();
            cluster
        });
        Self { cluster, runtime, _data: data, _ports: ports }
    }

    fn addresses(&self) -> String {
        self.cluster.layout().endpoints().join(",")
    }

    fn ca(&self) -> PathBuf {
        self.cluster.layout().security().unwrap().ca()
    }

    /// Adds an administrator and a subject that may only acquire locks below `team`. Returns the token of the subject.
    fn add_subject(&self) -> String {
        self.runtime.block_on(async {
            let layout = self.cluster.layout();
            let admin = first_administrator(layout).await.unwrap();
            let ca = std::fs::read(self.ca()).unwrap();
            let admin = Client::builder(layout.endpoints())
                .tls(ClientTls { ca: Some(ca), identity: None })
                .access_token(AccessToken::text(admin))
                .build()
                .unwrap();
            for target in [
                "/v1/auth/roles/team?permission=lock%20acquire%20team/*",
                "/v1/auth/subjects/team?role=team",
            ] {
                admin.call_raw(&Call::new(Method::PUT, target)).await.unwrap();
            }
            let call =
                Call::new(Method::POST, "/v1/auth/tokens?subject=team").copies(Copies::Never);
            admin.call::<holdfast_api::IssuedTokenBody>(&call).await.unwrap().token
        })
    }
}

impl Drop for GivenCluster {
    fn drop(&mut self) {
        self.runtime.block_on(self.cluster.stop());
    }
}

const SHORT: [&str; 8] = ["--clients", "4", "--seconds", "1", "--warmup", "0", "-o", "json"];

#[test]
fn row_05_one_command_measures_both_kinds_of_contention_and_the_results_are_published() {
    for nodes in [1, 3] {
        let cluster = GivenCluster::start(nodes, DevTls::None);
        for locks in ["spread", "hot"] {
            let args = ["bench", "--addr", &cluster.addresses(), "--locks", locks];
            let report = report(&measure(&[&args, SHORT.as_slice()].concat()));
            assert!(report["cycles"].as_u64().unwrap() > 0, "{report}");
            for figure in ["p50_ms", "p99_ms", "p99.9_ms"] {
                assert!(report[figure].as_f64() > Some(0.0), "{report}");
            }
            assert_eq!(report["violations"], 0, "{report}");
            assert_eq!(report["locks"], locks);
            let costs = report["processor_us_per_cycle"].as_object().unwrap();
            let [all, generator] = ["all", "generator"].map(|name| costs.contains_key(name));
            assert!(
                all && generator && costs.contains_key("node 1 (leader)") || nodes == 3,
                "{report}"
            );
            assert_eq!(costs.len() as u64, nodes + 2, "{report}");
            assert!(costs.values().all(|micros| micros.as_f64().unwrap() > 0.0), "{report}");
        }
        // The measurement has closed its sessions.
        let client = Client::new(cluster.cluster.layout().endpoints()).unwrap();
        let mut held = 0;
        let query = holdfast_client::LockQuery { held: true, ..Default::default() };
        cluster.runtime.block_on(client.for_each_lock(query, |_| held += 1)).unwrap();
        assert_eq!(held, 0);
    }
    let published = include_str!("../../../../docs/contributing/performance.md");
    for words in ["measure bench", "p50", "p99"] {
        assert!(published.contains(words), "{words}");
    }
}

/// With TLS, and with an access token that may only acquire below `team`.
#[test]
fn load_is_measured_on_a_secure_cluster() {
    let cluster = GivenCluster::start(3, DevTls::All);
    let directory = tempfile::tempdir().unwrap();
    let (ca, token) = (cluster.ca().display().to_string(), directory.path().join("team"));
    std::fs::write(&token, cluster.add_subject()).unwrap();
    let token = token.display().to_string();
    let https = format!("https://{}", cluster.cluster.layout().http(1));
    let bench = |more: &[&str]| {
        let args = ["bench", "--addr", &https, "--prefix", "team"];
        measure(&[&args[..], SHORT.as_slice(), more].concat())
    };
    let measured = report(&bench(&["--cacert", &ca, "--access-token-file", &token]));
    assert!(measured["cycles"].as_u64().unwrap() > 0, "{measured}");
    let without = bench(&["--access-token-file", &token]);
    assert!(without.code == Some(2) && without.stderr.contains("--cacert"), "{}", without.stderr);
}

#[test]
fn two_programs_are_measured_by_turns() {
    let program = holdfast_program().unwrap().display().to_string();
    let args = ["bench", "--against", &program, "--rounds", "2", "--nodes", "1"];
    let report = report(&measure(&[&args, SHORT.as_slice()].concat()));
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
    let directory = tempfile::tempdir().unwrap();
    let svg = directory.path().join("growth.svg").display().to_string();
    let args =
        ["bench", "growth", "--up-to", "1", "--seconds", "1", "--rounds", "1", "--svg", &svg];
    let report = report(&measure(&[&args[..], &["-o", "json"]].concat()));
    assert!(std::fs::read_to_string(svg).unwrap().contains("waiters for one lock"));
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
        measure(&["bench", "--against", "/nowhere/holdfast", "--rounds", "1", "--seconds", "1"]);
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(end.stderr.contains("/nowhere/holdfast: cannot start node 1"), "{}", end.stderr);
}

#[test]
fn without_the_program_of_the_nodes_the_error_says_how_to_build_it() {
    let place = tempfile::tempdir().unwrap();
    let alone = place.path().join("measure");
    std::fs::copy(env!("CARGO_BIN_EXE_measure"), &alone).unwrap();
    let mut command = Command::new(alone);
    command.args(["bench", "--seconds", "1"]).env_remove("HOLDFAST_BIN");
    let end = Program::start(command).wait();
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(end.stderr.contains("run cargo build --package holdfast"), "{}", end.stderr);
}

#[test]
fn a_failover_is_measured_to_the_next_grant_and_for_every_client() {
    let directory = tempfile::tempdir().unwrap();
    let rows = directory.path().display().to_string();
    let args =
        ["failover", "--systems", "holdfast-http,holdfast-sdk", "--trials", "2", "--out", &rows];
    let end = measure(&args);
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    for line in ["holdfast-http: next grant", "holdfast-sdk: every client"] {
        assert!(end.stdout.contains(line), "{}", end.stdout);
    }
    let rows = Records::read(directory.path()).unwrap();
    let failover = |row| if let Row::Failover(row) = row { Some(row) } else { None };
    let rows: Vec<_> = rows.into_iter().filter_map(failover).collect();
    assert_eq!(rows.len(), 2, "{rows:?}");
    for row in rows {
        let gaps = (row.gaps_ms.len(), row.all_gaps_ms.len());
        assert_eq!((gaps, &row.failure), ((2, 2), &None), "{row:?}");
        let mut pairs = row.gaps_ms.iter().zip(&row.all_gaps_ms);
        assert!(pairs.all(|(first, all)| first <= all), "{row:?}");
    }
}

#[test]
fn sessions_survive_the_restart_of_every_node() {
    let report = report(&measure(&["bench", "sessions", "--count", "200", "-o", "json"]));
    assert_eq!(report["lost"], 0, "{report}");
    assert_eq!(report["nodes"].as_array().unwrap().len(), 3, "{report}");
    assert!(report["nodes"][0]["resident_bytes"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn znodes_survive_the_restart_of_every_node() {
    let report = report(&measure(&["bench", "znodes", "--count", "1500", "-o", "json"]));
    assert_eq!(report["count"], 1500, "{report}");
    assert_eq!(report["errors"], serde_json::json!({}), "{report}");
    assert_eq!(report["lost"], 0, "{report}");
    assert!(report["nodes"][2]["restart_ms"].as_f64().unwrap() > 0.0, "{report}");
}

#[test]
fn a_release_wakes_one_waiter_and_hand_overs_are_counted() {
    let args = ["bench", "waiters", "--count", "300", "--few", "4", "--seconds", "2", "-o", "json"];
    let report = report(&measure(&args));
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
    let report = report(&measure(&[&["bench", "snapshots", "-o", "json"], &options[..]].concat()));
    assert!(report["cycles"].as_u64().unwrap() > 0, "{report}");
    assert!(report["cycles_during"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(report["violations"], 0, "{report}");
}

#[test]
fn an_unreachable_cluster_fails_the_run() {
    let end = measure(&[
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
