//! Reads of the tree, with the access list applied, and pages of it. Bound: a page reads at most [`SCAN_MAX`] znodes.

use holdfast_types::{
    AclEntry, Data, Identity, NodeView, Page, Perms, Rejection, Revision, SessionId, Stat,
    TreeRejection, ZnodePath,
};

use crate::tree::acl;
use crate::tree::quota;
use crate::tree::znode::Znode;
use crate::{Machine, SCAN_MAX};

impl Machine {
    /// A znode's stat and data.
    ///
    /// # Errors
    /// [`TreeRejection::NoZnode`], or [`TreeRejection::NotAllowed`] without the right to read.
    pub fn get(&self, path: &ZnodePath, shown: &[Identity]) -> Result<(Stat, Data), Rejection> {
        let node = self.readable(path, shown)?;
        let data = self.computed_data(path, node).unwrap_or_else(|| node.data.clone());
        Ok((with_length_of(&data, node), data))
    }

    /// A znode's stat, for whichever caller asks; none if there is no such znode.
    pub fn stat(&self, path: &ZnodePath) -> Option<Stat> {
        self.tree.get(path).map(|node| self.stat_of(path, node))
    }

    /// A znode's stat, and the names of its children, sorted. As many steps as there are children.
    ///
    /// # Errors
    /// [`TreeRejection::NoZnode`], or [`TreeRejection::NotAllowed`] without the right to read.
    pub fn list(
        &self,
        path: &ZnodePath,
        shown: &[Identity],
    ) -> Result<(Stat, Vec<String>), Rejection> {
        let node = self.readable(path, shown)?;
        let names =
            self.tree.children_after(path, None).map(|(child, _)| child.file_name().to_owned());
        Ok((self.stat_of(path, node), names.collect()))
    }

    /// A znode's access list and stat. Who may not change the list does not see the hashes of passwords.
    ///
    /// # Errors
    /// [`TreeRejection::NoZnode`], or [`TreeRejection::NotAllowed`] without the right to read or to change the list.
    pub fn acl(
        &self,
        path: &ZnodePath,
        shown: &[Identity],
    ) -> Result<(Vec<AclEntry>, Stat), Rejection> {
        let node = self.node_at(path)?;
        acl::demand(path, node, Perms::READ | Perms::ADMIN, shown)?;
        Ok((acl::show(&node.acl, shown), self.stat_of(path, node)))
    }

    /// A page of a znode's children with their stats, by name, after a name.
    ///
    /// # Errors
    /// [`TreeRejection::NoZnode`], or [`TreeRejection::NotAllowed`] without the right to read the znode itself.
    pub fn children_page(
        &self,
        path: &ZnodePath,
        shown: &[Identity],
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<NodeView>, Rejection> {
        self.readable(path, shown)?;
        let mut page = Page::<NodeView> { items: Vec::new(), next: None, revision: self.revision };
        for (child, node) in self.tree.children_after(path, after) {
            if page.items.len() >= limit.min(SCAN_MAX) {
                page.next = page.items.last().map(|view| view.path.file_name().to_owned());
                break;
            }
            page.items.push(NodeView { path: child.clone(), stat: self.stat_of(child, node) });
        }
        Ok(page)
    }

    /// A page of a znode and everything below it, after a path: the znode first, then by directory and name. What may
    /// not be read is left out. A page may be short, or even empty, and still name where to go on.
    ///
    /// # Errors
    /// [`TreeRejection::NoZnode`], or [`TreeRejection::NotAllowed`] without the right to read the znode itself.
    pub fn subtree(
        &self,
        path: &ZnodePath,
        after: Option<&ZnodePath>,
        limit: usize,
        shown: &[Identity],
    ) -> Result<Page<NodeView>, Rejection> {
        let root = self.readable(path, shown)?;
        let root = after.is_none().then_some((path, root));
        let mut page = Page::<NodeView> { items: Vec::new(), next: None, revision: self.revision };
        let (mut last, mut read) = (None, 0);
        let below = self.tree.below_after(path, after).map(|(at, node)| (at, node.as_ref()));
        for (at, node) in root.into_iter().chain(below) {
            if page.items.len() >= limit || read >= SCAN_MAX {
                page.next = last.map(ZnodePath::to_string);
                break;
            }
            (last, read) = (Some(at), read + 1);
            if acl::allows(&node.acl, Perms::READ, shown) {
                page.items.push(NodeView { path: at.clone(), stat: self.stat_of(at, node) });
            }
        }
        Ok(page)
    }

    /// A session's ephemerals whose paths begin so, its places in queues included, sorted.
    pub fn ephemerals(&self, session: SessionId, prefix: &str) -> Vec<ZnodePath> {
        let mut paths = self.tree.orders.ephemerals_of(session);
        let places = self.locks.keys_of(session).filter_map(|key| {
            let lock = self.locks.get(key.lock.as_ref()?)?;
            lock.entry(&key.rank).map(|entry| entry.path.clone())
        });
        paths.extend(places);
        paths.retain(|path| path.as_str().starts_with(prefix));
        paths.sort();
        paths
    }

    /// How many znodes there are below a znode, without itself. As many steps.
    ///
    /// # Errors
    /// [`TreeRejection::NoZnode`], or [`TreeRejection::NotAllowed`] without the right to read the znode itself.
    pub fn descendants(&self, path: &ZnodePath, shown: &[Identity]) -> Result<u64, Rejection> {
        self.readable(path, shown)?;
        Ok(self.tree.below_after(path, None).count() as u64)
    }

    /// The connection that speaks for a live session: the revision that made it. None if it is known by name alone.
    pub fn attached(&self, session: SessionId) -> Option<Revision> {
        self.sessions.get(session)?.attachment
    }

    /// The stat; the length is that of the data as it is read.
    fn stat_of(&self, path: &ZnodePath, node: &Znode) -> Stat {
        match self.computed_data(path, node) {
            Some(said) => with_length_of(&said, node),
            None => node.stat(),
        }
    }

    /// What a node says beyond its data, made when it is read: the directory of a held lock without data of its own
    /// shows token and holder, `zookeeper_stats` what its quota's subtree has.
    fn computed_data(&self, path: &ZnodePath, node: &Znode) -> Option<Data> {
        let text = if node.data.is_empty() && node.last_token().is_some() {
            let holder = self.locks.get(&path.as_lock()?)?.holders.first()?;
            let name = holder.path.file_name().replace('\\', r"\\").replace('"', r#"\""#);
            format!(r#"{{"token":{},"holder":"{name}"}}"#, holder.token()?)
        } else {
            let used = self.tree.used(&quota::shown_by(path)?)?;
            format!("count={},bytes={}", used.count, used.bytes)
        };
        Some(text.into_bytes().into())
    }

    fn node_at(&self, path: &ZnodePath) -> Result<&Znode, Rejection> {
        self.tree
            .get(path)
            .ok_or_else(|| Rejection::Tree(TreeRejection::NoZnode { path: path.clone() }))
    }

    fn readable(&self, path: &ZnodePath, shown: &[Identity]) -> Result<&Znode, Rejection> {
        let node = self.node_at(path)?;
        acl::demand(path, node, Perms::READ, shown)?;
        Ok(node)
    }
}

fn with_length_of(data: &[u8], node: &Znode) -> Stat {
    Stat { data_length: i32::try_from(data.len()).unwrap_or(i32::MAX), ..node.stat() }
}
