//! Two builds of holdfast under the same load, by turns: medians, ranges and ratios.
//!
//! Each turn starts a new cluster of one program. The generator is the same. Every second round starts with
//! the other program, so that neither program is always first.

use std::path::Path;

use crate::statistics::Spread;
use holdfast_cli::dev::Layout;
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::output::{answer, table};
use serde::Serialize;

use super::access::Access;
use super::load::{LoadArgs, LoadReport, measure};
use super::processor_time::ALL;
use super::report::progress_bar;
use super::target::OwnCluster;

#[derive(Debug, Serialize)]
struct AgainstReport {
    rounds: u32,
    rows: Vec<MeasureRow>,
    this: Vec<LoadReport>,
    against: Vec<LoadReport>,
}

/// One measure of both programs.
#[derive(Debug, Serialize)]
struct MeasureRow {
    measure: &'static str,
    this: Spread,
    against: Spread,
    /// The median of holdfast divided by the median of the other program.
    ratio: f64,
}

pub(super) async fn run(args: &LoadArgs, program: &Path) -> Result<(), CommandFailure> {
    let report = rounds(args, program).await.map_err(CommandFailure::Failed)?;
    let ratio = report.rows.first().map_or(f64::NAN, |row| row.ratio);
    answer(args.output.format, &report, format!("{ratio:.2}"), &report.text());
    report.this.iter().chain(&report.against).try_for_each(LoadReport::check)
}

async fn rounds(args: &LoadArgs, program: &Path) -> Result<AgainstReport, String> {
    let bar = progress_bar("measuring by turns", u64::from(args.rounds), " rounds");
    let (mut this, mut against) = (Vec::new(), Vec::new());
    for round in 0..args.rounds {
        if round % 2 == 0 {
            this.push(turn(args, None).await?);
            against.push(turn(args, Some(program)).await?);
        } else {
            against.push(turn(args, Some(program)).await?);
            this.push(turn(args, None).await?);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let row = |measure, value: fn(&LoadReport) -> Option<f64>| {
        let this = Spread::of(&this.iter().filter_map(value).collect::<Vec<_>>())?;
        let against = Spread::of(&against.iter().filter_map(value).collect::<Vec<_>>())?;
        Some(MeasureRow { measure, this, against, ratio: this.median / against.median })
    };
    let rows = [
        row("cycles/s", |report| Some(report.cycles_per_second)),
        row("p50 ms", |report| Some(report.times.p50)),
        row("p99 ms", |report| Some(report.times.p99)),
        row("processor µs a cycle", |report| report.processor_us_per_cycle.get(ALL).copied()),
    ];
    let rows = rows.into_iter().flatten().collect();
    Ok(AgainstReport { rounds: args.rounds, rows, this, against })
}

/// Measures one new cluster of a program; `None` is the one of `HOLDFAST_BIN`, or beside this program.
async fn turn(args: &LoadArgs, program: Option<&Path>) -> Result<LoadReport, String> {
    let plan = |layout: Layout| match program {
        Some(program) => layout.with_program(program),
        None => layout,
    };
    let own = OwnCluster::start_as(args.nodes, plan).await;
    let own = own.map_err(|error| match program {
        Some(program) => format!("{}: {error}", program.display()),
        None => error,
    })?;
    let report = measure(&args.load, own.cluster.layout().endpoints(), &Access::default()).await;
    own.stop().await;
    report
}

fn cell(of: Spread) -> String {
    let Spread { median, min, max, .. } = of;
    let digits = if max < 100.0 { 2 } else { 0 };
    format!("{median:.digits$} ({min:.digits$}–{max:.digits$})")
}

impl AgainstReport {
    fn text(&self) -> String {
        let rows = self.rows.iter().map(|row| {
            let MeasureRow { measure, this, against, ratio } = row;
            [(*measure).to_owned(), cell(*this), cell(*against), format!("{ratio:.2}")]
        });
        let header = ["median (range)", "holdfast", "the other", "ratio"];
        table(header, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_values_have_two_digits() {
        let cell = |max: f64| cell(Spread { median: 1.0, min: 0.5, max, count: 3 });
        assert_eq!((cell(2.0), cell(200.0)), ("1.00 (0.50–2.00)".into(), "1 (0–200)".into()));
    }
}
