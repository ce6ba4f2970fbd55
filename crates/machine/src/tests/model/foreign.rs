//! The model's rule for ZooKeeper clients that do not see HTTP callers. Scans all znodes.

use holdfast_types::*;
use holdfast_types::{LockRejection, Rejection};

use super::locks::Reader;
use super::{Model, Node, parent, znode};

/// Whether a name is that of a recipe that sees HTTP callers.
fn sees_http_callers(path: &str) -> bool {
    let digits = path.bytes().rev().take_while(u8::is_ascii_digit).count();
    let stem = &path[..path.len() - digits];
    let words = ["__READ__", "__rlock__", "__lock__", "__WRIT__", "lock-", "latch-"];
    digits >= 10 && words.iter().any(|word| stem.ends_with(word))
}

pub(super) fn is_foreign(path: &str, owner: i64, is_entry: bool) -> bool {
    let in_lock = znode(&parent(path)).as_lock().is_some();
    match owner {
        CONTAINER_OWNER => false,
        _ if is_entry => !sees_http_callers(path),
        owner if owner > 0 => in_lock,
        _ => in_lock && sees_http_callers(path),
    }
}

impl Node {
    fn is_http_caller(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.reader == Reader::Own)
    }

    fn is_foreign(&self) -> bool {
        let is_entry = self.entry.is_some();
        !self.is_http_caller() && is_foreign(&self.path, self.stat.ephemeral_owner, is_entry)
    }
}

impl Model {
    /// Rejects an HTTP caller beside a client that does not see it.
    pub(super) fn check_no_foreign_znode(&self, lock: &LockName) -> Result<(), Rejection> {
        match self.foreign_znodes(lock).first().cloned() {
            Some(path) => Err(LockRejection::ForeignRecipe { path }.into()),
            None => Ok(()),
        }
    }

    /// Of the directory, then of a semaphore in it.
    pub(super) fn foreign_znodes(&self, lock: &LockName) -> Vec<ZnodePath> {
        let directories = [format!("/locks/{lock}"), format!("/locks/{lock}/leases")];
        let found = directories.into_iter().flat_map(|directory| {
            let inside = |node: &&Node| parent(&node.path) == directory && node.is_foreign();
            let mut found: Vec<_> =
                self.nodes.iter().filter(inside).map(|n| znode(&n.path)).collect();
            found.sort();
            found
        });
        found.collect()
    }

    /// Rejects a client that does not see an HTTP caller of the same lock.
    pub(super) fn check_foreign_create(
        &self,
        path: &str,
        owner: i64,
        is_entry: bool,
    ) -> Result<(), Rejection> {
        let directory = parent(path);
        let semaphore = directory.strip_suffix("/leases");
        let is_beside = |node: &&Node| {
            let at = parent(&node.path);
            node.is_http_caller() && (at == directory || Some(at.as_str()) == semaphore)
        };
        if is_foreign(path, owner, is_entry) && self.nodes.iter().any(|node| is_beside(&node)) {
            return Err(LockRejection::ForeignRecipe { path: znode(path) }.into());
        }
        let stem = path.trim_end_matches(|digit: char| digit.is_ascii_digit());
        let inside = || self.nodes.iter().filter(|node| parent(&node.path) == directory);
        let holds = |node: &Node| node.entry.as_ref().is_some_and(|entry| entry.hold.is_some());
        let writes = |node: &Node| {
            let name = node.entry.as_ref().map(|entry| entry.reader);
            node.stat.ephemeral_owner == owner && holds(node) && name == Some(Reader::Exclusive)
        };
        let waits = |node: &Node| node.is_http_caller() && !holds(node);
        if is_entry && stem.ends_with("__READ__") && inside().any(writes) && inside().any(waits) {
            return Err(LockRejection::ForeignRecipe { path: znode(path) }.into());
        }
        Ok(())
    }
}
