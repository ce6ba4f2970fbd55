//! What the measurements print: a table for people, one JSON object for programs.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Counter;
use hdrhistogram::Histogram;
use holdfast_client::load::LoadResult;
use serde::Serialize;

use super::footprint::NodeFootprint;
use crate::cli::{Format, LoadArgs, Locks, SnapshotsArgs};
use crate::exit::Stop;
use crate::output::{print, print_json, table};

/// Times in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Times {
    #[serde(rename = "p50_ms")]
    pub(super) p50: f64,
    #[serde(rename = "p99_ms")]
    pub(super) p99: f64,
    #[serde(rename = "p99.9_ms")]
    pub(super) p999: f64,
    #[serde(rename = "max_ms")]
    pub(super) max: f64,
}

impl Times {
    /// The usual quantiles of a histogram of microseconds.
    pub(super) fn of<C: Counter>(histogram: &Histogram<C>) -> Self {
        let ms = |micros: u64| Duration::from_micros(micros).as_secs_f64() * 1_000.0;
        Self {
            p50: ms(histogram.value_at_quantile(0.5)),
            p99: ms(histogram.value_at_quantile(0.99)),
            p999: ms(histogram.value_at_quantile(0.999)),
            max: ms(histogram.max()),
        }
    }
}

/// The result of `holdfast bench`.
#[derive(Debug, Serialize)]
pub(super) struct LoadReport {
    locks: &'static str,
    clients: u32,
    seconds: f64,
    cycles: u64,
    cycles_per_second: f64,
    #[serde(flatten)]
    times: Times,
    errors: BTreeMap<String, u64>,
    violations: u64,
}

impl LoadReport {
    pub(super) fn new(args: &LoadArgs, measured: &LoadResult) -> Self {
        let LoadResult { elapsed, counts, violations } = measured;
        Self {
            locks: match args.locks {
                Locks::Spread => "spread",
                Locks::Hot => "hot",
            },
            clients: args.clients,
            seconds: elapsed.as_secs_f64(),
            cycles: counts.times.len(),
            cycles_per_second: per_second(counts.times.len(), *elapsed),
            times: Times::of(&counts.times),
            errors: counts.errors.clone(),
            violations: *violations,
        }
    }

    pub(super) fn print(&self, format: Format) {
        match format {
            Format::Json | Format::Jsonl => print_json(self),
            Format::Value => print(&format!("{:.0}", self.cycles_per_second)),
            Format::Table => {
                let header = [
                    "locks",
                    "clients",
                    "cycles/s",
                    "p50 ms",
                    "p99 ms",
                    "p99.9 ms",
                    "max ms",
                    "errors",
                    "violations",
                ];
                let row = [
                    self.locks.to_owned(),
                    self.clients.to_string(),
                    format!("{:.0}", self.cycles_per_second),
                    format!("{:.3}", self.times.p50),
                    format!("{:.3}", self.times.p99),
                    format!("{:.3}", self.times.p999),
                    format!("{:.3}", self.times.max),
                    kinds(&self.errors),
                    self.violations.to_string(),
                ];
                print(&table(header, [row]));
            }
        }
    }

    /// Whether the run may count.
    pub(super) fn verdict(&self) -> Result<(), Stop> {
        if self.cycles == 0 {
            return Err(Stop::failed(format!(
                "not one cycle was completed; errors: {}",
                kinds(&self.errors)
            )));
        }
        judged(self.violations)
    }
}

/// An error if the judge found any violation.
pub(super) fn judged(violations: u64) -> Result<(), Stop> {
    match violations {
        0 => Ok(()),
        count => Err(Stop::failed(format!(
            "{count} violations: a token did not grow, or two clients held one lock; keep the nodes' data and report this"
        ))),
    }
}

/// `none`, or `no-leader: 3, connection: 1`.
pub(super) fn kinds(errors: &BTreeMap<String, u64>) -> String {
    if errors.is_empty() {
        return "none".to_owned();
    }
    let each: Vec<String> = errors.iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
    each.join(", ")
}

/// A rate.
#[expect(clippy::cast_precision_loss, reason = "a rate is printed with few digits")]
pub(super) fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
}

/// The result of `holdfast bench failover`.
#[derive(Debug, Serialize)]
pub(super) struct FailoverReport {
    pub(super) nodes: u64,
    pub(super) rounds: u32,
    #[serde(flatten)]
    pub(super) times: Times,
    pub(super) gaps_ms: Vec<f64>,
    pub(super) violations: u64,
}

impl FailoverReport {
    pub(super) fn print(&self, format: Format) {
        match format {
            Format::Json | Format::Jsonl => print_json(self),
            Format::Value => print(&format!("{:.0}", self.times.p99)),
            Format::Table => {
                let header = [
                    "nodes",
                    "leaders killed",
                    "gap p50 ms",
                    "gap p99 ms",
                    "gap max ms",
                    "violations",
                ];
                let row = [
                    self.nodes.to_string(),
                    self.rounds.to_string(),
                    format!("{:.0}", self.times.p50),
                    format!("{:.0}", self.times.p99),
                    format!("{:.0}", self.times.max),
                    self.violations.to_string(),
                ];
                print(&table(header, [row]));
            }
        }
    }
}

/// One queue of `holdfast bench waiters`.
#[derive(Debug, Serialize)]
pub(super) struct WaitersRow {
    pub(super) waiters: u32,
    pub(super) hand_overs: u64,
    pub(super) hand_overs_per_second: f64,
    pub(super) wake_ups: u64,
    /// On all nodes together.
    pub(super) resident_bytes_per_waiter: u64,
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) violations: u64,
}

/// The result of `holdfast bench waiters`.
#[derive(Debug, Serialize)]
pub(super) struct WaitersReport {
    pub(super) few: WaitersRow,
    pub(super) many: WaitersRow,
}

impl WaitersReport {
    /// Prints it; an error if the judge found any violation.
    pub(super) fn finish(&self, format: Format) -> Result<(), Stop> {
        match format {
            Format::Json | Format::Jsonl => print_json(self),
            Format::Value => print(&format!("{:.0}", self.many.hand_overs_per_second)),
            Format::Table => {
                let header = [
                    "waiters",
                    "hand-overs/s",
                    "hand-overs",
                    "wake-ups",
                    "KiB a waiter, all nodes",
                    "errors",
                    "violations",
                ];
                print(&table(header, [&self.few, &self.many].map(WaitersRow::cells)));
            }
        }
        judged(self.few.violations + self.many.violations)
    }
}

impl WaitersRow {
    fn cells(&self) -> [String; 7] {
        [
            self.waiters.to_string(),
            format!("{:.0}", self.hand_overs_per_second),
            self.hand_overs.to_string(),
            self.wake_ups.to_string(),
            (self.resident_bytes_per_waiter >> 10).to_string(),
            kinds(&self.errors),
            self.violations.to_string(),
        ]
    }
}

/// The result of `holdfast bench snapshots`.
#[derive(Debug, Serialize)]
pub(super) struct SnapshotsReport {
    znodes: u32,
    clients: u32,
    snapshots: u32,
    seconds: f64,
    cycles: u64,
    cycles_during: u64,
    usual: Times,
    during: Times,
    /// Of the p99 during a snapshot to the usual one.
    ratio_p99: f64,
    errors: BTreeMap<String, u64>,
    violations: u64,
}

impl SnapshotsReport {
    pub(super) fn new(args: &SnapshotsArgs, measured: &LoadResult) -> Self {
        let LoadResult { elapsed, counts, violations } = measured;
        let (usual, during) = (Times::of(&counts.times), Times::of(&counts.apart));
        Self {
            znodes: args.znodes,
            clients: args.clients,
            snapshots: args.snapshots,
            seconds: elapsed.as_secs_f64(),
            cycles: counts.times.len(),
            cycles_during: counts.apart.len(),
            usual,
            during,
            ratio_p99: during.p99 / usual.p99.max(f64::MIN_POSITIVE),
            errors: counts.errors.clone(),
            violations: *violations,
        }
    }

    /// Prints it; an error if the judge found any violation.
    pub(super) fn finish(&self, format: Format) -> Result<(), Stop> {
        match format {
            Format::Json | Format::Jsonl => print_json(self),
            Format::Value => print(&format!("{:.2}", self.ratio_p99)),
            Format::Table => {
                let Self { znodes, snapshots, clients, seconds, ratio_p99, errors, .. } = self;
                print(&format!(
                    "{snapshots} snapshots of {znodes} znodes in {seconds:.0} s under {clients} clients: p99 during them {ratio_p99:.2} times the usual; errors: {}\n",
                    kinds(errors)
                ));
                let header = ["cycles", "number", "p50 ms", "p99 ms", "p99.9 ms", "max ms"];
                let row = |name: &str, number: u64, times: &Times| {
                    let Times { p50, p99, p999, max } = times;
                    let ms = [p50, p99, p999, max].map(|ms| format!("{ms:.3}"));
                    let [p50, p99, p999, max] = ms;
                    [name.to_owned(), number.to_string(), p50, p99, p999, max]
                };
                let usual = row("usual", self.cycles, &self.usual);
                let during = row("during a snapshot", self.cycles_during, &self.during);
                print(&table(header, [usual, during]));
            }
        }
        judged(self.violations)
    }
}

/// The result of `holdfast bench sessions` and `holdfast bench znodes`.
#[derive(Debug, Serialize)]
pub(super) struct BulkReport {
    what: &'static str,
    count: u32,
    seconds: f64,
    per_second: f64,
    errors: BTreeMap<String, u64>,
    nodes: Vec<NodeFootprint>,
    lost: u64,
}

impl BulkReport {
    /// `found`: how many of the `count` were there at the end.
    pub(super) fn new(
        what: &'static str,
        count: u32,
        elapsed: Duration,
        errors: BTreeMap<String, u64>,
        nodes: Vec<NodeFootprint>,
        found: u64,
    ) -> Self {
        let per_second = per_second(u64::from(count), elapsed);
        let lost = u64::from(count).saturating_sub(found);
        Self { what, count, seconds: elapsed.as_secs_f64(), per_second, errors, nodes, lost }
    }

    /// Prints it; an error if anything was lost.
    pub(super) fn finish(&self, format: Format) -> Result<(), Stop> {
        self.print(format);
        match self.lost {
            0 => Ok(()),
            lost => Err(Stop::failed(format!("{lost} of {} are no longer there", self.count))),
        }
    }

    fn print(&self, format: Format) {
        match format {
            Format::Json | Format::Jsonl => print_json(self),
            Format::Value => print(&format!("{:.0}", self.per_second)),
            Format::Table => {
                let Self { what, count, seconds, per_second, lost, .. } = self;
                let errors = kinds(&self.errors);
                print(&format!(
                    "{count} {what} in {seconds:.1} s: {per_second:.0}/s; errors: {errors}; lost over the restarts: {lost}\n"
                ));
                let header = ["node", "RSS MiB", "data MiB", "restart ms", "RSS after MiB"];
                print(&table(header, self.nodes.iter().map(footprint_row)));
            }
        }
    }
}

fn footprint_row(node: &NodeFootprint) -> [String; 5] {
    let mib = |bytes: u64| format!("{}.{}", bytes >> 20, ((bytes % (1 << 20)) * 10) >> 20);
    [
        node.node.to_string(),
        mib(node.resident_bytes),
        mib(node.data_bytes),
        format!("{:.0}", node.restart_ms),
        mib(node.resident_after_restart_bytes),
    ]
}
