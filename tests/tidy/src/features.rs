//! Checks the table of mechanisms: every row occurs once and names tests that exist. Rows of holdfast's own
//! locks have a test named after the row.

use std::collections::BTreeMap;

use crate::documents::{code_spans, has_test, named_test};
use crate::{Source, Tree, Violation};

/// The document with the table.
pub const DOCUMENT: &str = "docs/contributing/features.md";
/// The last row number.
const LAST: u32 = 81;
/// Numbers with several rows, and the letter of the last row.
const SPLIT: [(u32, char); 4] = [(44, 'f'), (57, 'b'), (58, 'c'), (81, 'h')];
/// Values of the column `home` whose rows need a test named after the row.
const OURS: [&str; 3] = ["LOCK", "SESS", "SDK"];
/// Rows that are not implemented yet, so that no test is named after them.
pub const AWAITED: [&str; 0] = [];

/// One line of the table.
#[derive(Debug)]
struct Row<'a> {
    line: usize,
    number: &'a str,
    home: &'a str,
    shown: &'a str,
    read: &'a str,
    see: &'a str,
}

/// Reports rows that are missing, repeated, without a test or without a link.
pub fn check(tree: &Tree, sources: &[Source]) -> Vec<Violation> {
    let text = tree.text(DOCUMENT).unwrap_or_default();
    let mut rows: BTreeMap<&str, Vec<Row<'_>>> = BTreeMap::new();
    for row in text.lines().enumerate().filter_map(|(index, line)| row(index + 1, line)) {
        rows.entry(row.number).or_default().push(row);
    }
    let mut found = Vec::new();
    for number in numbers() {
        match rows.remove(number.as_str()).as_deref() {
            None => found.push(Violation::of(DOCUMENT, format!("row {number} is missing"))),
            Some([row]) => found.extend(objection(row, sources)),
            Some([row, ..]) => found.push(row.says("occurs more than once")),
            Some([]) => {}
        }
    }
    let strangers = rows.into_values().flatten();
    found.extend(strangers.map(|row| row.says("is not in the list of mechanisms")));
    found
}

/// `1` to `81h`.
fn numbers() -> impl Iterator<Item = String> {
    (1..=LAST).flat_map(|number| match SPLIT.iter().find(|(split, _)| *split == number) {
        Some((_, last)) => ('a'..=*last).map(|letter| format!("{number}{letter}")).collect(),
        None => vec![number.to_string()],
    })
}

/// Parses `| 7 | mechanism | what holds | LOCK | tests | page | see it |`; `None` for the heading and the rule below it.
fn row(line: usize, text: &str) -> Option<Row<'_>> {
    let cells: Vec<&str> = text.strip_prefix('|')?.strip_suffix('|')?.split(" | ").collect();
    let [number, _, _, home, shown, read, see] = cells.as_slice() else { return None };
    let number = number.trim();
    let is_number = number.starts_with(|letter: char| letter.is_ascii_digit());
    is_number.then_some(Row { line, number, home, shown, read, see })
}

impl Row<'_> {
    fn says(&self, what: impl std::fmt::Display) -> Violation {
        Violation::at(DOCUMENT, self.line, format!("row {} {what}", self.number))
    }

    /// Prefix of the names of its tests: `row_07_`, `row_44a_`.
    fn prefix(&self) -> String {
        let digits = self.number.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let letter = &self.number[digits.len()..];
        format!("row_{digits:0>2}{letter}_")
    }
}

fn objection(row: &Row<'_>, sources: &[Source]) -> Option<Violation> {
    let tests: Vec<_> = code_spans(row.shown).filter_map(|(_, span)| named_test(span)).collect();
    if let Some((file, name)) = tests.iter().find(|(file, name)| !has_test(sources, file, name)) {
        return Some(row.says(format!("names `{name}` in {file}, which does not exist")));
    }
    if !row.read.contains("](") {
        return Some(row.says("has no link to a page"));
    }
    if row.see.trim() != "–" && code_spans(row.see).next().is_none() {
        return Some(row.says("needs a command in the column `see it`, or –"));
    }
    let prefix = row.prefix();
    let is_ours = OURS.iter().any(|home| row.home.contains(home));
    let is_named = tests.iter().any(|(_, name)| name.starts_with(&prefix));
    let is_awaited = AWAITED.contains(&row.number);
    match (is_ours, is_named) {
        (true, false) if !is_awaited => {
            Some(row.says(format!("needs a test whose name begins with `{prefix}`")))
        }
        (_, true) if is_awaited => Some(row.says("is implemented: remove it from `AWAITED`")),
        (false, _) if tests.is_empty() && row.home != "DOC" => {
            Some(row.says("names no test: add `path/to/file.rs::test`"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "#[test] fn row_07_it_holds() {} #[test] fn shows() {}";

    /// Returns the violations of a valid table in which `changed` replaces rows.
    fn table(changed: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let mut lines = vec!["| row | m | w | home | shown by | read | see it |".to_owned()];
        for number in numbers() {
            let well = format!(
                "| {number} | m | w | AR | `crates/a/src/lib.rs::shows` | [p](p.md) | `x` |"
            );
            lines.extend(changed(&number).unwrap_or(well).lines().map(str::to_owned));
        }
        let tree = Tree::of([(DOCUMENT, lines.join("\n").as_str()), ("crates/a/src/lib.rs", CODE)]);
        let found = check(&tree, &tree.sources().unwrap());
        found.iter().map(ToString::to_string).collect()
    }

    fn seventh(line: &str) -> Vec<String> {
        table(|number| (number == "7").then(|| line.to_owned()))
    }

    #[test]
    fn there_are_ninety_six_rows() {
        let all: Vec<String> = numbers().collect();
        assert_eq!((all.len(), all[0].as_str(), all[95].as_str()), (96, "1", "81h"));
        assert_eq!(table(|_| None), [""; 0]);
    }

    #[test]
    fn a_row_that_is_missing_doubled_or_unknown_is_caught() {
        assert_eq!(seventh("").len(), 1);
        let well = "| 7 | m | w | AR | `crates/a/src/lib.rs::shows` | [p](p.md) | `x` |";
        assert_eq!(seventh(&format!("{well}\n{well}")).len(), 1);
        let stranger = well.replace("| 7 |", "| 82 |");
        assert_eq!(seventh(&format!("{well}\n{stranger}")).len(), 1);
    }

    #[test]
    fn a_row_of_ours_needs_a_test_named_after_it() {
        let ours = |home: &str, test: &str| {
            seventh(&format!(
                "| 7 | m | w | {home} | `crates/a/src/lib.rs::{test}` | [p](p.md) | – |"
            ))
        };
        assert_eq!(ours("LOCK", "row_07_it_holds"), [""; 0]);
        for (home, test) in [("LOCK", "shows"), ("AR + SDK", "shows"), ("LOCK", "row_07_is_gone")] {
            assert_eq!(ours(home, test).len(), 1, "{home} {test}");
        }
        assert_eq!(seventh("| 7 | m | w | AR | nothing | [p](p.md) | – |").len(), 1);
        assert_eq!(seventh("| 7 | m | w | DOC | nothing | [p](p.md) | – |"), [""; 0]);
        assert_eq!(seventh("| 7 | m | w | DOC | nothing | [p](p.md) | soon |").len(), 1);
        assert_eq!(seventh("| 7 | m | w | DOC | nothing | p.md | – |").len(), 1);
    }
}
