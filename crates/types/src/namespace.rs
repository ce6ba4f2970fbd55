//! Namespaces: registered first components of names, for the teams that share a cluster.
//!
//! To the namespace `team-a` belong the locks, elections, recipes and subjects with names below `team-a/`, and the
//! znodes at and below `/team-a`, `/locks/team-a`, `/locks/elections/team-a` and `/groups/team-a`. A subject of a
//! namespace uses only the names of its namespace. Its [`crate::Quotas`] bound what its clients store and call.

use crate::{NamespaceName, SubjectName, ZnodePath};

/// The prefix of the locks of elections.
const ELECTIONS: &str = "elections/";
/// The directory of the members of groups.
const GROUPS: &str = "/groups/";

impl NamespaceName {
    /// The namespace to which a lock or a recipe would belong, if it is registered.
    pub fn of_name(name: &str) -> &str {
        first_component(name.strip_prefix(ELECTIONS).unwrap_or(name))
    }

    /// The namespace to which a subject would belong, if it is registered.
    pub fn of_subject(subject: &SubjectName) -> &str {
        first_component(subject.as_str())
    }

    /// The namespace to which a znode would belong, if it is registered.
    pub fn of_path(path: &str) -> &str {
        let locks = path.strip_prefix(ZnodePath::LOCKS).and_then(|rest| rest.strip_prefix('/'));
        if let Some(lock) = locks {
            return Self::of_name(lock);
        }
        let name = path.strip_prefix(GROUPS).or_else(|| path.strip_prefix('/'));
        name.map(first_component).unwrap_or_default()
    }

    /// The directories of its znodes.
    pub fn directories(&self) -> impl Iterator<Item = ZnodePath> {
        let locks = ZnodePath::LOCKS;
        let paths = [
            format!("/{self}"),
            format!("{GROUPS}{self}"),
            format!("{locks}/{self}"),
            format!("{locks}/{ELECTIONS}{self}"),
        ];
        paths.into_iter().filter_map(|path| ZnodePath::new(path).ok())
    }

    /// Its locks and recipes have these names, or names below them.
    pub fn names(&self) -> [String; 2] {
        [self.to_string(), format!("{ELECTIONS}{self}")]
    }
}

fn first_component(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_component_is_the_namespace() {
        for (name, namespace) in [
            ("a/b/c", "a"),
            ("a", "a"),
            ("ab/c", "ab"),
            ("elections/a/b", "a"),
            ("elections", "elections"),
        ] {
            assert_eq!(NamespaceName::of_name(name), namespace, "{name}");
        }
        for (path, namespace) in [
            ("/", ""),
            ("/a", "a"),
            ("/a/b", "a"),
            ("/locks", "locks"),
            ("/locks/a", "a"),
            ("/locks/a/b-0000000001", "a"),
            ("/locks/elections/a/b", "a"),
            ("/locks/elections", "elections"),
            ("/groups/a/b", "a"),
            ("/groups", "groups"),
        ] {
            assert_eq!(NamespaceName::of_path(path), namespace, "{path}");
        }
    }

    #[test]
    fn the_directories_of_a_namespace_belong_to_it() {
        let namespace = NamespaceName::new("a").unwrap();
        for directory in namespace.directories() {
            assert_eq!(NamespaceName::of_path(directory.as_str()), "a", "{directory}");
        }
        for name in namespace.names() {
            assert_eq!(NamespaceName::of_name(&name), "a", "{name}");
        }
    }

    #[test]
    fn names_of_built_in_directories_are_no_namespaces() {
        for good in ["a", "team-a", "ü"] {
            assert!(NamespaceName::new(good).is_ok(), "{good}");
        }
        for bad in
            ["", "a/b", "a b", "locks", "groups", "elections", "zookeeper", "..", "a:b", "*", "@a"]
        {
            assert!(NamespaceName::new(bad).is_err(), "{bad}");
        }
    }
}
