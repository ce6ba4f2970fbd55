//! Builds a machine from the parts of a snapshot.
//!
//! For any input, the result is an error or a machine that satisfies all invariants. A load rebuilds the indexes.

use std::sync::Arc;

use holdfast_types::{
    AccessList, AcquireOptions, Create, FeatureLevel, LockPolicy, SessionEnd, Ticket, ZnodePath,
};
use thiserror::Error;

use crate::Machine;
use crate::lock::claims::Claims;
use crate::lock::cooldown::{Cooldowns, LockDelay};
use crate::lock::index::LockIndex;
use crate::lock::lock_entry::LockEntry;
use crate::lock::rank::Rank;
use crate::recipe::RecipePart;
use crate::seal::ActiveSeal;
use crate::session::store::{Session, Sessions, Tombstone};
use crate::snapshot::part::{
    ClusterMemberPart, End, Head, LockEntryPart, NodePart, Part, SnapshotPart,
};
use crate::tree::znode::{LockDirectory, Znode, ZnodeKind, ZnodeRole};
use crate::tree::{Tree, acl};

/// The reason why parts are not a machine. The node then needs another snapshot: from a peer, or an older one with its
/// log.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// The first part is not the head.
    #[error("the snapshot does not begin with its head")]
    NoHead,
    /// A newer program wrote the snapshot.
    #[error(
        "the cluster has feature level {found}, and this program knows levels up to {}: upgrade this node",
        FeatureLevel::NEWEST
    )]
    Level { found: FeatureLevel },
    /// A part is out of order.
    #[error("the snapshot's parts are out of order at {part}")]
    OutOfOrder { part: &'static str },
    /// Two items have the same identity.
    #[error("the snapshot names {what} twice")]
    Twice { what: String },
    /// The last part is missing, or its item counts differ from the loaded items.
    #[error("the snapshot is cut short")]
    CutShort,
    /// An item is invalid, or contradicts other items.
    #[error("the snapshot contradicts itself: {what}")]
    Unsound {
        /// The violated invariant.
        what: String,
    },
}

/// A machine that is being loaded.
#[derive(Debug)]
struct Loading {
    machine: Machine,
    /// The rank of the last part. Parts come in the order of their ranks.
    rank: u8,
    end: Option<End>,
}

impl Machine {
    /// Loads the parts of a snapshot, rebuilds the indexes and checks all invariants. The state digest equals that of
    /// the dumped machine, and the rolling digest continues from it.
    ///
    /// # Errors
    /// [`LoadError`] for parts that are missing, out of order or contradictory. Never panics.
    pub fn load(parts: impl IntoIterator<Item = SnapshotPart>) -> Result<Self, LoadError> {
        let mut parts = parts.into_iter().map(|SnapshotPart(part)| part);
        let Some(Part::Head(head)) = parts.next() else { return Err(LoadError::NoHead) };
        if head.level > FeatureLevel::NEWEST {
            return Err(LoadError::Level { found: head.level });
        }
        let mut loading = Loading::begin(&head);
        for part in parts {
            loading.take(part)?;
        }
        loading.finish()
    }
}

impl Loading {
    fn begin(head: &Head) -> Self {
        let mut machine = Machine::new();
        machine.revision = head.revision;
        machine.now = head.now;
        machine.digest = head.digest;
        machine.cluster_id = head.cluster_id;
        machine.restored_at = head.restored_at;
        machine.level = head.level;
        machine.limits = head.limits;
        machine.locks = LockIndex::new(head.grants);
        machine.sessions = Sessions::restored(head.sessions_minted, head.tombstones_minted);
        machine.tree = Tree::empty();
        Self { machine, rank: 0, end: None }
    }

    fn member(&mut self, part: ClusterMemberPart) -> Result<(), LoadError> {
        let members = &mut self.machine.members;
        let (node, is_first) = match part {
            ClusterMemberPart::Current(node, member) => (node, members.restore(node, member)),
            ClusterMemberPart::Retired(node, end) => (node, members.restore_retired(node, end)),
        };
        first(is_first, &format!("node {node}"))
    }

    fn take(&mut self, part: Part) -> Result<(), LoadError> {
        let (rank, name) = match &part {
            Part::Head(_) => (0, "the head"),
            Part::Sessions(_) => (1, "the sessions"),
            Part::Tombstones(_) => (2, "the tombstones"),
            Part::Members(_) => (3, "the members"),
            Part::Nodes(_) => (4, "the nodes"),
            Part::Recipes(_) => (5, "the recipes"),
            Part::Auth(_) => (6, "the authorization"),
            Part::AuditEvicted(_) => (7, "the evicted audit records"),
            Part::Audit(_) => (8, "the audit trail"),
            Part::LastBackup(_) => (9, "the last backup"),
            Part::Seal(..) => (10, "the seal"),
            Part::Clocks(_) => (11, "the clocks"),
            Part::Leases(_) => (12, "the leases"),
            Part::End(_) => (13, "the end"),
        };
        if rank < self.rank || rank == 0 || self.end.is_some() {
            return Err(LoadError::OutOfOrder { part: name });
        }
        self.rank = rank;
        match part {
            Part::Head(_) => Ok(()),
            Part::Sessions(sessions) => each(sessions, |session| self.session(session)),
            Part::Tombstones(tombstones) => each(tombstones, |part| self.tombstone(part)),
            Part::Members(members) => each(members, |part| self.member(part)),
            Part::Nodes(nodes) => each(nodes, |node| self.node(node)),
            Part::Recipes(recipes) => each(recipes, |recipe| self.recipe(recipe)),
            Part::Auth(items) => each(items, |item| {
                let what = format!("{:?} of the authorization", item.key());
                if self.machine.auth.restore(item) { Ok(()) } else { Err(twice(what)) }
            }),
            Part::AuditEvicted(items) => each(items, |(class, evicted)| {
                let is_first = self.machine.audit.restore_evicted(class, evicted);
                first(is_first, &format!("evicted records of {}", class.as_str()))
            }),
            Part::Audit(records) => each(records, |record| {
                let what = format!("audit record {}", record.number);
                if self.machine.audit.restore(record) { Ok(()) } else { Err(twice(what)) }
            }),
            Part::LastBackup(backup) => {
                first(self.machine.last_backup.replace(backup).is_none(), "the last backup")
            }
            Part::Seal(seal, closed) => {
                let closed = closed.into_iter().collect();
                first(self.machine.seal.replace(ActiveSeal { seal, closed }).is_none(), "the seal")
            }
            Part::Clocks(clocks) => {
                first(self.machine.clocks.replace(clocks).is_none(), "the clocks")
            }
            Part::Leases(leases) => each(leases, |(session, record)| {
                let previous = self.machine.lease_records.insert(session, record);
                first(previous.is_none(), &format!("lease {}", session.0))
            }),
            Part::End(end) => {
                self.end = Some(end);
                Ok(())
            }
        }
    }

    fn session(&mut self, mut shared: Arc<Session>) -> Result<(), LoadError> {
        let session = Arc::make_mut(&mut shared);
        let what = format!("session {}", session.name);
        if !session.ended_attempts.is_within_bounds() {
            return Err(unsound(format!("{what} has too many records of left locks")));
        }
        if !session.memo.rebuild() {
            return Err(unsound(format!(
                "{what} has too many remembered answers, or a repeated request number"
            )));
        }
        session.queue_entries = 0;
        if self.machine.sessions.restore(shared) { Ok(()) } else { Err(twice(what)) }
    }

    fn tombstone(
        &mut self,
        (end, number, tombstone): (SessionEnd, u64, Tombstone),
    ) -> Result<(), LoadError> {
        let what = format!("session {}", tombstone.name);
        let new = self.machine.sessions.restore_tombstone(number, end, tombstone);
        if new { Ok(()) } else { Err(twice(what)) }
    }

    fn node(&mut self, part: NodePart) -> Result<(), LoadError> {
        if !acl::is_within_bounds(&part.acl) {
            return Err(unsound(format!("the access list of {} is invalid", part.path)));
        }
        if let ZnodeKind::Ttl(ms) = part.kind
            && !(1..=Create::TTL_MAX_MS).contains(&ms)
        {
            return Err(unsound(format!(
                "{} has a TTL of {ms} ms, which is out of bounds",
                part.path
            )));
        }
        let mut node = Znode::new(part.kind, part.data, part.czxid, part.ctime);
        node.mzxid = part.mzxid;
        node.pzxid = part.pzxid;
        node.mtime = part.mtime;
        node.version = part.version;
        node.aversion = part.aversion;
        node.acl = (!part.acl.is_empty()).then(|| AccessList::new(part.acl).into());
        node.created = part.created;
        let what = format!("znode {}", part.path);
        node.role = match (part.lock_directory, part.entry) {
            (None, None) => ZnodeRole::Plain,
            (Some(directory), None) if is_sound_directory(&directory) => {
                ZnodeRole::Directory(directory.into())
            }
            (Some(_), None) => {
                let detail = format!("{what} has an invalid policy or cooldown");
                return Err(unsound(detail));
            }
            (None, Some(entry)) => {
                ZnodeRole::LockEntry(self.entry(&part.path, &node, entry)?.into())
            }
            (Some(_), Some(_)) => {
                return Err(unsound(format!("{what} is both a lock directory and a queue entry")));
            }
        };
        if self.machine.tree.restore(part.path, node) { Ok(()) } else { Err(twice(what)) }
    }

    fn entry(
        &self,
        path: &ZnodePath,
        node: &Znode,
        part: LockEntryPart,
    ) -> Result<LockEntry, LoadError> {
        let session = match node.kind {
            ZnodeKind::Ephemeral(session) => self.machine.sessions.get(session),
            ZnodeKind::Persistent | ZnodeKind::Container(_) | ZnodeKind::Ttl(_) => None,
        };
        let is_within_bounds = is_sound_entry(&part);
        let claims = Claims::restore(part.claims);
        let (Some(session), Some(claims), true) = (session, claims, is_within_bounds) else {
            let detail = format!("entry {path} has no live session, or invalid claims or options");
            return Err(unsound(detail));
        };
        let (class, at) = part.rank;
        Ok(LockEntry {
            path: path.clone(),
            rank: Rank { class, at, sequence: part.sequence },
            session: session.id,
            session_name: session.name.clone(),
            owner: part.owner,
            ticket: Ticket(node.czxid.0),
            requested_in: part.requested_in,
            since: node.ctime,
            wait_ms: part.wait_ms,
            claims,
            mode: part.mode,
            value_by: part.value_by,
            never_overtaken: part.never_overtaken,
            any_shard: part.any_shard,
            permits: part.permits,
            options: part.options,
            multi_lock: part.multi_lock,
            hold: part.hold,
        })
    }

    fn recipe(&mut self, part: RecipePart) -> Result<(), LoadError> {
        let (_, name) = part.key();
        match self.machine.recipes.restore(part) {
            Ok(true) => Ok(()),
            Ok(false) => Err(twice(format!("recipe {name}"))),
            Err(what) => Err(unsound(what)),
        }
    }

    fn finish(mut self) -> Result<Machine, LoadError> {
        let machine = &mut self.machine;
        let loaded = End {
            sessions: machine.sessions.len() as u64,
            tombstones: machine.sessions.tombstones() as u64,
            members: (machine.members.len() + machine.members.retired_len()) as u64,
            znodes: machine.tree.len() as u64,
            recipes: machine.recipes.len() as u64,
            auth: machine.auth.len() as u64,
            audit: machine.audit.len() as u64,
        };
        if self.end != Some(loaded) {
            return Err(LoadError::CutShort);
        }
        machine.tree.recount();
        machine.start_namespaces();
        let (locks, counts) = machine.rebuild_locks().map_err(unsound)?;
        machine.locks = locks;
        for (session, count) in counts {
            machine.sessions.set_queue_entries(session, |_| count);
        }
        machine.recipes.rebuild().map_err(unsound)?;
        machine.check_invariants().map_err(unsound)?;
        Ok(self.machine)
    }
}

fn each<T>(
    items: Vec<T>,
    mut take: impl FnMut(T) -> Result<(), LoadError>,
) -> Result<(), LoadError> {
    items.into_iter().try_for_each(&mut take)
}

/// Rejects what an earlier part had already.
fn first(is_first: bool, what: &str) -> Result<(), LoadError> {
    if is_first { Ok(()) } else { Err(twice(what.to_owned())) }
}

fn twice(what: String) -> LoadError {
    LoadError::Twice { what }
}

fn unsound(what: String) -> LoadError {
    LoadError::Unsound { what }
}

/// Whether a machine may have written the values of a lock.
fn is_sound_directory(directory: &LockDirectory) -> bool {
    let policy = directory.stored_policy.as_ref().map(|stored| stored.policy);
    policy.is_none_or(|policy| policy.is_within_bounds() && policy != LockPolicy::DEFAULT)
        && directory.cooldowns.as_deref().is_none_or(are_sound_cooldowns)
}

fn are_sound_cooldowns(cooldowns: &Cooldowns) -> bool {
    let Cooldowns { cooldown, delay, .. } = cooldowns;
    let delay_is_sound = delay.as_ref().is_none_or(|delay| {
        let sorted = delay.lost.is_sorted_by(|a, b| a < b);
        delay.since <= delay.until && sorted && delay.lost.len() <= LockDelay::LOST_MAX
    });
    cooldown.is_none_or(|cooldown| cooldown.since <= cooldown.until)
        && delay_is_sound
        && *cooldowns != Cooldowns::NONE
}

/// Whether a machine may have written the values of a queue entry.
fn is_sound_entry(entry: &LockEntryPart) -> bool {
    let is_within_bounds = |options: &AcquireOptions| {
        options.out_of_bounds().is_none()
            && options.value.as_ref().is_none_or(|value| value.len() <= AcquireOptions::VALUE_MAX)
            && *options != AcquireOptions::PLAIN
    };
    (1..=LockPolicy::LIMIT_MAX).contains(&entry.permits)
        && entry.options.as_deref().is_none_or(is_within_bounds)
        && entry.multi_lock.as_ref().is_none_or(|locks| locks.is_multi_lock())
}
