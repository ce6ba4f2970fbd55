//! The rules for Prometheus and the dashboard of `cluster-config/monitoring/`, with the metrics of running nodes.
//!
//! Without the program `prometheus` only the names are compared; `HOLDFAST_REQUIRE_PROMETHEUS=1` then fails.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use holdfast_api::escape_query;
use holdfast_client::http::Method;
use holdfast_lab::{Http, Request};
use serde_json::Value;

use crate::metrics::{names_in, names_of};
use crate::program::{DevCluster, PortRange, Program, eventually, holdfast};
use crate::tls::SecureNode;

/// Metrics that only nodes with TLS have.
const WITH_TLS: &str = "holdfast_certificate_expires_timestamp_seconds";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cluster-config/monitoring")
}

fn rules() -> String {
    std::fs::read_to_string(folder().join("holdfast.rules.yml")).unwrap()
}

fn dashboard() -> Value {
    let text = std::fs::read_to_string(folder().join("grafana/holdfast.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The expressions of the dashboard, for the job `holdfast` and all nodes.
fn dashboard_expressions() -> Vec<String> {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let expressions = targets.map(|target| target["expr"].as_str().unwrap().to_owned());
    let expressions = expressions.map(|text| {
        text.replace("$job", "holdfast")
            .replace("$instance", ".*")
            .replace("$__rate_interval", "10s")
    });
    expressions.collect()
}

/// The expressions of the rules, without the comparison that makes an alert.
fn rule_expressions() -> Vec<String> {
    let rules = rules();
    let mut lines = rules.lines().peekable();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let Some(text) = line.trim().strip_prefix("expr: ") else { continue };
        let mut text = text.trim_matches('\'').to_owned();
        if text == "|" {
            text.clear();
            while let Some(more) = lines.next_if(|line| line.starts_with("          ")) {
                text = format!("{text}{} ", more.trim());
            }
        }
        let end = [" == ", " > "].iter().filter_map(|sign| text.rfind(sign)).min();
        found.push(text[..end.unwrap_or(text.len())].to_owned());
    }
    found
}

/// Names of samples without the suffixes of histograms.
fn metrics_named_in(text: &str) -> BTreeSet<String> {
    let suffixes = ["_bucket", "_count", "_sum"];
    let base = |name: String| {
        let end = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix));
        end.map_or(name.clone(), str::to_owned)
    };
    names_in(text).into_iter().map(base).collect()
}

async fn nodes(cluster: &DevCluster) -> Vec<Http> {
    let ports = [0, 10, 20].map(|offset| cluster.port() + offset);
    let nodes: Vec<Http> =
        ports.into_iter().map(|port| Http::new(format!("127.0.0.1:{port}"))).collect();
    // A family with labels is shown from its first series on.
    nodes[0].put("/v1/locks/measured?session=me&wait=1s").await.assert_status(200);
    nodes
}

async fn ask_zookeeper(cluster: &DevCluster) {
    for offset in [2, 12, 22] {
        let address = format!("127.0.0.1:{}", cluster.port() + offset).parse().unwrap();
        let mut client = holdfast_lab::zk::ZkClient::open(address, 10_000).await;
        assert_eq!(client.stat("/none").await, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rules_and_the_dashboard_name_only_metrics_and_alarms_of_the_nodes() {
    let cluster = DevCluster::start(&["--nodes", "3"]);
    let nodes = nodes(&cluster).await;
    ask_zookeeper(&cluster).await;
    let mut scrapes = String::new();
    for node in &nodes {
        scrapes += &node.get("/metrics").await.assert_status(200).body;
    }
    let present = names_of(&scrapes);
    let expressions = [dashboard_expressions(), rule_expressions()].concat();
    assert!(expressions.len() > 70, "{expressions:#?}");
    for expression in expressions {
        // The names of recorded series have colons.
        let words = expression.split_whitespace().filter(|word| !word.contains(":holdfast_"));
        let named = metrics_named_in(&words.collect::<Vec<_>>().join(" "));
        let unknown: Vec<_> =
            named.iter().filter(|name| *name != WITH_TLS && !present.contains(*name)).collect();
        assert!(unknown.is_empty(), "{unknown:?} in {expression}");
    }
    let rules = rules();
    let alarms = scrapes.lines().filter_map(|line| line.strip_prefix("holdfast_alarm{name=\""));
    for alarm in alarms.map(|line| line.split('"').next().unwrap()) {
        let expression = format!("expr: holdfast_alarm{{name=\"{alarm}\"}} == 1");
        assert!(rules.contains(&expression), "no alert for the alarm {alarm}");
    }
}

/// `HOLDFAST_REWRITE=1` rewrites the file of the overlay.
#[test]
fn the_rules_of_the_kubernetes_overlay_are_the_same() {
    let rules = rules();
    let (_, groups) = rules.split_once("\ngroups:\n").unwrap();
    let line = |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") };
    let groups: String = groups.lines().map(line).collect();
    let expected = format!(
        "# Copied from cluster-config/monitoring/holdfast.rules.yml by a test with HOLDFAST_REWRITE=1.\n\
         apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: holdfast\nspec:\n  groups:\n{groups}"
    );
    let path = folder().join("../kubernetes/overlays/monitoring/prometheus-rule.yaml");
    if std::env::var_os("HOLDFAST_REWRITE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(
        written == expected,
        "run this test with HOLDFAST_REWRITE=1, and commit {}",
        path.display()
    );
}

#[test]
fn the_dashboard_has_its_six_rows_and_the_fields_of_grafana_10() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let rows = panels.iter().filter(|panel| panel["type"] == "row");
    let rows: Vec<&str> = rows.map(|row| row["title"].as_str().unwrap()).collect();
    let expected = ["Overview", "Locks", "Latency", "Raft and peers", "Resources", "Security"];
    assert_eq!(rows, expected);
    assert!(dashboard["schemaVersion"].as_u64() >= Some(38));
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert!(["timeseries", "stat"].contains(&panel["type"].as_str().unwrap()), "{panel}");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
        let place = &panel["gridPos"];
        let right = place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap();
        assert!(right <= 24 && place["h"].as_u64() > Some(0), "{panel}");
    }
}

/// The HTTP addresses of the nodes, as a list for Prometheus.
fn targets(cluster: &DevCluster) -> String {
    let targets = [0, 10, 20].map(|offset| format!("\"127.0.0.1:{}\"", cluster.port() + offset));
    format!("[{}]", targets.join(", "))
}

/// A Prometheus that scrapes the nodes each second.
struct Prometheus {
    _program: Program,
    _dir: tempfile::TempDir,
    _ports: PortRange,
    api: Http,
}

impl Prometheus {
    /// Scrapes the nodes of a cluster without authorization.
    fn start(cluster: &DevCluster) -> Option<Self> {
        Self::start_with(&format!(
            "scrape_configs:\n  - job_name: holdfast\n    static_configs:\n      - targets: {}\n",
            targets(cluster)
        ))
    }

    /// `None`, with a printed line, if the program is not installed.
    fn start_with(scrapes: &str) -> Option<Self> {
        if Command::new("prometheus").arg("--version").output().is_err() {
            let is_required = std::env::var_os("HOLDFAST_REQUIRE_PROMETHEUS").is_some();
            assert!(!is_required, "install prometheus, or unset HOLDFAST_REQUIRE_PROMETHEUS");
            eprintln!("SKIPPED: prometheus is not installed");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: ['{}']\n{scrapes}",
            folder().canonicalize().unwrap().join("holdfast.rules.yml").display(),
        );
        let file = dir.path().join("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        let ports = PortRange::reserve();
        let address = format!("127.0.0.1:{}", ports.first());
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()));
        command.arg(format!("--web.listen-address={address}")).arg("--log.level=error");
        let program = Program::start(command);
        Some(Self { _program: program, _dir: dir, _ports: ports, api: Http::new(address) })
    }

    /// Whether an expression has a series now. The answer to a wrong expression is a panic.
    async fn has_series(&self, expression: &str) -> bool {
        let target = format!("/api/v1/query?query={}", escape_query(expression));
        let request = Request::new(Method::GET, &target);
        let Ok(reply) = self.api.send(request).await else { return false };
        assert_ne!(reply.status, 400, "{expression}: {reply}");
        reply.json()["data"]["result"].as_array().is_some_and(|found| !found.is_empty())
    }
}

/// `scripts/maintain/dashboard-check` runs only this test.
#[tokio::test(flavor = "multi_thread")]
async fn prometheus_has_a_series_for_each_expression_of_the_dashboard_and_the_rules() {
    let cluster = DevCluster::start(&["--nodes", "3"]);
    let Some(prometheus) = Prometheus::start(&cluster) else { return };
    let nodes = nodes(&cluster).await;
    let mut missing = [dashboard_expressions(), rule_expressions()].concat();
    missing.retain(|expression| !expression.contains(WITH_TLS));
    let until = Instant::now() + Duration::from_mins(1);
    while !missing.is_empty() {
        assert!(Instant::now() < until, "no series for {missing:#?}");
        // The load: grants on each node, busy and waiting calls, and ZooKeeper clients.
        for node in &nodes {
            node.put("/v1/locks/held?session=me").await.assert_status(200);
            node.put("/v1/locks/held?session=you").await.assert_status(423);
            node.put("/v1/locks/held?session=you&wait=50ms").await.assert_status(423);
            node.delete("/v1/locks/held?session=me").await.assert_status(204);
        }
        ask_zookeeper(&cluster).await;
        let mut without = Vec::new();
        for expression in missing {
            if !prometheus.has_series(&expression).await {
                without.push(expression);
            }
        }
        missing = without;
    }
}

/// The commands and the configuration of docs/operations.md. A scrape without the access token fails.
#[tokio::test(flavor = "multi_thread")]
async fn prometheus_scrapes_a_secure_cluster_with_the_configuration_of_the_page() {
    let data = tempfile::tempdir().unwrap();
    let path = |name: &str| data.path().join(name).display().to_string();
    let cluster = DevCluster::start(&["--nodes", "3", "--secure", "--data", &path("data")]);
    let page = std::fs::read_to_string(folder().join("../../docs/operations.md")).unwrap();
    let (commands, rest) = page
        .split_once("```sh\nholdfast auth subject set prometheus")
        .unwrap()
        .1
        .split_once("```")
        .unwrap();
    let scrapes = rest.split_once("```yaml\n").unwrap().1.split_once("```").unwrap().0;
    let shown = cluster.output_before_ready();
    let exports: Vec<&str> = shown.lines().filter(|line| line.starts_with("export ")).collect();
    let (token, binary) = (path("holdfast.token"), Path::new(env!("CARGO_BIN_EXE_holdfast")));
    let script = format!(
        "set -e\n{}\nPATH={}:$PATH\nholdfast auth subject set prometheus{}",
        exports.join("\n"),
        binary.parent().unwrap().display(),
        commands.replace("/etc/prometheus/holdfast.token", &token)
    );
    let made = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(made.status.success(), "{script}: {}", String::from_utf8_lossy(&made.stderr));
    let ca = shown.split("HOLDFAST_CACERT=").nth(1).unwrap().split_whitespace().next().unwrap();
    let scrapes = scrapes
        .replace("/etc/holdfast/ca.pem", ca)
        .replace("/etc/prometheus/holdfast.token", &token)
        .replace("[\"node1:7400\", \"node2:7400\", \"node3:7400\"]", &targets(&cluster));
    let without = scrapes.replace("job_name: holdfast", "job_name: stranger");
    let lines = without.lines().filter(|line| !line.contains("authorization:"));
    let without = lines.collect::<Vec<_>>().join("\n");
    let without = without.split_once("scrape_configs:\n").unwrap().1;
    let Some(prometheus) = Prometheus::start_with(&format!("{scrapes}{without}")) else { return };
    let until = Instant::now() + Duration::from_mins(1);
    for expression in [
        "count(up{job=\"holdfast\"} == 1) == 3",
        "count(holdfast_certificate_expires_timestamp_seconds{listener=\"http\"}) == 3",
        "count(up{job=\"stranger\"} == 0) == 3",
    ] {
        while !prometheus.has_series(expression).await {
            assert!(Instant::now() < until, "never true: {expression}");
            tokio::task::yield_now().await;
        }
    }
}

#[test]
fn files_that_a_node_cannot_use_raise_an_alarm_until_they_are_replaced() {
    let node = SecureNode::new();
    node.certs(&["init"]);
    node.certs(&["node", "node-1", "--host", "127.0.0.1"]);
    let mut running = node.start();
    let (address, ca) = (node.address(), node.path("pki/ca.pem").display().to_string());
    let alarms = || holdfast(&["alarms", "--addr", &address, "--cacert", &ca, "-o", "value"]);
    let is_raised = || alarms().stdout.contains("tls-reload-failed\n");
    assert!(!is_raised());
    std::fs::write(node.path("pki/node-1.pem"), "no certificate").unwrap();
    eventually("the alarm", is_raised);
    assert_eq!(alarms().code, Some(2));
    let mut curl = Command::new("curl");
    curl.args(["-s", "--cacert", &ca, &format!("https://{address}/metrics")]);
    let metrics = String::from_utf8(curl.output().unwrap().stdout).unwrap();
    for listener in ["http", "peer", "zookeeper"] {
        let expiry =
            format!("holdfast_certificate_expires_timestamp_seconds{{listener=\"{listener}\"}} ");
        assert!(metrics.contains(&expiry), "{metrics}");
    }
    node.certs(&["node", "node-1", "--host", "127.0.0.1", "--replace"]);
    eventually("the end of the alarm", || !is_raised());
    running.kill();
}
