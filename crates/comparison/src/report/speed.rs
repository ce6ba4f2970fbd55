//! The part about speed: rates, times, the open loop, and what a cycle costs.

use super::advantages::words;
use super::document::{Block, Table};
use super::figures::{CaseKey, Cell, Figures};
use super::svg::{self, Dots, Line, Point, label};
use crate::catalogue::{OURS, Waiting, named};
use crate::record::{Load, Locks, Measured};
use crate::statistics::Spread;

/// What is not there.
const NONE: &str = "–";

/// Everything about speed.
pub(super) fn speed(figures: &Figures<'_>) -> Vec<Block> {
    if figures.speed.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![
        Block::Heading("Speed".to_owned()),
        Block::Text(format!(
            "A cycle is one acquire that waits for the lock and one release. Every client has a connection of its own and one \
             call under way. Medians of the repetitions, with the least and the greatest; × is the ratio to `{OURS}` in the \
             same case. Every system was measured in turn in each repetition, each time in another order."
        )),
    ];
    blocks.extend(rates(figures, Locks::Spread, "Cycles a second, each client its own lock:"));
    blocks.extend(rates(
        figures,
        Locks::Hot,
        "Cycles a second, all clients on one lock. Without a queue the same client may take it again and again while the \
         others sleep: read this beside the order of grants.",
    ));
    blocks.extend(times(figures));
    blocks.extend(open_loop(figures));
    blocks.extend(costs(figures));
    blocks.push(Block::Detail(everything(figures)));
    blocks
}

fn closed(locks: Locks) -> impl Fn(&CaseKey) -> bool {
    move |case| case.locks == locks && case.load == Load::Closed
}

fn rates(figures: &Figures<'_>, locks: Locks, title: &str) -> Vec<Block> {
    let cases = figures.cases(closed(locks));
    if cases.is_empty() {
        return Vec::new();
    }
    let header = cases.iter().map(|case| words(*case));
    let mut table = Table::with(std::iter::once("system".to_owned()).chain(header));
    for system in figures.systems() {
        let cells = cases.iter().map(|case| rate(figures, system, *case));
        table.add(std::iter::once(system.to_owned()).chain(cells));
    }
    let lines = lines(figures, &cases, |case| f64::from(case.clients), Cell::rate);
    let plot = svg::lines(title, "clients", "cycles a second", &lines);
    vec![Block::Text(title.to_owned()), Block::Table(table), Block::Plot(plot)]
}

/// `12,345 (12,000–12,600) ×0.8`.
fn rate(figures: &Figures<'_>, system: &str, case: CaseKey) -> String {
    let rate = |cell: Option<&Cell>| cell.and_then(Cell::rate);
    let Some(theirs) = rate(figures.cell(system, case)) else { return NONE.to_owned() };
    let ratio = rate(figures.ours(case)).filter(|ours| system != OURS && ours.median > 0.0);
    let ratio = ratio.map(|ours| format!(" ×{}", label(theirs.median / ours.median)));
    format!("{}{}", spread(theirs), ratio.unwrap_or_default())
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
    up: impl Fn(&Cell) -> Option<Spread>,
) -> Vec<Line> {
    let line = |system: &&str| {
        let point = |case: &CaseKey| {
            let Spread { median, min, max, .. } = up(figures.cell(system, *case)?)?;
            (median > 0.0).then(|| Point { x: across(case), y: median, low: min, high: max })
        };
        let points: Vec<Point> = cases.iter().filter_map(point).collect();
        Line { name: (*system).to_owned(), colour: figures.colour(system), points }
    };
    figures.systems().iter().map(line).filter(|line| !line.points.is_empty()).collect()
}

type Quantile = fn(&Measured) -> f64;

/// The quantiles that are shown, with how they are read.
const QUANTILES: [(&str, Quantile); 3] = [
    ("p50", |measured| measured.p50_ms),
    ("p99", |measured| measured.p99_ms),
    ("p99.9", |measured| measured.p999_ms),
];

/// Times of the closed loop where there are 16 clients, or as near to that as was measured.
fn times(figures: &Figures<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    for locks in [Locks::Spread, Locks::Hot] {
        let cases = figures.cases(closed(locks));
        let Some(case) = cases.into_iter().min_by_key(|case| case.clients.abs_diff(16)) else {
            continue;
        };
        let title = format!("How long a cycle takes, milliseconds, {}:", words(case));
        let table = quantiles(figures, &[case]);
        let plot = svg::dots(&title, "milliseconds: p50, p99, p99.9", &dots(figures, case));
        blocks.extend([Block::Text(title), Block::Table(table), Block::Plot(plot)]);
    }
    blocks
}

fn quantiles(figures: &Figures<'_>, cases: &[CaseKey]) -> Table {
    let name = |case: &CaseKey| {
        if cases.len() > 1 { format!("{}, ", words(*case)) } else { String::new() }
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

fn dots(figures: &Figures<'_>, case: CaseKey) -> Vec<Dots> {
    let row = |system: &&str| {
        let cell = figures.cell(system, case)?;
        let values = QUANTILES.iter().filter_map(|(quantile, of)| {
            let median = cell.time(of)?.median;
            Some((median, format!("{system}, {quantile}: {} ms", label(median))))
        });
        let values: Vec<(f64, String)> = values.collect();
        let row = Dots { name: (*system).to_owned(), colour: figures.colour(system), values };
        (!row.values.is_empty()).then_some(row)
    };
    figures.systems().iter().filter_map(row).collect()
}

fn open_loop(figures: &Figures<'_>) -> Vec<Block> {
    let cases = figures.cases(|case| matches!(case.load, Load::Open(_)));
    if cases.is_empty() {
        return Vec::new();
    }
    let title = "Open loop: cycles begin at moments that were fixed beforehand, whether the last ones have ended or not, and \
                 a time counts from its moment, so that a stall is charged with everybody who came meanwhile. Milliseconds, p50 / p99 / \
                 p99.9, and how much was not served:";
    let header = cases.iter().map(|case| words(*case));
    let mut table = Table::with(std::iter::once("system".to_owned()).chain(header));
    for system in figures.systems() {
        let cells = cases.iter().map(|case| served(figures.cell(system, *case)));
        table.add(std::iter::once(system.to_owned()).chain(cells));
    }
    let rate = |case: &CaseKey| match case.load {
        Load::Open(rate) => f64::from(rate),
        Load::Closed => 0.0,
    };
    let lines = lines(figures, &cases, rate, |cell| cell.time(|measured| measured.p99_ms));
    let plot =
        svg::lines("Open loop", "cycles a second that were asked for", "p99, milliseconds", &lines);
    vec![Block::Text(title.to_owned()), Block::Table(table), Block::Plot(plot)]
}

/// `1.2 / 3.4 / 5.6, 12% not served`.
fn served(cell: Option<&Cell>) -> String {
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

/// What an acquire asks of the servers, with and without others who want the same lock.
fn costs(figures: &Figures<'_>) -> Vec<Block> {
    let near = |locks| {
        let cases = figures.cases(closed(locks));
        cases.into_iter().min_by_key(|case| case.clients.abs_diff(16))
    };
    let cases: Vec<CaseKey> = [Locks::Spread, Locks::Hot].into_iter().filter_map(near).collect();
    let mut table = Table::with([
        "system",
        "clients",
        "round trips an acquire",
        "attempts in vain",
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
    let title = "What it costs the servers. Each server that is asked counts as a round trip; what a client does in the \
                 background, such as renewals, does not where it cannot be counted. Processor time is that of all server processes.";
    vec![Block::Text(title.to_owned()), Block::Table(table)]
}

fn cost(system: &str, case: CaseKey, cell: &Cell) -> [String; 7] {
    let counted = |of: fn(&Measured) -> Option<f64>| {
        cell.counted(of).map_or_else(|| "not counted".to_owned(), |spread| label(spread.median))
    };
    let wakeups = match named(system).map(|listed| listed.waiting) {
        Some(Waiting::Answered) => "the answer is the wake-up".to_owned(),
        Some(Waiting::Polls) => "none: it polls".to_owned(),
        Some(Waiting::Told) | None => counted(|measured| measured.wakeups),
    };
    [
        system.to_owned(),
        words(case),
        counted(|measured| measured.round_trips),
        counted(|measured| measured.polls),
        wakeups,
        counted(|measured| measured.cpu_seconds),
        cell.wrong().unwrap_or_else(|| "none".to_owned()),
    ]
}

/// Every case of every system, for the page with plots.
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
                words(case),
                shown(cell.rate()),
                shown(cell.time(|measured| measured.p50_ms)),
                shown(cell.time(|measured| measured.p99_ms)),
                shown(cell.time(|measured| measured.p999_ms)),
                shown(cell.time(|measured| measured.max_ms)),
                cell.wrong().unwrap_or_else(|| "none".to_owned()),
            ]);
        }
    }
    table
}
