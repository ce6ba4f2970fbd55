//! The programs on the pages, with the output that their pages show.
//!
//! A page shows a task as a group of blocks: `sh meanwhile`, if there is a command that runs after the first line of output;
//! one `text output` for each run of the program; then the same program in several languages. [`crate::program_run`] runs
//! them. A block whose first line is a comment with a file name belongs to the commands of its page, which
//! `tests/newcomer` runs.

use std::path::{Path, PathBuf};

use crate::blocks::{Block, blocks, pages};

/// `tests/conformance` has these clients of ZooKeeper.
const OTHER_TESTS: &str = "docs/zookeeper.md";

/// A language with a client library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientLanguage {
    /// `crates/client-python`.
    Python,
    /// `crates/client-typescript`.
    TypeScript,
    /// `crates/client-go`.
    Go,
    /// `crates/client-java`.
    Java,
    /// `crates/client`.
    Rust,
}

impl ClientLanguage {
    /// All languages.
    pub const ALL: [Self; 5] = [Self::Python, Self::TypeScript, Self::Go, Self::Java, Self::Rust];

    /// The name for `scripts/clients`, and what follows the fence of a program.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Python => ("python", "python"),
            Self::TypeScript => ("typescript", "ts"),
            Self::Go => ("go", "go"),
            Self::Java => ("java", "java"),
            Self::Rust => ("rust", "rust"),
        }
    }

    fn of_fence(info: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.names().1 == info)
    }
}

/// A program of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageProgram {
    /// The page and the line, e.g. `docs/quick-start.md:70`.
    pub place: String,
    /// The language.
    pub language: ClientLanguage,
    /// The code.
    pub source: String,
    /// The command that another shell runs after the first line of output.
    pub meanwhile: Option<String>,
    /// The output of each run, in order; `…` stands for any text.
    pub outputs: Vec<String>,
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The texts of the pages below `docs/`, by their paths from the root.
///
/// # Errors
/// If a page cannot be read.
pub fn texts() -> Result<Vec<(String, String)>, String> {
    let root = root();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path)?;
        Ok((path.strip_prefix(&root).unwrap_or(&path).display().to_string(), text))
    };
    let all: std::io::Result<Vec<_>> =
        pages(&root).and_then(|paths| paths.into_iter().map(read).collect());
    all.map_err(|error| format!("the pages: {error}"))
}

/// All programs of all pages.
///
/// # Errors
/// If a page cannot be read, or shows no output of a program.
pub fn all() -> Result<Vec<PageProgram>, String> {
    let pages = texts()?.into_iter().filter(|(page, _)| page != OTHER_TESTS);
    let programs = pages.map(|(page, text)| of_page(&page, &text));
    Ok(programs.collect::<Result<Vec<_>, _>>()?.concat())
}

/// The programs of a page. One without an output before it is an error.
fn of_page(page: &str, text: &str) -> Result<Vec<PageProgram>, String> {
    let (mut programs, mut outputs, mut meanwhile) = (Vec::new(), Vec::new(), None);
    let mut is_shown = false;
    for block in blocks(text) {
        if block.info == "sh meanwhile" || block.info == "text output" {
            if is_shown {
                (outputs, meanwhile, is_shown) = (Vec::new(), None, false);
            }
            if block.info == "text output" {
                outputs.push(block.text);
            } else {
                meanwhile = Some(block.text);
            }
            continue;
        }
        let language = ClientLanguage::of_fence(&block.info).filter(|_| !is_file(&block));
        let Some(language) = language else { continue };
        let place = format!("{page}:{}", block.line);
        if outputs.is_empty() {
            return Err(format!(
                "{place}: no test runs this code: show its output before it, as `text output`"
            ));
        }
        is_shown = true;
        programs.push(PageProgram {
            place,
            language,
            source: block.text,
            meanwhile: meanwhile.clone(),
            outputs: outputs.clone(),
        });
    }
    Ok(programs)
}

/// Returns `true` for a file of the commands of its page: its first line is `# NAME.ENDING`.
fn is_file(block: &Block) -> bool {
    let first = block.text.lines().next().and_then(|line| line.strip_prefix("# "));
    first.is_some_and(|name| name.contains('.') && !name.contains(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_the_outputs_before_its_programs() {
        let page = "```sh meanwhile\nm\n```\n```text output\n1\n```\n```text output\n2\n```\n```python\na\n```\n\n```go\nb\n```\n\
                    ```text output\n3\n```\n```python\n# lock.py\n```\n```rust\nc\n```\n";
        let programs = of_page("p.md", page).expect("programs");
        let shown: Vec<_> = programs
            .iter()
            .map(|p| {
                (
                    p.place.as_str(),
                    p.language.names().0,
                    p.source.as_str(),
                    p.meanwhile.as_deref(),
                    p.outputs.concat(),
                )
            })
            .collect();
        let expected = [
            ("p.md:11", "python", "a\n", Some("m\n"), "1\n2\n".to_owned()),
            ("p.md:15", "go", "b\n", Some("m\n"), "1\n2\n".to_owned()),
            ("p.md:24", "rust", "c\n", None, "3\n".to_owned()),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn code_without_an_output_is_an_error() {
        let error = of_page("p.md", "```java\na\n```\n").expect_err("no output");
        assert!(error.starts_with("p.md:2: no test runs this code"), "{error}");
        assert_eq!(of_page("p.md", "```rust,no_run\na\n```\n"), Ok(Vec::new()));
    }
}
