//! The section about the size of a cluster of holdfast.

use std::collections::BTreeSet;

use crate::statistics::Spread;

use super::document::{Block, Table};
use super::figures::Figures;
use super::speed::spread;
use crate::record::Measured;

const NONE: &str = "–";

pub(super) fn nodes(figures: &Figures<'_>) -> Vec<Block> {
    if figures.nodes.is_empty() {
        return Vec::new();
    }
    let cases: BTreeSet<(u32, u32)> =
        figures.nodes.iter().map(|row| (row.clients, row.nodes)).collect();
    let mut table = Table::with(["clients", "nodes", "cycles/s", "p50 ms", "p99 ms"]);
    for (clients, nodes) in cases {
        let of_case = |of: fn(&Measured) -> f64| {
            let rows =
                figures.nodes.iter().filter(|row| (row.clients, row.nodes) == (clients, nodes));
            let values: Vec<f64> = rows.filter_map(|row| row.measured.as_ref().map(of)).collect();
            Spread::of(&values).map_or_else(|| NONE.to_owned(), spread)
        };
        table.add([
            clients.to_string(),
            nodes.to_string(),
            of_case(|measured| measured.per_second),
            of_case(|measured| measured.p50_ms),
            of_case(|measured| measured.p99_ms),
        ]);
    }
    vec![
        Block::Heading("One, three and five nodes".to_owned()),
        Block::Text(
            "Cycles of acquire and release over HTTP, a lock for each client, clients spread over the nodes; medians of the \
             repetitions with minimum and maximum. All nodes share one machine and its disk, so more nodes also share its \
             processors: on machines of their own, five nodes cost less than here. `scripts/compare nodes` repeats it."
                .to_owned(),
        ),
        Block::Table(table),
    ]
}
