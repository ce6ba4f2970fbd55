//! The report: a page with plots and a summary in Markdown, both generated only from rows.
//!
//! `summary` is the first screen. `figures` combines repetitions, `outcome` judges sales, `advantages` finds the cases in
//! which other systems are better, `document` and `html` write, `plots` draws.

mod advantages;
mod better;
mod cannot;
mod context;
mod document;
mod faults;
mod features;
mod figures;
mod html;
mod label;
mod libraries;
mod nodes;
mod outcome;
pub(crate) mod plots;
mod reasons;
mod section;
mod speed;
mod summary;
#[cfg(test)]
mod tests;
mod warm_up;
mod writers;

use std::path::{Path, PathBuf};

use document::Block;
use figures::Figures;
pub use section::Section;

use crate::Row;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub markdown: String,
    /// The page with plots, which needs no other file.
    pub html: String,
    /// The pictures of the first page: path and SVG.
    pictures: Vec<(&'static str, String)>,
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
        blocks.extend(warm_up::warm_up(&figures));
        blocks.extend(libraries::libraries(&figures));
        blocks.extend(faults::fairness(&figures));
        blocks.extend(faults::safety(&figures));
        blocks.extend(faults::failover(&figures));
        blocks.extend(nodes::nodes(&figures));
        blocks.extend(writers::writers(&figures));
        blocks.extend(cannot::cannot());
        blocks.extend(context::setup(&figures));
        blocks.extend(context::end(&figures));
        let (markdown, html) = (document::markdown(&blocks), html::page(&blocks));
        Self { markdown, html, pictures: pictures(&blocks) }
    }

    /// Writes `comparison.md` and `comparison-plots.html` into a directory; returns their paths.
    pub fn write(&self, directory: &Path) -> std::io::Result<[PathBuf; 2]> {
        std::fs::create_dir_all(directory)?;
        write_pictures(&self.pictures, directory)?;
        let paths = ["comparison.md", "comparison-plots.html"].map(|name| directory.join(name));
        for (path, text) in paths.iter().zip([&self.markdown, &self.html]) {
            std::fs::write(path, text)?;
        }
        Ok(paths)
    }
}

fn pictures(blocks: &[Block]) -> Vec<(&'static str, String)> {
    let picture = |block: &Block| match block {
        Block::Picture(plot, path) => Some((*path, plot.svg.clone())),
        Block::Title(_)
        | Block::Heading(_)
        | Block::Text(_)
        | Block::Warning(_)
        | Block::Code(_)
        | Block::List(_)
        | Block::Table(_)
        | Block::Link(..)
        | Block::Plot(_)
        | Block::Detail(_) => None,
    };
    blocks.iter().filter_map(picture).collect()
}

/// Writes the pictures, with the directories that they need.
fn write_pictures(
    pictures: &[(&'static str, String)],
    directory: &Path,
) -> std::io::Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    for (path, svg) in pictures {
        let path = directory.join(path);
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::write(&path, svg)?;
        written.push(path);
    }
    Ok(written)
}
