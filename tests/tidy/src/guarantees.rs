//! Checks that each of the ten promises names tests that exist.

use crate::documents::{code_spans, has_test, named_test};
use crate::{Source, Tree, Violation};

/// The document with the promises.
pub const DOCUMENT: &str = "docs/contributing/verification.md";
/// The number of promises.
pub const PROMISES: usize = 10;

/// Checks sections `## 1. …` to `## 10. …`: each has at least one existing `` `path/to/file.rs::test` ``.
pub fn check(tree: &Tree, sources: &[Source]) -> Vec<Violation> {
    let text = tree.text(DOCUMENT).unwrap_or_default();
    (1..=PROMISES).filter_map(|number| objection(text, number, sources)).collect()
}

fn objection(text: &str, number: usize, sources: &[Source]) -> Option<Violation> {
    let title = format!("## {number}. ");
    let Some(start) = text.lines().position(|line| line.starts_with(&title)) else {
        return Some(Violation::of(
            DOCUMENT,
            format!("promise {number} has no section `{title}…`"),
        ));
    };
    let section = text.lines().skip(start + 1).take_while(|line| !line.starts_with("## "));
    let tests: Vec<_> =
        section.flat_map(code_spans).filter_map(|(_, span)| named_test(span)).collect();
    let missing = tests.iter().find(|(file, name)| !has_test(sources, file, name));
    let what = match (tests.is_empty(), missing) {
        (true, _) => format!(
            "promise {number} names no test: add `path/to/file.rs::test` that fails without it"
        ),
        (false, Some((file, name))) => {
            format!("promise {number} names `{name}` in {file}, which does not exist")
        }
        (false, None) => return None,
    };
    Some(Violation::at(DOCUMENT, start + 1, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(document: &str) -> Vec<Violation> {
        let tree =
            Tree::of([(DOCUMENT, document), ("crates/a/src/lib.rs", "#[test] fn holds() {}")]);
        check(&tree, &tree.sources().unwrap())
    }

    fn document(tests: &str) -> String {
        let section = |n| format!("## {n}. A promise\n\nTests: {tests}\n");
        (1..=PROMISES).map(section).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn promises_with_tests_pass() {
        assert_eq!(found(&document("`crates/a/src/lib.rs::holds`")), []);
    }

    #[test]
    fn promises_without_a_test_or_with_a_lost_one_are_caught() {
        assert_eq!(found(&document("none")).len(), PROMISES);
        assert_eq!(found(&document("`crates/a/src/lib.rs::gone`")).len(), PROMISES);
        assert_eq!(found("").len(), PROMISES);
    }
}
