//! The sort order of the tree: by directory, then by name.
//!
//! The children of a directory are adjacent, so that listing them is one range scan, and a parent sorts before its
//! children.

use std::cmp::Ordering;

use holdfast_types::ZnodePath;

/// A path split into directory and name. The root has neither.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    path: ZnodePath,
    /// Where the directory ends; the name begins one byte later.
    new_shards: usize,
}

impl Place {
    /// The place of a znode.
    pub(crate) fn of(path: ZnodePath) -> Self {
        let new_shards = path.as_str().rfind('/').unwrap_or(0);
        Self { path, new_shards }
    }

    /// A place that sorts directly before the children of a directory. For the root it is the root's own.
    pub(crate) fn before_children_of(directory: &ZnodePath) -> Self {
        let path = directory.clone();
        let new_shards = if path.as_str().len() == 1 { 0 } else { path.as_str().len() };
        Self { path, new_shards }
    }

    /// The whole path.
    pub(crate) fn path(&self) -> &ZnodePath {
        &self.path
    }

    /// The path of the directory; empty for the root and its children.
    pub(crate) fn directory(&self) -> &str {
        self.path.as_str().get(..self.new_shards).unwrap_or("")
    }

    /// The last component; empty for the root.
    pub(crate) fn name(&self) -> &str {
        self.path.as_str().get(self.new_shards + 1..).unwrap_or("")
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        self.directory().cmp(other.directory()).then_with(|| self.name().cmp(other.name()))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str) -> Place {
        Place::of(ZnodePath::new(path).unwrap())
    }

    #[test]
    fn children_lie_side_by_side_and_after_their_parent() {
        let paths = ["/a/b/c", "/a-x", "/a", "/", "/a/b", "/a/b-x", "/a/b/d", "/b"];
        let mut places: Vec<_> = paths.iter().map(|path| place(path)).collect();
        places.sort();
        let sorted: Vec<_> = places.iter().map(|place| place.path().as_str()).collect();
        assert_eq!(sorted, ["/", "/a", "/a-x", "/b", "/a/b", "/a/b-x", "/a/b/c", "/a/b/d"]);
    }

    #[test]
    fn the_start_of_a_directory_sorts_before_its_children_only() {
        let start = Place::before_children_of(&ZnodePath::new("/a").unwrap());
        assert!(start < place("/a/b") && start > place("/a") && start > place("/b"));
        assert_eq!(Place::before_children_of(&ZnodePath::root()), place("/"));
    }
}
