//! The sort order of the tree: by directory, then by name.
//!
//! The children of a directory are adjacent, so one range scan lists them. A parent sorts before its children.

use std::cmp::Ordering;

use holdfast_types::ZnodePath;

/// A path with the end of its directory. The root has no directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeKey {
    path: ZnodePath,
    /// The length of the directory in bytes; the last component starts one byte later.
    directory_len: usize,
}

impl TreeKey {
    /// Creates the key of a znode.
    pub(crate) fn of(path: ZnodePath) -> Self {
        let directory_len = path.as_str().rfind('/').unwrap_or(0);
        Self { path, directory_len }
    }

    /// Creates a key that sorts directly before the children of a directory. For the root, it equals the key of the
    /// root.
    pub(crate) fn before_children_of(directory: &ZnodePath) -> Self {
        let path = directory.clone();
        let directory_len = if path.as_str().len() == 1 { 0 } else { path.as_str().len() };
        Self { path, directory_len }
    }

    /// The full path.
    pub(crate) fn path(&self) -> &ZnodePath {
        &self.path
    }

    /// The path of the directory; empty for the root and its children.
    pub(crate) fn directory(&self) -> &str {
        self.path.as_str().get(..self.directory_len).unwrap_or("")
    }
}

impl Ord for TreeKey {
    fn cmp(&self, other: &Self) -> Ordering {
        // Two directories of the same length end at the same byte, so the whole paths sort alike.
        if self.directory_len == other.directory_len {
            return self.path.cmp(&other.path);
        }
        self.directory().cmp(other.directory())
    }
}

impl PartialOrd for TreeKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str) -> TreeKey {
        TreeKey::of(ZnodePath::new(path).unwrap())
    }

    #[test]
    fn children_are_adjacent_and_sort_after_their_parent() {
        let paths = ["/a/b/c", "/a-x", "/a", "/", "/a/b", "/a/b-x", "/a/b/d", "/b"];
        let mut places: Vec<_> = paths.iter().map(|path| place(path)).collect();
        places.sort();
        let sorted: Vec<_> = places.iter().map(|place| place.path().as_str()).collect();
        assert_eq!(sorted, ["/", "/a", "/a-x", "/b", "/a/b", "/a/b-x", "/a/b/c", "/a/b/d"]);
    }

    #[test]
    fn keys_sort_by_directory_and_then_by_name() {
        let paths = ["/", "/a", "/a-x", "/a/b", "/a-/b", "/a0", "/ab/c", "/a/b/c", "/b", "/aa/b"];
        let paths = paths.map(|path| ZnodePath::new(path).unwrap());
        let starts = paths.iter().map(TreeKey::before_children_of);
        let keys: Vec<_> = paths.iter().cloned().map(TreeKey::of).chain(starts).collect();
        let parts = |key: &TreeKey| {
            let name = key.path().as_str().get(key.directory_len + 1..).unwrap_or_default();
            (key.directory().to_owned(), name.to_owned())
        };
        for (one, other) in keys.iter().flat_map(|one| keys.iter().map(move |other| (one, other))) {
            assert_eq!(one.cmp(other), parts(one).cmp(&parts(other)), "{one:?} {other:?}");
        }
    }

    #[test]
    fn the_start_of_a_directory_sorts_before_its_children_only() {
        let start = TreeKey::before_children_of(&ZnodePath::new("/a").unwrap());
        assert!(start < place("/a/b") && start > place("/a") && start > place("/b"));
        assert_eq!(TreeKey::before_children_of(&ZnodePath::root()), place("/"));
    }
}
