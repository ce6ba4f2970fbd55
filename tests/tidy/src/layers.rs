//! A crate depends only on smaller layers.
//!
//! The table in `docs/contributing/architecture.md` defines the layers: every folder of `crates/` has a row, and every row a folder.
//! Test dependencies and packages of `tests/` are exempt; cargo rejects cycles among the other packages.

use std::collections::BTreeMap;

use crate::manifest::Manifest;
use crate::{Tree, Violation};

/// The document with the table.
pub const TABLE: &str = "docs/contributing/architecture.md";
/// The crates that may depend on some smaller layers only: `fence` is for programs that use no other holdfast crate, and the
/// commands of clients reach no node but through its API.
const NARROW: [(&str, &[&str]); 2] =
    [("fence", &["types"]), ("cli", &["types", "api", "tls", "client", "fence"])];

/// The layer of each crate, by the name of its folder: rows `| 0 | `types` | …` of the table.
pub fn table(document: &str) -> BTreeMap<String, u8> {
    let row = |line: &str| -> Option<(String, u8)> {
        let mut cells = line.trim().strip_prefix('|')?.split('|').map(str::trim);
        let layer = cells.next()?.parse().ok()?;
        let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        Some((name.to_owned(), layer))
    };
    document.lines().filter_map(row).collect()
}

/// Checks the workspace.
///
/// # Errors
/// A manifest that cannot be read.
pub fn check(tree: &Tree) -> Result<Vec<Violation>, String> {
    let layers = table(tree.text(TABLE).unwrap_or_default());
    let mut found = rows_and_folders(tree, &layers);
    for name in tree.packages("crates") {
        let path = format!("crates/{name}/Cargo.toml");
        let manifest = Manifest::parse(&path, tree.text(&path).unwrap_or_default())?;
        found.extend(package_name(&manifest, name));
        found.extend(upward(&manifest, name, &layers));
    }
    Ok(found)
}

fn rows_and_folders(tree: &Tree, layers: &BTreeMap<String, u8>) -> Vec<Violation> {
    let folders = tree.packages("crates");
    let missing = folders.iter().filter(|name| !layers.contains_key(**name)).map(|name| {
        let what = format!("no layer in the table of {TABLE}: add a row for it there");
        Violation::of(&format!("crates/{name}"), what)
    });
    let stale = layers.keys().filter(|name| !folders.contains(&name.as_str())).map(|name| {
        Violation::of(
            TABLE,
            format!("the table names `{name}`, but there is no crates/{name}: remove the row"),
        )
    });
    missing.chain(stale).collect()
}

fn package_name(manifest: &Manifest, folder: &str) -> Option<Violation> {
    let expected =
        if folder == "holdfast" { folder.to_owned() } else { format!("holdfast-{folder}") };
    let what = || format!("the package is called `{}`: call it `{expected}`", manifest.package());
    (manifest.package() != expected).then(|| Violation::of(&manifest.path, what()))
}

fn upward(manifest: &Manifest, name: &str, layers: &BTreeMap<String, u8>) -> Vec<Violation> {
    let own = layers.get(name);
    let ours = manifest.dependencies().into_iter().filter_map(|(dependency, _)| {
        if dependency == "holdfast" {
            Some(dependency)
        } else {
            dependency.strip_prefix("holdfast-")
        }
    });
    let narrow = NARROW.iter().find(|(narrow, _)| *narrow == name).map(|(_, allowed)| *allowed);
    let allowed = |dependency: &str| match (layers.get(dependency), own) {
        (Some(lower), Some(own)) => {
            lower < own && narrow.is_none_or(|allowed| allowed.contains(&dependency))
        }
        _ => false,
    };
    ours.filter(|dependency| !allowed(dependency)).map(|dependency| {
        let what = format!(
            "`{name}` (layer {}) depends on `{dependency}` (layer {}): only smaller layers are allowed{}; \
             move the shared type down, or invert the call",
            shown(own), shown(layers.get(dependency)),
            narrow.map_or(String::new(), |allowed| format!(", and for `{name}` only {}", allowed.join(", "))),
        );
        Violation::of(&manifest.path, what)
    }).collect()
}

fn shown(layer: Option<&u8>) -> String {
    layer.map_or_else(|| "none".to_owned(), u8::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "| layer | crate | what |\n|---|---|---|\n| 0 | `types` | nouns |\n| 2 | `raft` | glue |\n\
                            | 2 | `fence` | guards |\n| 0 | `codec` | bytes |\n";

    fn workspace(raft: &str, fence: &str) -> Tree {
        let raft = format!("[package]\nname = 'holdfast-raft'\n{raft}");
        let fence = format!("[package]\nname = 'holdfast-fence'\n{fence}");
        Tree::of([
            (TABLE, DOCUMENT),
            ("crates/types/Cargo.toml", "[package]\nname = 'holdfast-types'"),
            ("crates/codec/Cargo.toml", "[package]\nname = 'holdfast-codec'"),
            ("crates/raft/Cargo.toml", raft.as_str()),
            ("crates/fence/Cargo.toml", fence.as_str()),
        ])
    }

    fn found(raft: &str, fence: &str) -> Vec<String> {
        check(&workspace(raft, fence)).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn smaller_layers_are_allowed_and_so_is_anything_in_tests() {
        let raft = "[dependencies]\nholdfast-types.workspace = true\n[dev-dependencies]\nholdfast-fence.workspace = true";
        assert_eq!(found(raft, ""), Vec::<String>::new());
    }

    #[test]
    fn the_same_layer_is_refused() {
        let found = found("[dependencies]\nholdfast-fence.workspace = true", "");
        assert!(
            found.len() == 1 && found[0].contains("`raft` (layer 2) depends on `fence`"),
            "{found:?}"
        );
    }

    #[test]
    fn fence_depends_on_nothing_above_types() {
        assert_eq!(found("", "[dependencies]\nholdfast-types.workspace = true").len(), 0);
        assert_eq!(found("", "[dependencies]\nholdfast-codec.workspace = true").len(), 1);
    }

    #[test]
    fn the_commands_of_clients_reach_no_layer_of_a_node() {
        let found = |dependency: &str| {
            let cli = format!(
                "[package]\nname = 'holdfast-cli'\n[dependencies]\n{dependency}.workspace = true"
            );
            let document = format!("{DOCUMENT}| 3 | `cli` | commands |\n");
            let tree = workspace("", "").with(TABLE, &document, false);
            check(&tree.with("crates/cli/Cargo.toml", &cli, false)).unwrap().len()
        };
        assert_eq!((found("holdfast-fence"), found("holdfast-raft")), (0, 1));
    }

    #[test]
    fn rows_and_folders_are_the_same() {
        let tree = workspace("", "").with(
            "crates/zk/Cargo.toml",
            "[package]\nname = 'holdfast-zk'",
            false,
        );
        assert!(check(&tree).unwrap()[0].what.contains("add a row"));
        let document = format!("{DOCUMENT}| 4 | `zk` | front-end |\n");
        let tree = workspace("", "").with(TABLE, &document, false);
        assert!(check(&tree).unwrap()[0].what.contains("remove the row"));
    }

    #[test]
    fn folder_and_package_have_the_same_name() {
        let tree =
            workspace("", "").with("crates/codec/Cargo.toml", "[package]\nname = 'codec'", false);
        assert!(check(&tree).unwrap()[0].what.contains("call it `holdfast-codec`"));
    }
}
