//! The parts about order, safety and failover.

use super::document::{Block, Table};
use super::figures::Figures;
use super::speed::spread;
use super::svg::{self, Dots, label};
use crate::fault::Fault;
use crate::record::{Failover, Fairness, Safety};
use crate::statistics::{Spread, number, pairs, quantile};

/// What is not there.
const NONE: &str = "–";

/// The order of grants.
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
        squares.extend(row.orders.first().map(|order| (row.system.clone(), order.as_slice())));
    }
    let words = format!(
        "{} contenders ask one after the other, {} ms apart, while the lock is held; then the holder leaves, and each that is \
         granted leaves after 2 ms. A wait counts from asking to having; what has no queue is out of order.",
        first.contenders, first.apart_ms
    );
    let plot = svg::orders("Order of enqueue (across) against order of grant (down)", &squares);
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
        pairs(row.contenders).to_string(),
        shown(&row.longest_wait_ms),
        shown(&row.drained_ms),
        if errors.is_empty() { "none".to_owned() } else { errors.join(", ") },
    ]
}

/// What faults do to the books.
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
    let words = "The same flash sale under each lock: worker processes read the stock, think, and write it, in statements \
                 of their own, so that only the lock protects it. Oversold are pieces that were not there; a lost update is a sale that \
                 another one overwrote; double holders are critical sections that overlapped by the machine's clock. The fault strikes \
                 while one worker stands in the middle of a sale and the others wait; the next grant is the next entry of one of the \
                 others, so that the rest of the sale of a holder that lives (up to 1.8 s) is in its time. Stuck: nobody else entered \
                 within the bound, 20 s. Leases are 3 s where they can be chosen; the store is a PostgreSQL of its own. With `+fence` the \
                 token goes with every write, and the store refuses a stale one: two may still believe to hold, and only one writes.";
    vec![
        Block::Heading("Safety".to_owned()),
        Block::Text(words.to_owned()),
        Block::Table(done(figures)),
        Block::Table(table),
    ]
}

/// What each fault is, of those that were tried.
fn done(figures: &Figures<'_>) -> Table {
    let mut table = Table::with(["fault", "what is done"]);
    let is_there = |fault: &Fault| figures.safety.iter().any(|row| row.fault == fault.name());
    for fault in Fault::ALL.iter().filter(|fault| is_there(fault)) {
        table.add([fault.name().to_owned(), fault.words().to_owned()]);
    }
    table
}

fn sale(row: &Safety) -> Vec<String> {
    let mut cells = vec![row.system.clone(), row.fault.clone()];
    let said = match (&row.does_not_apply, &row.trouble) {
        (Some(why), _) => Some(format!("does not apply: {why}")),
        (None, Some(_)) => Some("not measured, see below".to_owned()),
        (None, None) => None,
    };
    if let Some(said) = said {
        cells.push(said);
        cells.extend(std::iter::repeat_n(String::new(), 5));
        return cells;
    }
    let counts = [row.sold, row.oversold, row.lost_updates, row.double_holders];
    cells.extend(counts.map(|count| count.to_string()));
    cells.push(row.next_grant_ms.map_or_else(|| NONE.to_owned(), label));
    cells.push(row.stuck.to_string());
    cells
}

/// From the loss of a leader to the next grant.
pub(super) fn failover(figures: &Figures<'_>) -> Vec<Block> {
    if figures.failover.is_empty() {
        return Vec::new();
    }
    let mut table =
        Table::with(["system", "trials", "p50 ms", "p99 ms", "longest ms", "what was done"]);
    for row in &figures.failover {
        table.add(gaps(row));
    }
    let rows: Vec<Dots> =
        figures.failover.iter().filter_map(|row| dots(row, figures.colour(&row.system))).collect();
    vec![
        Block::Heading("Failover".to_owned()),
        Block::Text(
            "From `kill -9` of the leader, or of the only server, to the next grant.".to_owned(),
        ),
        Block::Table(table),
        Block::Plot(svg::dots("Time to the next grant", "milliseconds", &rows)),
    ]
}

fn gaps(row: &Failover) -> [String; 6] {
    let at = |of| match row.gaps_ms.as_slice() {
        [] => NONE.to_owned(),
        gaps => label(quantile(gaps, of)),
    };
    let trials = format!("{} of {}", row.gaps_ms.len(), row.trials);
    [row.system.clone(), trials, at(0.5), at(0.99), at(1.0), row.how.clone()]
}

fn dots(row: &Failover, colour: usize) -> Option<Dots> {
    let values =
        row.gaps_ms.iter().map(|gap| (*gap, format!("{}: {} ms", row.system, label(*gap))));
    let values: Vec<(f64, String)> = values.collect();
    (!values.is_empty()).then(|| Dots { name: row.system.clone(), colour, values })
}
