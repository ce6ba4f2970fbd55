//! Checks the manifests, the lock file and `deny.toml`.
//!
//! Every dependency is declared once, in the root manifest, with a reason and without default features, and is used.
//! The checks do not access the registry.

use toml::Value;

use crate::manifest::Manifest;
use crate::{Tree, Violation, policy};

const ROOT: &str = "Cargo.toml";
const LOCK: &str = "Cargo.lock";
const DENY: &str = "deny.toml";

/// Checks the root manifest: reasons, features, pins.
///
/// # Errors
/// A manifest that cannot be read.
pub fn root(tree: &Tree) -> Result<Vec<Violation>, String> {
    let text = tree.text(ROOT).unwrap_or_default();
    let manifest = Manifest::parse(ROOT, text)?;
    let mut found = without_reason(text);
    for (name, value) in shared(&manifest) {
        found.extend(objections(name, value).into_iter().map(|what| Violation::of(ROOT, what)));
    }
    Ok(found)
}

fn shared(manifest: &Manifest) -> impl Iterator<Item = (&str, &Value)> {
    let table = manifest.get(&["workspace", "dependencies"]).and_then(Value::as_table);
    table.into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

fn objections(name: &str, value: &Value) -> Vec<String> {
    if value.get("path").is_some() {
        return Vec::new();
    }
    let mut found = Vec::new();
    if value.get("default-features").and_then(Value::as_bool) != Some(false) {
        found.push(format!(
            "`{name}`: write `default-features = false` and list the required features"
        ));
    }
    let version = value.get("version").or(Some(value)).and_then(Value::as_str).unwrap_or_default();
    let pinned =
        policy::PINNED.iter().any(|pin| name == *pin || name.starts_with(&format!("{pin}-")));
    if pinned && !version.starts_with('=') {
        found.push(format!(
            "`{name}` is pinned: write `={version}`, and an ADR for another version"
        ));
    }
    found
}

/// Entries of `[workspace.dependencies]` without a comment above them or above their group; a blank line ends a group.
fn without_reason(text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let (mut inside, mut reason) = (false, false);
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        match line.chars().next() {
            Some('[') if !inside || !line.contains('=') => {
                (inside, reason) = (line == "[workspace.dependencies]", false);
            }
            None => reason = false,
            Some('#') => reason = true,
            Some(_) if inside && !reason && line.contains('=') => {
                let name = line.split('=').next().unwrap_or_default().trim();
                let what =
                    format!("`{name}` has no reason: add a comment above it with the reason");
                found.push(Violation::at(ROOT, i + 1, what));
            }
            Some(_) => {}
        }
    }
    found
}

/// Checks that members inherit every version from the root and enable no default features.
///
/// # Errors
/// A manifest that cannot be read.
pub fn members(tree: &Tree) -> Result<Vec<Violation>, String> {
    let mut found = Vec::new();
    for manifest in member_manifests(tree)? {
        // A package may depend on itself in its tests, to enable a feature.
        let others = all_dependencies(&manifest).into_iter();
        for (name, value) in others.filter(|(name, _)| *name != manifest.package()) {
            if value.get("workspace").and_then(Value::as_bool) != Some(true) {
                let what = format!(
                    "`{name}`: write `workspace = true`; the root manifest has the version"
                );
                found.push(Violation::of(&manifest.path, what));
            }
            if value.get("default-features").and_then(Value::as_bool) == Some(true) {
                let what = format!("`{name}`: list the required features instead of the defaults");
                found.push(Violation::of(&manifest.path, what));
            }
        }
        if manifest.get(&["lints", "workspace"]).and_then(Value::as_bool) != Some(true) {
            found.push(Violation::of(&manifest.path, "add `[lints]` with `workspace = true`"));
        }
    }
    Ok(found)
}

/// Entries of the root manifest that no member uses.
///
/// # Errors
/// A manifest that cannot be read.
pub fn unused(tree: &Tree) -> Result<Vec<Violation>, String> {
    let members = member_manifests(tree)?;
    let used: Vec<&str> = members.iter().flat_map(all_dependencies).map(|(name, _)| name).collect();
    let root = Manifest::parse(ROOT, tree.text(ROOT).unwrap_or_default())?;
    let unused =
        shared(&root).filter(|(name, value)| value.get("path").is_none() && !used.contains(name));
    let what = |name| format!("no member uses `{name}`: remove it until one does");
    Ok(unused.map(|(name, _)| Violation::of(ROOT, what(name))).collect())
}

fn member_manifests(tree: &Tree) -> Result<Vec<Manifest>, String> {
    let folders = ["crates", "tests"];
    let paths = folders.iter().flat_map(|folder| {
        tree.packages(folder).into_iter().map(move |name| format!("{folder}/{name}/Cargo.toml"))
    });
    paths.map(|path| Manifest::parse(&path, tree.text(&path).unwrap_or_default())).collect()
}

fn all_dependencies(manifest: &Manifest) -> Vec<(&str, &Value)> {
    manifest.dependencies().into_iter().chain(manifest.dev_dependencies()).collect()
}

/// Checks that the lock file exists and `.gitignore` does not exclude it.
pub fn lock_file(tree: &Tree) -> Vec<Violation> {
    let ignored = tree.text(".gitignore").unwrap_or_default();
    let hidden = ignored.lines().any(|line| line.trim().trim_start_matches('/') == LOCK);
    let missing = tree.text(LOCK).is_none();
    let what = "the lock file belongs to the repository: commit it, and remove it from .gitignore";
    (hidden || missing).then(|| Violation::of(LOCK, what)).into_iter().collect()
}

/// Checks that every exception in `deny.toml` has a reason and applies to a package in the lock file.
///
/// # Errors
/// A `deny.toml` that cannot be read.
pub fn deny(tree: &Tree) -> Result<Vec<Violation>, String> {
    let Some(text) = tree.text(DENY) else {
        return Ok(vec![Violation::of(
            DENY,
            "missing: the policy for licences, duplicates and advisories",
        )]);
    };
    let manifest = Manifest::parse(DENY, text)?;
    let lock = tree.text(LOCK).unwrap_or_default();
    let mut found = Vec::new();
    for keys in [["advisories", "ignore"], ["bans", "skip"], ["bans", "skip-tree"]] {
        let entries = manifest.get(&keys).and_then(Value::as_array);
        found.extend(
            entries.into_iter().flatten().filter_map(|entry| exception(keys[1], entry, lock)),
        );
    }
    Ok(found)
}

fn exception(list: &str, entry: &Value, lock: &str) -> Option<Violation> {
    let field = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    let subject = if list == "ignore" { field("id") } else { field("crate") };
    if field("reason").is_empty() {
        let what = format!("the entry `{subject}` of `{list}` has no reason: add `reason = \"…\"`");
        return Some(Violation::of(DENY, what));
    }
    let (name, version) = subject.split_once('@').unwrap_or((subject, ""));
    let locked = lock.contains(&format!("name = \"{name}\"\nversion = \"{version}"));
    let what = || format!("`{subject}` of `{list}` is not in {LOCK} any more: remove the entry");
    (list != "ignore" && !locked).then(|| Violation::of(DENY, what()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root_of(text: &str) -> Vec<Violation> {
        root(&Tree::of([(ROOT, text)])).unwrap()
    }

    #[test]
    fn a_dependency_without_a_reason_is_caught() {
        let text = "# Not about it.\n[workspace.dependencies]\n# A group.\na = { version = '1', default-features = false }\n\
                    b = { version = '1', default-features = false }\n\nc = { version = '1', default-features = false }\n";
        let found = root_of(text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].line, 7);
    }

    #[test]
    fn default_features_are_caught() {
        let text = "[workspace.dependencies]\n# Reason.\na = '1'\nb = { version = '1' }\nours = { path = 'crates/ours' }\n";
        assert_eq!(root_of(text).len(), 2);
    }

    #[test]
    fn a_loose_pin_is_caught() {
        let entry = |name: &str, version: &str| {
            format!(
                "[workspace.dependencies]\n# Reason.\n{name} = {{ version = '{version}', default-features = false }}\n"
            )
        };
        assert_eq!(root_of(&entry("openraft-rt", "0.10.0-alpha.37")).len(), 1);
        assert_eq!(root_of(&entry("openraft-rt", "=0.10.0-alpha.37")).len(), 0);
        assert_eq!(root_of(&entry("sledge", "1")).len(), 0);
    }

    #[test]
    fn versions_and_default_features_in_members_are_caught() {
        let text = "[lints]\nworkspace = true\n[dependencies]\na = '1'\n[dev-dependencies]\n\
                    b = { workspace = true, default-features = true }\nc.workspace = true";
        assert_eq!(members(&Tree::of([("crates/x/Cargo.toml", text)])).unwrap().len(), 2);
        assert_eq!(members(&Tree::of([("tests/x/Cargo.toml", "")])).unwrap().len(), 1);
        let itself = "[package]\nname = 'x'\n[lints]\nworkspace = true\n[dev-dependencies]\nx = { path = '.' }";
        assert_eq!(members(&Tree::of([("tests/x/Cargo.toml", itself)])).unwrap().len(), 0);
    }

    #[test]
    fn a_dependency_nobody_uses_is_caught() {
        let tree = Tree::of([
            (ROOT, "[workspace.dependencies]\na = '1'\nb = '1'"),
            ("crates/x/Cargo.toml", "[dependencies]\na.workspace = true"),
        ]);
        assert_eq!(unused(&tree).unwrap().len(), 1);
    }

    #[test]
    fn a_missing_or_hidden_lock_file_is_caught() {
        assert_eq!(lock_file(&Tree::default()).len(), 1);
        assert_eq!(lock_file(&Tree::of([(LOCK, ""), (".gitignore", "/Cargo.lock\n")])).len(), 1);
        assert_eq!(lock_file(&Tree::of([(LOCK, ""), (".gitignore", "/target\n")])).len(), 0);
    }

    #[test]
    fn exceptions_without_reason_or_subject_are_caught() {
        let lock = "name = \"a\"\nversion = \"1.2.3\"\n";
        let found = |text: &str| deny(&Tree::of([(DENY, text), (LOCK, lock)])).unwrap().len();
        assert_eq!(found("[bans]\nskip = [{ crate = 'a@1.2', reason = 'why' }]"), 0);
        assert_eq!(found("[bans]\nskip = [{ crate = 'a@1.2' }]"), 1);
        assert_eq!(found("[bans]\nskip = [{ crate = 'a@2', reason = 'why' }]"), 1);
        assert_eq!(found("[advisories]\nignore = [{ id = 'RUSTSEC-1' }]"), 1);
        assert_eq!(deny(&Tree::default()).unwrap().len(), 1);
    }
}
