//! The mutations of `crates/*/mutations.toml`: bugs that the tests of a crate must find.
//!
//! This module parses the files, applies a mutation to a source text, and checks that each mutation still applies: its
//! original texts occur exactly once and its tests exist. `examples/mutations.rs` runs the tests on mutated copies.

use std::collections::BTreeSet;

use toml::{Table, Value};

use crate::{Source, Tree, Violation};

/// The name of each file of mutations, in the folder of the crate that they change.
const FILE: &str = "mutations.toml";

/// A mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    /// Effect of the bug, in a few words.
    pub name: String,
    /// The folder of the crate, from the root of the repository.
    pub folder: String,
    /// All of them must fail.
    pub tests: Vec<NamedTest>,
    /// The changes of source text.
    pub edits: Vec<Edit>,
}

/// A test that must fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTest {
    /// The program of the test, a folder of `tests`; `None` for a unit test.
    pub target: Option<String>,
    /// The path of the test in the crate or the program.
    pub name: String,
    /// Text that the failure must contain; empty for any failure.
    pub output: String,
}

/// One replacement of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// From the root of the repository.
    pub file: String,
    /// Occurs exactly once in the file.
    pub original: String,
    /// The text with the bug.
    pub replacement: String,
}

/// Reads the mutations of all crates.
///
/// # Errors
/// The field that is missing or has the wrong type.
pub fn all(tree: &Tree) -> Result<Vec<Mutation>, String> {
    let mut all = Vec::new();
    for (path, file) in tree.files() {
        let Some((folder, FILE)) = path.rsplit_once('/') else { continue };
        all.extend(parse(folder, &file.text).map_err(|what| format!("{path}: {what}"))?);
    }
    Ok(all)
}

fn parse(folder: &str, text: &str) -> Result<Vec<Mutation>, String> {
    let table: Table = text.parse().map_err(|error| format!("not TOML: {error}"))?;
    has_only(&table, &["mutation"])?;
    let tables = tables(&table, "mutation")?.into_iter();
    tables.map(|table| mutation(folder, table)).collect()
}

fn mutation(folder: &str, table: &Table) -> Result<Mutation, String> {
    let name = string(table, "name")?;
    let test = |test: &Table| {
        has_only(test, &["target", "name", "output"])?;
        let text = |key: &str| test.get(key).and_then(Value::as_str).map(str::to_owned);
        let (target, output) = (text("target"), text("output").unwrap_or_default());
        Ok(NamedTest { target, name: string(test, "name")?, output })
    };
    let edit = |edit: &Table| {
        has_only(edit, &["file", "original", "replacement"])?;
        Ok(Edit {
            file: format!("{folder}/{}", string(edit, "file")?),
            original: string(edit, "original")?,
            replacement: string(edit, "replacement")?,
        })
    };
    let read = || {
        has_only(table, &["name", "tests", "edit"])?;
        let tests: Vec<NamedTest> =
            tables(table, "tests")?.into_iter().map(test).collect::<Result<_, String>>()?;
        let edits: Vec<Edit> =
            tables(table, "edit")?.into_iter().map(edit).collect::<Result<_, String>>()?;
        Ok::<_, String>((tests, edits))
    };
    let (tests, edits) = read().map_err(|what| format!("{name}: {what}"))?;
    Ok(Mutation { name, folder: folder.to_owned(), tests, edits })
}

fn tables<'a>(table: &'a Table, key: &str) -> Result<Vec<&'a Table>, String> {
    let items = table.get(key).and_then(Value::as_array).filter(|items| !items.is_empty());
    let items = items.ok_or_else(|| format!("no list `{key}`"))?;
    items.iter().map(|item| item.as_table().ok_or(format!("`{key}` is not a table"))).collect()
}

/// Rejects other keys: below a missing header, they belong to the table before.
fn has_only(table: &Table, keys: &[&str]) -> Result<(), String> {
    let other = table.keys().find(|key| !keys.contains(&key.as_str()));
    other.map_or(Ok(()), |key| Err(format!("`{key}` is no key here: a header is missing above it")))
}

fn string(table: &Table, key: &str) -> Result<String, String> {
    let value = table.get(key).and_then(Value::as_str);
    value.map(str::to_owned).ok_or_else(|| format!("no text `{key}`"))
}

impl Edit {
    /// The text with the replacement.
    ///
    /// # Errors
    /// The original does not occur exactly once.
    pub fn apply(&self, text: &str) -> Result<String, String> {
        match text.matches(&self.original).count() {
            1 => Ok(text.replacen(&self.original, &self.replacement, 1)),
            count => Err(format!("{}: occurs {count} times: {}", self.file, self.original)),
        }
    }
}

/// Checks that each mutation has a unique name, applies to the sources, changes them, and names tests that exist.
///
/// # Errors
/// A file cannot be read.
pub fn check(tree: &Tree, sources: &[Source]) -> Result<Vec<Violation>, String> {
    let mut found = Vec::new();
    let mut names = BTreeSet::new();
    for Mutation { name, folder, tests, edits } in all(tree)? {
        let file = format!("{folder}/{FILE}");
        let mut complain =
            |what: String| found.push(Violation::of(&file, format!("{name}: {what}")));
        if !names.insert(name.clone()) {
            complain("the name occurs twice".to_owned());
        }
        for edit in &edits {
            match edit.apply(tree.text(&edit.file).unwrap_or_default()) {
                Ok(_) if edit.original == edit.replacement => complain("changes nothing".into()),
                Ok(_) => {}
                Err(what) => complain(what),
            }
        }
        for test in tests.iter().filter(|test| !exists(&folder, test, sources)) {
            complain(format!("there is no test {}", test.name));
        }
    }
    Ok(found)
}

/// True if the file in the test's path has a function of this name.
fn exists(folder: &str, test: &NamedTest, sources: &[Source]) -> bool {
    let Some((module, function)) = test.name.rsplit_once("::") else { return false };
    let sources_of = test.target.as_ref().map_or("src".to_owned(), |name| format!("tests/{name}"));
    let path = format!("{folder}/{sources_of}/{}", module.replace("::", "/"));
    // The module `tests` may be a part of the file that it tests.
    let paths = [path.as_str(), path.strip_suffix("/tests").unwrap_or(&path)];
    let files = paths.map(|path| [format!("{path}.rs"), format!("{path}/mod.rs")]).concat();
    sources.iter().any(|source| files.contains(&source.path) && source.has_function(function))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "
[[mutation]]
name = 'wrong-answer'
tests = [{ name = 'tests::answers', output = '41' }]
[[mutation.edit]]
file = 'src/lib.rs'
original = '42'
replacement = '41'
";

    fn complaints(mutations: &str, code: &str, tests: &str) -> Vec<String> {
        let (lib, module) = ("crates/raft/src/lib.rs", "crates/raft/src/tests.rs");
        let tree =
            Tree::of([("crates/raft/mutations.toml", mutations), (lib, code), (module, tests)]);
        let sources = [(lib, code), (module, tests)];
        let sources: Vec<_> =
            sources.iter().map(|(path, text)| Source::parse(path, text).unwrap()).collect();
        let found = check(&tree, &sources).unwrap();
        found.into_iter().map(|violation| violation.what).collect()
    }

    #[test]
    fn a_mutation_that_applies_and_names_a_test_is_sound() {
        let test = "#[test] fn answers() {}";
        assert!(complaints(ONE, "fn f() -> u8 { 42 }", test).is_empty());
        let mutated =
            parse("crates/raft", ONE).unwrap()[0].edits[0].apply("fn f() -> u8 { 42 }").unwrap();
        assert_eq!(mutated, "fn f() -> u8 { 41 }");
    }

    #[test]
    fn what_does_not_apply_or_names_no_test_is_found() {
        let test = "#[test] fn answers() {}";
        assert_eq!(complaints(ONE, "fn f() -> u8 { 40 }", test).len(), 1);
        assert_eq!(complaints(ONE, "fn f() -> [u8; 2] { [42, 42] }", test).len(), 1);
        assert_eq!(complaints(ONE, "fn f() -> u8 { 42 }", "#[test] fn asks() {}").len(), 1);
        let other = ONE.replace("{ name", "{ target = 'programs', name");
        assert_eq!(complaints(&other, "fn f() -> u8 { 42 }", test).len(), 1);
        let twice = format!("{ONE}{ONE}");
        assert_eq!(complaints(&twice, "fn f() -> u8 { 42 }", test).len(), 1);
        assert!(parse("crates/raft", "[[mutation]]\nname = 'empty'").is_err());
        let second = ONE.replace("[[mutation]]\nname = 'wrong-answer'", "name = 'no-answer'");
        let error = parse("crates/raft", &format!("{ONE}{second}")).unwrap_err();
        assert_eq!(error, "wrong-answer: `name` is no key here: a header is missing above it");
    }
}
