//! `holdfast doctor`: checks each address, then the cluster, then acquires and releases a probe lock through every node.
//!
//! Each problem comes with the next step. The exit code is 1 if a check failed. The nodes find the conditions of the cluster,
//! as alarms; a check of its own has only what no node can see. `probe` reads the state of the nodes and acquires the
//! probe lock, and `checks` evaluates the state. Bounds: every call has a timeout of seconds.

mod checks;
mod probe;

use clap::Args;
use holdfast_api::ClusterBody;
use holdfast_cli::arguments::{ClusterArgs, Format, NodesArgs, PROBE};
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::output::{answer_rows, cell, print, table};
use holdfast_cli::terminal_text::{Tone, color_first_words};
use holdfast_types::LockName;
use serde::Serialize;
use tokio::task::JoinSet;

use self::checks::{best_view, check_all};
use self::probe::{ProbedAddress, Prober, round_trip, without_leader};

/// Check each node and the whole cluster; print each problem with the next step.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 if no check failed (warnings do not count), 1 if one failed."
)]
pub(crate) struct DoctorArgs {
    /// Change nothing: do not acquire the probe lock.
    #[arg(long)]
    look_only: bool,
    /// The probe lock, which is acquired and released through every node.
    #[arg(long, value_name = "NAME", default_value = PROBE)]
    probe: LockName,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(crate) async fn run(args: DoctorArgs) -> Result<(), CommandFailure> {
    // `client` reports malformed addresses.
    args.cluster.client()?;
    let http = prober(&args.cluster.nodes)?;
    let nodes = probe_all(&http, &args.cluster.nodes.addr).await;
    let mut findings = check_all(&nodes, env!("CARGO_PKG_VERSION"));
    let has_leader = best_view(&nodes).is_some_and(|view| view.leader.is_some());
    if !args.look_only && !has_leader {
        findings.push(without_leader());
    } else if !args.look_only {
        for node in nodes.iter().filter(|probed| probed.node.is_ok()) {
            let finding = round_trip(&node.address, &args.cluster.nodes, &args.probe).await;
            findings.push(finding.at(&node.address));
        }
    }
    let report = DoctorReport::of(findings);
    show(args.cluster.format(), &report);
    match report.verdict {
        Severity::Ok | Severity::Warn => Ok(()),
        Severity::Fail => Err(CommandFailure::Code(1, None)),
    }
}

/// Reads the view of the cluster of the node at each address, concurrently.
///
/// # Errors
/// A certificate or the access token cannot be used.
pub(crate) async fn views(
    nodes: &NodesArgs,
) -> Result<Vec<(String, Result<ClusterBody, String>)>, CommandFailure> {
    let http = prober(nodes)?;
    let read = nodes.addr.iter().map(|address| {
        let (http, address) = (http.clone(), address.clone());
        async move {
            let view = http.cluster(&address).await;
            (address, view)
        }
    });
    Ok(in_order(read).await)
}

fn prober(nodes: &NodesArgs) -> Result<Prober, CommandFailure> {
    let (tls, access_token) = (nodes.tls()?, nodes.credentials.access_token()?);
    Prober::new(tls.as_ref(), access_token).map_err(CommandFailure::failed)
}

/// Runs all futures concurrently, so that an unresponsive node does not delay the others. Returns the outputs in order.
async fn in_order<T: Send + 'static>(
    futures: impl Iterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let mut running = JoinSet::new();
    for (index, future) in futures.enumerate() {
        running.spawn(async move { (index, future.await) });
    }
    let mut outputs = running.join_all().await;
    outputs.sort_by_key(|(index, _)| *index);
    outputs.into_iter().map(|(_, output)| output).collect()
}

/// Probes all addresses concurrently.
async fn probe_all(http: &Prober, addresses: &[String]) -> Vec<ProbedAddress> {
    let probes = addresses.iter().cloned().map(|address| {
        let http = http.clone();
        async move { http.probe(&address).await }
    });
    in_order(probes).await
}

fn show(format: Format, report: &DoctorReport) {
    if format == Format::Value {
        return print(report.verdict.as_str());
    }
    let rows = report.checks.iter().map(|finding| {
        [
            finding.verdict.as_str().to_owned(),
            finding.check.to_owned(),
            cell(finding.at.as_ref()),
            finding.found.clone(),
            cell(finding.next.as_ref()),
        ]
    });
    let text = table(["", "check", "at", "found", "what to do"], rows);
    let text = color_first_words(&text, Severity::tone);
    answer_rows(format, report, &report.checks, [""], &text);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    Ok,
    /// The cluster works, but an operator should act.
    Warn,
    Fail,
}

impl Severity {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }

    /// The tone of a verdict in the table.
    fn tone(verdict: &str) -> Option<Tone> {
        match verdict {
            "ok" => Some(Tone::Good),
            "warn" => Some(Tone::Attention),
            "fail" => Some(Tone::Problem),
            _ => None,
        }
    }
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    /// The address; `None` for a check of the whole cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<String>,
    pub(super) verdict: Severity,
    pub(super) found: String,
    /// The next step for the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, at: None, verdict: Severity::Ok, found: found.into(), next: None }
    }

    pub(super) fn warn(
        check: &'static str,
        found: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self { verdict: Severity::Warn, next: Some(next.into()), ..Self::ok(check, found) }
    }

    pub(super) fn fail(
        check: &'static str,
        found: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self { verdict: Severity::Fail, next: Some(next.into()), ..Self::ok(check, found) }
    }

    /// Attaches an address to the finding.
    pub(super) fn at(self, address: &str) -> Self {
        Self { at: Some(address.to_owned()), ..self }
    }
}

/// All findings of a run.
#[derive(Debug, Serialize)]
struct DoctorReport {
    /// The worst severity of the findings.
    pub(super) verdict: Severity,
    checks: Vec<Finding>,
}

impl DoctorReport {
    fn of(checks: Vec<Finding>) -> Self {
        let verdict = checks.iter().map(|check| check.verdict).max().unwrap_or(Severity::Ok);
        Self { verdict, checks }
    }
}
