//! A name of a type has one meaning in the workspace.
//!
//! Types at the top level of a file count, tests and examples apart. [`SHARED`] lists the exceptions.

use std::collections::BTreeMap;

use crate::{Source, Violation};

/// Names with several definitions today, in alphabetical order.
pub const SHARED: &[&str] = &[
    "Acl",
    "At",
    "Barrier",
    "Client",
    "Connection",
    "Counter",
    "Create",
    "DecodeError",
    "DoubleBarrier",
    "DoubleBarrierGuard",
    "Election",
    "Event",
    "Failure",
    "FrameError",
    "Group",
    "Guard",
    "Header",
    "Hold",
    "Identity",
    "Inner",
    "Latch",
    "Leadership",
    "Lock",
    "Membership",
    "MultiGuard",
    "MultiLock",
    "Observer",
    "Page",
    "Record",
    "ReleaseRequest",
    "Reply",
    "Request",
    "Response",
    "Route",
    "Series",
    "Session",
    "Sessions",
    "Shared",
    "Stat",
    "Stream",
    "Subtree",
    "TransferError",
    "Wait",
    "Waiting",
    "Worker",
];
/// Words that declare a type.
const KEYWORDS: [&str; 5] = ["struct ", "enum ", "trait ", "type ", "union "];

/// Names that are defined again although another file has them, [`SHARED`] apart.
pub fn defined_twice(sources: &[Source]) -> Vec<Violation> {
    let repeated = definitions(sources)
        .into_iter()
        .filter(|(name, places)| places.len() > 1 && !SHARED.contains(name));
    repeated
        .map(|(name, places)| {
            let (first, line) = places[0];
            let others: Vec<&str> = places[1..].iter().map(|(path, _)| *path).collect();
            let others = others.join(", ");
            Violation::at(
                first,
                line,
                format!("`{name}` is a type in {others} as well: qualify one of the names"),
            )
        })
        .collect()
}

/// Names of [`SHARED`] that have one definition at most.
pub fn unique_again(sources: &[Source]) -> Vec<&'static str> {
    let definitions = definitions(sources);
    let is_unique = |name: &&&str| definitions.get(**name).is_none_or(|places| places.len() < 2);
    SHARED.iter().filter(is_unique).copied().collect()
}

/// Where each type is defined: file and line.
fn definitions(sources: &[Source]) -> BTreeMap<&str, Vec<(&str, usize)>> {
    let mut definitions: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.test && source.path.contains("/src/")) {
        for (i, line) in source.text().lines().enumerate() {
            let name = declared(line).filter(|_| !source.is_test_line(i + 1));
            if let Some(name) = name {
                definitions.entry(name).or_default().push((&source.path, i + 1));
            }
        }
    }
    definitions
}

/// The type that a line without indentation declares.
fn declared(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(rest) => rest.trim_start_matches(|c| c != ' ').trim_start(),
        None => line,
    };
    let rest = KEYWORDS.iter().find_map(|keyword| line.strip_prefix(keyword))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;

    #[test]
    fn a_name_with_two_meanings_is_caught() {
        let tree = Tree::of([
            (
                "crates/a/src/lib.rs",
                "pub struct Alone;\nenum Twice {}\nimpl A {\n    type Output = u8;\n}",
            ),
            (
                "crates/b/src/lib.rs",
                "pub(crate) trait Twice {}\nimpl B {\n    type Output = u8;\n}",
            ),
            ("crates/b/tests/it.rs", "struct Alone;"),
            ("crates/c/src/lib.rs", "#[cfg(test)]\nmod tests {\nstruct Alone;\n}"),
        ]);
        let found = defined_twice(&tree.sources().unwrap());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].path.as_str(), found[0].line), ("crates/a/src/lib.rs", 2));
    }
}
