//! The rules of `CONTRIBUTING.md` as code: each checker takes a [`Tree`] and returns what breaks its rule.
//!
//! Owns the tables of who may name what, the limits of size, and the words we do not use; the table of layers is
//! read from `docs/architecture.md`, its only home. Refuses to know how the rules are run: `tests/tree.rs` holds
//! the real tree against every one of them, and each checker's own tests plant a violation that it must catch.
//!
//! Rust is read as tokens, not as text, so comments and strings never count as code. Nothing here starts a
//! process or needs a network.

pub mod bans;
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
pub mod mutations;
pub mod policy;
pub mod private_words;
pub mod scripts;
pub mod size;
pub mod source;
pub mod tree;
pub mod type_names;
pub mod words;

use std::fmt;

pub use source::Source;
pub use tree::Tree;

/// One place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The file, from the root of the repository.
    pub path: String,
    /// The line, from 1; 0 when the file as a whole is meant.
    pub line: usize,
    /// What is wrong, and what to do about it.
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
