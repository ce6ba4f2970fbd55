//! The report: a page with plots and a summary in Markdown, both generated only from rows.
//!
//! `summary` is the first screen. `figures` combines repetitions, `outcome` judges sales, `advantages` finds the cases in
//! which other systems are better, `document` and `html` write, `plots` draws. `growth` draws the curves of `holdfast
//! bench growth`.

mod advantages;
mod better;
mod context;
mod document;
mod faults;
mod features;
mod figures;
pub mod growth;
mod html;
mod label;
mod outcome;
mod plots;
mod reasons;
mod speed;
mod summary;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

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
        blocks.extend(context::origin(&figures));
        blocks.extend(better::better(&figures));
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
