//! The speed part of the report: rates, times, the open loop, and the cost of a cycle.

use crate::statistics::Spread;

use super::advantages::case_text;
use super::document::{Block, Table};
use super::figures::{CaseFigures, CaseKey, Figures};
use super::label::label;
use super::plots::{self, DotRow, PlotLine, PlotPoint};
use crate::catalogue::{BASELINE, WakeUpKind, named};
use crate::record::{LoadLoop, LockLayout, Measured};

const NONE: &str = "–";

pub(super) fn speed(figures: &Figures<'_>) -> Vec<Block> {
    if figures.speed.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![
        Block::Heading("Speed".to_owned()),
        Block::Text(format!(
            "A cycle is one acquire that waits for the lock and one release. Every client has a connection of its own and one \
             call in progress. Numbers are medians of the repetitions, with minimum and maximum; × is the ratio to `{BASELINE}` in \
             the same case. The systems were measured in turns, in another order in each repetition. etcd is called through its \
             JSON gateway, and ZooKeeper has a heap of 256 MiB with the serial collector."
        )),
    ];
    blocks.extend(rates(
        figures,
        LockLayout::Spread,
        "Cycles per second, a lock for each client",
        "",
    ));
    blocks.extend(rates(
        figures,
        LockLayout::Hot,
        "Cycles per second, all clients on one lock",
        "Without a queue the same client may acquire it again and again while the others sleep: compare the order of grants.",
    ));
    blocks.extend(times(figures));
    blocks.extend(open_loop(figures));
    blocks.extend(costs(figures));
    blocks.push(Block::Detail(everything(figures)));
    blocks
}

/// A warning about locks that had two holders although nothing failed.
pub(super) fn two_holders(figures: &Figures<'_>) -> Option<Block> {
    let cases = figures.cases(|case| case.locks == LockLayout::Hot);
    let has_two = |system: &&str| {
        let mut cells = cases.iter().filter_map(|case| figures.cell(system, *case));
        cells.any(CaseFigures::has_two_holders)
    };
    let systems: Vec<&str> = figures.systems().into_iter().filter(has_two).collect();
    (!systems.is_empty()).then(|| {
        Block::Warning(format!(
            "Void are the figures of speed and order of {}: two clients held one lock although nothing failed, so the clients \
             were not on one server.",
            systems.join(", ")
        ))
    })
}

fn closed(locks: LockLayout) -> impl Fn(&CaseKey) -> bool {
    move |case| case.locks == locks && case.load == LoadLoop::Closed
}

fn rates(figures: &Figures<'_>, locks: LockLayout, title: &str, note: &str) -> Vec<Block> {
    let cases = figures.cases(closed(locks));
    if cases.is_empty() {
        return Vec::new();
    }
    let header = cases.iter().map(|case| case_text(*case));
    let mut table = Table::with(std::iter::once("system".to_owned()).chain(header));
    for system in figures.systems() {
        let cells = cases.iter().map(|case| rate(figures, system, *case));
        table.add(std::iter::once(system.to_owned()).chain(cells));
    }
    let lines = lines(figures, &cases, |case| f64::from(case.clients), CaseFigures::rate);
    let plot = plots::lines(title, "clients", "cycles per second", &lines);
    let text = format!("{title}. {note}").trim_end().to_owned();
    vec![Block::Text(text), Block::Table(table), Block::Plot(plot)]
}

/// `12,345 (12,000–12,600) ×0.8`.
fn rate(figures: &Figures<'_>, system: &str, case: CaseKey) -> String {
    let rate = |cell: Option<&CaseFigures>| cell.and_then(CaseFigures::rate);
    let Some(other) = rate(figures.cell(system, case)) else { return NONE.to_owned() };
    let ratio =
        rate(figures.baseline(case)).filter(|baseline| system != BASELINE && baseline.median > 0.0);
    let ratio = ratio.map(|baseline| format!(" ×{}", label(other.median / baseline.median)));
    format!("{}{}", spread(other), ratio.unwrap_or_default())
}

/// `12,345 (12,000–12,600)`, or the number alone if there is one.
pub(super) fn spread(of: Spread) -> String {
    if of.count == 1 {
        return label(of.median);
    }
    format!("{} ({}–{})", label(of.median), label(of.min), label(of.max))
}

fn lines(
    figures: &Figures<'_>,
    cases: &[CaseKey],
    across: impl Fn(&CaseKey) -> f64,
    up: impl Fn(&CaseFigures) -> Option<Spread>,
) -> Vec<PlotLine> {
    let line = |system: &&str| {
        let point = |case: &CaseKey| {
            let Spread { median, min, max, .. } = up(figures.cell(system, *case)?)?;
            (median > 0.0).then(|| PlotPoint { x: across(case), y: median, low: min, high: max })
        };
        let points: Vec<PlotPoint> = cases.iter().filter_map(point).collect();
        PlotLine { name: (*system).to_owned(), points }
    };
    let drawn = figures.drawn();
    drawn.iter().map(line).filter(|line| !line.points.is_empty()).collect()
}

type Quantile = fn(&Measured) -> f64;

/// The printed quantiles, with their accessors.
const QUANTILES: [(&str, Quantile); 3] = [
    ("p50", |measured| measured.p50_ms),
    ("p99", |measured| measured.p99_ms),
    ("p99.9", |measured| measured.p999_ms),
];

/// The times of the closed loop with 16 clients, or the nearest number.
fn times(figures: &Figures<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    for locks in [LockLayout::Spread, LockLayout::Hot] {
        let cases = figures.cases(closed(locks));
        let Some(case) = cases.into_iter().min_by_key(|case| case.clients.abs_diff(16)) else {
            continue;
        };
        let title = format!("Time of a cycle, {}", case_text(case));
        let table = quantiles(figures, &[case]);
        let plot = plots::dots(&title, "p50, p99 and p99.9, milliseconds", &dots(figures, case));
        let text = format!("{title}, milliseconds.");
        blocks.extend([Block::Text(text), Block::Table(table), Block::Plot(plot)]);
    }
    blocks
}

fn quantiles(figures: &Figures<'_>, cases: &[CaseKey]) -> Table {
    let name = |case: &CaseKey| {
        if cases.len() > 1 { format!("{}, ", case_text(*case)) } else { String::new() }
    };
    let header = cases
        .iter()
        .flat_map(|case| QUANTILES.map(|(quantile, _)| format!("{}{quantile}", name(case))));
    let mut table = Table::with(std::iter::once("system".to_owned()).chain(header));
    for system in figures.systems() {
        let cells = cases.iter().flat_map(|case| {
            QUANTILES.map(|(_, of)| {
                let time = figures.cell(system, *case).and_then(|cell| cell.time(of));
                time.map_or_else(|| NONE.to_owned(), spread)
            })
        });
        table.add(std::iter::once(system.to_owned()).chain(cells));
    }
    table
}

fn dots(figures: &Figures<'_>, case: CaseKey) -> Vec<DotRow> {
    let row = |system: &&str| {
        let cell = figures.cell(system, case)?;
        let values = QUANTILES.iter().filter_map(|(_, of)| Some(cell.time(of)?.median)).collect();
        let row = DotRow { name: (*system).to_owned(), values };
        (!row.values.is_empty()).then_some(row)
    };
    figures.systems().iter().filter_map(row).collect()
}

fn open_loop(figures: &Figures<'_>) -> Vec<Block> {
    let cases = figures.cases(|case| matches!(case.load, LoadLoop::Open(_)));
    if cases.is_empty() {
        return Vec::new();
    }
    let title = "Open loop: cycles begin at fixed moments, whether the last ones have ended or not. A time counts from the scheduled \
                 moment, so a stall is charged with every cycle that it delayed. Milliseconds, p50 / p99 / p99.9, and the part that was \
                 not served:";
    let header = cases.iter().map(|case| case_text(*case));
    let mut table = Table::with(std::iter::once("system".to_owned()).chain(header));
    for system in figures.systems() {
        let cells = cases.iter().map(|case| served(figures.cell(system, *case)));
        table.add(std::iter::once(system.to_owned()).chain(cells));
    }
    let rate = |case: &CaseKey| match case.load {
        LoadLoop::Open(rate) => f64::from(rate),
        LoadLoop::Closed => 0.0,
    };
    let lines = lines(figures, &cases, rate, |cell| cell.time(|measured| measured.p99_ms));
    let plot = plots::lines(
        "Time of a cycle at a fixed rate (open loop)",
        "scheduled cycles per second",
        "p99, milliseconds",
        &lines,
    );
    vec![Block::Text(title.to_owned()), Block::Table(table), Block::Plot(plot)]
}

/// `1.2 / 3.4 / 5.6, 12% not served`.
fn served(cell: Option<&CaseFigures>) -> String {
    let Some(cell) = cell else { return NONE.to_owned() };
    let times: Vec<String> =
        QUANTILES.iter().filter_map(|(_, of)| Some(label(cell.time(of)?.median))).collect();
    if times.is_empty() {
        return NONE.to_owned();
    }
    let lost = cell.unserved().filter(|percent| *percent > 0.0);
    let lost = lost.map(|percent| format!(", {}% not served", label(percent)));
    format!("{}{}", times.join(" / "), lost.unwrap_or_default())
}

/// The cost of an acquire, without and with contention.
fn costs(figures: &Figures<'_>) -> Vec<Block> {
    let near = |locks| {
        let cases = figures.cases(closed(locks));
        cases.into_iter().min_by_key(|case| case.clients.abs_diff(16))
    };
    let cases: Vec<CaseKey> =
        [LockLayout::Spread, LockLayout::Hot].into_iter().filter_map(near).collect();
    let mut table = Table::with([
        "system",
        "clients",
        "round trips per acquire",
        "failed attempts",
        "wake-ups",
        "CPU s for 1,000 cycles",
        "errors",
    ]);
    for system in figures.systems() {
        for case in &cases {
            if let Some(cell) = figures.cell(system, *case) {
                table.add(cost(system, *case, cell));
            }
        }
    }
    let title = "The cost for the servers. A request to each server counts as a round trip; renewals in the background count only where \
                 the client shows them. Processor time is that of all server processes.";
    vec![Block::Text(title.to_owned()), Block::Table(table)]
}

fn cost(system: &str, case: CaseKey, cell: &CaseFigures) -> [String; 7] {
    let counted = |of: fn(&Measured) -> Option<f64>| {
        cell.counted(of).map_or_else(|| "not counted".to_owned(), |spread| label(spread.median))
    };
    let wakeups = match named(system).map(|system| system.wake_up) {
        Some(WakeUpKind::Reply) => "the reply is the wake-up".to_owned(),
        Some(WakeUpKind::Polling) => "none: it polls".to_owned(),
        Some(WakeUpKind::Event) | None => counted(|measured| measured.wakeups),
    };
    [
        system.to_owned(),
        case_text(case),
        counted(|measured| measured.round_trips),
        counted(|measured| measured.polls),
        wakeups,
        counted(|measured| measured.cpu_seconds),
        cell.errors().unwrap_or_else(|| "none".to_owned()),
    ]
}

/// All cases of all systems, for the page with plots.
fn everything(figures: &Figures<'_>) -> Table {
    let mut table = Table::with([
        "system", "case", "cycles/s", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "errors",
    ]);
    for system in figures.systems() {
        for case in figures.cases(|_| true) {
            let Some(cell) = figures.cell(system, case) else { continue };
            let shown = |of: Option<Spread>| of.map_or_else(|| NONE.to_owned(), spread);
            table.add([
                system.to_owned(),
                case_text(case),
                shown(cell.rate()),
                shown(cell.time(|measured| measured.p50_ms)),
                shown(cell.time(|measured| measured.p99_ms)),
                shown(cell.time(|measured| measured.p999_ms)),
                shown(cell.time(|measured| measured.max_ms)),
                cell.errors().unwrap_or_else(|| "none".to_owned()),
            ]);
        }
    }
    table
}
