//! The report: a page with plots and a summary in Markdown, both generated only from rows.
//!
//! `figures` combines repetitions, `advantages` finds the cases in which other systems are better, `document` and
//! `html` write, `plots` draws.

mod advantages;
mod context;
mod document;
mod faults;
mod figures;
mod html;
mod plots;
mod reasons;
mod speed;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use advantages::Advantage;
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
        blocks.extend(speed::speed(&figures));
        blocks.extend(faults::fairness(&figures));
        blocks.extend(faults::safety(&figures));
        blocks.extend(faults::failover(&figures));
        blocks.extend(better_systems(&figures));
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

fn better_systems(figures: &Figures<'_>) -> Vec<Block> {
    let mut table =
        Table::with(["system", "better in, by up to (in how many of the cases)", "why"]);
    let advantages = advantages::advantages(figures);
    // Advantages with the same reason share a row.
    for alike in
        advantages.chunk_by(|one, next| one.system == next.system && one.why() == next.why())
    {
        let better: Vec<String> = alike.iter().map(Advantage::text).collect();
        let Some(first) = alike.first() else { continue };
        table.add([first.system.clone(), better.join("; "), first.why().to_owned()]);
    }
    let words = if table.is_empty() {
        "In no case of these rows."
    } else {
        "Only differences of at least 5% that no repetition contradicts:"
    };
    vec![
        Block::Heading("Where other systems are better than holdfast, and why".to_owned()),
        Block::Text(words.to_owned()),
        Block::Table(table),
    ]
}
