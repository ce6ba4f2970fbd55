//! The report: a page with plots and a summary in Markdown, both generated only from rows.
//!
//! `summary` and `features` are the first screen. `figures` combines repetitions, `advantages` finds the cases in which
//! other systems are better, `document` and `html` write, `plots` draws.

mod advantages;
mod context;
mod document;
mod faults;
mod features;
mod figures;
mod html;
mod plots;
mod reasons;
mod speed;
mod summary;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use document::{Block, Table};
use figures::Figures;

use crate::Row;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub markdown: String,
    /// The page with plots, which needs no other file.
    pub html: String,
}

impl Report {
    /// Creates the report of the rows of one or several runs.
    pub fn of(rows: &[Row]) -> Self {
        let figures = Figures::of(rows);
        let mut blocks = context::beginning(&figures);
        blocks.extend(summary::summary(&figures));
        blocks.extend(better_systems(&figures));
        blocks.extend(features::features());
        blocks.extend(speed::speed(&figures));
        blocks.extend(faults::fairness(&figures));
        blocks.extend(faults::safety(&figures));
        blocks.extend(faults::failover(&figures));
        blocks.extend(context::setup(&figures));
        blocks.extend(context::end(&figures));
        Self { markdown: document::markdown(&blocks), html: html::page(&blocks) }
    }

    /// Writes `comparison.md` and `comparison-plots.html` into a directory; returns their paths.
    pub fn write(&self, directory: &Path) -> std::io::Result<[PathBuf; 2]> {
        std::fs::create_dir_all(directory)?;
        let paths = ["comparison.md", "comparison-plots.html"].map(|name| directory.join(name));
        for (path, text) in paths.iter().zip([&self.markdown, &self.html]) {
            std::fs::write(path, text)?;
        }
        Ok(paths)
    }
}

/// One row and one sentence for each system that is better in something.
fn better_systems(figures: &Figures<'_>) -> Vec<Block> {
    let mut table = Table::with(["system", "better in", "why"]);
    let advantages = advantages::advantages(figures);
    for of_one in advantages.chunk_by(|one, next| one.system == next.system) {
        let Some((first, others)) = of_one.split_first() else { continue };
        let others: Vec<&str> = others.iter().map(|one| one.property.text()).collect();
        let also =
            if others.is_empty() { String::new() } else { format!("; also {}", others.join("; ")) };
        let better = format!("{}{also}", first.text());
        table.add([first.system.clone(), better, first.why().to_owned()]);
    }
    let words = if table.is_empty() {
        "In no case of these rows."
    } else {
        "Differences of at least 5% that no repetition contradicts, with the largest factor:"
    };
    vec![
        Block::Heading("Where other systems are better than holdfast".to_owned()),
        Block::Text(words.to_owned()),
        Block::Table(table),
    ]
}
