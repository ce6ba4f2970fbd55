//! Checks that the `use` lines between the files of a crate have no cycles.
//!
//! A file represents its module. A `use` of a module's own submodules does not count, and neither does a `use` in a
//! test. A re-exported name counts as a dependency on the file that defines it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Source, Violation};

/// A module's path within its crate; the crate's root is empty.
type Module = Vec<String>;

/// Crates with files that use each other.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let of_crate = |(krate, files): (String, Vec<Module>)| {
        let files: Vec<String> = files.iter().map(|file| file.join("::")).collect();
        let what = format!("files use each other in a cycle: {}", files.join(", "));
        Violation::of(&format!("crates/{krate}"), what)
    };
    in_cycles(sources).into_iter().filter(|(_, files)| !files.is_empty()).map(of_crate).collect()
}

/// The files of each crate that reach themselves along `use` lines.
fn in_cycles(sources: &[Source]) -> BTreeMap<String, Vec<Module>> {
    let mut crates: BTreeMap<String, Vec<&Source>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.test && source.path.contains("/src/")) {
        if let Some(krate) = &source.crate_name {
            crates.entry(krate.clone()).or_default().push(source);
        }
    }
    let cyclic = crates.into_iter().map(|(krate, files)| (krate, cyclic(&edges(&files))));
    cyclic.collect()
}

/// A name that a `use` line brings into a module.
struct Import {
    path: Module,
    name: String,
    public: bool,
}

fn edges(files: &[&Source]) -> BTreeMap<Module, BTreeSet<Module>> {
    let imports: BTreeMap<Module, Vec<Import>> =
        files.iter().filter_map(|file| Some((module(&file.path)?, imports(file)))).collect();
    let mut edges: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for (from, list) in &imports {
        let targets = list.iter().filter(|import| !import.public);
        let targets = targets.filter_map(|import| home(&import.path, &imports, 0));
        let apart = targets.filter(|to| !to.starts_with(from));
        edges.insert(from.clone(), apart.collect());
    }
    edges
}

/// Resolves `path` through re-exports to the module of a file.
fn home(path: &Module, imports: &BTreeMap<Module, Vec<Import>>, hops: usize) -> Option<Module> {
    let is_file = |len: &usize| imports.contains_key(&path[..*len]);
    let len = (0..=path.len()).rev().find(is_file)?;
    let (file, rest) = path.split_at(len);
    let re_exported = rest
        .first()
        .and_then(|name| imports[file].iter().find(|import| import.public && import.name == *name));
    match re_exported.filter(|_| hops < 8) {
        Some(import) => home(&import.path, imports, hops + 1).or_else(|| Some(file.to_vec())),
        None => Some(file.to_vec()),
    }
}

/// `crates/a/src/b/c.rs` is `b::c`; a binary's root is a module like the library's.
fn module(path: &str) -> Option<Module> {
    let (_, inside) = path.split_once("/src/")?;
    let mut parts: Module = inside.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    let last = parts.last()?.as_str();
    if last == "mod" || (parts.len() == 1 && matches!(last, "lib" | "main")) {
        parts.pop();
    }
    Some(parts)
}

/// The names that the `use` lines of a file import from its own crate, except in tests.
fn imports(source: &Source) -> Vec<Import> {
    let Some(module) = module(&source.path) else { return Vec::new() };
    let tokens = source.tokens();
    let mut found = Vec::new();
    for (i, _) in tokens.iter().enumerate().filter(|(_, token)| token.text == "use" && !token.test)
    {
        let public = i > 0 && matches!(tokens[i - 1].text.as_str(), "pub" | ")");
        let line = tokens[i + 1..].iter().map(|token| token.text.as_str());
        let words: Vec<&str> = line.take_while(|text| *text != ";").collect();
        let mut rest = words.as_slice();
        for (path, name) in tree(&mut rest, &[]) {
            if let Some(path) = absolute(&path, &module) {
                found.push(Import { path, name, public });
            }
        }
    }
    found
}

/// The paths of a `use` tree with the imported names.
fn tree(rest: &mut &[&str], prefix: &[String]) -> Vec<(Module, String)> {
    let mut path = prefix.to_vec();
    while let [first, after @ ..] = *rest {
        *rest = after;
        match *first {
            "::" => {}
            "{" => {
                let mut found = Vec::new();
                while !matches!(rest.first(), None | Some(&"}")) {
                    found.extend(tree(rest, &path));
                    if rest.first() == Some(&",") {
                        *rest = &rest[1..];
                    }
                }
                *rest = rest.get(1..).unwrap_or_default();
                return found;
            }
            "as" => {
                let name = rest.first().map_or_else(String::new, |name| (*name).to_owned());
                *rest = rest.get(1..).unwrap_or_default();
                return vec![(path, name)];
            }
            word => path.push(word.to_owned()),
        }
        if matches!(rest.first(), None | Some(&("," | "}"))) {
            break;
        }
    }
    if path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let name = path.last().cloned().unwrap_or_default();
    vec![(path, name)]
}

/// The path from the crate's root. A path into another crate becomes one below `module`, where no file is.
fn absolute(path: &[String], module: &Module) -> Option<Module> {
    let (first, rest) = path.split_first()?;
    let mut base = match first.as_str() {
        "crate" => Vec::new(),
        "self" => module.clone(),
        "super" => module[..module.len().checked_sub(1)?].to_vec(),
        _ => [module.as_slice(), std::slice::from_ref(first)].concat(),
    };
    for part in rest {
        if part == "super" {
            base.pop();
        } else {
            base.push(part.clone());
        }
    }
    Some(base)
}

/// Modules that depend on themselves.
fn cyclic(edges: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<Module> {
    let reaches_itself = |start: &&Module| {
        let mut seen: BTreeSet<&Module> = BTreeSet::new();
        let mut next: Vec<&Module> = vec![*start];
        while let Some(module) = next.pop() {
            for target in edges.get(module).into_iter().flatten() {
                if target == *start {
                    return true;
                }
                if seen.insert(target) {
                    next.push(target);
                }
            }
        }
        false
    };
    edges.keys().filter(reaches_itself).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources = Tree::of(files.iter().copied()).sources().unwrap();
        in_cycles(&sources).into_values().flatten().map(|module| module.join("::")).collect()
    }

    #[test]
    fn files_that_use_each_other_are_caught() {
        let lib = (
            "crates/a/src/lib.rs",
            "mod b; mod c; pub use b::B; pub use self::c::{C, deep::D as E};",
        );
        assert_eq!(
            found(&[
                lib,
                ("crates/a/src/b.rs", "use std::fmt;\nuse crate::{C, other};"),
                ("crates/a/src/c.rs", "use super::b::{self, B};\nmod deep;"),
            ]),
            ["b", "c"]
        );
        assert_eq!(
            found(&[
                lib,
                ("crates/a/src/b.rs", "use crate::E;"),
                ("crates/a/src/c/deep.rs", "use crate::b;"),
                ("crates/a/src/c.rs", ""),
            ]),
            ["b", "c::deep"]
        );
    }

    #[test]
    fn a_folder_and_its_head_are_one_concept_and_tests_are_free() {
        let files = [
            ("crates/a/src/b.rs", "mod c; use self::c::C;"),
            ("crates/a/src/b/c.rs", "use super::B;"),
            ("crates/a/src/d.rs", "#[cfg(test)]\nmod tests { use crate::b::B; }"),
        ];
        assert_eq!(found(&files), [""; 0]);
        let head = ("crates/a/src/b.rs", "use crate::d::D;");
        assert_eq!(found(&[head, files[1], files[2]]), [""; 0]);
        assert_eq!(
            found(&[head, files[1], ("crates/a/src/d.rs", "use crate::b::c::C;")]),
            ["b", "b::c", "d"]
        );
    }
}
