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
        "The greatest difference of each system, from 5% on; no repetition contradicts it. The tables below have all figures."
    };
    vec![
        Block::Heading("Where others are better".to_owned()),
        Block::Text(words.to_owned()),
        Block::Table(table),
    ]
}

fn row(of_one: &[Advantage]) -> Vec<String> {
    let Some((first, others)) = of_one.split_first() else { return Vec::new() };
    let others: Vec<&str> = others.iter().map(|one| one.property.name()).collect();
    vec![first.system.clone(), first.sentence(), others.join(", ")]
}
