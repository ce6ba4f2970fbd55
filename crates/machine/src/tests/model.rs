//! A deliberately naive machine: plain vectors, linear searches, no index, and one rule after every command: a lock
//! without a holder goes to the contender with the smallest number. Written for obviousness from the sentences of
//! the design, not from the code it judges.

use holdfast_types::*;

/// A contender's side of a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) sequence: u64,
    pub(super) owner: Owner,
    pub(super) asked: u64,
    pub(super) entries: Vec<EntryId>,
    pub(super) left: Vec<EntryId>,
    /// Token, stamp and revision of the grant.
    pub(super) hold: Option<(u64, u64, u64)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) path: String,
    pub(super) stat: Stat,
    pub(super) data: Vec<u8>,
    created: u64,
    emptied_at: u64,
    pub(super) last_token: u64,
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
    memo: Vec<(RequestId, Outcome)>,
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

fn full(bound: Bound, limit: u32) -> Outcome {
    Err(Rejection::LimitReached { bound, limit: limit.into() })
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

    fn holder(&self, lock: &LockName) -> Option<&Node> {
        self.queue(lock).into_iter().find(|node| node.place.as_ref().unwrap().hold.is_some())
    }

    pub(super) fn waiters(&self, lock: &LockName) -> Vec<&Node> {
        let waits = |node: &&Node| node.place.as_ref().unwrap().hold.is_none();
        self.queue(lock).into_iter().filter(waits).collect()
    }

    fn places(&self, id: u64) -> u32 {
        let own = |node: &&Node| node.place.is_some() && node.stat.ephemeral_owner == id as i64;
        self.nodes.iter().filter(own).count() as u32
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
        if path != "/" {
            let above = self.find_mut(&above);
            above.created += 1;
            above.stat.num_children += 1;
            above.stat.cversion += 1;
            above.stat.pzxid = revision;
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
            emptied_at: self.now,
            last_token: 0,
            place,
        });
    }

    fn remove(&mut self, path: &str) {
        self.nodes.retain(|node| node.path != path);
        let (revision, now) = (Revision(self.revision), self.now);
        let above = self.find_mut(&parent(path));
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
            if self.holder(&lock).is_some() {
                continue;
            }
            let first = self.queue(&lock)[0].clone();
            self.grants += 1;
            let hold = (self.grants, self.now, self.revision);
            self.find_mut(&first.path).place.as_mut().unwrap().hold = Some(hold);
            self.find_mut(&parent(&first.path)).last_token = hold.0;
            let session = self.session_of(&first).name.clone();
            self.granted.push((lock, session, hold.0));
        }
    }

    fn holder_view(&self, lock: &LockName) -> HolderView {
        let node = self.holder(lock).unwrap();
        let place = node.place.as_ref().unwrap();
        let (token, granted_at, _) = place.hold.unwrap();
        HolderView {
            session: self.session_of(node).name.clone(),
            owner: place.owner.clone(),
            token: FencingToken(token),
            granted_at: Stamp(granted_at),
            entries: place.entries.len() as u32,
            labels: Labels::default(),
        }
    }

    /// Where a contender stands, as the answer to an acquire.
    fn standing(&self, lock: &LockName, path: &str, renewed: bool) -> Reply {
        let node = self.find(path).unwrap();
        let place = node.place.as_ref().unwrap();
        let session = self.session_of(node);
        let ticket = Ticket(node.stat.czxid.0);
        let waiters = self.waiters(lock);
        match place.hold {
            Some((token, granted_at, granted_in)) => Reply::Granted(Grant {
                lock: lock.clone(),
                session: session.name.clone(),
                owner: place.owner.clone(),
                ticket,
                token: FencingToken(token),
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
                ahead: waiters.iter().position(|waiter| waiter.path == path).unwrap() as u32,
                holder: self.holder_view(lock),
                session: SessionId(session.id),
                ttl: session.ttl,
            }),
        }
    }

    pub(super) fn apply(&mut self, stamp: u64, command: Command) -> Outcome {
        self.revision += 1;
        self.now = self.now.max(stamp);
        self.granted.clear();
        let key = match &command {
            Command::Create(c) => (c.session.clone(), c.request.clone()),
            Command::Delete(c) => (c.session.clone(), c.request.clone()),
            Command::SetData(c) => (c.session.clone(), c.request.clone()),
            _ => (None, None),
        };
        let Some(name) = key.0 else { return self.dispatch(command) };
        if self.live(&name).is_none() {
            return Err(self.gone(name));
        }
        let Some(request) = key.1 else { return self.dispatch(command) };
        let memo = &self.live(&name).unwrap().memo;
        if let Some((_, first)) = memo.iter().find(|(id, _)| *id == request) {
            return first.clone();
        }
        let outcome = self.dispatch(command);
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
                self.touch(&session, ttl);
                let live = self.live(&session).unwrap();
                Ok(Reply::SessionRenewed { id: SessionId(live.id), ttl: live.ttl })
            }
            Command::CloseSession { session } => {
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
            Command::Create(create) => self.create(create),
            Command::Delete(delete) => self.delete(&delete),
            Command::SetData(set) => self.set(&set),
            Command::Sweep { empty_before, count_max } => Ok(self.sweep(empty_before.0, count_max)),
            Command::SetLimits(limits) => {
                self.limits = limits;
                Ok(Reply::LimitsSet)
            }
            Command::RegisterNode { .. } => Ok(Reply::NodeRegistered),
        }
    }

    fn begin(&mut self, open: &OpenSession) {
        self.minted += 1;
        self.ended.retain(|(name, _)| *name != open.session);
        self.sessions.push(Session {
            id: self.minted,
            name: open.session.clone(),
            ttl: open.ttl.unwrap_or(Ttl::DEFAULT),
            generation: 1,
            anonymous: open.anonymous,
            given_up: Vec::new(),
            memo: Vec::new(),
        });
    }

    fn touch(&mut self, name: &SessionName, ttl: Option<Ttl>) {
        let session = self.live_mut(name);
        session.generation += 1;
        session.ttl = ttl.unwrap_or(session.ttl);
    }

    fn open(&mut self, open: OpenSession) -> Outcome {
        let created = self.live(&open.session).is_none();
        if created && self.end_of(&open.session) == Some(SessionEnd::Expired) {
            return Err(Rejection::SessionExpired { session: open.session });
        }
        if !created {
            self.touch(&open.session, open.ttl);
        } else if self.sessions.len() as u32 >= self.limits.sessions_max {
            return full(Bound::Sessions, self.limits.sessions_max);
        } else {
            self.begin(&open);
        }
        let live = self.live(&open.session).unwrap();
        Ok(Reply::SessionOpened { id: SessionId(live.id), ttl: live.ttl, created })
    }

    fn end(&mut self, name: &SessionName, end: SessionEnd) {
        let id = self.live(name).unwrap().id as i64;
        let own = |node: &&Node| node.stat.ephemeral_owner == id;
        let paths: Vec<_> = self.nodes.iter().filter(own).map(|n| n.path.clone()).collect();
        paths.iter().for_each(|path| self.remove(path));
        self.sessions.retain(|session| session.name != *name);
        self.ended.push((name.clone(), end));
        self.settle();
    }

    fn acquire(&mut self, acquire: Acquire) -> Outcome {
        let Acquire { lock, open, owner, entry, wait } = acquire;
        let name = open.session.clone();
        if self.live(&name).is_none() && self.end_of(&name) == Some(SessionEnd::Expired) {
            return Err(Rejection::SessionExpired { session: name });
        }
        let id = self.live(&name).map_or(0, |session| session.id);
        if let Some(node) = self.own_place(&lock, id, &owner) {
            let path = node.path.clone();
            let entries = node.place.as_ref().unwrap().entries.clone();
            let news = entry.filter(|entry| !entries.contains(entry));
            if news.is_some() && entries.len() as u32 >= self.limits.entries_per_hold_max {
                return full(Bound::EntriesPerHold, self.limits.entries_per_hold_max);
            }
            self.touch(&name, open.ttl);
            let revision = self.revision;
            let place = self.find_mut(&path).place.as_mut().unwrap();
            if place.hold.is_none() {
                place.asked = revision;
            }
            if let Some(entry) = news {
                place.left.retain(|left| *left != entry);
                place.entries.push(entry);
            }
            return Ok(self.standing(&lock, &path, true));
        }
        self.join(lock, open, owner, entry, wait)
    }

    fn join(
        &mut self,
        lock: LockName,
        open: OpenSession,
        owner: Owner,
        entry: Option<EntryId>,
        wait: bool,
    ) -> Outcome {
        let name = open.session.clone();
        let known = self.live(&name).is_some();
        if !wait && self.holder(&lock).is_some() {
            let waiters = self.waiters(&lock).len() as u32;
            return Err(Rejection::LockBusy { holder: self.holder_view(&lock), waiters });
        }
        if !known && self.sessions.len() as u32 >= self.limits.sessions_max {
            return full(Bound::Sessions, self.limits.sessions_max);
        }
        let id = self.live(&name).map_or(0, |session| session.id);
        if let Some(refused) = self.no_room(id, &lock) {
            return Err(refused);
        }
        let directory = format!("/locks/{lock}");
        let mut missing = Vec::new();
        let mut at = directory.clone();
        while self.find(&at).is_none() {
            missing.insert(0, at.clone());
            at = parent(&at);
        }
        if self.find(&at).unwrap().stat.ephemeral_owner > 0 {
            return Err(Rejection::NoChildrenForEphemerals { path: znode(&at) });
        }
        if self.nodes.len() + missing.len() + 1 > self.limits.znodes_max as usize {
            return full(Bound::Znodes, self.limits.znodes_max);
        }
        if known {
            self.touch(&name, open.ttl);
        } else {
            self.begin(&open);
        }
        missing.iter().for_each(|path| self.add(path, CONTAINER_OWNER, &[], None));
        let sequence = self.find(&directory).unwrap().created;
        let mut path = format!("{directory}/lock-{sequence:010}");
        if self.find(&path).is_some() {
            path = format!("{directory}/lock-r{}-{sequence:010}", self.revision);
        }
        self.contend(&path, sequence, &name, owner, entry.unwrap_or_else(EntryId::unnamed), &[]);
        Ok(self.standing(&lock, &path, false))
    }

    fn no_room(&self, id: u64, lock: &LockName) -> Option<Rejection> {
        let Limits { contenders_per_session_max, waiters_per_lock_max, .. } = self.limits;
        if self.places(id) >= contenders_per_session_max {
            return full(Bound::ContendersPerSession, contenders_per_session_max).err();
        }
        let waiters = self.waiters(lock).len() as u32;
        if self.holder(lock).is_some() && waiters >= waiters_per_lock_max {
            return full(Bound::WaitersPerLock, waiters_per_lock_max).err();
        }
        None
    }

    fn contend(
        &mut self,
        path: &str,
        sequence: u64,
        name: &SessionName,
        owner: Owner,
        entry: EntryId,
        data: &[u8],
    ) {
        let lock = znode(&parent(path)).as_lock().unwrap();
        let asked = self.revision;
        let session = self.live_mut(name);
        session.given_up.retain(|(l, o)| *l != lock || *o != owner);
        let id = session.id as i64;
        let (entries, left) = (vec![entry], Vec::new());
        let place = Place { sequence, owner, asked, entries, left, hold: None };
        self.add(path, id, data, Some(place));
        self.settle();
    }

    fn release(&mut self, release: Release) -> Outcome {
        let Release { lock, session: name, owner, entry } = release;
        let nothing = Ok(Reply::Released(Released { entries_left: 0, changed: false }));
        let Some(session) = self.live(&name) else {
            return match self.end_of(&name) {
                Some(SessionEnd::Closed) => nothing,
                Some(SessionEnd::Expired) | None => Err(self.gone(name)),
            };
        };
        let Some(node) = self.own_place(&lock, session.id, &owner) else {
            let gave_up = session.given_up.contains(&(lock.clone(), owner));
            if self.holder(&lock).is_none() || gave_up {
                return nothing;
            }
            return Err(Rejection::NotHolder { holder: self.holder_view(&lock) });
        };
        let (path, place) = (node.path.clone(), node.place.clone().unwrap());
        if let Some(entry) = entry {
            let others = place.entries.len() as u32 - 1;
            if !place.entries.contains(&entry) {
                if !place.left.contains(&entry) {
                    return Err(Rejection::NoSuchEntry { entry });
                }
                let entries_left = others + 1;
                return Ok(Reply::Released(Released { entries_left, changed: false }));
            }
            if others > 0 {
                let place = self.find_mut(&path).place.as_mut().unwrap();
                place.entries.retain(|e| *e != entry);
                place.left.push(entry);
                return Ok(Reply::Released(Released { entries_left: others, changed: true }));
            }
        }
        self.give_up(&lock, &path, &name, owner);
        Ok(Reply::Released(Released { entries_left: 0, changed: true }))
    }

    fn give_up(&mut self, lock: &LockName, path: &str, name: &SessionName, owner: Owner) {
        self.remove(path);
        let session = self.live_mut(name);
        session.given_up.push((lock.clone(), owner));
        let (id, anonymous) = (session.id, session.anonymous);
        if anonymous && self.places(id) == 0 {
            self.end(name, SessionEnd::Closed);
        }
        self.settle();
    }

    fn cancel(&mut self, cancel: Cancel) -> Reply {
        let Cancel { lock, session: name, owner, ticket, asked } = cancel;
        let Some(id) = self.live(&name).map(|session| session.id as i64) else {
            return Reply::Cancelled;
        };
        let queue = self.queue(&lock);
        let meant = |node: &&&Node| {
            node.stat.czxid.0 == ticket.0
                && node.stat.ephemeral_owner == id
                && node.place.as_ref().unwrap().owner == owner
        };
        let Some(node) = queue.iter().find(meant) else { return Reply::Cancelled };
        let place = node.place.as_ref().unwrap();
        let path = node.path.clone();
        if place.hold.is_some() || place.asked > asked.0 {
            return self.standing(&lock, &path, false);
        }
        self.give_up(&lock, &path, &name, owner);
        Reply::Cancelled
    }

    fn create(&mut self, create: Create) -> Outcome {
        let path = create.path.as_str();
        let above = parent(path);
        let Some(directory) = self.find(&above) else {
            return Err(Rejection::NoNode { path: znode(&above) });
        };
        if directory.stat.ephemeral_owner > 0 {
            return Err(Rejection::NoChildrenForEphemerals { path: znode(&above) });
        }
        let sequence = directory.created;
        let suffix = if create.sequential { format!("{sequence:010}") } else { String::new() };
        let path = format!("{path}{suffix}");
        if self.find(&path).is_some() {
            return Err(Rejection::NodeExists { path: znode(&path) });
        }
        if create.data.len() > self.limits.data_bytes_max as usize {
            return full(Bound::DataBytes, self.limits.data_bytes_max);
        }
        if self.nodes.len() as u32 >= self.limits.znodes_max {
            return full(Bound::Znodes, self.limits.znodes_max);
        }
        let ephemeral = create.kind == CreateKind::Ephemeral;
        let caller = create.session.filter(|_| ephemeral);
        let lock = znode(&above).as_lock().filter(|_| ephemeral && create.sequential);
        match (caller, lock) {
            (Some(name), Some(lock)) => {
                let id = self.live(&name).unwrap().id;
                if let Some(refused) = self.no_room(id, &lock) {
                    return Err(refused);
                }
                let owner = Owner::unnamed();
                self.contend(&path, sequence, &name, owner, EntryId::unnamed(), &create.data);
            }
            (caller, _) => {
                let id = caller.map_or(0, |name| self.live(&name).unwrap().id as i64);
                let container = create.kind == CreateKind::Container;
                let owner = if container { CONTAINER_OWNER } else { id };
                self.add(&path, owner, &create.data, None);
            }
        }
        Ok(Reply::Created { path: znode(&path), stat: self.find(&path).unwrap().stat })
    }

    fn delete(&mut self, delete: &Delete) -> Outcome {
        let path = delete.path.clone();
        let Some(node) = self.find(path.as_str()) else {
            return Err(Rejection::NoNode { path });
        };
        let actual = node.stat.version;
        if delete.version.is_some_and(|version| version != actual) {
            return Err(Rejection::BadVersion { path, actual });
        }
        if ["/", "/locks"].contains(&path.as_str()) || path.as_str().starts_with("/zookeeper") {
            return Err(Rejection::Reserved { path });
        }
        if node.stat.num_children > 0 {
            return Err(Rejection::NotEmpty { path });
        }
        self.remove(path.as_str());
        self.settle();
        Ok(Reply::Deleted)
    }

    fn set(&mut self, set: &SetData) -> Outcome {
        let path = set.path.clone();
        let Some(node) = self.find(path.as_str()) else {
            return Err(Rejection::NoNode { path });
        };
        let actual = node.stat.version;
        if set.version.is_some_and(|version| version != actual) {
            return Err(Rejection::BadVersion { path, actual });
        }
        if path.as_str() == "/zookeeper/config" {
            return Err(Rejection::Reserved { path });
        }
        if set.data.len() > self.limits.data_bytes_max as usize {
            return full(Bound::DataBytes, self.limits.data_bytes_max);
        }
        let (revision, now) = (Revision(self.revision), Stamp(self.now));
        let node = self.find_mut(path.as_str());
        node.data.clone_from(&set.data);
        node.stat.data_length = set.data.len() as i32;
        node.stat.version += 1;
        node.stat.mzxid = revision;
        node.stat.mtime = now;
        Ok(Reply::DataSet { stat: node.stat })
    }

    fn sweep(&mut self, empty_before: u64, count_max: u32) -> Reply {
        for count in 0..count_max {
            let empty = |node: &&Node| {
                node.stat.ephemeral_owner == CONTAINER_OWNER
                    && node.stat.num_children == 0
                    && node.emptied_at < empty_before
            };
            let idle = self.nodes.iter().filter(empty);
            let idlest = idle.min_by_key(|node| (node.emptied_at, node.path.clone()));
            match idlest.map(|node| node.path.clone()) {
                Some(path) => self.remove(&path),
                None => return Reply::Swept { count },
            }
        }
        Reply::Swept { count: count_max }
    }
}
