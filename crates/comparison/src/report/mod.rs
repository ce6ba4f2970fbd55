//! The report: one page with plots and one summary in Markdown, both made of rows alone.
//!
//! Owns the order of the parts. `figures` puts repetitions together, `advantages` finds where others are better, `document` and
//! `html` write, `svg` draws. Refuses to leave out what speaks against us, or a system that could not be measured.

mod advantages;
mod context;
mod document;
mod faults;
mod figures;
mod html;
mod speed;
mod svg;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use document::{Block, Table};
use figures::Figures;

use crate::Row;

/// The pages, ready to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages {
    /// The summary, Markdown.
    pub markdown: String,
    /// The page with plots, one file.
    pub html: String,
}

impl Pages {
    /// Of these rows, of one run or of several.
    pub fn of(rows: &[Row]) -> Self {
        let figures = Figures::of(rows);
        let mut blocks = context::beginning(&figures);
        blocks.extend(speed::speed(&figures));
        blocks.extend(faults::fairness(&figures));
        blocks.extend(faults::safety(&figures));
        blocks.extend(faults::failover(&figures));
        blocks.extend(beaten(&figures));
        blocks.extend(context::end(&figures));
        Self { markdown: document::markdown(&blocks), html: html::page(&blocks) }
    }

    /// Writes `comparison.md` and `comparison.html` into a directory, and answers their paths.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, directory: &Path) -> std::io::Result<[PathBuf; 2]> {
        std::fs::create_dir_all(directory)?;
        let paths = ["comparison.md", "comparison.html"].map(|name| directory.join(name));
        for (path, text) in paths.iter().zip([&self.markdown, &self.html]) {
            std::fs::write(path, text)?;
        }
        Ok(paths)
    }
}

/// Where others are better than ours.
fn beaten(figures: &Figures<'_>) -> Vec<Block> {
    let mut table =
        Table::with(["system", "better in, by up to (in how many of the cases)", "why"]);
    let advantages = advantages::advantages(figures);
    // What has the same reason stands together.
    for alike in
        advantages.chunk_by(|one, next| one.system == next.system && one.why() == next.why())
    {
        let better: Vec<String> = alike.iter().map(advantages::Advantage::by).collect();
        let Some(first) = alike.first() else { continue };
        table.add([first.system.clone(), better.join("; "), first.why().to_owned()]);
    }
    let words = if table.is_empty() {
        "Nowhere in these rows."
    } else {
        "Only what no repetition contradicts, and at least 5%:"
    };
    vec![
        Block::Heading("Where others are better than holdfast, and why".to_owned()),
        Block::Text(words.to_owned()),
        Block::Table(table),
    ]
}
