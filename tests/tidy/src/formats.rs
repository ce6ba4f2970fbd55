//! Checks that the table of envelope kinds in `docs/contributing/formats/` matches the code.

use std::collections::BTreeMap;

use crate::lexer::Token;
use crate::{Source, Tree, Violation};

const DOCUMENT: &str = "docs/contributing/formats/envelope.md";
const CODE: &str = "crates/codec/src/lib.rs";

/// Compares the numbers of `enum Kind` with the rows `| 1 | `Record` | …` of the document.
pub fn kinds(tree: &Tree, sources: &[Source]) -> Vec<Violation> {
    let code = sources.iter().find(|source| source.path == CODE);
    let code = code.map(|source| numbers(source.tokens())).unwrap_or_default();
    let document = rows(tree.text(DOCUMENT).unwrap_or_default());
    if code.is_empty() {
        return vec![Violation::of(CODE, "no `enum Kind` with numbers: update this check")];
    }
    let names = code.keys().chain(document.keys().filter(|name| !code.contains_key(*name)));
    let differ = names.filter(|name| code.get(*name) != document.get(*name));
    let what = |name: &String| {
        let (code, document) = (code.get(name), document.get(name));
        format!("kind `{name}`: {code:?} in {CODE}, {document:?} here; the table follows the code")
    };
    differ.map(|name| Violation::of(DOCUMENT, what(name))).collect()
}

/// Parses `Name = number` within `enum Kind { … }`.
fn numbers(tokens: &[Token]) -> BTreeMap<String, String> {
    let start = tokens.windows(2).position(|pair| pair[0].text == "enum" && pair[1].text == "Kind");
    let body = start.map_or(&[][..], |start| &tokens[start..]);
    let body = body.split(|token| token.text == "}").next().unwrap_or_default();
    let entry = |three: &[Token]| match three {
        [name, equals, number] if equals.text == "=" && number.text.parse::<u8>().is_ok() => {
            Some((name.text.clone(), number.text.clone()))
        }
        _ => None,
    };
    body.windows(3).filter_map(entry).collect()
}

fn rows(document: &str) -> BTreeMap<String, String> {
    let row = |line: &str| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let number = cells.next().filter(|number| number.parse::<u8>().is_ok())?;
        let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        Some((name.to_owned(), number.to_owned()))
    };
    document.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENUM: &str = "#[repr(u8)] pub enum Kind { #[doc = \"A record.\"] Record = 1, Vote = 2 }";

    fn found(document: &str) -> usize {
        let tree = Tree::of([(CODE, ENUM), (DOCUMENT, document)]);
        kinds(&tree, &tree.sources().unwrap()).len()
    }

    #[test]
    fn a_table_that_says_something_else_is_caught() {
        assert_eq!(found("| 1 | `Record` | x |\n| 2 | `Vote` | y |\n"), 0);
        assert_eq!(found("| 1 | `Record` | x |\n"), 1);
        assert_eq!(found("| 1 | `Record` | x |\n| 3 | `Vote` | y |\n"), 1);
        assert_eq!(found("| 1 | `Record` | x |\n| 2 | `Vote` | y |\n| 3 | `More` | z |\n"), 1);
        assert_eq!(kinds(&Tree::default(), &[]).len(), 1);
    }
}
