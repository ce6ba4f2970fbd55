//! Changes of znodes that bypass the queue of a lock, such as the delete of another session's queue entry.
//!
//! Each needs the right of the call for which it stands, and leaves a record in the audit trail. A session may delete its
//! own entries, and a subject those of its sessions: that is how ZooKeeper clients release. Bound: one step for each
//! znode that the operations name, and for each of at most [`DELETED_MAX`] znodes below them: a multi that names more needs
//! the right for every lock.

use std::collections::BTreeSet;

use holdfast_types::{
    AuditAction, AuditItem, Caller, Command, LockName, Multi, Op, Right, SessionId, SubjectName,
    ZnodePath,
};

use crate::Machine;
use crate::lock::lock_entry::LockEntry;
use crate::tree::change::DELETED_MAX;
use crate::tree::znode::Znode;

/// What a change of znodes does to a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bypass {
    /// `None` for every lock.
    pub(crate) lock: Option<LockName>,
    pub(crate) right: Right,
    /// The record in the audit trail, and what it names; `None` for a request that ends nothing.
    pub(crate) record: Option<(AuditAction, AuditItem)>,
}

/// The caller of the change, as far as it decides which queue entries are its own.
#[derive(Clone, Copy, Debug)]
struct EntryOwner<'a> {
    session: Option<SessionId>,
    subject: Option<&'a SubjectName>,
}

/// What the operations of a multi up to the present one would do.
#[derive(Debug)]
struct EarlierOps {
    /// How many more znodes they may delete with their subtrees.
    below_max: usize,
    /// Locks with a hold that they would end within its `min_hold`, which starts a cooldown.
    cooldowns: BTreeSet<LockName>,
}

impl Bypass {
    /// The lock, or a name that only a permission for every lock allows.
    pub(crate) fn lock_name(&self) -> &str {
        self.lock.as_ref().map_or("*", LockName::as_str)
    }
}

impl Machine {
    /// The bypasses of some operations, if they were executed now.
    pub(crate) fn bypasses(
        &self,
        caller: &Caller,
        subject: Option<&SubjectName>,
        ops: &[Op],
    ) -> Vec<Bypass> {
        let session = caller.session.as_ref().and_then(|session| self.session_id(session));
        let owner = EntryOwner { session: session.map(|(id, _)| id), subject };
        let mut earlier = EarlierOps { below_max: DELETED_MAX, cooldowns: BTreeSet::new() };
        ops.iter().flat_map(|op| self.bypasses_of(op, owner, &mut earlier)).collect()
    }

    fn bypasses_of(&self, op: &Op, owner: EntryOwner<'_>, earlier: &mut EarlierOps) -> Vec<Bypass> {
        let Some((path, node)) = named_by(op).and_then(|path| Some((path, self.tree.get(path)?)))
        else {
            return Vec::new();
        };
        match op {
            Op::Delete { recursive, .. } => {
                let below = recursive.then(|| self.tree.below_after(path, None));
                let mut below = below.into_iter().flatten().map(|(path, node)| (path, &**node));
                let seen: Vec<_> = below.by_ref().take(earlier.below_max).collect();
                earlier.below_max -= seen.len();
                // Operations on nested directories name a znode twice, and delete it once.
                let every_lock = || Bypass {
                    lock: None,
                    right: Right::LockForceRelease,
                    record: Some((AuditAction::ForceRelease, AuditItem::EveryLock)),
                };
                let rest = below.next().is_some().then(every_lock);
                let deleted: Vec<_> = std::iter::once((path, node)).chain(seen).collect();
                let in_min_hold = deleted.iter().filter_map(|(path, node)| {
                    let end = node.entry()?.min_hold_ends_at().filter(|end| *end > self.now);
                    end.and_then(|_| path.parent()?.as_lock())
                });
                earlier.cooldowns.extend(in_min_hold);
                let ended = deleted.into_iter().flat_map(|(path, node)| {
                    self.ended_with(path, node, owner, &earlier.cooldowns)
                });
                ended.chain(rest).collect()
            }
            Op::SetAcl { .. } if node.entry().is_none_or(|entry| !self.is_own(entry, owner)) => {
                let directory = if node.entry().is_some() { path.parent() } else { None };
                let lock = directory.as_ref().unwrap_or(path).as_lock();
                let record = Some((AuditAction::SetLockAcl, AuditItem::Acl(path.clone())));
                vec![Bypass { lock, right: Right::LockPolicy, record }]
            }
            // Clients of ZooKeeper request a release with the data of the holder's entry.
            Op::SetData { .. } if node.entry().is_some_and(|entry| !self.is_own(entry, owner)) => {
                let lock = path.parent().and_then(|directory| directory.as_lock());
                let of = |lock: LockName| Bypass {
                    lock: Some(lock),
                    right: Right::LockRequestRelease,
                    record: None,
                };
                lock.map(of).into_iter().collect()
            }
            Op::SetAcl { .. } | Op::SetData { .. } | Op::Create(_) | Op::Check { .. } => Vec::new(),
        }
    }

    /// What the delete of a znode ends.
    fn ended_with(
        &self,
        path: &ZnodePath,
        node: &Znode,
        owner: EntryOwner<'_>,
        cooldowns: &BTreeSet<LockName>,
    ) -> Vec<Bypass> {
        if let Some(entry) = node.entry() {
            let lock = path.parent().and_then(|directory| directory.as_lock());
            return match lock {
                Some(lock) if !self.is_own(entry, owner) => entry_ended(&lock, entry),
                Some(_) | None => Vec::new(),
            };
        }
        let (Some(directory), Some(lock)) = (node.lock_directory(), path.as_lock()) else {
            return Vec::new();
        };
        let of = |right, action, item: fn(LockName) -> AuditItem| Bypass {
            lock: Some(lock.clone()),
            right,
            record: Some((action, item(lock.clone()))),
        };
        let cooldown = directory.cooldowns.is_some() || cooldowns.contains(&lock);
        let cooldown = cooldown.then(|| {
            of(Right::LockForceRelease, AuditAction::ForceRelease, AuditItem::CooldownDeleted)
        });
        let policy = directory.stored_policy.as_ref().is_some_and(|policy| policy.kept);
        let policy = policy
            .then(|| of(Right::LockPolicy, AuditAction::SetLockPolicy, AuditItem::PolicyDeleted));
        cooldown.into_iter().chain(policy).collect()
    }

    /// A durable hold ends with its token, so nobody ends it as its own here.
    fn is_own(&self, entry: &LockEntry, owner: EntryOwner<'_>) -> bool {
        if entry.options().durable.is_some() {
            return false;
        }
        let theirs = || self.sessions.get(entry.session).and_then(|it| it.subject.as_ref());
        owner.session == Some(entry.session)
            || owner.subject.is_some_and(|subject| theirs() == Some(subject))
    }
}

/// The end of a hold, or of a wait: that of a multi-lock ends in all its locks.
fn entry_ended(lock: &LockName, entry: &LockEntry) -> Vec<Bypass> {
    let session = || entry.session_name.clone();
    let of = |lock: &LockName, item| Bypass {
        lock: Some(lock.clone()),
        right: Right::LockForceRelease,
        record: Some((AuditAction::ForceRelease, item)),
    };
    if let Some(token) = entry.token() {
        let ended = AuditItem::HoldEnded { lock: lock.clone(), session: session(), token };
        return vec![of(lock, ended)];
    }
    let left =
        |lock: &LockName| of(lock, AuditItem::WaitEnded { lock: lock.clone(), session: session() });
    match &entry.multi_lock {
        Some(locks) => locks.iter().map(left).collect(),
        None => vec![left(lock)],
    }
}

/// The change of znodes of a command that names `/locks` or a znode below it.
pub(crate) fn multi_on_locks(command: &Command) -> Option<&Multi> {
    if let Command::As { command, .. } | Command::Once { command, .. } = command {
        return multi_on_locks(command);
    }
    let Command::Multi(multi) = command else { return None };
    let mut ops = multi.then.iter().chain(&multi.otherwise);
    ops.any(|op| named_by(op).is_some()).then_some(multi)
}

/// The znode of `/locks` or below that an operation changes.
fn named_by(op: &Op) -> Option<&ZnodePath> {
    let (Op::Delete { path, .. } | Op::SetData { path, .. } | Op::SetAcl { path, .. }) = op else {
        return None;
    };
    let below = path.as_str().strip_prefix(ZnodePath::LOCKS)?;
    (below.is_empty() || below.starts_with('/')).then_some(path)
}
