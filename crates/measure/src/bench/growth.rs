//! Growth: cycles/s, p99 and processor time over the number of clients, held locks, waiters, nodes, and value bytes.
//!
//! Every point has the same load otherwise: 64 clients, each with its own lock, on three nodes. The rounds repeat the
//! points of a curve in order, so a slow minute of the machine does not fall on one point only. The curve of held
//! locks is the exception: its locks stay, so all rounds of a point are together.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use holdfast_cli::arguments::OutputArgs;
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::output::{answer, table, write_stderr};
use serde::Serialize;

use super::access::Access;
use super::bulk::BulkCalls;
use super::load::{LoadReport, LoadSettings, LockChoice, measure};
use super::processor_time::ALL;
use super::requests::Requests;
use super::target::OwnCluster;
use crate::report::plots::{self, PlotLine, PlotPoint};
use crate::statistics::Spread;

/// The TTL of the sessions with the held locks; the measurement does not renew them.
const TTL: Duration = Duration::from_hours(24);
/// The number of clients in all curves but the first.
const CLIENTS_ELSEWHERE: u32 = 64;
const CLIENTS: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024];
/// Up to 90 % of the default limit of sessions.
const HELD: [u32; 6] = [0, 100, 1_000, 10_000, 100_000, 900_000];
const WAITERS: [u32; 5] = [1, 10, 100, 1_000, 10_000];
const NODES: [u32; 3] = [1, 3, 5];
const VALUE_BYTES: [u32; 4] = [0, 64, 512, 4_096];

/// Measure how speed changes with clients, held locks, waiters, nodes and bytes.
#[derive(Debug, Args)]
pub(super) struct GrowthArgs {
    /// The measured time of a point in a round, seconds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// The number of measurements of each point.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// The largest value of each curve; larger points are left out.
    #[arg(long, default_value_t = u32::MAX, hide_default_value = true)]
    up_to: u32,
    /// Also draw the curves into this SVG file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

/// All curves of one measurement.
#[derive(Debug, Serialize)]
struct GrowthReport {
    /// The number of measurements of each point.
    rounds: u32,
    curves: Vec<LoadCurve>,
}

/// Cycles/s, p99 and processor time over one growing quantity.
#[derive(Debug, Serialize)]
struct LoadCurve {
    /// What grows, with its unit.
    over: String,
    points: Vec<LoadPoint>,
}

#[derive(Debug, Serialize)]
struct LoadPoint {
    at: u32,
    cycles_per_second: Spread,
    p99_ms: Spread,
    /// `None` if it is unknown.
    processor_us_per_cycle: Option<Spread>,
}

pub(super) async fn run(args: &GrowthArgs) -> Result<(), CommandFailure> {
    let (curves, reports) = curves(args).await.map_err(CommandFailure::Failed)?;
    let growth = GrowthReport { rounds: args.rounds, curves };
    answer(args.output.format, &growth, growth.curves.len().to_string(), &text(&growth));
    reports.iter().try_for_each(LoadReport::check)?;
    if let Some(file) = &args.svg {
        let written = std::fs::write(file, draw(&growth.curves));
        let failed = |error| CommandFailure::failed(format!("{}: {error}", file.display()));
        written.map_err(failed)?;
    }
    Ok(())
}

async fn curves(args: &GrowthArgs) -> Result<(Vec<LoadCurve>, Vec<LoadReport>), String> {
    let mut all = GrowthCurves::default();
    let own = OwnCluster::start(3).await?;
    let measured = all.of_three_nodes(args, &own.cluster.layout().endpoints()).await;
    own.stop().await;
    measured?;
    all.nodes(args).await?;
    Ok((all.curves, all.reports))
}

/// The measured curves, and the reports of all loads.
#[derive(Default)]
struct GrowthCurves {
    curves: Vec<LoadCurve>,
    reports: Vec<LoadReport>,
}

impl GrowthCurves {
    async fn of_three_nodes(
        &mut self,
        args: &GrowthArgs,
        endpoints: &[String],
    ) -> Result<(), String> {
        let base = LoadSettings::new(CLIENTS_ELSEWHERE, args.seconds, LockChoice::Spread);
        let of_clients = |clients| LoadSettings { clients, ..base.clone() };
        self.curve("clients", args, &CLIENTS, endpoints, of_clients).await?;
        let of_waiters = |waiters| LoadSettings::new(waiters + 1, args.seconds, LockChoice::Hot);
        self.curve("waiters for one lock", args, &WAITERS, endpoints, of_waiters).await?;
        let of_bytes = |value_bytes| LoadSettings { value_bytes, ..base.clone() };
        self.curve("bytes in the value of a lock", args, &VALUE_BYTES, endpoints, of_bytes).await?;
        self.held(args, &base, endpoints).await
    }

    async fn curve(
        &mut self,
        over: &str,
        args: &GrowthArgs,
        places: &[u32],
        endpoints: &[String],
        load: impl Fn(u32) -> LoadSettings,
    ) -> Result<(), String> {
        let places: Vec<u32> = places.iter().copied().filter(|at| *at <= args.up_to).collect();
        let mut reports: Vec<Vec<LoadReport>> = places.iter().map(|_| Vec::new()).collect();
        for round in 1..=args.rounds {
            for (at, reports) in places.iter().zip(&mut reports) {
                tell(over, *at, round);
                reports.push(measure(&load(*at), endpoints.to_vec(), &Access::default()).await?);
            }
        }
        let points = places.iter().zip(&reports).filter_map(|(at, of)| load_point(*at, of));
        self.curves.push(LoadCurve { over: over.to_owned(), points: points.collect() });
        self.reports.extend(reports.into_iter().flatten());
        Ok(())
    }

    async fn held(
        &mut self,
        args: &GrowthArgs,
        load: &LoadSettings,
        endpoints: &[String],
    ) -> Result<(), String> {
        let (over, mut points, mut held) = ("held locks", Vec::new(), 0);
        for at in HELD.into_iter().filter(|at| *at <= args.up_to) {
            hold(held..at, endpoints).await?;
            held = at;
            let reports = point(over, at, args.rounds, load, endpoints).await?;
            points.extend(load_point(at, &reports));
            self.reports.extend(reports);
        }
        self.curves.push(LoadCurve { over: over.to_owned(), points });
        Ok(())
    }

    async fn nodes(&mut self, args: &GrowthArgs) -> Result<(), String> {
        let load = LoadSettings::new(CLIENTS_ELSEWHERE, args.seconds, LockChoice::Spread);
        let (over, mut points) = ("nodes", Vec::new());
        for at in NODES.into_iter().filter(|at| *at <= args.up_to) {
            let own = OwnCluster::start(u64::from(at)).await?;
            let endpoints = own.cluster.layout().endpoints();
            let reports = point(over, at, args.rounds, &load, &endpoints).await;
            own.stop().await;
            let reports = reports?;
            points.extend(load_point(at, &reports));
            self.reports.extend(reports);
        }
        self.curves.push(LoadCurve { over: over.to_owned(), points });
        Ok(())
    }
}

/// Measures all rounds of a point.
async fn point(
    over: &str,
    at: u32,
    rounds: u32,
    load: &LoadSettings,
    endpoints: &[String],
) -> Result<Vec<LoadReport>, String> {
    let mut reports = Vec::new();
    for round in 1..=rounds {
        tell(over, at, round);
        reports.push(measure(load, endpoints.to_vec(), &Access::default()).await?);
    }
    Ok(reports)
}

fn tell(over: &str, at: u32, round: u32) {
    write_stderr(&format!("measure: {at} {over}, round {round}"));
}

/// Acquires locks that stay held. Each lock has its own session.
async fn hold(numbers: std::ops::Range<u32>, endpoints: &[String]) -> Result<(), String> {
    let first = numbers.start;
    let request = move |number: u32| {
        let number = first + number;
        Requests::new(&format!("held/{number}"), &format!("held-{number}"), TTL, Duration::ZERO)
            .map(|requests| requests.acquire)
            .map_err(|error| error.to_string())
    };
    let calls = u32::try_from(numbers.len()).map_err(|error| error.to_string())?;
    let bulk = BulkCalls {
        what: "holding locks",
        calls,
        clients: 64,
        request: Box::new(request),
        is_done: |_| false,
    };
    bulk.make(endpoints).await.map(drop)
}

/// `None` without reports.
fn load_point(at: u32, reports: &[LoadReport]) -> Option<LoadPoint> {
    let spread = |value: fn(&LoadReport) -> Option<f64>| {
        Spread::of(&reports.iter().filter_map(value).collect::<Vec<_>>())
    };
    Some(LoadPoint {
        at,
        cycles_per_second: spread(|report| Some(report.cycles_per_second))?,
        p99_ms: spread(|report| Some(report.times.p99))?,
        processor_us_per_cycle: spread(|report| report.processor_us_per_cycle.get(ALL).copied()),
    })
}

fn text(growth: &GrowthReport) -> String {
    let rows = growth.curves.iter().flat_map(|curve| {
        curve.points.iter().map(|point| {
            let micros = point.processor_us_per_cycle.map(|spread| spread.median);
            [
                format!("{} {}", point.at, curve.over),
                format!("{:.0}", point.cycles_per_second.median),
                format!("{:.1}", point.p99_ms.median),
                micros.map_or_else(|| "unknown".to_owned(), |micros| format!("{micros:.0}")),
            ]
        })
    });
    table(["medians", "cycles/s", "p99 ms", "processor µs a cycle"], rows)
}

/// Draws all curves as one SVG: a row for each curve, a column for each measure.
fn draw(curves: &[LoadCurve]) -> String {
    let rows: Vec<_> = curves.iter().map(|curve| (curve.over.clone(), columns(curve))).collect();
    plots::grid("growth", &rows).svg
}

/// Returns the plots of a curve, each with the name of its measure.
fn columns(curve: &LoadCurve) -> [(String, PlotLine); 3] {
    let column = |name: &str, measure: fn(&LoadPoint) -> Option<Spread>| {
        let points =
            curve.points.iter().filter_map(|point| Some(plotted(point.at, measure(point)?)));
        (name.to_owned(), PlotLine { name: plots::OWN.to_owned(), points: points.collect() })
    };
    [
        column("cycles/s", |point| Some(point.cycles_per_second)),
        column("p99, ms", |point| Some(point.p99_ms)),
        column("processor µs a cycle", |point| point.processor_us_per_cycle),
    ]
}

/// A logarithmic axis has no zero, so the point at 0 is drawn at 1.
fn plotted(at: u32, spread: Spread) -> PlotPoint {
    let Spread { median, min, max, .. } = spread;
    PlotPoint { x: f64::from(at.max(1)), y: median, low: min, high: max }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_curve_has_three_plots() {
        let spread = Spread { median: 2.0, min: 1.0, max: 3.0, count: 3 };
        let point = |at| LoadPoint {
            at,
            cycles_per_second: spread,
            p99_ms: spread,
            processor_us_per_cycle: Some(spread),
        };
        let over = "clients".to_owned();
        let svg = draw(&[LoadCurve { over, points: vec![point(0), point(64)] }]);
        assert_eq!(svg.matches("<circle").count(), 6, "two points in each plot");
        assert!(svg.contains("clients") && svg.contains("p99, ms"), "{svg}");
    }
}
