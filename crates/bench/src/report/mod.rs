//! The report: one page with plots, one summary in Markdown, both made of rows alone.

use std::path::{Path, PathBuf};

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
    pub fn of(_rows: &[Row]) -> Self {
        Self { markdown: String::new(), html: String::new() }
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
