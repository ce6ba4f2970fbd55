//! The machine as a sequence of parts, for snapshots: `docs/formats/snapshot.md` says what is in them.
//!
//! Owns the shape of the parts and their order. Refuses to know bytes and files: the codec and the store do.
//! Bounds: a part has at most [`PART_ITEMS`] items and, unless one item alone is larger, about [`PART_BYTES`].

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use holdfast_types::{
    AclEntry, EntryId, FencingToken, Incarnation, Labels, Limits, LockName, NodeId, Outcome, Owner,
    Password, RequestId, Revision, SessionEnd, SessionId, SessionName, Stamp, Ttl, ZnodePath,
};
use serde::{Deserialize, Serialize};

use crate::Machine;
use crate::contender::Contender;
use crate::digest::Fold;
use crate::sessions::{Session, Tombstone};
use crate::znode::{Kind, Znode};

/// Items in one part at most.
const PART_ITEMS: usize = 1024;
/// Weight of the items of one part, roughly bytes; the item that reaches it is the last.
const PART_BYTES: usize = 256 * 1024;

/// A bounded piece of a snapshot. They come in the order of the variants, the first and the last exactly once.
/// Append-only: the order of the variants and fields is part of the format.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Part {
    /// Counters and limits.
    Head(Head),
    /// Live sessions, by number.
    Sessions(Vec<SessionPart>),
    /// Ended sessions that are still remembered: those that expired, then those that were closed, each in the order
    /// of their endings.
    Tombstones(Vec<TombstonePart>),
    /// The registry of nodes, by id.
    Members(Vec<(NodeId, Incarnation)>),
    /// Znodes, directories before their children.
    Nodes(Vec<NodePart>),
    /// How many items came: a snapshot that was cut short is recognised.
    End(End),
}

/// See [`Part::Head`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Head {
    /// Of the last command applied.
    pub revision: Revision,
    /// The largest stamp seen.
    pub now: Stamp,
    /// The rolling digest.
    pub digest: u64,
    /// The bounds in force.
    pub limits: Limits,
    /// Tokens minted so far.
    pub grants: u64,
    /// Session numbers given so far.
    pub sessions_minted: u64,
    /// Tombstone numbers given so far.
    pub tombstones_minted: u64,
}

/// A live session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionPart {
    /// Its number.
    pub id: SessionId,
    /// Its name.
    pub name: SessionName,
    /// What it lives without a renewal.
    pub ttl: Ttl,
    /// Its lease.
    pub generation: u64,
    /// Made for one lock.
    pub anonymous: bool,
    /// Since when.
    pub opened_at: Stamp,
    /// Its labels.
    pub labels: Labels,
    /// Locks it gave up, oldest first.
    pub given_up: Vec<(LockName, Owner)>,
    /// Remembered answers, oldest first.
    pub memo: Vec<(RequestId, Outcome)>,
    /// What another connection must show to take it over.
    pub password: Option<Password>,
    /// The connection that speaks for it.
    pub attachment: Option<Revision>,
}

/// The memory of an ended session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TombstonePart {
    /// Order of the endings.
    pub number: u64,
    /// Its name.
    pub name: SessionName,
    /// How it ended.
    pub end: SessionEnd,
    /// When.
    pub ended_at: Stamp,
}

/// How long a znode lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KindPart {
    /// Until deleted.
    Persistent,
    /// Until deleted or swept.
    Container,
    /// As long as this session.
    Ephemeral(SessionId),
    /// Until deleted, or swept when empty and unchanged for so many milliseconds.
    Ttl(u64),
}

/// A znode.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodePart {
    /// Where.
    pub path: ZnodePath,
    /// How long it lives.
    pub kind: KindPart,
    /// Its data.
    pub data: Arc<[u8]>,
    /// Revision that created it.
    pub czxid: Revision,
    /// Revision that last changed its data.
    pub mzxid: Revision,
    /// Revision that last created or deleted a child.
    pub pzxid: Revision,
    /// Stamp of the creation.
    pub ctime: Stamp,
    /// Stamp of the last change of its data.
    pub mtime: Stamp,
    /// Changes of its data.
    pub version: i32,
    /// Changes of its access list.
    pub aversion: i32,
    /// Its access list; empty if everybody may do everything.
    pub acl: Vec<AclEntry>,
    /// Children created ever.
    pub created: u64,
    /// When its last child went.
    pub emptied_at: Stamp,
    /// Of a lock's directory: the last token minted for it.
    pub last_token: Option<FencingToken>,
    /// Of a contender: its place.
    pub contender: Option<ContenderPart>,
}

/// A place in a lock's queue. The ticket is the node's `czxid`, the time its `ctime`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ContenderPart {
    /// Its number in the directory.
    pub sequence: u64,
    /// Who within the session.
    pub owner: Owner,
    /// Revision of its latest acquire.
    pub asked: Revision,
    /// Entries that are counted, sorted.
    pub entries: Vec<EntryId>,
    /// Entries that left, oldest first.
    pub left: Vec<EntryId>,
    /// Present on the holder.
    pub hold: Option<HoldPart>,
    /// How long its latest acquire waits, milliseconds.
    pub wait_ms: Option<u64>,
}

/// What the grant left on a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HoldPart {
    /// Its token.
    pub token: FencingToken,
    /// When.
    pub granted_at: Stamp,
    /// Revision of the grant.
    pub granted_in: Revision,
}

/// See [`Part::End`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct End {
    /// Sessions that came.
    pub sessions: u64,
    /// Tombstones that came.
    pub tombstones: u64,
    /// Nodes of the registry that came.
    pub members: u64,
    /// Znodes that came.
    pub znodes: u64,
}

/// What the next part begins after.
#[derive(Debug)]
enum Stage {
    Head,
    Sessions(SessionId),
    Tombstones(SessionEnd, u64),
    Members(Option<NodeId>),
    Nodes(Option<ZnodePath>),
    End,
    Done,
}

/// The parts of a frozen machine, made one at a time.
#[derive(Debug)]
struct Dump {
    machine: Machine,
    stage: Stage,
}

impl Machine {
    /// The machine as parts, from a frozen view: applying may go on meanwhile. Each part is made when asked for.
    pub fn dump(&self) -> impl Iterator<Item = Part> + use<> {
        Dump { machine: self.clone(), stage: Stage::Head }
    }

    /// Hash of everything the machine holds, except the rolling digest. Walks all of it.
    pub fn state_digest(&self) -> u64 {
        let mut fold = Fold::from(0);
        for part in self.dump() {
            match part {
                Part::Head(head) => Head { digest: 0, ..head }.hash(&mut fold),
                part @ (Part::Sessions(_)
                | Part::Tombstones(_)
                | Part::Members(_)
                | Part::Nodes(_)
                | Part::End(_)) => part.hash(&mut fold),
            }
        }
        fold.finish()
    }

    /// Hash of every command's outcome and events since the first. O(1). The same on nodes of one build that applied
    /// the same commands with the same stamps, however those were batched into entries.
    pub fn digest(&self) -> u64 {
        self.digest
    }
}

impl Iterator for Dump {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        loop {
            let (part, stage) = match &self.stage {
                Stage::Head => (Some(Part::Head(self.head())), Stage::Sessions(SessionId(0))),
                Stage::Sessions(after) => self.sessions(*after),
                Stage::Tombstones(end, after) => self.tombstones(*end, *after),
                Stage::Members(after) => self.members(*after),
                Stage::Nodes(after) => self.nodes(after.as_ref()),
                Stage::End => (Some(Part::End(self.end())), Stage::Done),
                Stage::Done => return None,
            };
            self.stage = stage;
            if part.is_some() {
                return part;
            }
        }
    }
}

impl Dump {
    fn head(&self) -> Head {
        let machine = &self.machine;
        let (sessions_minted, tombstones_minted) = machine.sessions.counters();
        Head {
            revision: machine.revision,
            now: machine.now,
            digest: machine.digest,
            limits: machine.limits,
            grants: machine.locks.grants,
            sessions_minted,
            tombstones_minted,
        }
    }

    fn sessions(&self, after: SessionId) -> (Option<Part>, Stage) {
        let sessions = self.machine.sessions.iter_after(after);
        let items = fill(sessions.map(|session| SessionPart::of(session)), SessionPart::weight);
        match items.last() {
            Some(last) => {
                let stage = Stage::Sessions(last.id);
                (Some(Part::Sessions(items)), stage)
            }
            None => (None, Stage::Tombstones(SessionEnd::Expired, 0)),
        }
    }

    fn tombstones(&self, end: SessionEnd, after: u64) -> (Option<Part>, Stage) {
        let tombstones = self.machine.sessions.tombstones_after(end, after);
        let tombstones = tombstones.map(|(number, Tombstone { name, ended_at })| {
            let (name, ended_at) = (name.clone(), *ended_at);
            TombstonePart { number, name, end, ended_at }
        });
        let items = fill(tombstones, |tombstone| 64 + tombstone.name.as_str().len());
        match (items.last(), end) {
            (Some(last), _) => {
                let stage = Stage::Tombstones(end, last.number);
                (Some(Part::Tombstones(items)), stage)
            }
            (None, SessionEnd::Expired) => (None, Stage::Tombstones(SessionEnd::Closed, 0)),
            (None, SessionEnd::Closed) => (None, Stage::Members(None)),
        }
    }

    fn members(&self, after: Option<NodeId>) -> (Option<Part>, Stage) {
        let later = |node: &NodeId| after.is_none_or(|after| *node > after);
        let members = self.machine.members.iter().filter(|(node, _)| later(node));
        let items = fill(members.map(|(node, incarnation)| (*node, *incarnation)), |_| 16);
        match items.last() {
            Some((last, _)) => {
                let stage = Stage::Members(Some(*last));
                (Some(Part::Members(items)), stage)
            }
            None => (None, Stage::Nodes(None)),
        }
    }

    fn nodes(&self, after: Option<&ZnodePath>) -> (Option<Part>, Stage) {
        let nodes = self.machine.tree.iter_after(after);
        let items = fill(nodes.map(|(path, node)| NodePart::of(path, node)), NodePart::weight);
        match items.last() {
            Some(last) => {
                let stage = Stage::Nodes(Some(last.path.clone()));
                (Some(Part::Nodes(items)), stage)
            }
            None => (None, Stage::End),
        }
    }

    fn end(&self) -> End {
        End {
            sessions: self.machine.sessions.len() as u64,
            tombstones: self.machine.sessions.tombstones() as u64,
            members: self.machine.members.len() as u64,
            znodes: self.machine.tree.len() as u64,
        }
    }
}

/// The first items, up to the bounds of a part.
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

impl SessionPart {
    fn of(session: &Session) -> Self {
        Self {
            id: session.id,
            name: session.name.clone(),
            ttl: session.ttl,
            generation: session.generation,
            anonymous: session.anonymous,
            opened_at: session.opened_at,
            labels: session.labels.clone(),
            given_up: session.given_up.iter().cloned().collect(),
            memo: session.memo.iter().cloned().collect(),
            password: session.password,
            attachment: session.attachment,
        }
    }

    fn weight(&self) -> usize {
        let labels: usize = self.labels.iter().map(|(key, value)| key.len() + value.len()).sum();
        let given_up: usize = self
            .given_up
            .iter()
            .map(|(lock, owner)| lock.as_str().len() + owner.as_str().len())
            .sum();
        // An answer holds a path at the most.
        256 + labels + given_up + self.memo.len() * (ZnodePath::MAX_LEN + 256)
    }
}

impl NodePart {
    fn of(path: &ZnodePath, node: &Znode) -> Self {
        Self {
            path: path.clone(),
            kind: match node.kind {
                Kind::Persistent => KindPart::Persistent,
                Kind::Container => KindPart::Container,
                Kind::Ephemeral(session) => KindPart::Ephemeral(session),
                Kind::Ttl(ms) => KindPart::Ttl(ms),
            },
            data: Arc::clone(&node.data),
            czxid: node.czxid,
            mzxid: node.mzxid,
            pzxid: node.pzxid,
            ctime: node.ctime,
            mtime: node.mtime,
            version: node.version,
            aversion: node.aversion,
            acl: node.acl.as_deref().unwrap_or_default().to_vec(),
            created: node.created,
            emptied_at: node.emptied_at,
            last_token: node.last_token,
            contender: node.contender.as_ref().map(|contender| ContenderPart::of(contender)),
        }
    }

    fn weight(&self) -> usize {
        let entries = |c: &ContenderPart| (c.entries.len() + c.left.len()) * EntryId::MAX_LEN;
        let contender = self.contender.as_ref().map_or(0, entries);
        256 + self.path.as_str().len() + self.data.len() + contender
    }
}

impl ContenderPart {
    fn of(contender: &Contender) -> Self {
        Self {
            sequence: contender.sequence,
            owner: contender.owner.clone(),
            asked: contender.asked,
            entries: contender.entries.present().to_vec(),
            left: contender.entries.left().to_vec(),
            hold: contender.hold.map(|hold| HoldPart {
                token: hold.token,
                granted_at: hold.granted_at,
                granted_in: hold.granted_in,
            }),
            wait_ms: contender.wait_ms,
        }
    }
}
