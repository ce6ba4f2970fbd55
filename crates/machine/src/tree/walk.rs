//! Iterators over the tree, the children of a directory, and all nodes below it; by directory, then by name.
//!
//! The iterators collect nothing.

use std::ops::Bound;
use std::sync::Arc;

use holdfast_types::ZnodePath;

use crate::tree::Tree;
use crate::tree::key::TreeKey;
use crate::tree::znode::Znode;

/// A znode and its path.
pub(crate) type At<'a> = (&'a ZnodePath, &'a Arc<Znode>);

impl Tree {
    /// All nodes, directories before their children.
    pub(crate) fn iter(&self) -> impl Iterator<Item = At<'_>> {
        self.nodes.iter().map(|(place, node)| (place.path(), node))
    }

    /// The nodes after a path in the order of [`Tree::iter`]; all nodes without a path.
    pub(crate) fn iter_after(&self, after: Option<&ZnodePath>) -> impl Iterator<Item = At<'_>> {
        let start = match after {
            Some(path) => Bound::Excluded(TreeKey::of(path.clone())),
            None => Bound::Unbounded,
        };
        self.nodes.range((start, Bound::Unbounded)).map(|(place, node)| (place.path(), node))
    }

    /// The children of a directory in name order, after a name.
    pub(crate) fn children_after<'a>(
        &'a self,
        directory: &ZnodePath,
        after: Option<&str>,
    ) -> impl Iterator<Item = At<'a>> + use<'a> {
        let inside = TreeKey::before_children_of(directory);
        let start = match after.and_then(|name| directory.child(name).ok()) {
            Some(path) => TreeKey::of(path),
            None => inside.clone(),
        };
        self.nodes
            .range((Bound::Excluded(start), Bound::Unbounded))
            .take_while(move |(place, _)| place.directory() == inside.directory())
            .map(|(place, node)| (place.path(), node))
    }

    /// All nodes below a directory in the order of [`Tree::iter`], after a path: its children first, then deeper nodes.
    pub(crate) fn below_after<'a>(
        &'a self,
        directory: &ZnodePath,
        after: Option<&ZnodePath>,
    ) -> impl Iterator<Item = At<'a>> + use<'a> {
        let children = TreeKey::before_children_of(directory);
        let inside = children.directory().to_owned();
        // The prefix of all deeper directories. The smallest possible component is one space.
        let prefix = format!("{inside}/");
        let deeper = directory.child(" ").ok().map(|path| TreeKey::before_children_of(&path));
        let after = after.map(|path| TreeKey::of(path.clone()));
        let from = move |start: TreeKey| match &after {
            Some(after) if *after > start => after.clone(),
            Some(_) | None => start,
        };
        let children = (Bound::Excluded(from(children)), Bound::Unbounded);
        let deeper = deeper.map(|start| (Bound::Excluded(from(start)), Bound::Unbounded));
        let children =
            self.nodes.range(children).take_while(move |(place, _)| place.directory() == inside);
        let deeper = deeper.into_iter().flat_map(|range| self.nodes.range(range));
        children
            .chain(deeper.take_while(move |(place, _)| place.directory().starts_with(&prefix)))
            .map(|(place, node)| (place.path(), node))
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::{Data, Revision, Stamp};

    use super::*;
    use crate::tree::znode::ZnodeKind;

    fn path(path: &str) -> ZnodePath {
        ZnodePath::new(path).unwrap()
    }

    fn tree() -> Tree {
        let mut tree = Tree::new();
        for at in ["/a", "/a-x", "/a/b", "/a/b c", "/a-x/y", "/a/b/c", "/a/b c/d", "/a/ ", "/a/ / "]
        {
            let node = Znode::new(ZnodeKind::Persistent, Data::default(), Revision(1), Stamp(0));
            tree.insert(&path(at).parent().unwrap(), path(at), node);
        }
        tree
    }

    fn below(tree: &Tree, at: &str, after: Option<&str>) -> Vec<String> {
        let after = after.map(path);
        tree.below_after(&path(at), after.as_ref()).map(|(path, _)| path.to_string()).collect()
    }

    #[test]
    fn below_after_returns_all_descendants_and_no_siblings() {
        let tree = tree();
        assert_eq!(
            below(&tree, "/a", None),
            ["/a/ ", "/a/b", "/a/b c", "/a/ / ", "/a/b/c", "/a/b c/d"]
        );
        assert_eq!(below(&tree, "/a-x", None), ["/a-x/y"]);
        assert_eq!(below(&tree, "/a/b", None), ["/a/b/c"]);
        assert!(
            below(&tree, "/a/b/c", None).is_empty() && below(&tree, "/nowhere", None).is_empty()
        );
        assert_eq!(below(&tree, "/", None).len(), tree.len() - 1);
    }

    #[test]
    fn a_page_continues_after_the_last_path() {
        let tree = tree();
        for at in ["/", "/a", "/a-x"] {
            let all = below(&tree, at, None);
            for (read, last) in all.iter().enumerate() {
                assert_eq!(below(&tree, at, Some(last)), all[read + 1..], "{at} after {last}");
            }
            assert_eq!(below(&tree, at, Some(at)), all);
        }
    }
}
