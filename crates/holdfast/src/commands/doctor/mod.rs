//! `holdfast doctor`: checks each address, then the cluster, then acquires and releases a probe lock through every node.
//!
//! Each problem comes with the next step. The exit code is 1 if a check failed. The nodes find the conditions of the cluster,
//! as alarms; a check of its own has only what no node can see. `probe` reads the state of the nodes, `checks` evaluates it,
//! and `round_trip` acquires the probe lock. Bounds: every call has a timeout of seconds.

mod checks;
mod finding;
mod probe;
mod round_trip;

use std::time::Duration;

use clap::Args;
use holdfast_api::ClusterBody;
use holdfast_cli::arguments::{ClusterArgs, Format, NodesArgs, PROBE};
use holdfast_cli::color::color_first_words;
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::output::{answer_rows, cell, print, short_time, table};
use holdfast_types::LockName;
use tokio::task::JoinSet;

use self::checks::{best_view, check_all};
use self::finding::{DoctorReport, Severity};
use self::probe::{ProbedAddress, Prober};

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
        findings.push(round_trip::without_leader());
    } else if !args.look_only {
        for node in nodes.iter().filter(|probed| probed.node.is_ok()) {
            let finding =
                round_trip::through(&node.address, &args.cluster.nodes, &args.probe).await;
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

fn precise_time(duration: Duration) -> String {
    match holdfast_types::millis(duration) {
        0..10 => format!("{:.1}ms", duration.as_secs_f64() * 1_000.0),
        ms => short_time(ms),
    }
}
