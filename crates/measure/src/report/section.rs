//! One section of the report, which replaces its earlier version in a page without another measurement.

use std::path::{Path, PathBuf};

use super::document::{Block, markdown};
use super::figures::Figures;
use super::{cannot, context, nodes, pictures, write_pictures, writers};
use crate::Row;

const PAGE: &str = "comparison.md";
/// The heading before which a page without the section gets it.
const NEXT: &str = "\n## How to repeat it\n";

#[derive(Clone, Debug)]
pub struct Section {
    /// The first block is the heading.
    blocks: Vec<Block>,
}

impl Section {
    /// The section about writers of one value, with the origin of its figures.
    pub fn writers(rows: &[Row]) -> Self {
        let figures = Figures::of(rows);
        let mut blocks = writers::writers(&figures);
        blocks.extend(context::origin_lines(&figures));
        Self { blocks }
    }

    /// The section about the size of a cluster, with the origin of its figures.
    pub fn nodes(rows: &[Row]) -> Self {
        let figures = Figures::of(rows);
        let mut blocks = nodes::nodes(&figures);
        blocks.extend(context::origin_lines(&figures));
        Self { blocks }
    }

    /// The section about what each kind of lock cannot do.
    pub fn cannot() -> Self {
        Self { blocks: cannot::cannot() }
    }

    pub fn markdown(&self) -> String {
        markdown(&self.blocks)
    }

    /// Replaces the section in `comparison.md`, and writes its pictures; returns the paths.
    ///
    /// # Errors
    /// The page is missing, or cannot be written.
    pub fn write(&self, directory: &Path) -> std::io::Result<Vec<PathBuf>> {
        let path = directory.join(PAGE);
        let page = std::fs::read_to_string(&path)?;
        std::fs::write(&path, self.replaced_in(&page))?;
        let mut written = write_pictures(&pictures(&self.blocks), directory)?;
        written.push(path);
        Ok(written)
    }

    /// Returns the page with this section in place of the section with the same heading.
    pub fn replaced_in(&self, page: &str) -> String {
        let section = self.markdown();
        let heading = format!("\n{}\n", section.lines().next().unwrap_or_default());
        let (before, after) = match page.split_once(&heading) {
            Some((before, old)) => (before, old.find("\n## ").map_or("", |at| &old[at..])),
            None => page.find(NEXT).map_or((page, ""), |at| page.split_at(at)),
        };
        format!("{before}\n{section}{after}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_replaces_itself_and_nothing_else() {
        let section = |text: &str| Section {
            blocks: vec![Block::Heading("Mine".to_owned()), Block::Text(text.to_owned())],
        };
        let page = "# T\n\n## Other\n\na\n\n## How to repeat it\n\nb\n";
        let with = section("one").replaced_in(page);
        assert_eq!(with, "# T\n\n## Other\n\na\n\n## Mine\n\none\n\n## How to repeat it\n\nb\n");
        let expected = with.replace("one", "two");
        assert_eq!(section("two").replaced_in(&with), expected);
        let last = section("one").replaced_in("# T\n");
        assert_eq!(last, "# T\n\n## Mine\n\none\n");
        assert_eq!(section("two").replaced_in(&last), last.replace("one", "two"));
    }
}
