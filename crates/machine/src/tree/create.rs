//! Creates znodes with the checks of ZooKeeper, and their missing directories.
//!
//! An ephemeral sequential child of a lock's directory is a queue entry of that lock.

use holdfast_types::{
    Bound, Create, CreateKind, Data, LockName, LockPolicy, OpReply, Owner, Perms, Rejection,
    SessionId, Stamp, TreeRejection, ZnodePath,
};

use crate::Machine;
use crate::context::{ApplyContext, limit_reached};
use crate::lock::claims::{ClaimCall, Claims};
use crate::lock::entry_name::{EntryRecipe, SORTABLE_END};
use crate::lock::foreign::is_foreign;
use crate::lock::index::Lock;
use crate::lock::lock_entry::{LockEntry, SessionOwner};
use crate::lock::rank::{GrantRequest, Rank};
use crate::tree::acl;
use crate::tree::multi::Requester;
use crate::tree::quota::{self, COUNTED_MAX, Usage};
use crate::tree::znode::{Acl, Znode, ZnodeKind};
use crate::tree::{ZOOKEEPER, holds_locks};

/// The end of each counter that increments by one. No cluster reaches it.
pub(crate) const COUNTER_END: u64 = 1 << 62;

/// A znode that may be created: all checks are done.
#[derive(Debug)]
struct CreatePlan {
    directory: ZnodePath,
    /// Directories to create, parents first.
    missing: Vec<ZnodePath>,
    path: ZnodePath,
    kind: ZnodeKind,
    acl: Acl,
    /// The queue entry that the znode is.
    entry: Option<EntryPlan>,
    /// The quota that it sets: its path and the current usage.
    limits: Option<(ZnodePath, Usage)>,
}

/// A queue entry that may be created.
#[derive(Debug)]
struct EntryPlan {
    lock: LockName,
    session: SessionId,
    request: GrantRequest,
    rank: Rank,
    is_admitted: bool,
}

impl Machine {
    /// Creates a znode. An ephemeral sequential child of a lock's directory becomes a queue entry.
    pub(crate) fn create(
        &mut self,
        mut create: Create,
        by: Requester<'_>,
        ctx: &mut ApplyContext<'_>,
    ) -> Result<OpReply, Rejection> {
        let data = std::mem::take(&mut create.data);
        // kazoo creates the directory of its lock once, and then expects it. Curator and Go's client, whose names begin with
        // `_c_`, create a missing directory before each entry.
        // A persistent directory with the name of a queue entry would be foreign to HTTP callers of the lock above.
        let expects_directory = !create.parents
            && !create.name.starts_with("_c_")
            && !is_foreign(&create.directory, ZnodeKind::Persistent, false);
        let plan = self.plan(create, data.len(), by, ctx)?;
        for directory in &plan.missing {
            self.make_directory(directory, plan.acl.clone(), ctx);
        }
        let path = plan.path.clone();
        let kept = (expects_directory && plan.entry.is_some()).then(|| plan.directory.clone());
        self.put(plan, data, ctx)?;
        // A directory with a child is not in the node index.
        if let Some(directory) = kept.and_then(|kept| self.tree.get_mut(&kept)) {
            directory.keep();
        }
        let stat = self.tree.get(&path).map(Znode::stat).unwrap_or_default();
        Ok(OpReply::Created { path, stat })
    }

    fn put(
        &mut self,
        plan: CreatePlan,
        data: Data,
        ctx: &mut ApplyContext<'_>,
    ) -> Result<(), Rejection> {
        let CreatePlan { directory, path, kind, acl, entry, limits, .. } = plan;
        let node = Znode { acl, ..Znode::new(kind, data, ctx.revision, ctx.now) };
        let Some(EntryPlan { lock, session, request, rank, is_admitted }) = entry else {
            if let Some((limited, used)) = limits {
                self.tree.set_quota(&limited, &node.data, used);
            }
            self.add_node(&directory, path, node, ctx);
            return Ok(());
        };
        let Some(name) = self.session_name(session) else { return Err(reserved(&path)) };
        let owner = SessionOwner { id: session, session: name, owner: Owner::unnamed() };
        let claims = Claims::of(None, request.mode, ClaimCall::at(ctx.revision));
        let (permits, never_overtaken) = (request.permits, request.never_overtaken);
        let new = LockEntry::new(path, rank, owner, claims, ctx);
        let entry = LockEntry { permits, never_overtaken, ..new };
        self.enqueue(&lock, entry, is_admitted, node, ctx);
        Ok(())
    }

    /// Creates a missing directory: a container below `/locks`, elsewhere persistent.
    pub(crate) fn make_directory(
        &mut self,
        path: &ZnodePath,
        acl: Acl,
        ctx: &mut ApplyContext<'_>,
    ) {
        let Some(parent) = path.parent() else { return };
        let kind =
            if holds_locks(path) { ZnodeKind::Container(ctx.now) } else { ZnodeKind::Persistent };
        let node = Znode { acl, ..Znode::new(kind, Data::default(), ctx.revision, ctx.now) };
        self.add_node(&parent, path.clone(), node, ctx);
    }

    fn plan(
        &self,
        create: Create,
        bytes: usize,
        by: Requester<'_>,
        ctx: &mut ApplyContext<'_>,
    ) -> Result<CreatePlan, Rejection> {
        let Create { directory, name, kind, sequential, acl, parents, .. } = create;
        let acl = match acl {
            Some(acl) => {
                let path = child_path(&directory, &name).unwrap_or_else(|_| directory.clone());
                acl::normalize(&path, acl, by.identities)?
            }
            None => None,
        };
        let missing = if parents { self.missing_directories(&directory)? } else { Vec::new() };
        // A `zookeeper_limits` node is never created as a directory, because its quota would not be counted.
        if let Some(path) = missing.iter().find(|path| quota::limited_by(path).is_some()) {
            return Err(reserved(path));
        }
        ctx.charge_directories(missing.len())?;
        let nearest = missing.first().and_then(ZnodePath::parent);
        let nearest = nearest.as_ref().unwrap_or(&directory);
        let parent = self.open_to(nearest, by)?;
        let acl = acl::shared(acl, &parent.acl);
        let sequence = parent.next_sequence(!missing.is_empty());
        check_counter(sequence)?;
        let name = if sequential { format!("{name}{sequence:010}") } else { name };
        let path = child_path(&directory, &name)?;
        if missing.is_empty() && self.tree.contains(&path) {
            return Err(TreeRejection::ZnodeExists { path }.into());
        }
        if parent.is_ephemeral() {
            return Err(TreeRejection::NoChildrenForEphemerals { path: directory }.into());
        }
        let kind = kind_of(kind, by.session, ctx.now).ok_or_else(|| reserved(&path))?;
        self.check_data_length(bytes)?;
        self.check_room_for_znodes(missing.len() + 1)?;
        self.tree.check_quotas(&path, &missing.iter().chain(Some(&path)), bytes as u64)?;
        let limits = self.quota_set_by(&path, ctx)?;
        let lock = directory.as_lock().filter(|_| sequential);
        let entry = match (kind, lock) {
            (ZnodeKind::Ephemeral(session), Some(lock)) => {
                Some(self.plan_entry(lock, session, &path, sequence, ctx)?)
            }
            (ZnodeKind::Ephemeral(session), None) => {
                self.check_room_for_ephemeral(session)?;
                None
            }
            (ZnodeKind::Persistent | ZnodeKind::Container(_) | ZnodeKind::Ttl(_), _) => None,
        };
        if is_foreign(&path, kind, entry.is_some()) {
            self.check_not_beside_http_caller(&directory, &path)?;
        }
        if let Some(EntryPlan { lock, session, request, .. }) = &entry {
            self.check_no_downgrade_beside_http_waiter(lock, *session, request.recipe, &path)?;
        }
        Ok(CreatePlan { directory, missing, path, kind, acl, entry, limits })
    }

    /// The queue entry of a ZooKeeper client, if its lock has room for it.
    fn plan_entry(
        &self,
        lock: LockName,
        session: SessionId,
        path: &ZnodePath,
        sequence: u64,
        ctx: &ApplyContext<'_>,
    ) -> Result<EntryPlan, Rejection> {
        self.check_not_sharded(&lock)?;
        if sequence >= SORTABLE_END {
            return Err(limit_reached(Bound::Counter, SORTABLE_END));
        }
        let policy = self.locks.get(&lock).map_or(&LockPolicy::DEFAULT, Lock::policy);
        let request = GrantRequest::of_tree(EntryRecipe::of(path.file_name()), policy);
        self.check_room_for_entries(Some(session), 1)?;
        let position = self.locks.position(&lock, request, ctx.now);
        if !position.is_admitted {
            self.check_room_for_waiter(&lock)?;
        }
        let (rank, is_admitted) = (position.numbered(sequence), position.is_admitted);
        Ok(EntryPlan { lock, session, request, rank, is_admitted })
    }

    /// Returns the directory, if it exists, allows the caller to create children, and is not reserved.
    fn open_to(&self, directory: &ZnodePath, by: Requester<'_>) -> Result<&Znode, Rejection> {
        let node = self.allowed(directory, Perms::CREATE, by)?;
        if directory.as_str() == ZOOKEEPER {
            return Err(reserved(directory));
        }
        Ok(node)
    }

    /// Returns the path and the current usage of the quota that a new node sets, if it sets one.
    fn quota_set_by(
        &self,
        path: &ZnodePath,
        ctx: &mut ApplyContext<'_>,
    ) -> Result<Option<(ZnodePath, Usage)>, Rejection> {
        let Some(limited) = quota::limited_by(path) else { return Ok(None) };
        let Some((used, visited)) = self.tree.measure(&limited, COUNTED_MAX - ctx.counted) else {
            return Err(limit_reached(Bound::CountedAtOnce, COUNTED_MAX));
        };
        ctx.counted += visited;
        Ok(Some((limited, used)))
    }

    /// Returns the missing directories of a path including itself, parents first; at most one for each component.
    pub(crate) fn missing_directories(
        &self,
        directory: &ZnodePath,
    ) -> Result<Vec<ZnodePath>, Rejection> {
        let mut missing = Vec::new();
        let mut at = Some(directory.clone());
        while let Some(path) = at {
            match self.tree.get(&path) {
                Some(node) if node.is_ephemeral() => {
                    return Err(TreeRejection::NoChildrenForEphemerals { path }.into());
                }
                Some(node) => {
                    check_counter(node.counter().max(node.floor()))?;
                    break;
                }
                None => {
                    at = path.parent();
                    missing.push(path);
                }
            }
        }
        missing.reverse();
        Ok(missing)
    }

    /// Rejects new znodes beyond `znodes_max`.
    pub(crate) fn check_room_for_znodes(&self, count: usize) -> Result<(), Rejection> {
        let max = self.limits.znodes_max;
        if count > 0 && (self.tree.len() + count) as u64 > u64::from(max) {
            return Err(limit_reached(Bound::Znodes, max));
        }
        Ok(())
    }

    /// Rejects an ephemeral beyond `ephemerals_per_session_max`. The limit bounds the command that ends the session.
    fn check_room_for_ephemeral(&self, session: SessionId) -> Result<(), Rejection> {
        let max = self.limits.ephemerals_per_session_max;
        if self.tree.node_indexes.owned_by(session) >= u64::from(max) {
            return Err(limit_reached(Bound::EphemeralsPerSession, max));
        }
        Ok(())
    }

    /// Rejects data beyond `data_bytes_max`.
    pub(crate) fn check_data_length(&self, bytes: usize) -> Result<(), Rejection> {
        let max = self.limits.data_bytes_max;
        if bytes as u64 > u64::from(max) {
            return Err(limit_reached(Bound::DataBytes, max));
        }
        Ok(())
    }
}

/// Returns `None` for an ephemeral without a session, and for a TTL out of bounds.
fn kind_of(kind: CreateKind, session: Option<SessionId>, now: Stamp) -> Option<ZnodeKind> {
    match (kind, session) {
        (CreateKind::Persistent, _) => Some(ZnodeKind::Persistent),
        (CreateKind::Container, _) => Some(ZnodeKind::Container(now)),
        (CreateKind::Ephemeral, session) => session.map(ZnodeKind::Ephemeral),
        (CreateKind::Ttl { ms }, _) => {
            (1..=Create::TTL_MAX_MS).contains(&ms).then_some(ZnodeKind::Ttl(ms))
        }
    }
}

/// The rejection of a path that clients cannot use.
pub(crate) fn reserved(path: &ZnodePath) -> Rejection {
    Rejection::Tree(TreeRejection::Reserved { path: path.clone() })
}

/// Returns the path of a child.
pub(crate) fn child_path(directory: &ZnodePath, name: &str) -> Result<ZnodePath, Rejection> {
    if name.contains('/') || name.is_empty() {
        return Err(reserved(directory));
    }
    let too_long = |_| limit_reached(Bound::PathLength, ZnodePath::MAX_LEN as u64);
    directory.child(name).map_err(too_long)
}

/// Rejects a child number beyond the end of the counter.
pub(crate) fn check_counter(sequence: u64) -> Result<(), Rejection> {
    if sequence >= COUNTER_END {
        return Err(limit_reached(Bound::Counter, COUNTER_END));
    }
    Ok(())
}
