//! The parts about order of grants, safety and failover.

use crate::statistics::Spread;

use super::document::{Block, Table};
use super::figures::Figures;
use super::label::label;
use super::outcome::{faults, matrix};
use super::plots::{self, DotRow};
use super::speed::spread;
use crate::adapters::no_lock;
use crate::failover::P99_TRIALS;
use crate::record::{Failover, Fairness, Safety};
use crate::statistics::{number, pairs, quantile};

const NONE: &str = "–";

pub(super) fn fairness(figures: &Figures<'_>) -> Vec<Block> {
    let Some(first) = figures.fairness.first() else { return Vec::new() };
    let mut table = Table::with([
        "system",
        "pairs granted out of order",
        "of",
        "longest wait ms",
        "all granted after ms",
        "errors",
    ]);
    let mut squares = Vec::new();
    for row in &figures.fairness {
        if row.orders.is_empty() {
            continue;
        }
        table.add(order(row));
        let order = row.orders.first().filter(|order| !order.is_empty());
        squares.extend(order.map(|order| (row.system.clone(), order.as_slice())));
    }
    let words = format!(
        "{} waiters enqueue one after the other, {} ms apart, while the lock is held. Then the holder releases, and each waiter \
         releases 2 ms after its grant. A wait counts from enqueue to grant. A lock without a queue grants out of order.",
        first.waiters, first.interval_ms
    );
    let plot = plots::orders("Order of enqueue (across) against order of grant (down)", &squares);
    vec![
        Block::Heading("Order of grants".to_owned()),
        Block::Text(words),
        Block::Table(table),
        Block::Plot(plot),
    ]
}

fn order(row: &Fairness) -> [String; 6] {
    let counts: Vec<f64> = row.inversions.iter().map(|count| number(*count)).collect();
    let shown = |values: &[f64]| Spread::of(values).map_or_else(|| NONE.to_owned(), spread);
    let errors: Vec<String> =
        row.errors.iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
    [
        row.system.clone(),
        shown(&counts),
        pairs(row.waiters).to_string(),
        shown(&row.longest_wait_ms),
        shown(&row.drained_ms),
        if errors.is_empty() { "none".to_owned() } else { errors.join(", ") },
    ]
}

pub(super) fn safety(figures: &Figures<'_>) -> Vec<Block> {
    if figures.safety.is_empty() {
        return Vec::new();
    }
    let mut table = Table::with([
        "system",
        "fault",
        "sold",
        "oversold",
        "lost updates",
        "double holders",
        "next grant ms",
        "stuck",
    ]);
    for row in &figures.safety {
        table.add(sale(row));
    }
    let words = "The same flash sale runs under each lock: worker processes read the stock, think, and write it in separate \
                 statements, so that only the lock protects it. The fault is injected while one worker is in the middle of a sale \
                 and the others wait. The tool repeats a sale whose fault missed that moment, at most twice. Leases are 3 s where they can be chosen; the inventory is in a PostgreSQL of its own. With \
                 `+fence` the token goes with every write, and the database rejects a stale one: two workers may still believe \
                 that they hold the lock, but only one of them writes. The page with plots has the counts of each sale: a lost \
                 update is a sale that another sale overwrote; double holders are critical sections that overlapped; the next \
                 grant includes the rest of the sale of a live holder (up to 1.8 s).";
    vec![
        Block::Heading("Safety".to_owned()),
        Block::Text(words.to_owned()),
        Block::Table(matrix(figures)),
        Block::Table(scenarios(figures)),
        Block::Table(exemptions(figures)),
        Block::Detail(table),
    ]
}

/// The scenarios that were run.
fn scenarios(figures: &Figures<'_>) -> Table {
    let mut table = Table::with(["fault", "what is done"]);
    for fault in faults(figures) {
        table.add([fault.name(), fault.description()]);
    }
    table
}

/// The systems to which a fault does not apply, for each fault and reason.
fn exemptions(figures: &Figures<'_>) -> Table {
    let mut found: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for row in figures.safety.iter().filter(|row| row.system != no_lock::LOCK.name) {
        let Some(why) = row.does_not_apply.as_deref() else { continue };
        match found.iter_mut().find(|(fault, known, _)| *fault == row.fault && *known == why) {
            Some((.., systems)) => systems.push(&row.system),
            None => found.push((&row.fault, why, vec![&row.system])),
        }
    }
    let mut table = Table::with(["not run", "why", "systems"]);
    for (fault, why, systems) in found {
        table.add([fault.to_owned(), why.to_owned(), systems.join(", ")]);
    }
    table
}

fn sale(row: &Safety) -> Vec<String> {
    let mut cells = vec![row.system.clone(), row.fault.clone()];
    let text = match (&row.does_not_apply, &row.failure) {
        (Some(why), _) => Some(format!("does not apply: {why}")),
        (None, Some(_)) => Some("failed, see below".to_owned()),
        (None, None) => None,
    };
    if let Some(text) = text {
        cells.push(text);
        cells.extend(std::iter::repeat_n(String::new(), 5));
        return cells;
    }
    let counts = [row.sold, row.oversold, row.lost_updates, row.double_holders];
    cells.extend(counts.map(|count| count.to_string()));
    cells.push(row.next_grant_ms.map_or_else(|| NONE.to_owned(), label));
    cells.push(row.stuck.to_string());
    cells
}

pub(super) fn failover(figures: &Figures<'_>) -> Vec<Block> {
    if figures.failover.is_empty() {
        return Vec::new();
    }
    let mut table = Table::with([
        "system",
        "trials",
        "p50 ms",
        "p99 ms",
        "longest ms",
        "all clients, p50 ms",
        "what was done",
    ]);
    for row in &figures.failover {
        table.add(gaps(row));
    }
    let rows: Vec<DotRow> = figures.failover.iter().filter_map(|row| dots(row)).collect();
    vec![
        Block::Heading("Failover".to_owned()),
        Block::Text(
            "From `kill -9` of the leader, or of the only server, to the next grant, and until every client has a lock again.".to_owned(),
        ),
        Block::Table(table),
        Block::Plot(plots::dots("Time to the next grant after the loss", "milliseconds", &rows)),
    ]
}

fn gaps(row: &Failover) -> [String; 7] {
    let at = |gaps: &[f64], of| {
        if gaps.is_empty() { NONE.to_owned() } else { label(quantile(gaps, of)) }
    };
    let [p50, p99, longest] = [0.5, 0.99, 1.0].map(|of| at(&row.gaps_ms, of));
    let p99 = if row.gaps_ms.len() < P99_TRIALS { NONE.to_owned() } else { p99 };
    let all = at(&row.all_gaps_ms, 0.5);
    let trials = format!("{} of {}", row.gaps_ms.len(), row.trials);
    [row.system.clone(), trials, p50, p99, longest, all, row.method.clone()]
}

fn dots(row: &Failover) -> Option<DotRow> {
    let values = row.gaps_ms.clone();
    (!values.is_empty()).then(|| DotRow { name: row.system.clone(), values })
}
