//! Checks that numbers in the documents match the code.
//!
//! The check covers two forms of code span: `` `path/to/file.rs::NAME = value` `` for a constant and
//! `` `path/to/file.rs::field: value` `` for a default, with the value spelled as in the code.

use crate::documents::code_spans;
use crate::{Source, Tree, Violation};

/// Reports spans whose file, name or value differs from the code.
pub fn check(tree: &Tree, sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (document, text) in tree.ending(".md") {
        for (line, span) in code_spans(text) {
            if let Some(what) = claim(span).and_then(|claim| objection(&claim, sources)) {
                found.push(Violation::at(document, line, format!("`{span}`: {what}")));
            }
        }
    }
    found
}

/// A code span that states a value in a file.
struct Claim<'a> {
    path: &'a str,
    name: &'a str,
    /// The name with its separator, `=` or `:`.
    value: (char, &'a str),
}

fn claim(span: &str) -> Option<Claim<'_>> {
    let (file, rest) = span.split_once(".rs::")?;
    let at = rest.find([' ', ':', '='])?;
    let value = rest[at..].trim_start();
    let separator = value.chars().next().filter(|c| matches!(c, '=' | ':'))?;
    let path = &span[..file.len() + ".rs".len()];
    Some(Claim { path, name: &rest[..at], value: (separator, value[1..].trim()) })
}

fn objection(claim: &Claim<'_>, sources: &[Source]) -> Option<String> {
    let Some(source) = sources.iter().find(|source| source.path == claim.path) else {
        return Some("there is no such file".to_owned());
    };
    let values = match claim.value.0 {
        '=' => source.constants(claim.name),
        _ => source.fields(claim.name),
    };
    let said: String = claim.value.1.split_whitespace().collect();
    (!values.contains(&said)).then(|| {
        format!(
            "the code has {}",
            if values.is_empty() { "nothing".into() } else { values.join(" and ") }
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "const QUEUE_MAX: usize = 65_536;\nconst LEN: usize = 2 << 20;\n\
                        fn defaults() -> A { A { inner: B { idle: Duration::from_secs(75), x: 1 }, count: 3 } }";

    fn found(document: &str) -> usize {
        let tree = Tree::of([("docs/a.md", document), ("crates/a/src/lib.rs", CODE)]);
        check(&tree, &tree.sources().unwrap()).len()
    }

    #[test]
    fn numbers_that_the_code_says_pass() {
        assert_eq!(
            found("`crates/a/src/lib.rs::QUEUE_MAX = 65_536` `crates/a/src/lib.rs::LEN = 2 << 20`"),
            0
        );
        assert_eq!(
            found(
                "`crates/a/src/lib.rs::idle: Duration::from_secs(75)` `crates/a/src/lib.rs::count: 3`"
            ),
            0
        );
        assert_eq!(found("`crates/a/src/lib.rs::some_test` `LEN = 3`"), 0);
    }

    #[test]
    fn numbers_that_the_code_does_not_say_are_caught() {
        assert_eq!(found("`crates/a/src/lib.rs::QUEUE_MAX = 65_535`"), 1);
        assert_eq!(found("`crates/a/src/lib.rs::GONE = 1`"), 1);
        assert_eq!(found("`crates/a/src/lib.rs::count: 4`"), 1);
        assert_eq!(found("`crates/a/src/gone.rs::count: 3`"), 1);
    }
}
