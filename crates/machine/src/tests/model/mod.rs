//! A deliberately naive machine: plain vectors, linear searches, no index, and one rule after every command: the first
//! waiter of a lock that can hold it beside its holders does, until the first that cannot. Written for obviousness from the sentences of
//! the design, not from the code it judges.

mod contenders;
mod rules;
mod sessions;
mod tree;

use holdfast_types::*;

/// A contender's side of a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) sequence: u64,
    pub(super) owner: Owner,
    pub(super) asked: u64,
    pub(super) entries: Vec<EntryId>,
    pub(super) left: Vec<EntryId>,
    /// How it wants to hold, and how it does if it does.
    pub(super) mode: Mode,
    pub(super) held: Mode,
    /// Token, stamp and revision of the grant.
    pub(super) hold: Option<(u64, u64, u64)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) path: String,
    pub(super) stat: Stat,
    pub(super) data: Vec<u8>,
    created: u64,
    /// Where its counter began, and where those of new directories in it begin.
    base: u64,
    floor: u64,
    emptied_at: u64,
    pub(super) last_token: u64,
    /// None lets everybody do everything.
    pub(super) acl: Option<Vec<AclEntry>>,
    pub(super) place: Option<Place>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Session {
    pub(super) id: u64,
    pub(super) name: SessionName,
    pub(super) ttl: Ttl,
    pub(super) generation: u64,
    anonymous: bool,
    given_up: Vec<(LockName, Owner)>,
    memo: Vec<((RequestId, Vec<String>), Outcome)>,
    pub(super) password: Option<Password>,
    pub(super) attachment: Option<u64>,
}

impl Node {
    pub(super) fn counter(&self) -> u64 {
        self.base + self.created
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Model {
    revision: u64,
    now: u64,
    minted: u64,
    pub(super) grants: u64,
    limits: Limits,
    pub(super) nodes: Vec<Node>,
    pub(super) sessions: Vec<Session>,
    pub(super) ended: Vec<(SessionName, SessionEnd)>,
    /// Grants of the last command, in order: lock, session, token.
    pub(super) granted: Vec<(LockName, SessionName, u64)>,
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

fn refused(bound: Bound, limit: u32) -> Rejection {
    Rejection::LimitReached { bound, limit: limit.into() }
}

fn refused_by(quota: &str, limit: u64) -> Rejection {
    Rejection::QuotaExceeded { path: znode(quota), limit }
}

fn full(bound: Bound, limit: u32) -> Outcome {
    Err(refused(bound, limit))
}

impl Model {
    pub(super) fn new() -> Self {
        let mut model = Self {
            revision: 0,
            now: 0,
            minted: 0,
            grants: 0,
            limits: Limits::default(),
            nodes: Vec::new(),
            sessions: Vec::new(),
            ended: Vec::new(),
            granted: Vec::new(),
        };
        for path in ["/", "/locks", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"] {
            model.add(path, 0, &[], None);
        }
        // What is built in was not created by anybody.
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

    pub(super) fn end_of(&self, name: &SessionName) -> Option<SessionEnd> {
        self.ended.iter().find(|(ended, _)| ended == name).map(|(_, end)| *end)
    }

    /// The contenders of a lock, by number.
    pub(super) fn queue(&self, lock: &LockName) -> Vec<&Node> {
        let directory = format!("/locks/{lock}");
        let inside = |node: &&Node| parent(&node.path) == directory && node.place.is_some();
        let mut queue: Vec<_> = self.nodes.iter().filter(inside).collect();
        queue.sort_by_key(|node| node.place.as_ref().unwrap().sequence);
        queue
    }

    pub(super) fn holders(&self, lock: &LockName) -> Vec<&Node> {
        let holds = |node: &&Node| node.place.as_ref().unwrap().hold.is_some();
        self.queue(lock).into_iter().filter(holds).collect()
    }

    fn holder(&self, lock: &LockName) -> Option<&Node> {
        self.holders(lock).first().copied()
    }

    /// Whether somebody could hold a lock beside those who do.
    fn has_room(&self, lock: &LockName, mode: Mode) -> bool {
        let holders = self.holders(lock);
        let modes: Vec<_> = holders.iter().map(|node| node.place.as_ref().unwrap()).collect();
        let weak =
            modes.iter().all(|place| place.mode != Mode::Exclusive && place.held == place.mode);
        let upgradable = modes.iter().any(|place| place.held == Mode::Upgradable);
        match mode {
            _ if holders.is_empty() => true,
            Mode::Exclusive => false,
            Mode::Shared => weak,
            Mode::Upgradable => weak && !upgradable,
        }
    }

    /// Makes the one that waits to be exclusive so, when it is alone.
    fn upgrade(&mut self, lock: &LockName) {
        let converts = |node: &&Node| {
            let place = node.place.as_ref().unwrap();
            place.mode != place.held
        };
        let holders = self.holders(lock);
        let Some(first) = holders.first().filter(|_| holders.len() == 1).filter(|n| converts(n))
        else {
            return;
        };
        let first = (*first).clone();
        self.hand_to(lock, &first);
    }

    fn hand_to(&mut self, lock: &LockName, next: &Node) {
        self.grants += 1;
        let hold = (self.grants, self.now, self.revision);
        let place = self.find_mut(&next.path).place.as_mut().unwrap();
        (place.hold, place.held) = (Some(hold), place.mode);
        self.find_mut(&parent(&next.path)).last_token = hold.0;
        let session = self.session_of(next).name.clone();
        self.granted.push((lock.clone(), session, hold.0));
    }

    /// Whether a contender that comes now would have to wait.
    pub(super) fn would_wait(&self, lock: &LockName, mode: Mode) -> bool {
        !self.waiters(lock).is_empty() || !self.has_room(lock, mode)
    }

    pub(super) fn waiters(&self, lock: &LockName) -> Vec<&Node> {
        let waits = |node: &&Node| node.place.as_ref().unwrap().hold.is_none();
        self.queue(lock).into_iter().filter(waits).collect()
    }

    fn places(&self, id: u64) -> u32 {
        let own = |node: &&Node| node.place.is_some() && node.stat.ephemeral_owner == id as i64;
        self.nodes.iter().filter(own).count() as u32
    }

    /// How many ephemerals a session has that are no places.
    fn owned(&self, id: i64) -> usize {
        let own = |node: &&Node| node.place.is_none() && node.stat.ephemeral_owner == id;
        self.nodes.iter().filter(own).count()
    }

    /// A session's ephemerals, sorted.
    pub(super) fn ephemerals(&self, id: SessionId) -> Vec<ZnodePath> {
        let own = |node: &&Node| node.stat.ephemeral_owner == id.0 as i64;
        let mut paths: Vec<_> = self.nodes.iter().filter(own).map(|n| znode(&n.path)).collect();
        paths.sort();
        paths
    }

    fn own_place(&self, lock: &LockName, id: u64, owner: &Owner) -> Option<&Node> {
        self.queue(lock).into_iter().find(|node| {
            node.stat.ephemeral_owner == id as i64 && node.place.as_ref().unwrap().owner == *owner
        })
    }

    fn session_of(&self, node: &Node) -> &Session {
        self.sessions.iter().find(|s| s.id as i64 == node.stat.ephemeral_owner).unwrap()
    }

    fn add(&mut self, path: &str, owner: i64, data: &[u8], place: Option<Place>) {
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
            place,
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

    /// The rule of the grant: every free lock with contenders goes to the first of them, locks by name.
    fn settle(&mut self) {
        let mut locks: Vec<LockName> = self
            .nodes
            .iter()
            .filter(|node| node.place.is_some())
            .filter_map(|node| znode(&parent(&node.path)).as_lock())
            .collect();
        locks.sort();
        locks.dedup();
        for lock in locks {
            self.upgrade(&lock);
            while let Some(first) = self.waiters(&lock).first().copied().cloned()
                && self.has_room(&lock, first.place.as_ref().unwrap().mode)
            {
                self.hand_to(&lock, &first);
            }
        }
    }

    /// The smallest token that is still good.
    pub(super) fn floor(&self, lock: &LockName) -> u64 {
        let token = |node: &&Node| node.place.as_ref().unwrap().hold.unwrap().0;
        self.holders(lock).iter().map(token).min().unwrap_or(self.grants + 1)
    }

    fn holder_view(&self, lock: &LockName) -> HolderView {
        self.view_of(self.holder(lock).unwrap())
    }

    fn other_holder(&self, lock: &LockName, path: &str) -> Option<HolderView> {
        let holders = self.holders(lock);
        holders.into_iter().find(|node| node.path != path).map(|node| self.view_of(node))
    }

    fn view_of(&self, node: &Node) -> HolderView {
        let place = node.place.as_ref().unwrap();
        let (token, granted_at, _) = place.hold.unwrap();
        HolderView {
            session: self.session_of(node).name.clone(),
            owner: place.owner.clone(),
            token: FencingToken(token),
            granted_at: Stamp(granted_at),
            entries: place.entries.len() as u32,
            labels: Labels::default(),
            mode: place.held,
            permits: 1,
            slots: Vec::new(),
            upgrading: place.mode != place.held,
            ends_at: None,
            value: None,
        }
    }

    /// Where a contender stands, as the answer to an acquire.
    fn standing(&self, lock: &LockName, path: &str, renewed: bool) -> Reply {
        let node = self.find(path).unwrap();
        let place = node.place.as_ref().unwrap();
        let session = self.session_of(node);
        let ticket = Ticket(node.stat.czxid.0);
        let waiters = self.waiters(lock);
        match place.hold.filter(|_| place.mode == place.held) {
            Some((token, granted_at, granted_in)) => Reply::Granted(Grant {
                lock: lock.clone(),
                session: session.name.clone(),
                owner: place.owner.clone(),
                ticket,
                token: FencingToken(token),
                mode: place.mode,
                permits: 1,
                slots: Vec::new(),
                floor: FencingToken(self.floor(lock)),
                ends_at: None,
                ttl: session.ttl,
                entries: place.entries.len() as u32,
                renewed,
                waiters: waiters.len() as u32,
                granted_at: Stamp(granted_at),
                granted_in: Revision(granted_in),
            }),
            None => Reply::Queued(Queued {
                ticket,
                asked: Revision(place.asked),
                ahead: waiters.iter().position(|waiter| waiter.path == path).unwrap_or(0) as u32,
                holder: self.other_holder(lock, path).map(Box::new),
                closed: None,
                mode: place.mode,
                session: SessionId(session.id),
                ttl: session.ttl,
            }),
        }
    }

    pub(super) fn apply(&mut self, stamp: u64, command: Command) -> Outcome {
        self.revision += 1;
        self.now = self.now.max(stamp);
        self.granted.clear();
        let Command::Multi(multi) = command else { return self.dispatch(command) };
        let Some(name) = multi.caller.session.clone() else { return self.multi(multi) };
        if self.live(&name).is_none() {
            return Err(self.gone(name));
        }
        self.refuse_moved(&name, multi.caller.attachment)?;
        let Some(request) = multi.caller.request.clone() else { return self.multi(multi) };
        // The id of another call is another id.
        let asked: Vec<String> = multi.then.iter().chain(&multi.otherwise).map(asked).collect();
        let request = (request, asked);
        let memo = &self.live(&name).unwrap().memo;
        if let Some((_, first)) = memo.iter().find(|(id, _)| *id == request) {
            return first.clone();
        }
        let outcome = self.multi(multi);
        let most = self.limits.memo_per_session_max as usize;
        let memo = &mut self.live_mut(&name).memo;
        memo.push((request, outcome.clone()));
        while memo.len() > most {
            drop(memo.remove(0));
        }
        outcome
    }

    fn gone(&self, session: SessionName) -> Rejection {
        match self.end_of(&session) {
            Some(SessionEnd::Expired) => Rejection::SessionExpired { session },
            Some(SessionEnd::Closed) | None => Rejection::NoSession { session },
        }
    }

    fn dispatch(&mut self, command: Command) -> Outcome {
        match command {
            Command::OpenSession(open) => self.open(open),
            Command::RenewSession { session, ttl } => {
                if self.live(&session).is_none() {
                    return Err(self.gone(session));
                }
                self.touch_by_name(&session, ttl);
                let live = self.live(&session).unwrap();
                Ok(Reply::SessionRenewed { id: SessionId(live.id), ttl: live.ttl })
            }
            Command::CloseSession { session, attachment } => {
                if self.live(&session).is_some() {
                    self.refuse_moved(&session, attachment)?;
                }
                match (self.live(&session).is_some(), self.end_of(&session)) {
                    (true, _) => self.end(&session, SessionEnd::Closed),
                    (false, Some(SessionEnd::Expired)) => {
                        self.ended.retain(|(name, _)| *name != session);
                    }
                    (false, Some(SessionEnd::Closed)) => {}
                    (false, None) => return Err(Rejection::NoSession { session }),
                }
                Ok(Reply::SessionEnded)
            }
            Command::ExpireSession { session, generation } => {
                let due = |s: &&Session| s.id == session.0 && s.generation == generation;
                let Some(name) = self.sessions.iter().find(due).map(|s| s.name.clone()) else {
                    return Err(Rejection::Superseded);
                };
                self.end(&name, SessionEnd::Expired);
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
            Command::RegisterNode { .. } => Ok(Reply::NodeRegistered),
            Command::AttachSession { session, password, ttl } => {
                self.attach_by_id(session, password, ttl)
            }
            // Recipes have a model of their own.
            Command::Multi(_)
            | Command::Recipe(_)
            | Command::SetPolicy { .. }
            | Command::Due { .. }
            | Command::Break(_)
            | Command::AskRelease(_)
            | Command::HandOver(_) => unreachable!(),
        }
    }
}

/// Which operation on which znode.
fn asked(op: &Op) -> String {
    match op {
        Op::Create(create) => format!("create {} {}", create.directory, create.name),
        Op::Delete { path, .. } => format!("delete {path}"),
        Op::SetData { path, .. } => format!("set {path}"),
        Op::SetAcl { path, .. } => format!("acl {path}"),
        Op::Check { path, .. } => format!("check {path}"),
    }
}
