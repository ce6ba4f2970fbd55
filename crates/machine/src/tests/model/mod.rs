//! A deliberately naive machine: plain vectors, linear searches, no index. One rule applies after every change of a
//! lock: the first waiter is granted while it is compatible with the holders. Written from the sentences of the design,
//! not from the code under test.

mod claims;
mod deadlocks;
mod durable;
mod foreign;
mod handovers;
mod locks;
mod multi_locks;
mod queue_entries;
mod quotas;
mod recipes;
mod seal;
mod sessions;
mod timers;
mod tree;
mod views;

use holdfast_types::{SessionRejection, TreeRejection};
use std::collections::BTreeSet;

use holdfast_types::*;

use super::recipe::model::Called;
use claims::ModelClaim;
use locks::{Hold, Reader};
pub(super) use sessions::Session;
use timers::CooldownState;

/// The queue entry of a znode.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct QueueEntry {
    pub(super) sequence: u64,
    pub(super) owner: Owner,
    pub(super) requested_in: u64,
    /// How long the caller waits after `requested_in`.
    wait_ms: Option<u64>,
    pub(super) claims: Vec<ModelClaim>,
    value_by: Attempt,
    /// The requested mode, and the mode of the hold, if any.
    pub(super) mode: Mode,
    pub(super) held: Mode,
    pub(super) hold: Option<Hold>,
    /// The requested permits.
    pub(super) permits: u32,
    priority: u8,
    reentrant: bool,
    max_hold: Option<u64>,
    min_hold: Option<u64>,
    value: Option<Data>,
    durable: Option<Reason>,
    /// Later entries never overtake a fixed one.
    never_overtaken: bool,
    /// All locks of the multi-lock, this one included; empty for a single lock.
    pub(super) multi_lock: Vec<LockName>,
    /// The rank in the queue, computed on arrival.
    rank: (u8, i64),
    reader: Reader,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) path: String,
    pub(super) stat: Stat,
    pub(super) data: Vec<u8>,
    created: u64,
    /// The first value of the counter, and the first value for new directories below.
    base: u64,
    floor: u64,
    emptied_at: u64,
    pub(super) last_token: u64,
    /// `None` grants all permissions to everyone.
    pub(super) acl: Option<Vec<AclEntry>>,
    pub(super) entry: Option<QueueEntry>,
    /// The policy of the lock whose directory this is, and whether an operator set it.
    policy: Option<(LockPolicy, bool)>,
    cooldown_state: Option<CooldownState>,
}

impl Node {
    pub(super) fn counter(&self) -> u64 {
        self.base + self.created
    }
}

/// A session that ended, or whose attempt was cancelled before it was opened.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ended {
    pub(super) name: SessionName,
    pub(super) end: SessionEnd,
    pub(super) id: u64,
    pub(super) newest_attempt: Attempt,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Model {
    pub(super) revision: u64,
    now: u64,
    minted: u64,
    pub(super) grants: u64,
    limits: Limits,
    seal: Option<Seal>,
    /// The sessions that were closed under the seal.
    closed_under_seal: BTreeSet<u64>,
    pub(super) nodes: Vec<Node>,
    pub(super) sessions: Vec<Session>,
    pub(super) ended: Vec<Ended>,
    /// Grants of the last command, in order: lock, session, token.
    pub(super) granted: Vec<(LockName, SessionName, u64)>,
    /// Locks whose queues changed since their last grant pass.
    changed: BTreeSet<LockName>,
    /// Latches, barriers, counters, and the memo of all replies.
    pub(super) recipes: super::recipe::model::Model,
}

fn parent(path: &str) -> String {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/".to_owned(),
        Some((parent, _)) => parent.to_owned(),
    }
}

fn znode(path: &str) -> ZnodePath {
    ZnodePath::new(path).unwrap()
}

fn limit_reached(bound: Bound, limit: u32) -> Rejection {
    Rejection::LimitReached { bound, limit: limit.into() }
}

fn quota_exceeded(top: &str, quota: QuotaKind, limit: u64, used: u64) -> Rejection {
    Rejection::Tree(TreeRejection::QuotaExceeded { path: znode(top), quota, limit, used })
}

fn full(bound: Bound, limit: u32) -> Outcome {
    Err(limit_reached(bound, limit))
}

impl Model {
    pub(super) fn new() -> Self {
        let mut model = Self {
            revision: 0,
            now: 0,
            minted: 0,
            grants: 0,
            limits: Limits::default(),
            seal: None,
            closed_under_seal: BTreeSet::new(),
            nodes: Vec::new(),
            sessions: Vec::new(),
            ended: Vec::new(),
            granted: Vec::new(),
            changed: BTreeSet::new(),
            recipes: super::recipe::model::Model::new(),
        };
        for path in ["/", "/locks", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"] {
            model.add(path, 0, &[], None);
        }
        // No command created the built-in znodes.
        for (path, children) in [("/", 2), ("/zookeeper", 2)] {
            let node = model.find_mut(path);
            node.created = 0;
            node.stat.cversion = -children;
        }
        let config = model.find_mut("/zookeeper/config");
        config.stat.aversion = -1;
        config.acl = Some(vec![AclEntry { perms: Perms::READ, who: Identity::anyone() }]);
        model
    }

    pub(super) fn find(&self, path: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.path == path)
    }

    fn find_mut(&mut self, path: &str) -> &mut Node {
        self.nodes.iter_mut().find(|node| node.path == path).unwrap()
    }

    pub(super) fn live(&self, name: &SessionName) -> Option<&Session> {
        self.sessions.iter().find(|session| session.name == *name)
    }

    fn live_mut(&mut self, name: &SessionName) -> &mut Session {
        self.sessions.iter_mut().find(|session| session.name == *name).unwrap()
    }

    fn ended(&self, name: &SessionName) -> Option<&Ended> {
        self.ended.iter().find(|ended| ended.name == *name)
    }

    pub(super) fn end_of(&self, name: &SessionName) -> Option<SessionEnd> {
        self.ended(name).map(|ended| ended.end)
    }

    fn entries_of(&self, id: u64) -> u32 {
        let own = |node: &&Node| node.entry.is_some() && node.stat.ephemeral_owner == id as i64;
        self.nodes.iter().filter(own).count() as u32
    }

    /// The number of a session's ephemerals that are not queue entries.
    fn owned(&self, id: i64) -> usize {
        let own = |node: &&Node| node.entry.is_none() && node.stat.ephemeral_owner == id;
        self.nodes.iter().filter(own).count()
    }

    /// A session's ephemerals, sorted.
    pub(super) fn ephemerals(&self, id: SessionId) -> Vec<ZnodePath> {
        let own = |node: &&Node| node.stat.ephemeral_owner == id.0 as i64;
        let mut paths: Vec<_> = self.nodes.iter().filter(own).map(|n| znode(&n.path)).collect();
        paths.sort();
        paths
    }

    fn session_of(&self, node: &Node) -> &Session {
        self.sessions.iter().find(|s| s.id as i64 == node.stat.ephemeral_owner).unwrap()
    }

    fn add(&mut self, path: &str, owner: i64, data: &[u8], entry: Option<QueueEntry>) {
        let (revision, now) = (Revision(self.revision), Stamp(self.now));
        let above = parent(path);
        let mut floor = 0;
        if path != "/" {
            let above = self.find_mut(&above);
            above.created += 1;
            above.stat.num_children += 1;
            above.stat.cversion += 1;
            above.stat.pzxid = revision;
            floor = if owner > 0 { 0 } else { above.floor };
        }
        let stat = Stat {
            czxid: revision,
            mzxid: revision,
            pzxid: revision,
            ctime: now,
            mtime: now,
            ephemeral_owner: owner,
            data_length: data.len() as i32,
            ..Stat::default()
        };
        self.nodes.push(Node {
            path: path.to_owned(),
            stat,
            data: data.to_vec(),
            created: 0,
            base: floor,
            floor,
            emptied_at: self.now,
            last_token: 0,
            acl: None,
            entry,
            policy: None,
            cooldown_state: None,
        });
    }

    fn remove(&mut self, path: &str) {
        let gone = self.find(path).unwrap().clone();
        self.nodes.retain(|node| node.path != path);
        let (revision, now) = (Revision(self.revision), self.now);
        let above = self.find_mut(&parent(path));
        if path.starts_with("/locks/") && gone.stat.ephemeral_owner <= 0 {
            above.floor = above.floor.max(gone.counter()).max(gone.floor);
        }
        above.stat.num_children -= 1;
        above.stat.cversion += 1;
        above.stat.pzxid = revision;
        above.emptied_at = now;
    }

    pub(super) fn apply(&mut self, stamp: u64, command: Command) -> Outcome {
        self.revision += 1;
        self.now = self.now.max(stamp);
        self.granted.clear();
        let (_, call, command) = command.into_parts();
        self.check_seal(&command)?;
        for lock in named_by(&command) {
            self.run_expired_timers(&lock);
        }
        Self::check_durable(call.as_ref(), &command)?;
        self.follow_in_recipes();
        let Some(NumberedCall { session, request, scope }) = call else { return self.run(command) };
        let Some(id) = self.live(&session).map(|live| SessionId(live.id)) else {
            return Err(self.gone(session));
        };
        let scope = scope.0.to_string();
        if let Some(first) = self.recipes.recall_number(id, (request.0, &scope))? {
            return first;
        }
        let outcome = self.run(command);
        let call = Called::Number(request.0, scope);
        self.recipes.remember(id, call, (&outcome, self.revision));
        outcome
    }

    fn run(&mut self, command: Command) -> Outcome {
        let Command::Multi(multi) = command else { return self.dispatch_within_bytes(command) };
        if let Some(name) = multi.caller.session.clone() {
            if self.live(&name).is_none() {
                return Err(self.gone(name));
            }
            self.check_attachment(&name, multi.caller.attachment)?;
        }
        self.multi(multi)
    }

    /// The bytes that clients have stored, recounted on each call.
    fn stored_bytes(&self) -> u64 {
        let list = |acl: &Vec<AclEntry>| {
            acl.iter().map(|entry| entry.who.scheme.len() + entry.who.id.len()).sum::<usize>()
        };
        let entry = |entry: &QueueEntry| {
            entry.owner.as_str().len()
                + entry.value.as_ref().map_or(0, |value| value.len())
                + entry.durable.as_ref().map_or(0, |reason| reason.as_str().len())
                + entry.multi_lock.iter().map(|lock| lock.as_str().len()).sum::<usize>()
                + if entry.reader == Reader::Own { 4 * (entry.permits as usize - 1) } else { 0 }
        };
        let node = |node: &Node| {
            let acl = node.acl.as_ref().map_or(0, list);
            node.path.len() + node.data.len() + acl + node.entry.as_ref().map_or(0, entry)
        };
        // The histories set no labels.
        let names = self.sessions.iter().map(|session| session.name.as_str().len());
        let nodes = self.nodes.iter().map(node).sum::<usize>();
        (nodes + names.sum::<usize>() + self.recipes.bytes_stored()) as u64
    }

    fn check_stored_bytes(&self, before: u64) -> Result<(), Rejection> {
        let (now, limit) = (self.stored_bytes(), self.limits.tree_bytes_max);
        if now > before && now > limit {
            return Err(Rejection::LimitReached { bound: Bound::TreeBytes, limit });
        }
        Ok(())
    }

    /// Commands that only remove state are never rejected for the stored bytes.
    fn dispatch_within_bytes(&mut self, command: Command) -> Outcome {
        let takes_away = matches!(
            command,
            Command::RenewSession { .. }
                | Command::CloseSession { .. }
                | Command::EndSession { .. }
                | Command::EndSessions { .. }
                | Command::ExpireSession { .. }
                | Command::Release(_)
                | Command::Cancel(_)
                | Command::Sweep { .. }
                | Command::SetLimits(_)
                | Command::RegisterNode { .. }
                | Command::Bootstrap { .. }
                | Command::Membership(_)
                | Command::SetLevel(_)
                | Command::ClaimSession { .. }
                | Command::RecordBackup { .. }
                | Command::VerifyState
                | Command::RecordClocks { .. }
                | Command::RecordLeases { .. }
                | Command::RecordOperation(_)
                | Command::Seal { .. }
                | Command::Unseal { .. }
                | Command::Auth(_)
                | Command::As { .. }
                | Command::Once { .. }
                | Command::AttachSession { .. }
                | Command::RunTimers { .. }
                | Command::ForceRelease(_)
                | Command::RequestRelease(_)
        );
        let before = self.clone();
        let outcome = self.dispatch(command);
        if !takes_away && let Err(rejection) = self.check_stored_bytes(before.stored_bytes()) {
            *self = before;
            return Err(rejection);
        }
        outcome
    }

    fn gone(&self, session: SessionName) -> Rejection {
        match self.end_of(&session) {
            Some(SessionEnd::Expired) => Rejection::Session(SessionRejection::Expired { session }),
            Some(SessionEnd::Closed) | None => {
                Rejection::Session(SessionRejection::Unknown { session })
            }
        }
    }

    fn end_for_operator(&mut self, name: SessionName, meant: Option<SessionId>) -> Outcome {
        let Some(live) = self.live(&name) else { return Err(self.gone(name)) };
        if meant.is_none_or(|meant| meant.0 == live.id) {
            self.end(&name, LossCause::ForceReleased);
        }
        Ok(Reply::SessionEnded)
    }

    fn close(
        &mut self,
        session: SessionName,
        attachment: Option<Revision>,
        incarnation: Option<SessionId>,
    ) -> Outcome {
        let live = self.live(&session).map(|live| live.id);
        let current = live.or_else(|| self.ended(&session).map(|ended| ended.id));
        if incarnation.is_some_and(|meant| Some(meant.0) != current) {
            return Ok(Reply::SessionEnded);
        }
        if self.live(&session).is_some() {
            self.check_attachment(&session, attachment)?;
        }
        match (self.live(&session).is_some(), self.end_of(&session)) {
            (true, _) => self.end(&session, LossCause::SessionClosed),
            (false, Some(SessionEnd::Expired)) => {
                let ended = self.ended.iter_mut().find(|ended| ended.name == session);
                ended.unwrap().end = SessionEnd::Closed;
            }
            (false, Some(SessionEnd::Closed)) => {}
            (false, None) => return Err(SessionRejection::Unknown { session }.into()),
        }
        // Closing a session acknowledges the loss of its holds.
        self.acknowledge_losses(current.unwrap());
        Ok(Reply::SessionEnded)
    }

    fn dispatch(&mut self, command: Command) -> Outcome {
        match command {
            Command::OpenSession { open, attempt } => self.open(open, attempt),
            Command::RenewSession { session } => {
                let Some(live) = self.live(&session) else { return Err(self.gone(session)) };
                if self.closed_under_seal.contains(&live.id) {
                    return Err(SessionRejection::Unknown { session }.into());
                }
                self.renew_lease(&session, None);
                let Session { id, ttl, .. } = self.live(&session).unwrap();
                Ok(Reply::SessionRenewed { id: SessionId(*id), ttl: *ttl })
            }
            Command::CloseSession { session, attachment, incarnation } => {
                if self.seal.is_some() {
                    self.close_under_seal(&session, attachment, incarnation)
                } else {
                    self.close(session, attachment, incarnation)
                }
            }
            Command::EndSession { session, incarnation, .. } => {
                self.end_for_operator(session, incarnation)
            }
            // The sessions of a history have no subject.
            Command::EndSessions { .. } => Ok(Reply::SessionsEnded { count: 0 }),
            Command::ExpireSession { session, generation } => {
                let due = |s: &&Session| {
                    s.id == session.0 && s.generation == generation && !s.name.is_durable()
                };
                let Some(name) = self.sessions.iter().find(due).map(|s| s.name.clone()) else {
                    return Err(SessionRejection::LeaseRenewed.into());
                };
                self.end(&name, LossCause::SessionExpired);
                Ok(Reply::SessionEnded)
            }
            Command::Acquire(acquire) => self.acquire(acquire),
            Command::Release(release) => self.release(release),
            Command::Cancel(cancel) => Ok(self.cancel(cancel)),
            Command::Sweep { empty_before, count_max } => Ok(self.sweep(empty_before.0, count_max)),
            Command::SetLimits(limits) => {
                self.limits = limits;
                Ok(Reply::LimitsSet)
            }
            Command::Bootstrap { .. } => Ok(Reply::Bootstrapped),
            Command::SetLevel(_) => Ok(Reply::LevelSet),
            Command::Seal { reason } => Ok(self.seal(reason)),
            Command::Unseal { seal } => self.unseal(seal),
            Command::RecordLeases { .. } => Ok(Reply::LeasesRecorded),
            Command::RecordOperation(_) => Ok(Reply::OperationRecorded),
            Command::RecordClocks { .. }
            | Command::RegisterNode { .. }
            | Command::Membership(_)
            | Command::ClaimSession { .. }
            | Command::RecordBackup { .. }
            | Command::VerifyState
            | Command::Auth(_)
            | Command::As { .. }
            | Command::Once { .. } => panic!("the model has no members and no authorization"),
            Command::AttachSession { session, password, ttl } => {
                self.attach_by_id(session, password, ttl)
            }
            Command::SetPolicy { lock, change } => self.set_policy(&lock, change),
            Command::RunTimers { lock } => Ok(self.run_timers(&lock)),
            Command::ForceRelease(release) => Ok(self.force_release(release)),
            Command::RequestRelease(request) => self.request_release(request),
            Command::HandOver(hand_over) => self.hand_over(hand_over),
            Command::Recipe(recipe) => self.recipe(recipe),
            Command::Multi(_) => unreachable!(),
        }
    }
}

/// The locks that a command names. For a multi: each lock of a `Holds` condition, and each whose queue an operation may
/// change.
pub(super) fn named_by(command: &Command) -> Vec<LockName> {
    let of_op = |op: &Op| match op {
        Op::Create(create) => create.directory.as_lock(),
        Op::Delete { path, .. } => path.parent().and_then(|directory| directory.as_lock()),
        _ => None,
    };
    match command {
        Command::Acquire(acquire) => acquire.locks.iter().cloned().collect(),
        Command::Release(release) => release.locks.iter().cloned().collect(),
        Command::Cancel(cancel) => vec![cancel.lock.clone()],
        Command::SetPolicy { lock, .. } => vec![lock.clone()],
        Command::ForceRelease(release) => vec![release.lock.clone()],
        Command::RequestRelease(request) => vec![request.lock.clone()],
        Command::HandOver(hand_over) => vec![hand_over.lock.clone()],
        Command::Multi(multi) => {
            let held = multi.conditions.iter().filter_map(|condition| match condition {
                Condition::Holds { lock, .. } => Some(lock.clone()),
                _ => None,
            });
            held.chain(multi.then.iter().chain(&multi.otherwise).filter_map(of_op)).collect()
        }
        _ => Vec::new(),
    }
}
