//! Checks the packages that can be published: a registry rejects a package with missing fields.

use toml::Value;

use crate::manifest::Manifest;
use crate::{Tree, Violation};

/// Folders of the published packages. Their dependencies on this workspace must be in this list.
const PUBLISHED: [&str; 4] = ["types", "api", "client", "fence"];
const FIELDS: [&str; 6] =
    ["description", "license", "repository", "readme", "keywords", "categories"];
/// The largest number of keywords of a package.
const KEYWORDS_MAX: usize = 5;
const ROOT: &str = "Cargo.toml";

/// Checks fields, dependencies, and the versions in the root manifest.
///
/// # Errors
/// A manifest that cannot be read.
pub fn check(tree: &Tree) -> Result<Vec<Violation>, String> {
    let root = Manifest::parse(ROOT, tree.text(ROOT).unwrap_or_default())?;
    let mut found = Vec::new();
    for folder in PUBLISHED {
        let path = format!("crates/{folder}/Cargo.toml");
        let manifest = Manifest::parse(&path, tree.text(&path).unwrap_or_default())?;
        let problems = [fields(&root, &manifest), readme(tree, &manifest), dependencies(&manifest)];
        found.extend(problems.concat().into_iter().map(|what| Violation::of(&path, what)));
        found.extend(version(&root, folder).map(|what| Violation::of(ROOT, what)));
    }
    Ok(found)
}

fn fields(root: &Manifest, manifest: &Manifest) -> Vec<String> {
    let package = |field| package_value(root, manifest, field);
    let missing = FIELDS.iter().filter(|field| !package(field).is_some_and(is_filled));
    let mut found: Vec<String> =
        missing.map(|field| format!("a published package needs `{field}`")).collect();
    if package("publish").is_some_and(|publish| publish.as_bool() == Some(false)) {
        found.push("remove `publish`: the package is published".to_owned());
    }
    let keywords = package("keywords").and_then(Value::as_array);
    if keywords.is_some_and(|keywords| keywords.len() > KEYWORDS_MAX) {
        found.push(format!("a package has at most {KEYWORDS_MAX} keywords"));
    }
    found
}

/// A value of the package, or of the workspace if the package inherits it.
fn package_value<'a>(root: &'a Manifest, manifest: &'a Manifest, field: &str) -> Option<&'a Value> {
    let own = manifest.get(&["package", field])?;
    let inherits = own.get("workspace").and_then(Value::as_bool) == Some(true);
    if inherits { root.get(&["workspace", "package", field]) } else { Some(own) }
}

fn is_filled(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
        || value.as_array().is_some_and(|list| !list.is_empty())
}

fn readme(tree: &Tree, manifest: &Manifest) -> Vec<String> {
    let Some(readme) = manifest.get(&["package", "readme"]).and_then(Value::as_str) else {
        return Vec::new();
    };
    let path = manifest.path.replace(ROOT, readme);
    let missing = (!tree.exists(&path)).then(|| format!("`readme`: {path} does not exist"));
    missing.into_iter().collect()
}

fn dependencies(manifest: &Manifest) -> Vec<String> {
    let ours = manifest.dependencies().into_iter().filter_map(|(name, _)| {
        let folder = name.strip_prefix("holdfast-")?;
        (!PUBLISHED.contains(&folder))
            .then(|| format!("it depends on {name}, an unpublished package"))
    });
    ours.collect()
}

/// A published package needs the version of the workspace beside its path.
fn version(root: &Manifest, folder: &str) -> Option<String> {
    let workspace = root.get(&["workspace", "package", "version"]).and_then(Value::as_str);
    let name = format!("holdfast-{folder}");
    let own = root.get(&["workspace", "dependencies", &name, "version"]).and_then(Value::as_str);
    (own.is_none() || own != workspace).then(|| {
        format!("`{name}`: write the version of the workspace, {}", workspace.unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPLETE: &str = "[package]\nname = 'a'\ndescription = 'd'\nlicense.workspace = true\n\
        repository.workspace = true\nreadme = 'README.md'\nkeywords = ['k']\ncategories = ['c']\n";

    fn found(client: &str) -> Vec<String> {
        let root = "[workspace.package]\nversion = '1.0.0'\nlicense = 'MIT'\nrepository = 'r'\npublish = false\n\
            [workspace.dependencies]\nholdfast-types = { version = '1.0.0' }\n\
            holdfast-api = { version = '1.0.0' }\nholdfast-client = { version = '1.0.0' }\n\
            holdfast-fence = { version = '0.9.0' }\n";
        let files = [
            (ROOT, root),
            ("crates/types/Cargo.toml", COMPLETE),
            ("crates/api/Cargo.toml", COMPLETE),
            ("crates/client/Cargo.toml", client),
            ("crates/fence/Cargo.toml", COMPLETE),
            ("crates/types/README.md", ""),
            ("crates/api/README.md", ""),
            ("crates/client/README.md", ""),
            ("crates/fence/README.md", ""),
        ];
        let found = check(&Tree::of(files)).unwrap();
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_version_that_differs_from_the_workspace_is_caught() {
        let expected = "Cargo.toml: `holdfast-fence`: write the version of the workspace, 1.0.0";
        assert_eq!(found(COMPLETE), [expected]);
    }

    #[test]
    fn missing_fields_and_unpublished_dependencies_are_caught() {
        let client = COMPLETE.replace("keywords = ['k']", "keywords = []")
            + "publish.workspace = true\n[dependencies]\nholdfast-raft.workspace = true\n";
        let found = found(&client.replace("README.md", "OTHER.md"));
        for expected in [
            "needs `keywords`",
            "remove `publish`",
            "crates/client/OTHER.md does not exist",
            "depends on holdfast-raft",
        ] {
            assert_eq!(found.iter().filter(|line| line.contains(expected)).count(), 1, "{found:?}");
        }
    }
}
