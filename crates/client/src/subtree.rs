//! A part of the tree, kept on this side: read once, then followed change by change.
//!
//! Owns that nothing is missed without a word: it goes on from the revision up to which it has heard, at whichever node
//! answers, and when the cluster no longer remembers so far it reads everything anew and says that there is a gap. What is
//! told is what the copy did, so a node that changed twice in a moment may be told once, as it is then.
//! Bounds: [`NODES_MAX`] nodes; of what was heard and not told yet, one answer. Nothing happens between two calls.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use holdfast_api::ErrorCode;
use holdfast_types::{Revision, ZnodePath};

use crate::error::argument;
use crate::nodes::{Node, is, too_many};
use crate::{Client, Error};

/// Nodes of one copy at most.
const NODES_MAX: usize = 100_000;
/// How long one call waits for a change.
const WAIT: Duration = Duration::from_secs(20);

/// What has become of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// There is a node that was not there.
    Created(ZnodePath),
    /// Its data is another, or it was deleted and created again.
    Changed(ZnodePath),
    /// It is gone.
    Deleted(ZnodePath),
    /// The cluster has forgotten what happened between these revisions, so everything was read anew: compare, if it matters.
    Gap {
        /// What was known before.
        since: Revision,
        /// What is known now.
        until: Revision,
    },
}

/// A node and everything below it, as of [`Subtree::revision`] or later. Brought up to date by [`Subtree::next`].
#[derive(Debug)]
pub struct Subtree {
    client: Client,
    root: ZnodePath,
    nodes: BTreeMap<ZnodePath, Node>,
    /// Everything up to here is in `nodes`.
    revision: Revision,
    /// Everything up to here is in `nodes` or in `heard`. Invariant: not before `revision`.
    heard_until: Revision,
    /// Nodes that changed and were not read again yet.
    heard: VecDeque<ZnodePath>,
}

impl Client {
    /// Reads a node and everything below it, to be followed from there. A path where nothing is yet will do.
    ///
    /// ```no_run
    /// # async fn example(client: holdfast_client::Client) -> Result<(), holdfast_client::Error> {
    /// let mut config = client.subtree("/shop/config").await?;
    /// loop {
    ///     for (path, node) in config.nodes() {
    ///         println!("{path} = {}", node.text());
    ///     }
    ///     println!("{:?}", config.next().await?);
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`] for what is no path, or has too much below it; otherwise see [`Error`].
    pub async fn subtree(&self, path: impl AsRef<str>) -> Result<Subtree, Error> {
        let root = ZnodePath::new(path).map_err(argument)?;
        let (nodes, revision) = read(self, &root).await?;
        let heard = VecDeque::new();
        Ok(Subtree { client: self.clone(), root, nodes, revision, heard_until: revision, heard })
    }
}

impl Subtree {
    /// Where it begins.
    pub fn root(&self) -> &ZnodePath {
        &self.root
    }

    /// All nodes, in order of their paths.
    pub fn nodes(&self) -> &BTreeMap<ZnodePath, Node> {
        &self.nodes
    }

    /// One node.
    pub fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// No node is older here than at this revision of the cluster.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Waits for the next change, and takes it in. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`Error::Argument`] if it has grown beyond what is kept; otherwise see [`Error`]. Whatever it is, the next call goes
    /// on from what is known.
    pub async fn next(&mut self) -> Result<Change, Error> {
        loop {
            while let Some(path) = self.heard.front().cloned() {
                let read = self.client.calls().node(&path).await?;
                if read.is_some() && !has_room(&self.nodes, &path, NODES_MAX) {
                    return Err(too_many(&self.root, NODES_MAX));
                }
                self.heard.pop_front();
                if let Some(change) = self.take_in(path, read) {
                    return Ok(change);
                }
            }
            self.revision = self.heard_until;
            let (calls, since) = (self.client.calls(), self.revision);
            match calls.changes(&self.root, since, WAIT, false).await {
                Ok(body) => {
                    let paths = body.events.into_iter().map(|change| change.path);
                    self.heard.extend(paths.filter(|path| is_within(&self.root, path)));
                    self.heard_until = self.heard_until.max(body.revision);
                }
                Err(error) if is(&error, ErrorCode::RevisionCompacted) => {
                    return self.read_anew().await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// What is new about a node, which was just read.
    fn take_in(&mut self, path: ZnodePath, read: Option<Node>) -> Option<Change> {
        let Some(node) = read else {
            return self.nodes.remove(&path).map(|_| Change::Deleted(path));
        };
        match self.nodes.insert(path.clone(), node.clone()) {
            None => Some(Change::Created(path)),
            Some(before) if before != node => Some(Change::Changed(path)),
            Some(_) => None,
        }
    }

    async fn read_anew(&mut self) -> Result<Change, Error> {
        let since = self.revision;
        let (nodes, revision) = read(&self.client, &self.root).await?;
        (self.nodes, self.revision, self.heard_until) = (nodes, revision, revision);
        Ok(Change::Gap { since, until: revision })
    }
}

/// Whether a node may be kept beside these.
fn has_room<V>(nodes: &BTreeMap<ZnodePath, V>, path: &ZnodePath, max: usize) -> bool {
    nodes.len() < max || nodes.contains_key(path)
}

/// A watch tells of every path that begins so, `/ab` beside `/a/b`.
fn is_within(root: &ZnodePath, path: &ZnodePath) -> bool {
    let below = path.as_str().strip_prefix(root.as_str());
    root.as_str() == "/" || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Everything at a path and below it, none of it older than the revision.
async fn read(
    client: &Client,
    root: &ZnodePath,
) -> Result<(BTreeMap<ZnodePath, Node>, Revision), Error> {
    // Asked for first: what changes while the nodes are read is told by the first watch.
    let revision = client.calls().now(root).await?;
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
    fn what_is_created_later_finds_the_same_bound_and_what_is_there_may_change() {
        let path = |path: &str| ZnodePath::new(path).unwrap();
        let nodes = BTreeMap::from([(path("/a"), 1), (path("/a/b"), 2)]);
        assert!(has_room(&nodes, &path("/a/c"), 3));
        assert!(!has_room(&nodes, &path("/a/c"), 2));
        assert!(has_room(&nodes, &path("/a/b"), 2));
    }

    #[test]
    fn neighbours_that_begin_alike_are_not_within() {
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
