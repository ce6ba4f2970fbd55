//! The streams and watches of a node, for operators.

use std::collections::BTreeMap;
use std::time::Instant;

use holdfast_types::{Revision, SessionId, ZnodePath};

use super::order::RegisteredStream;
use crate::service::Service;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamView {
    pub session: SessionId,
    /// The revision of the attachment.
    pub attachment: Revision,
    pub since: Instant,
    /// A persistent watch counts twice.
    pub watches: usize,
    /// Items in the outbox.
    pub queued: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchCounts {
    /// Streams with at least one watch.
    pub streams: usize,
    pub paths: usize,
    /// A persistent watch counts twice.
    pub watches: usize,
}

impl Service {
    /// Returns the streams of this node, the oldest first.
    pub fn streams_list(&self) -> Vec<StreamView> {
        let registry = self.observer().streams.registry.lock();
        let view = |(number, stream): (&_, &RegisteredStream)| StreamView {
            session: stream.session,
            attachment: stream.attachment,
            since: stream.since,
            watches: registry.table.len_of(*number),
            queued: stream.queue.len(),
        };
        registry.streams.iter().map(view).collect()
    }

    /// Returns the numbers of watching streams, watched paths and watches. O(1).
    pub fn watch_counts(&self) -> WatchCounts {
        let registry = self.observer().streams.registry.lock();
        let table = &registry.table;
        WatchCounts { streams: table.streams(), paths: table.paths(), watches: table.len() }
    }

    /// Returns the watched paths by session. `apply` waits while they are copied.
    pub fn watches_by_session(&self) -> BTreeMap<SessionId, Vec<ZnodePath>> {
        let registry = self.observer().streams.registry.lock();
        let mut found: BTreeMap<SessionId, Vec<ZnodePath>> = BTreeMap::new();
        for (number, stream) in &registry.streams {
            let mut paths = registry.table.paths_of(*number).cloned().peekable();
            if paths.peek().is_some() {
                found.entry(stream.session).or_default().extend(paths);
            }
        }
        found
    }

    /// Returns the watching sessions by path.
    pub fn watches_by_path(&self) -> BTreeMap<ZnodePath, Vec<SessionId>> {
        let mut found: BTreeMap<ZnodePath, Vec<SessionId>> = BTreeMap::new();
        for (session, paths) in self.watches_by_session() {
            for path in paths {
                found.entry(path).or_default().push(session);
            }
        }
        found
    }
}
