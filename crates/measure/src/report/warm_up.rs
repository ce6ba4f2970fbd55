//! The warm-up part of the report: how long new servers had load before they were measured.

use super::document::{Block, Table};
use super::figures::Figures;
use super::speed::spread;
use crate::record::WarmUp;
use crate::statistics::Spread;

const TEXT: &str = "Each time that the servers of one kind start, they first serve cycles of the system below. Once the last three \
                    windows together are no faster than three earlier ones, the measurement begins.";

/// A row for each kind of servers.
pub(super) fn warm_up(figures: &Figures<'_>) -> Vec<Block> {
    if figures.warm_ups.is_empty() {
        return Vec::new();
    }
    let mut table = Table::with([
        "servers",
        "system",
        "clients",
        "warm-up, s",
        "first window, cycles/s",
        "last window, cycles/s",
        "flat",
    ]);
    for of_kind in figures.warm_ups.chunk_by(|one, next| one.servers == next.servers) {
        if let Some(cells) = row(of_kind) {
            table.add(cells);
        }
    }
    vec![Block::Text(TEXT.to_owned()), Block::Table(table)]
}

/// The cells of one kind, over all of its starts.
fn row(starts: &[&WarmUp]) -> Option<[String; 7]> {
    let over = |of: fn(&WarmUp) -> Option<f64>| {
        let values: Vec<f64> = starts.iter().filter_map(|start| of(start)).collect();
        Some(spread(Spread::of(&values)?))
    };
    let first = starts.first()?;
    let flat = starts.iter().filter(|start| start.is_flat).count();
    Some([
        first.servers.clone(),
        first.system.clone(),
        first.clients.to_string(),
        over(|start| Some(start.seconds))?,
        over(|start| start.rates.first().copied())?,
        over(|start| start.rates.last().copied())?,
        format!("{flat} of {}", starts.len()),
    ])
}
