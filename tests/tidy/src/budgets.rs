//! Each capability has a budget of lines.
//!
//! The table in `docs/contributing/architecture.md` has a row for each capability: its files, and the most production and test
//! lines that they may have. Every Rust file belongs to the row with the longest matching path. A larger capability needs an
//! ADR that says what leaves the project for it, or why it is worth its lines.

use std::collections::BTreeMap;

use crate::layers::TABLE;
use crate::{Source, Violation};

/// The heading above the table.
const HEADING: &str = "## What each capability costs";
/// How far a budget may exceed the present lines, percent. A smaller capability gets a smaller budget.
const SLACK: usize = 10;

/// A row of the table.
#[derive(Debug)]
struct Budget<'a> {
    capability: &'a str,
    paths: Vec<&'a str>,
    production: usize,
    tests: usize,
}

/// The lines of one capability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CapabilityLines {
    production: usize,
    tests: usize,
}

/// Compares the rows of the document with the files.
pub fn check(document: &str, sources: &[Source]) -> Vec<Violation> {
    let budgets = rows(document);
    let mut found = Vec::new();
    let mut lines: BTreeMap<&str, CapabilityLines> = BTreeMap::new();
    let mut used = std::collections::BTreeSet::new();
    for source in sources {
        let Some((capability, path)) = row_of(&budgets, &source.path) else {
            let what = format!("no capability of {TABLE} has this file: add its path to a row");
            found.push(Violation::of(&source.path, what));
            continue;
        };
        used.insert(path);
        let sum = lines.entry(capability).or_default();
        let production = source.production_lines();
        sum.production += production;
        sum.tests += source.text().lines().count() - production;
    }
    for budget in &budgets {
        let sum = lines.get(budget.capability).copied().unwrap_or_default();
        found.extend(budget.compared(sum));
        let unused = budget.paths.iter().filter(|path| !used.contains(**path));
        found.extend(unused.map(|path| {
            Violation::of(TABLE, format!("{}: no file begins with {path}", budget.capability))
        }));
    }
    found
}

impl Budget<'_> {
    fn compared(&self, lines: CapabilityLines) -> impl Iterator<Item = Violation> {
        let counts =
            [("production", lines.production, self.production), ("test", lines.tests, self.tests)];
        counts.into_iter().filter_map(|(kind, lines, budget)| {
            let what = if lines > budget {
                "write an ADR that says what leaves for it, or why it is worth its lines"
            } else if budget > lines + lines * SLACK / 100 + SLACK {
                "lower the budget"
            } else {
                return None;
            };
            let capability = self.capability;
            let text = format!("{capability}: {lines} {kind} lines, budget {budget}: {what}");
            Some(Violation::of(TABLE, text))
        })
    }
}

/// The capability with the longest path at which the name of a file begins.
fn row_of<'a>(budgets: &[Budget<'a>], file: &str) -> Option<(&'a str, &'a str)> {
    let paths = budgets
        .iter()
        .flat_map(|budget| budget.paths.iter().map(|path| (budget.capability, *path)));
    paths.filter(|(_, path)| is_at(file, path)).max_by_key(|(_, path)| path.len())
}

/// Whether a file is at a path: it is the file, or lies in the folder, or is the folder's own file.
fn is_at(file: &str, path: &str) -> bool {
    file.strip_prefix(path)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || rest == ".rs")
}

/// Rows `| capability | `path`, `path` | 1,234 | 567 |`.
fn rows(document: &str) -> Vec<Budget<'_>> {
    let table = document.split_once(HEADING).map_or("", |(_, rest)| rest);
    let table = table.split_once("\n## ").map_or(table, |(table, _)| table);
    let row = |line| -> Option<Budget<'_>> {
        let mut cells = str::strip_prefix(line, "| ")?.split('|').map(str::trim);
        let (capability, paths) = (cells.next()?, cells.next()?);
        let mut number = || cells.next()?.replace(',', "").parse().ok();
        let (production, tests) = (number()?, number()?);
        let paths = paths.split('`').skip(1).step_by(2).collect();
        Some(Budget { capability, paths, production, tests })
    };
    table.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "## What each capability costs\n\n| capability | files | production | tests |\n|---|---|---|---|\n\
        | locks | `crates/a/src/lock`, `tests/a/tests/locks.rs` | 4 | 30 |\n| the rest | `crates/a` | 1,000 | 0 |\n\n## Layers\n\
        | 1 | `crates/zzz` | 1 | 1 |\n";

    fn found(document: &str, files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<_> =
            files.iter().map(|(path, text)| Source::parse(path, text).unwrap()).collect();
        check(document, &sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_file_counts_for_the_row_with_the_longest_path() {
        let lock = ("crates/a/src/lock/a.rs", "fn a() {}\nfn b() {}\n");
        let head = ("crates/a/src/lock.rs", "fn a() {}\n#[cfg(test)]\nmod tests {}\n");
        let test = ("tests/a/tests/locks.rs", "fn a() {}\n".repeat(28));
        let rest = ("crates/a/src/locked.rs", "fn a() {}\n".repeat(950));
        let files = [lock, head, (test.0, test.1.as_str()), (rest.0, rest.1.as_str())];
        assert_eq!(found(DOCUMENT, &files), [""; 0]);
    }

    #[test]
    fn a_file_without_a_row_too_many_lines_and_a_loose_budget_are_found() {
        let locks = "fn a() {}\n".repeat(5);
        let test = "fn a() {}\n".repeat(2);
        let files = [
            ("crates/a/src/lock.rs", locks.as_str()),
            ("tests/a/tests/locks.rs", test.as_str()),
            ("crates/b/src/lib.rs", "fn b() {}\n"),
        ];
        let found = found(DOCUMENT, &files);
        let expected = [
            "crates/b/src/lib.rs: no capability",
            "locks: 5 production lines, budget 4: write an ADR",
            "locks: 2 test lines, budget 30: lower the budget",
            "the rest: 0 production lines, budget 1000: lower the budget",
            "the rest: no file begins with crates/a",
        ];
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found}");
        }
    }
}
