//! A cached subtree: read once, then updated change by change.
//!
//! The cache continues from its revision at any node. When the cluster no longer has that revision, the cache reads
//! everything again and reports a gap. It reports changes of the cache, so two quick changes of one node may appear as
//! one. Bounds: [`NODES_MAX`] nodes, and the pending changes of one answer. No task runs between two calls.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use holdfast_api::ErrorCode;
use holdfast_types::{Revision, ZnodePath};

use crate::error::argument;
use crate::tree::{CachedZnode, is, too_many};
use crate::{Client, Error};

/// Nodes in one cache.
const NODES_MAX: usize = 100_000;
/// The maximum time that one call waits for a change.
const WAIT: Duration = Duration::from_secs(20);

/// A change of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubtreeChange {
    /// A new node.
    Created(ZnodePath),
    /// New data, or the node was deleted and created again.
    Changed(ZnodePath),
    /// The node was deleted.
    Deleted(ZnodePath),
    /// The cluster no longer has the changes between these revisions, so the cache read everything again.
    Gap {
        /// The revision of the cache before.
        since: Revision,
        /// The revision of the cache now.
        until: Revision,
    },
}

/// A node and everything below it, as of [`Subtree::revision`] or later. [`Subtree::next_change`] updates it.
#[derive(Debug)]
pub struct Subtree {
    client: Client,
    root: ZnodePath,
    nodes: BTreeMap<ZnodePath, CachedZnode>,
    /// `nodes` contains all changes up to this revision.
    revision: Revision,
    /// `nodes` and `pending` contain all changes up to this revision, which is not before `revision`.
    received_until: Revision,
    /// Changed nodes that the cache has not read again yet.
    pending: VecDeque<ZnodePath>,
}

impl Client {
    /// Reads a node and everything below it into a cache that can be updated. The node need not exist.
    ///
    /// ```no_run
    /// # async fn example(client: holdfast_client::Client) -> Result<(), holdfast_client::Error> {
    /// let mut config = client.subtree("/shop/config").await?;
    /// loop {
    ///     for (path, node) in config.nodes() {
    ///         println!("{path} = {}", node.text());
    ///     }
    ///     println!("{:?}", config.next_change().await?);
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an invalid path, or too many nodes below it; otherwise see [`Error`].
    pub async fn subtree(&self, path: impl AsRef<str>) -> Result<Subtree, Error> {
        let root = ZnodePath::new(path).map_err(argument)?;
        let (nodes, revision) = read(self, &root).await?;
        let pending = VecDeque::new();
        Ok(Subtree {
            client: self.clone(),
            root,
            nodes,
            revision,
            received_until: revision,
            pending,
        })
    }
}

impl Subtree {
    /// The path of the topmost node.
    pub fn root(&self) -> &ZnodePath {
        &self.root
    }

    /// All cached nodes, in path order.
    pub fn nodes(&self) -> &BTreeMap<ZnodePath, CachedZnode> {
        &self.nodes
    }

    pub fn get(&self, path: &str) -> Option<&CachedZnode> {
        self.nodes.get(path)
    }

    /// No cached node is older than this revision of the cluster.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Waits for the next change and applies it. Dropping the future loses no change.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the subtree has too many nodes; otherwise see [`Error`]. The next call continues from the
    /// current state.
    pub async fn next_change(&mut self) -> Result<SubtreeChange, Error> {
        loop {
            while let Some(path) = self.pending.front().cloned() {
                let read = self.client.calls().node(&path).await?;
                if read.is_some() && !has_room(&self.nodes, &path, NODES_MAX) {
                    return Err(too_many(&self.root, NODES_MAX));
                }
                self.pending.pop_front();
                if let Some(change) = self.update(path, read) {
                    return Ok(change);
                }
            }
            self.revision = self.received_until;
            let (calls, since) = (self.client.calls(), self.revision);
            match calls.changes(&self.root, since, WAIT, false).await {
                Ok(body) => {
                    let paths = body.events.into_iter().map(|change| change.path);
                    self.pending.extend(paths.filter(|path| is_within(&self.root, path)));
                    self.received_until = self.received_until.max(body.revision);
                }
                Err(error) if is(&error, ErrorCode::RevisionCompacted) => {
                    return self.read_again().await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Updates the cache with a node that was just read, and returns the change, if any.
    fn update(&mut self, path: ZnodePath, read: Option<CachedZnode>) -> Option<SubtreeChange> {
        let Some(node) = read else {
            return self.nodes.remove(&path).map(|_| SubtreeChange::Deleted(path));
        };
        match self.nodes.insert(path.clone(), node.clone()) {
            None => Some(SubtreeChange::Created(path)),
            Some(before) if before != node => Some(SubtreeChange::Changed(path)),
            Some(_) => None,
        }
    }

    async fn read_again(&mut self) -> Result<SubtreeChange, Error> {
        let since = self.revision;
        let (nodes, revision) = read(&self.client, &self.root).await?;
        (self.nodes, self.revision, self.received_until) = (nodes, revision, revision);
        Ok(SubtreeChange::Gap { since, until: revision })
    }
}

fn has_room<V>(nodes: &BTreeMap<ZnodePath, V>, path: &ZnodePath, max: usize) -> bool {
    nodes.len() < max || nodes.contains_key(path)
}

/// A watch reports every path with this prefix, e.g. `/ab` as well as `/a/b` for `/a`.
fn is_within(root: &ZnodePath, path: &ZnodePath) -> bool {
    let below = path.as_str().strip_prefix(root.as_str());
    root.as_str() == "/" || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Reads a path and everything below it. Returns a revision that is not newer than any of the nodes.
async fn read(
    client: &Client,
    root: &ZnodePath,
) -> Result<(BTreeMap<ZnodePath, CachedZnode>, Revision), Error> {
    // The revision is read first, so that the first watch reports changes during the read of the nodes.
    let revision = client.calls().current_revision(root).await?;
    let mut nodes = BTreeMap::new();
    for path in client.calls().paths_below(root, NODES_MAX).await? {
        if let Some(node) = client.calls().node(&path).await? {
            nodes.insert(path, node);
        }
    }
    Ok((nodes, revision))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_node_counts_towards_the_bound_and_an_existing_one_does_not() {
        let path = |path: &str| ZnodePath::new(path).unwrap();
        let nodes = BTreeMap::from([(path("/a"), 1), (path("/a/b"), 2)]);
        assert!(has_room(&nodes, &path("/a/c"), 3));
        assert!(!has_room(&nodes, &path("/a/c"), 2));
        assert!(has_room(&nodes, &path("/a/b"), 2));
    }

    #[test]
    fn a_neighbour_with_the_same_prefix_is_not_within() {
        let path = |path: &str| ZnodePath::new(path).unwrap();
        for (root, inner, within) in [
            ("/a", "/a", true),
            ("/a", "/a/b", true),
            ("/a", "/ab", false),
            ("/a/b", "/a", false),
            ("/", "/a", true),
        ] {
            assert_eq!(is_within(&path(root), &path(inner)), within, "{inner} in {root}");
        }
    }
}
