//! Types shared by the reports: times, rates, errors, and the report of a bulk creation.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::statistics::Spread;
use hdrhistogram::{Counter, Histogram};
use holdfast_cli::arguments::Format;
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::output::{answer, table};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::footprint::NodeFootprint;

/// Quantiles of times, milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Quantiles {
    #[serde(rename = "p50_ms")]
    pub(super) p50: f64,
    #[serde(rename = "p99_ms")]
    pub(super) p99: f64,
    #[serde(rename = "p99.9_ms")]
    pub(super) p999: f64,
    #[serde(rename = "max_ms")]
    pub(super) max: f64,
}

impl Quantiles {
    /// The quantiles of a histogram of microseconds.
    pub(super) fn of<C: Counter>(histogram: &Histogram<C>) -> Self {
        let ms = |micros: u64| Duration::from_micros(micros).as_secs_f64() * 1_000.0;
        Self {
            p50: ms(histogram.value_at_quantile(0.5)),
            p99: ms(histogram.value_at_quantile(0.99)),
            p999: ms(histogram.value_at_quantile(0.999)),
            max: ms(histogram.max()),
        }
    }

    /// p50, p99, p99.9 and the maximum with three decimals.
    pub(super) fn cells(&self) -> [String; 4] {
        [self.p50, self.p99, self.p999, self.max].map(|ms| format!("{ms:.3}"))
    }
}

/// Returns an error if `violations` is not 0.
pub(super) fn check_violations(violations: u64) -> Result<(), CommandFailure> {
    match violations {
        0 => Ok(()),
        count => Err(CommandFailure::failed(format!(
            "{count} violations: a token did not grow, or two clients held one lock; keep the data of the nodes and report this"
        ))),
    }
}

/// Formats error counts: `none`, or `no-leader: 3, connection: 1`.
pub(super) fn error_counts(errors: &BTreeMap<String, u64>) -> String {
    if errors.is_empty() {
        return "none".to_owned();
    }
    let each: Vec<String> = errors.iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
    each.join(", ")
}

#[expect(clippy::cast_precision_loss, reason = "a rate is printed with few digits")]
pub(super) fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
}

/// A progress bar on stderr, such as `measuring ####---- 3/10 s`.
pub(super) fn progress_bar(action: &str, len: u64, unit: &str) -> ProgressBar {
    let bar = ProgressBar::new(len);
    if let Ok(style) =
        ProgressStyle::with_template(&format!("{action} {{bar:40}} {{pos}}/{{len}}{unit}"))
    {
        bar.set_style(style);
    }
    bar
}

/// The result of `measure bench sessions` and `measure bench znodes`.
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
    /// Creates the report; `found` is the number of the `count` objects that exist at the end.
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

    /// Prints the report. Returns an error if an object was lost.
    pub(super) fn finish(&self, format: Format) -> Result<(), CommandFailure> {
        let Self { what, count, seconds, per_second, lost, .. } = self;
        let errors = error_counts(&self.errors);
        let header = ["node", "RSS MiB", "data MiB", "restart ms", "RSS after MiB"];
        let nodes = table(header, self.nodes.iter().map(footprint_row));
        let text = format!(
            "{count} {what} in {seconds:.1} s: {per_second:.0}/s; errors: {errors}; lost after the restarts: {lost}\n\n{nodes}"
        );
        answer(format, self, format!("{per_second:.0}"), &text);
        match lost {
            0 => Ok(()),
            lost => Err(CommandFailure::failed(format!("{lost} of {count} are lost"))),
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

/// The median with the range, such as `8.36 (7.47–10.37)`.
pub(super) fn spread_cell(spread: Spread, digits: usize) -> String {
    let Spread { median, min, max, .. } = spread;
    format!("{median:.digits$} ({min:.digits$}–{max:.digits$})")
}
