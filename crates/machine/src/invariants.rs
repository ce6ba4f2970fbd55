//! Invariants that hold after each command. Tests, the simulator and the snapshot loader check them.
//!
//! A check reads the whole state. It rebuilds the lock index from the znodes and compares both (`lock/invariants.rs`).

use std::collections::BTreeMap;

use holdfast_types::{FencingToken, SessionEnd, SessionId, ZnodePath};

use crate::Machine;
use crate::session::store::{KnownSession, Session};
use crate::tree::create::COUNTER_END;
use crate::tree::znode::{LockDirectory, Znode, ZnodeKind};
use crate::tree::{BUILT_IN, holds_locks};

impl Machine {
    /// Checks all invariants.
    ///
    /// # Errors
    /// The first violated invariant, with the item that violates it.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.check_counters()?;
        self.check_sessions()?;
        self.check_closed_under_seal()?;
        self.check_tree()?;
        self.check_orders()?;
        let (rebuilt, places) = self.rebuild_locks()?;
        self.check_index(&rebuilt)?;
        self.check_queue_entry_counts(&places)?;
        self.check_locks()?;
        self.check_recipes()?;
        self.check_namespaces()?;
        self.check_members()?;
        self.auth.check()?;
        self.audit.check(self.revision)
    }

    fn check_counters(&self) -> Result<(), String> {
        let (sessions, tombstones) = self.sessions.counters();
        for counter in [self.revision.0, sessions, tombstones] {
            ensure(counter <= COUNTER_END, || "a counter exceeds its maximum".to_owned())?;
        }
        ensure(self.locks.grants() < FencingToken::END, || {
            "the token counter has reached 2^53".to_owned()
        })
    }

    fn check_closed_under_seal(&self) -> Result<(), String> {
        let mut closed = self.seal.iter().flat_map(|active| &active.closed);
        ensure(closed.all(|session| self.sessions.get(*session).is_some()), || {
            "a session that was closed under the seal is not open".to_owned()
        })
    }

    fn check_sessions(&self) -> Result<(), String> {
        let (sessions_minted, tombstones_minted) = self.sessions.counters();
        let mut names = 0;
        for session in self.sessions.iter() {
            let Session { id, name, attachment, .. }: &Session = session;
            names += 1;
            ensure(!name.is_durable() || session.queue_entries > 0, || {
                format!("session {name} of durable holds has no entry")
            })?;
            let attached = attachment.is_none_or(|at| at.0 > 0 && at <= self.revision);
            ensure(attached && attachment.is_some() == session.password.is_some(), || {
                format!("session {name} has a password without an attachment, or the reverse")
            })?;
            ensure(self.sessions.named(name) == Some(KnownSession::Open(*id)), || {
                format!("the name index does not contain session {name}")
            })?;
            let is_assigned = (1..=sessions_minted).contains(&id.0);
            ensure(is_assigned || SessionId::CHOSEN.contains(&id.0), || {
                format!("session {name} has a number that was never assigned")
            })?;
            ensure(session.generation <= COUNTER_END, || {
                format!("the lease of session {name} has a generation beyond the maximum")
            })?;
        }
        for end in [SessionEnd::Expired, SessionEnd::Closed] {
            for (number, tombstone) in self.sessions.tombstones_after(end, 0) {
                names += 1;
                let name = &tombstone.name;
                let found = self.sessions.named(name) == Some(KnownSession::Ended { end, number });
                ensure(found, || {
                    format!("the name index does not contain the tombstone of {name}")
                })?;
                ensure(number <= tombstones_minted, || {
                    "a tombstone has a number that was never assigned".to_owned()
                })?;
            }
        }
        let known = self.sessions.names_after(None).count();
        ensure(known == names && names == self.sessions.len() + self.sessions.tombstones(), || {
            "a name has neither a session nor a tombstone".to_owned()
        })
    }

    fn check_tree(&self) -> Result<(), String> {
        for path in BUILT_IN.iter().filter_map(|path| ZnodePath::new(path).ok()) {
            let kind = self.tree.get(&path).map(|node| node.kind);
            ensure(kind == Some(ZnodeKind::Persistent), || {
                format!("the built-in {path} is missing or not persistent")
            })?;
        }
        let mut children: BTreeMap<ZnodePath, u32> = BTreeMap::new();
        for (path, node) in self.tree.iter() {
            self.check_node(path, node)?;
            if let Some(parent) = path.parent() {
                let parent_node = self.tree.get(&parent);
                ensure(parent_node.is_some_and(|parent| !parent.is_ephemeral()), || {
                    format!("{path} has no parent, or an ephemeral parent")
                })?;
                *children.entry(parent).or_default() += 1;
            }
        }
        for (path, node) in self.tree.iter() {
            let counted = children.get(path).copied().unwrap_or(0);
            ensure(node.children == counted, || format!("{path} has a wrong number of children"))?;
        }
        Ok(())
    }

    fn check_node(&self, path: &ZnodePath, node: &Znode) -> Result<(), String> {
        if let ZnodeKind::Ephemeral(session) = node.kind {
            // Promise 8: the end of a session removes its ephemerals.
            ensure(self.sessions.get(session).is_some(), || {
                format!("ephemeral {path} has no live session")
            })?;
        }
        let revisions = [node.czxid, node.mzxid, node.pzxid];
        ensure(revisions.iter().all(|r| *r >= node.czxid && *r <= self.revision), || {
            format!("{path} has a revision before its creation or after the last command")
        })?;
        let built_in = BUILT_IN.contains(&path.as_str());
        ensure(built_in || node.czxid.0 > 0, || format!("{path} has no creation revision"))?;
        ensure(node.created <= COUNTER_END, || {
            format!("the child counter of {path} exceeds its maximum")
        })?;
        ensure(
            node.lock_directory().is_none_or(|lock_directory| {
                self.is_possible_directory(path, node, lock_directory)
            }),
            || format!("{path} has impossible lock directory state"),
        )
    }

    /// Whether a directory can have this lock directory state. Only directories of locks have any.
    fn is_possible_directory(
        &self,
        path: &ZnodePath,
        node: &Znode,
        lock_directory: &LockDirectory,
    ) -> bool {
        let LockDirectory { base, floor, .. } = lock_directory;
        // `base` is an earlier `floor` of the parent directory, and a floor never decreases.
        let above = path.parent().filter(holds_locks);
        let above = above.and_then(|parent| self.tree.get(&parent)).map_or(0, Znode::floor);
        *lock_directory != LockDirectory::default()
            && holds_locks(path)
            && !node.is_ephemeral()
            && base <= floor
            && *base <= above
            && *floor <= COUNTER_END
            && node.counter() <= COUNTER_END
            && (!lock_directory.is_of_lock() || path.as_lock().is_some())
            && (lock_directory.cooldowns.is_none() || lock_directory.last_token.is_some())
    }

    /// Compares the node index, the quota usage and the byte totals with those computed from the nodes and the
    /// sessions.
    fn check_orders(&self) -> Result<(), String> {
        let (orders, quotas, totals) = self.tree.rebuilt_indexes();
        let (kept_orders, kept_quotas, kept_totals) = self.tree.maintained_indexes();
        let kept_in_sessions = self.sessions.bytes() == self.sessions.counted_bytes();
        ensure(*kept_totals == totals && kept_in_sessions, || {
            "the totals differ from the znodes and the sessions".to_owned()
        })?;
        ensure(*kept_orders == orders, || "the node index differs from the nodes".to_owned())?;
        ensure(*kept_quotas == quotas, || "the quota usage differs from the nodes".to_owned())
    }
}

pub(crate) fn ensure(holds: bool, violation: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(violation()) }
}
