//! Writes the machine as a sequence of snapshot parts (`docs/contributing/formats/snapshot.md`).
//!
//! Bounds: a part has at most [`PART_ITEMS`] items, and about [`PART_BYTES`] unless one item alone is larger.

use std::hash::{Hash, Hasher};

use holdfast_types::{
    AuditItem, AuditRecord, RecipeKind, RecipeName, SessionEnd, SessionId, ZnodePath,
};

use crate::Machine;
use crate::auth::part::{AuthKey, AuthPart};
use crate::digest::DigestHasher;
use crate::recipe::RecipePart;
use crate::seal::ActiveSeal;
use crate::snapshot::part::{
    ClusterMemberPart, End, Head, NodePart, Part, SnapshotPart, weight_of_session,
};

/// The largest number of items in one part.
const PART_ITEMS: usize = 1024;
/// The approximate size in bytes at which a part ends. The item that reaches it is the last.
const PART_BYTES: usize = 256 * 1024;

/// The position after which the next part starts.
#[derive(Debug)]
enum DumpPosition {
    Head,
    Sessions(SessionId),
    Tombstones(SessionEnd, u64),
    Members,
    Nodes(Option<ZnodePath>),
    Recipes(Option<(RecipeKind, RecipeName)>),
    Auth(Option<AuthKey>),
    AuditEvicted,
    Audit(u64),
    LastBackup,
    Seal,
    Clocks,
    Leases(SessionId),
    End,
    Done,
}

/// The parts of a frozen machine, built one at a time.
#[derive(Debug)]
struct SnapshotParts {
    machine: Machine,
    stage: DumpPosition,
}

impl Machine {
    /// Returns the machine as parts. The iterator has a frozen view, so `apply` may continue, and builds each part on
    /// demand.
    pub fn dump(&self) -> impl Iterator<Item = SnapshotPart> + use<> {
        SnapshotParts { machine: self.clone(), stage: DumpPosition::Head }.map(SnapshotPart)
    }

    /// Returns a hash of the whole state except the rolling digest. Reads the whole state.
    pub fn state_digest(&self) -> u64 {
        let mut fold = DigestHasher::from(0);
        for SnapshotPart(part) in self.dump() {
            match part {
                Part::Head(head) => Head { digest: 0, ..head }.hash(&mut fold),
                part @ (Part::Sessions(_)
                | Part::Tombstones(_)
                | Part::Members(_)
                | Part::Nodes(_)
                | Part::End(_)
                | Part::Recipes(_)
                | Part::Auth(_)
                | Part::Audit(_)
                | Part::AuditEvicted(_)
                | Part::LastBackup(_)
                | Part::Seal(..)
                | Part::Clocks(_)
                | Part::Leases(_)) => part.hash(&mut fold),
            }
        }
        fold.finish()
    }

    /// Returns the rolling hash of the outcomes and events of all commands. O(1). Nodes of one [`DIGEST_SCHEMA`](crate::DIGEST_SCHEMA) that applied the
    /// same commands with the same stamps have the same digest, regardless of the batching into entries.
    pub fn digest(&self) -> u64 {
        self.digest
    }
}

impl Iterator for SnapshotParts {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        loop {
            let (part, stage) = match &self.stage {
                DumpPosition::Head => {
                    (Some(Part::Head(self.head())), DumpPosition::Sessions(SessionId(0)))
                }
                DumpPosition::Sessions(after) => self.sessions(*after),
                DumpPosition::Tombstones(end, after) => self.tombstones(*end, *after),
                DumpPosition::Members => (self.members(), DumpPosition::Nodes(None)),
                DumpPosition::Nodes(after) => self.nodes(after.as_ref()),
                DumpPosition::Recipes(after) => self.recipes(after.as_ref()),
                DumpPosition::Auth(after) => self.auth(after.as_ref()),
                DumpPosition::AuditEvicted => (self.audit_evicted(), DumpPosition::Audit(0)),
                DumpPosition::Audit(after) => self.audit(*after),
                DumpPosition::LastBackup => {
                    (self.machine.last_backup.map(Part::LastBackup), DumpPosition::Seal)
                }
                DumpPosition::Seal => {
                    let active = self.machine.seal.clone();
                    let part = active.map(|ActiveSeal { seal, closed }| {
                        Part::Seal(seal, closed.into_iter().collect())
                    });
                    (part, DumpPosition::Clocks)
                }
                DumpPosition::Clocks => (
                    self.machine.clocks.clone().map(Part::Clocks),
                    DumpPosition::Leases(SessionId(0)),
                ),
                DumpPosition::Leases(after) => self.leases(*after),
                DumpPosition::End => (Some(Part::End(self.end())), DumpPosition::Done),
                DumpPosition::Done => return None,
            };
            self.stage = stage;
            if part.is_some() {
                return part;
            }
        }
    }
}

impl SnapshotParts {
    fn head(&self) -> Head {
        let machine = &self.machine;
        let (sessions_minted, tombstones_minted) = machine.sessions.counters();
        Head {
            revision: machine.revision,
            now: machine.now,
            digest: machine.digest,
            cluster_id: machine.cluster_id,
            restored_at: machine.restored_at,
            level: machine.level,
            limits: machine.limits,
            grants: machine.locks.grants(),
            sessions_minted,
            tombstones_minted,
        }
    }

    fn sessions(&self, after: SessionId) -> (Option<Part>, DumpPosition) {
        let sessions = self.machine.sessions.iter_after(after);
        let items = fill(sessions.cloned(), |session| weight_of_session(session));
        match items.last() {
            Some(last) => {
                let stage = DumpPosition::Sessions(last.id);
                (Some(Part::Sessions(items)), stage)
            }
            None => (None, DumpPosition::Tombstones(SessionEnd::Expired, 0)),
        }
    }

    /// Outdated records are left out.
    fn leases(&self, after: SessionId) -> (Option<Part>, DumpPosition) {
        let start = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        let stored = self.machine.lease_records.range(start);
        let valid =
            stored.filter_map(|(session, _)| Some((*session, self.machine.record_of(*session)?)));
        let items = fill(valid, |_| 32);
        match items.last() {
            Some((last, _)) => {
                let stage = DumpPosition::Leases(*last);
                (Some(Part::Leases(items)), stage)
            }
            None => (None, DumpPosition::End),
        }
    }

    fn tombstones(&self, end: SessionEnd, after: u64) -> (Option<Part>, DumpPosition) {
        let tombstones = self.machine.sessions.tombstones_after(end, after);
        let tombstones = tombstones.map(|(number, ended)| (end, number, ended.clone()));
        let items = fill(tombstones, |(_, _, ended)| 64 + ended.name.as_str().len());
        match (items.last(), end) {
            (Some((_, last, _)), _) => {
                let stage = DumpPosition::Tombstones(end, *last);
                (Some(Part::Tombstones(items)), stage)
            }
            (None, SessionEnd::Expired) => (None, DumpPosition::Tombstones(SessionEnd::Closed, 0)),
            (None, SessionEnd::Closed) => (None, DumpPosition::Members),
        }
    }

    /// All members fit into one part.
    fn members(&self) -> Option<Part> {
        let members = &self.machine.members;
        let current =
            members.iter().map(|(node, it)| ClusterMemberPart::Current(*node, (**it).clone()));
        let retired = members.retired_iter();
        let retired = retired.map(|(node, it)| ClusterMemberPart::Retired(*node, (**it).clone()));
        let items: Vec<_> = current.chain(retired).collect();
        (!items.is_empty()).then_some(Part::Members(items))
    }

    fn nodes(&self, after: Option<&ZnodePath>) -> (Option<Part>, DumpPosition) {
        let nodes = self.machine.tree.iter_after(after);
        let items = fill(nodes.map(|(path, node)| NodePart::of(path, node)), NodePart::weight);
        match items.last() {
            Some(last) => {
                let stage = DumpPosition::Nodes(Some(last.path.clone()));
                (Some(Part::Nodes(items)), stage)
            }
            None => (None, DumpPosition::Recipes(None)),
        }
    }

    fn recipes(&self, after: Option<&(RecipeKind, RecipeName)>) -> (Option<Part>, DumpPosition) {
        let items = fill(self.machine.recipes.parts_after(after), RecipePart::weight);
        match items.last().map(RecipePart::key) {
            Some(last) => (Some(Part::Recipes(items)), DumpPosition::Recipes(Some(last))),
            None => (None, DumpPosition::Auth(None)),
        }
    }

    fn auth(&self, after: Option<&AuthKey>) -> (Option<Part>, DumpPosition) {
        let items = fill(self.machine.auth.parts_after(after), AuthPart::weight);
        match items.last().map(AuthPart::key) {
            Some(last) => (Some(Part::Auth(items)), DumpPosition::Auth(Some(last))),
            None => (None, DumpPosition::AuditEvicted),
        }
    }

    fn audit_evicted(&self) -> Option<Part> {
        let items: Vec<_> = self.machine.audit.evicted().collect();
        (!items.is_empty()).then_some(Part::AuditEvicted(items))
    }

    fn audit(&self, after: u64) -> (Option<Part>, DumpPosition) {
        let records = self.machine.audit.iter_after(after);
        // A few names and a detail.
        let items = fill(records.map(|record| AuditRecord::clone(record)), |record| {
            256 + record.items().map(AuditItem::stored_len).sum::<usize>()
        });
        match items.last().map(|record| record.number) {
            Some(last) => (Some(Part::Audit(items)), DumpPosition::Audit(last)),
            None => (None, DumpPosition::LastBackup),
        }
    }

    fn end(&self) -> End {
        End {
            sessions: self.machine.sessions.len() as u64,
            tombstones: self.machine.sessions.tombstones() as u64,
            members: (self.machine.members.len() + self.machine.members.retired_len()) as u64,
            znodes: self.machine.tree.len() as u64,
            recipes: self.machine.recipes.len() as u64,
            auth: self.machine.auth.len() as u64,
            audit: self.machine.audit.len() as u64,
        }
    }
}

/// Returns the first items, up to the bounds of a part.
fn fill<T>(items: impl Iterator<Item = T>, weight: impl Fn(&T) -> usize) -> Vec<T> {
    let (mut part, mut total) = (Vec::new(), 0);
    for item in items {
        total += weight(&item);
        part.push(item);
        if part.len() >= PART_ITEMS || total >= PART_BYTES {
            break;
        }
    }
    part
}
