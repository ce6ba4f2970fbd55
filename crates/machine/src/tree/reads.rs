//! Reads of the tree under the access lists, and of the quotas of subtrees. Bound: a page reads at most [`SCAN_MAX`] znodes or
//! quotas.

use holdfast_types::{
    AclEntry, Data, Identity, NodeView, Page, Perms, Rejection, Revision, SessionId, Stat,
    SubtreeQuotaView, TreeRejection, ZnodePath,
};

use crate::tree::Tree;
use crate::tree::acl;
use crate::tree::quota;
use crate::tree::znode::Znode;
use crate::{Machine, SCAN_MAX};

/// The znodes below a znode at one revision. Their number needs no lock of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descendants {
    tree: Tree,
    of: ZnodePath,
}

impl Descendants {
    /// Costs one step for each znode.
    pub fn count(&self) -> usize {
        self.tree.below_after(&self.of, None).count()
    }
}

impl Machine {
    /// Returns the stat and the data of a znode.
    ///
    /// # Errors
    /// [`TreeRejection::NoZnode`], or [`TreeRejection::NotAllowed`] without the right to read.
    pub fn get(
        &self,
        path: &ZnodePath,
        identities: &[Identity],
    ) -> Result<(Stat, Data), Rejection> {
        let node = self.readable(path, identities)?;
        let data = self.computed_data(path, node).unwrap_or_else(|| node.data.clone());
        Ok((with_length_of(&data, node), data))
    }

    /// Returns the stat of a znode without an access check; `None` if it does not exist.
    pub fn stat(&self, path: &ZnodePath) -> Option<Stat> {
        self.tree.get(path).map(|node| self.stat_of(path, node))
    }

    /// Returns the stat of a znode, and the sorted names of its children. Costs one step for each child.
    ///
    /// # Errors
    /// [`TreeRejection::NoZnode`], or [`TreeRejection::NotAllowed`] without the right to read.
    pub fn list(
        &self,
        path: &ZnodePath,
        identities: &[Identity],
    ) -> Result<(Stat, Vec<String>), Rejection> {
        let node = self.readable(path, identities)?;
        let names =
            self.tree.children_after(path, None).map(|(child, _)| child.file_name().to_owned());
        Ok((self.stat_of(path, node), names.collect()))
    }

    /// Returns the stat of a znode that the caller may read, as ZooKeeper 3.9.3 does.
    ///
    /// # Errors
    /// [`TreeRejection::NoZnode`], or [`TreeRejection::NotAllowed`] without the right to read the znode.
    pub fn exists(&self, path: &ZnodePath, identities: &[Identity]) -> Result<Stat, Rejection> {
        let node = self.readable(path, identities)?;
        Ok(self.stat_of(path, node))
    }

    /// Returns the access list and the stat of a znode. A caller without the right to change the list does not get the
    /// password hashes.
    ///
    /// # Errors
    /// [`TreeRejection::NoZnode`], or [`TreeRejection::NotAllowed`] without the right to read or to change the list.
    pub fn acl(
        &self,
        path: &ZnodePath,
        identities: &[Identity],
    ) -> Result<(Vec<AclEntry>, Stat), Rejection> {
        let node = self.node_at(path)?;
        acl::require(path, node, Perms::READ | Perms::ADMIN, identities)?;
        Ok((acl::redact(&node.acl, identities), self.stat_of(path, node)))
    }

    /// Returns a page of the children of a znode with their stats, in name order, after a name.
    ///
    /// # Errors
    /// [`TreeRejection::NoZnode`], or [`TreeRejection::NotAllowed`] without the right to read the znode itself.
    pub fn children_page(
        &self,
        path: &ZnodePath,
        identities: &[Identity],
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<NodeView>, Rejection> {
        self.readable(path, identities)?;
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

    /// Returns a page of a znode and everything below it, after a path: the znode first, then by directory and name. It
    /// omits unreadable znodes. A page may be short or empty, and still have a `next`.
    ///
    /// # Errors
    /// [`TreeRejection::NoZnode`], or [`TreeRejection::NotAllowed`] without the right to read the znode itself.
    pub fn subtree(
        &self,
        path: &ZnodePath,
        after: Option<&ZnodePath>,
        limit: usize,
        identities: &[Identity],
    ) -> Result<Page<NodeView>, Rejection> {
        let root = self.readable(path, identities)?;
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
            if acl::allows(&node.acl, Perms::READ, identities) {
                page.items.push(NodeView { path: at.clone(), stat: self.stat_of(at, node) });
            }
        }
        Ok(page)
    }

    /// Returns the sorted paths of a session's ephemerals with a prefix, including queue entries.
    pub fn ephemerals(&self, session: SessionId, prefix: &str) -> Vec<ZnodePath> {
        let mut paths = self.tree.node_indexes.ephemerals_of(session);
        let entries = self.locks.keys_of(session).filter_map(|key| {
            let lock = self.locks.get(&key.lock)?;
            lock.entry(&key.rank).map(|entry| entry.path.clone())
        });
        paths.extend(entries);
        paths.retain(|path| path.as_str().starts_with(prefix));
        paths.sort();
        paths
    }

    /// Returns the znodes below a znode, without itself.
    ///
    /// # Errors
    /// [`TreeRejection::NoZnode`], or [`TreeRejection::NotAllowed`] without the right to read the znode itself.
    pub fn descendants(
        &self,
        path: &ZnodePath,
        identities: &[Identity],
    ) -> Result<Descendants, Rejection> {
        self.readable(path, identities)?;
        Ok(Descendants { tree: self.tree.clone(), of: path.clone() })
    }

    /// The attached connection of a live session: the revision of the command that attached it. `None` for a session
    /// without a password.
    pub fn attached(&self, session: SessionId) -> Option<Revision> {
        self.sessions.get(session)?.attachment
    }

    /// Returns the stat with the length of the data that a read returns.
    fn stat_of(&self, path: &ZnodePath, node: &Znode) -> Stat {
        match self.computed_data(path, node) {
            Some(data) => with_length_of(&data, node),
            None => node.stat(),
        }
    }

    /// Computes the data of two kinds of nodes at read time. The directory of a held lock, if its data is empty, shows
    /// the token and the holder. `zookeeper_stats` shows the usage of its quota.
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

    fn readable(&self, path: &ZnodePath, identities: &[Identity]) -> Result<&Znode, Rejection> {
        let node = self.node_at(path)?;
        acl::require(path, node, Perms::READ, identities)?;
        Ok(node)
    }
}

fn with_length_of(data: &[u8], node: &Znode) -> Stat {
    Stat { data_length: i32::try_from(data.len()).unwrap_or(i32::MAX), ..node.stat() }
}

impl Machine {
    /// The quota of a subtree, without an access check.
    pub fn subtree_quota(&self, path: &ZnodePath) -> Option<SubtreeQuotaView> {
        self.tree.quotas.get(path)
    }

    /// A page of the quotas for whose path `is_visible` holds, by path, after one. A page may be short or empty, and still
    /// have a `next`.
    pub fn subtree_quotas(
        &self,
        after: Option<&ZnodePath>,
        limit: usize,
        is_visible: impl Fn(&ZnodePath) -> bool,
    ) -> Page<SubtreeQuotaView> {
        let mut page = Page { items: Vec::new(), next: None, revision: self.revision };
        let mut last: Option<ZnodePath> = None;
        for (read, quota) in self.tree.quotas.after(after).enumerate() {
            if page.items.len() >= limit || read >= SCAN_MAX {
                page.next = last.map(|path| path.to_string());
                break;
            }
            last = Some(quota.path.clone());
            if is_visible(&quota.path) {
                page.items.push(quota);
            }
        }
        page
    }

    /// The quotas of which a soft limit is exceeded, by path.
    pub fn quotas_above_soft_limit(&self) -> impl Iterator<Item = SubtreeQuotaView> + use<'_> {
        self.tree.quotas.above_soft()
    }

    /// The quotas of which a hard limit is nearly reached, by path.
    pub fn quotas_near_hard_limit(&self) -> impl Iterator<Item = SubtreeQuotaView> + use<'_> {
        self.tree.quotas.near_hard()
    }
}
