//! Where other systems are better than holdfast: one row and one sentence for each.

use super::advantages::{Advantage, advantages};
use super::document::{Block, Table};
use super::figures::Figures;

pub(super) fn better(figures: &Figures<'_>) -> Vec<Block> {
    let mut table =
        Table::with(["system", "where it is better than holdfast, and why", "also better in"]);
    for of_one in advantages(figures).chunk_by(|one, next| one.system == next.system) {
        table.add(row(of_one));
    }
    let words = if table.is_empty() {
        "In no case of these rows."
    } else {
        "The greatest difference of each system, from 5% on; no repetition of a speed contradicts it. The tables below have all figures."
    };
    vec![
        Block::Heading("Where others are better".to_owned()),
        Block::Text(words.to_owned()),
        Block::Table(table),
    ]
}

fn row(of_one: &[Advantage]) -> Vec<String> {
    // The first one of equal factors: `max_by` returns the last.
    let finite = of_one.iter().rev().filter(|one| one.factor.is_finite());
    let most = finite.max_by(|a, b| a.factor.total_cmp(&b.factor)).or(of_one.first());
    let Some(most) = most else { return Vec::new() };
    let others = of_one.iter().filter(|one| one.property != most.property);
    let others: Vec<&str> = others.map(|one| one.property.name()).collect();
    vec![most.system.clone(), most.sentence(), others.join(", ")]
}
