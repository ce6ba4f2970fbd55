//! The blocks of code on the pages. The build of the Rust programs reads them, too.

use std::path::{Path, PathBuf};

/// A block of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of its first line of code, from 1.
    pub line: usize,
    /// What follows the fence, e.g. `text output`.
    pub info: String,
    /// The code.
    pub text: String,
}

/// The blocks of a page, from top to bottom. Their fences begin at the beginning of a line.
pub fn blocks(page: &str) -> Vec<Block> {
    let (mut found, mut inside) = (Vec::new(), false);
    for (index, line) in page.lines().enumerate() {
        if let Some(info) = line.strip_prefix("```") {
            if !inside {
                found.push(Block { line: index + 2, info: info.to_owned(), text: String::new() });
            }
            inside = !inside;
        } else if let Some(block) = found.last_mut().filter(|_| inside) {
            block.text.extend([line, "\n"]);
        }
    }
    found
}

/// The pages below `docs/` of the repository at `root`, by their paths.
///
/// # Errors
/// If a folder cannot be read.
pub fn pages(root: &Path) -> std::io::Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![root.join("docs")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
