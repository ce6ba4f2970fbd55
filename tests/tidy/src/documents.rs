//! Checks that the links, paths and tests that documents name exist.
//!
//! Code spans are read line by line: those that look like a path of this repository must be one.

use std::collections::{BTreeMap, BTreeSet};

use crate::markdown::Page;
use crate::{Source, Tree, Violation};

/// The document from which all others must be reachable.
const ENTRY: &str = "README.md";
/// Prefixes of code spans that are paths of this repository.
const FOLDERS: [&str; 7] =
    ["crates/", "tests/", "docs/", "scripts/", "cluster-config/", ".ci/", ".config/"];

/// The lines of a document with code blocks blanked, so that line numbers stay correct.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    text.lines().enumerate().filter_map(move |(i, line)| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        (!inside && !fence).then_some((i + 1, line))
    })
}

/// The parts of a line outside and inside backticks, alternating.
fn spans(line: &str) -> (String, Vec<&str>) {
    let pieces: Vec<&str> = line.split('`').collect();
    let outside = pieces.iter().step_by(2).copied().collect::<Vec<_>>().join("`");
    (outside, pieces.into_iter().skip(1).step_by(2).collect())
}

/// A link's path from the root, and its anchor; `None` for an external link.
pub(crate) fn resolve(document: &str, target: &str) -> Option<(String, String)> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    if path.is_empty() {
        return Some((document.to_owned(), anchor.to_owned()));
    }
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    Some((parts.join("/"), anchor.to_owned()))
}

/// Links to files, folders or headings that do not exist.
pub fn broken_links(tree: &Tree) -> Vec<Violation> {
    let parsed = tree.ending(".md").map(|(path, text)| (path, Page::parse(text)));
    let pages: BTreeMap<&str, Page> = parsed.collect();
    let has = |path: &str, anchor: &String| {
        pages.get(path).is_none_or(|page| page.anchors.contains(anchor))
    };
    let mut found = Vec::new();
    for (document, page) in &pages {
        for (line, target) in &page.links {
            let Some((path, anchor)) = resolve(document, target) else { continue };
            let reason = if !tree.exists(&path) {
                "there is no such file"
            } else if !anchor.is_empty() && !has(&path, &anchor) {
                "there is no such heading"
            } else {
                continue;
            };
            found.push(Violation::at(document, *line, format!("the link `{target}`: {reason}")));
        }
    }
    found
}

/// Files of `docs/` that no chain of links reaches from the README.
pub fn unreachable(tree: &Tree) -> Vec<Violation> {
    let mut reached = BTreeSet::new();
    let mut next = vec![ENTRY.to_owned()];
    while let Some(document) = next.pop() {
        if !reached.insert(document.clone()) {
            continue;
        }
        let text = tree.ending(".md").find(|(path, _)| *path == document).map(|(_, text)| text);
        let links = Page::parse(text.unwrap_or_default()).links;
        let paths = links.iter().filter_map(|(_, target)| resolve(&document, target));
        next.extend(paths.map(|(path, _)| path));
    }
    let docs = tree.files().map(|(path, _)| path);
    let docs = docs.filter(|path| path.starts_with("docs/") && !path.contains("/."));
    let what = "no document links to it: link it from README.md or from the index of its folder";
    docs.filter(|path| !reached.contains(*path)).map(|path| Violation::of(path, what)).collect()
}

/// Every code span of a document outside code blocks, with its line.
pub(crate) fn code_spans(text: &str) -> impl Iterator<Item = (usize, &str)> {
    prose(text)
        .flat_map(|(line, content)| spans(content).1.into_iter().map(move |span| (line, span)))
}

/// Parses a reference to a test: `` `path/to/file.rs::function` ``.
pub(crate) fn named_test(span: &str) -> Option<(&str, &str)> {
    let (file, function) = span.split_once(".rs::")?;
    let is_name = function.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_name.then(|| (&span[..file.len() + ".rs".len()], function))
}

/// Paths and tests in code spans that do not exist.
pub fn stale_names(tree: &Tree, sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (document, text) in tree.ending(".md") {
        for (line, span) in code_spans(text) {
            let what = match named_test(span) {
                Some((file, name)) if !has_test(sources, file, name) => {
                    format!("there is no test `{name}` in {file}: name one that exists")
                }
                None if is_path(span) && !tree.exists(span.trim_start_matches("./")) => {
                    format!("`{span}` does not exist: correct the path")
                }
                _ => continue,
            };
            found.push(Violation::at(document, line, what));
        }
    }
    found
}

/// Documents that comments and messages of the code name, and that do not exist.
pub fn stale_mentions(tree: &Tree) -> Vec<Violation> {
    let ours = |path: &str| !path.starts_with("tests/tidy/");
    let mut found = Vec::new();
    for (path, text) in tree.ending(".rs").filter(|(path, _)| ours(path)) {
        for (i, line) in text.lines().enumerate() {
            let gone = mentions(line).into_iter().filter(|document| !tree.exists(document));
            let what = |document| format!("{document} does not exist: correct the path");
            found.extend(gone.map(|document| Violation::at(path, i + 1, what(document))));
        }
    }
    found
}

/// Every `docs/….md` of a line.
fn mentions(line: &str) -> Vec<String> {
    let in_path = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    let pieces = line.split(|c: char| !in_path(c)).filter(|piece| piece.starts_with("docs/"));
    let paths =
        pieces.filter_map(|piece| piece.rfind(".md").map(|end| &piece[..end + ".md".len()]));
    paths.map(str::to_owned).collect()
}

fn is_path(span: &str) -> bool {
    let span = span.strip_prefix("./").unwrap_or(span);
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    FOLDERS.iter().any(|folder| span.starts_with(folder)) && span.chars().all(plain)
}

pub(crate) fn has_test(sources: &[Source], file: &str, name: &str) -> bool {
    sources.iter().any(|source| source.path == file && source.has_test(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_links_are_caught() {
        let text = "[a](docs/a.md) [b](docs/b.md) `[c](c.md)` [d](https://d.example)\n```\n[e](e.md)\n```\n\
                    [f](docs/a.md#the-part) [g](docs/a.md#the-hole) [h](#top) [i](docs)\n# Top\n";
        let tree = Tree::of([
            ("README.md", text),
            ("docs/a.md", "## The part\n[up](../README.md) [x](b.md)"),
        ]);
        let found: Vec<_> = broken_links(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "README.md:1: the link `docs/b.md`: there is no such file",
                "README.md:5: the link `docs/a.md#the-hole`: there is no such heading",
                "docs/a.md:2: the link `b.md`: there is no such file",
            ]
        );
    }

    #[test]
    fn documents_nobody_links_are_caught() {
        let tree = Tree::of([
            ("README.md", "[a](docs/a.md)"),
            ("docs/a.md", "[b](adr/b.md)"),
            ("docs/adr/b.md", ""),
            ("docs/lonely.md", "[a](a.md)"),
            ("docs/.words", ""),
        ]);
        let found: Vec<_> =
            unreachable(&tree).into_iter().map(|violation| violation.path).collect();
        assert_eq!(found, ["docs/lonely.md"]);
    }

    #[test]
    fn documents_that_code_names_and_that_are_gone_are_caught() {
        let code = "//! See `docs/a.md`, docs/gone.md.\nconst A: &str = \"docs/a.md says what\";\n";
        let tree = Tree::of([("docs/a.md", ""), ("crates/a/src/lib.rs", code)]);
        let found: Vec<_> = stale_mentions(&tree).iter().map(ToString::to_string).collect();
        let expected = "crates/a/src/lib.rs:1: docs/gone.md does not exist: correct the path";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn paths_and_tests_that_are_gone_are_caught() {
        let text = "`./crates/a/src/lib.rs` `crates/b` `crates/a/src/lib.rs::proves_it` `crates/a/src/lib.rs::gone`\n\
                    `crates/<name>` `docs/*.md`\n";
        let code = "#[test] fn proves_it() {} fn gone() {}";
        let tree = Tree::of([("docs/a.md", text), ("crates/a/src/lib.rs", code)]);
        let found: Vec<_> =
            stale_names(&tree, &tree.sources().unwrap()).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "docs/a.md:1: `crates/b` does not exist: correct the path",
                "docs/a.md:1: there is no test `gone` in crates/a/src/lib.rs: name one that exists",
            ]
        );
    }
}
