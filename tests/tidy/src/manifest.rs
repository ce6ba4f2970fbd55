//! One `Cargo.toml`: its package, and its dependencies by package name, also if they are renamed.

use toml::{Table, Value};

/// A parsed manifest.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) path: String,
    table: Table,
}

impl Manifest {
    pub(crate) fn parse(path: &str, text: &str) -> Result<Self, String> {
        let table = text.parse().map_err(|error| format!("{path} is not TOML: {error}"))?;
        Ok(Self { path: path.to_owned(), table })
    }

    /// The package's name; empty for a manifest without one.
    pub(crate) fn package(&self) -> &str {
        let name = self.table.get("package").and_then(|package| package.get("name"));
        name.and_then(Value::as_str).unwrap_or_default()
    }

    /// A value below tables of these names.
    pub(crate) fn get(&self, keys: &[&str]) -> Option<&Value> {
        let (first, rest) = keys.split_first()?;
        rest.iter().try_fold(self.table.get(*first)?, |value, key| value.get(key))
    }

    /// Normal and build dependencies, of any target.
    pub(crate) fn dependencies(&self) -> Vec<(&str, &Value)> {
        self.section(&["dependencies", "build-dependencies"])
    }

    /// Dev-dependencies.
    pub(crate) fn dev_dependencies(&self) -> Vec<(&str, &Value)> {
        self.section(&["dev-dependencies"])
    }

    fn section(&self, names: &[&str]) -> Vec<(&str, &Value)> {
        let targets = self.table.get("target").and_then(Value::as_table);
        let targets = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
        let tables = std::iter::once(&self.table).chain(targets);
        let sections = tables.flat_map(|table| names.iter().filter_map(|name| table.get(*name)));
        sections.filter_map(Value::as_table).flat_map(Table::iter).map(named).collect()
    }
}

fn named<'a>((key, value): (&'a String, &'a Value)) -> (&'a str, &'a Value) {
    let renamed = value.get("package").and_then(Value::as_str);
    (renamed.unwrap_or(key), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_of_all_targets_are_seen_under_their_real_names() {
        let text = "[package]\nname = 'a'\n[dependencies]\nb = '1'\nc = { package = 'real' }\n\
                    [target.'cfg(unix)'.dependencies]\nd = '1'\n[dev-dependencies]\ne = '1'";
        let manifest = Manifest::parse("Cargo.toml", text).unwrap();
        let names = |list: Vec<(&str, &Value)>| {
            list.iter().map(|(n, _)| (*n).to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(manifest.package(), "a");
        assert_eq!(names(manifest.dependencies()), ["b", "real", "d"]);
        assert_eq!(names(manifest.dev_dependencies()), ["e"]);
    }
}
