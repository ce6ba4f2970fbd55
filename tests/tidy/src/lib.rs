//! The rules of `CONTRIBUTING.md` as code: each checker takes a [`Tree`] and returns the violations of its rule.
//!
//! [`policy`] has the tables of allowed names and the size limits; `docs/contributing/architecture.md` has the table of layers.
//! `tests/tree.rs` applies every checker to the repository. The unit tests of a checker contain violations that it must
//! report. The checkers read Rust as tokens, so comments and strings never count as code. They start no process and use
//! no network.

pub mod alerts;
pub mod bans;
pub mod budgets;
pub mod constants;
pub mod cycles;
pub mod dependencies;
pub mod documents;
pub mod features;
pub mod fences;
pub mod formats;
pub mod guarantees;
pub mod headers;
pub mod layers;
mod lexer;
mod manifest;
pub mod markdown;
pub mod mutations;
pub mod pages;
pub mod policy;
pub mod private_words;
pub mod published;
pub mod scripts;
pub mod size;
pub mod source;
pub mod tree;
pub mod type_names;
pub mod words;

use std::fmt;

pub use source::Source;
pub use tree::Tree;

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The file, from the root of the repository.
    pub path: String,
    /// The line, from 1; 0 for the whole file.
    pub line: usize,
    /// The violation, and how to fix it.
    pub what: String,
}

impl Violation {
    /// A violation at a line.
    pub fn at(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }

    /// A violation of a whole file.
    pub fn of(path: &str, what: impl Into<String>) -> Self {
        Self::at(path, 0, what)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}
