//! The model's queue entries: acquire, release, cancel.

use holdfast_types::*;
use holdfast_types::{LockRejection, SessionRejection};

use super::claims::ModelClaim;
use super::locks::{LockRequest, Reader, entry};
use super::timers::check_bounds;
use super::{Model, Node, QueueEntry, full, limit_reached};

/// A session without a password.
pub(super) fn plain(session: SessionName) -> OpenSession {
    OpenSession::of(session)
}

/// Where a queue entry comes from.
#[derive(Clone, Copy)]
pub(super) enum EntryOrigin<'a> {
    Api,
    Tree,
    /// An acquire of all these locks.
    MultiLock(&'a [LockName]),
}

/// The location of a new entry.
pub(super) struct EntryLocation {
    pub(super) missing: Vec<String>,
    pub(super) path: String,
    pub(super) sequence: u64,
}

impl Model {
    pub(super) fn acquire(&mut self, acquire: Acquire) -> Outcome {
        check_bounds(&acquire)?;
        let name = acquire.open.session.clone();
        if self.live(&name).is_none() && self.end_of(&name) == Some(SessionEnd::Expired) {
            return Err(SessionRejection::Expired { session: name }.into());
        }
        self.check_incarnation(&acquire.open)?;
        let id = self.live(&name).map_or(0, |session| session.id);
        let Some(lock) = acquire.locks.single().cloned() else {
            return self.acquire_multi_lock(id, &acquire);
        };
        if acquire.change.is_none() {
            self.check_attempt(&lock, &acquire)?;
        }
        match (self.entry_for(&lock, id, &acquire).cloned(), acquire.change) {
            (Some(node), _) => self.acquire_again(lock, &node, acquire),
            (None, None) => self.join(&lock, acquire),
            (None, Some(of)) => {
                let newest = self.newest_ended(&name, &lock, &acquire.owner);
                if id == 0 && (of > newest || of == Attempt::UNNAMED) {
                    return Err(self.gone(name));
                }
                Err(self.no_claim(&lock, of, newest))
            }
        }
    }

    fn acquire_again(&mut self, lock: LockName, node: &Node, acquire: Acquire) -> Outcome {
        let again = self.again(&lock, node, &acquire)?;
        self.renew_lease_by_name(&acquire.open.session, acquire.open.ttl, acquire.attempt);
        let (waits, upgrades) = (again.waits, again.upgrades);
        let number = acquire.attempt.unwrap_or(Attempt::UNNAMED);
        self.apply_again(&lock, &node.path, again, (number, acquire.change, acquire.wait_ms));
        let path = self.own_path(&lock, node);
        Ok(self.asked_now(self.acquire_reply(&lock, &path, waits, !upgrades)))
    }

    /// The path of an entry. An upgrade of a shared holder may have renamed it.
    fn own_path(&self, lock: &LockName, node: &Node) -> String {
        let is_same = |other: &&Node| entry(other).sequence == entry(node).sequence;
        self.queue(lock).into_iter().find(is_same).unwrap().path.clone()
    }

    fn join(&mut self, lock: &LockName, acquire: Acquire) -> Outcome {
        let id = self.live(&acquire.open.session).map_or(0, |session| session.id);
        let own = self.own_entries(lock, id, &acquire.owner);
        if own.iter().any(|node| !(entry(node).reentrant && acquire.options.reentrant)) {
            return Err(LockRejection::NotReentrant.into());
        }
        self.check_no_foreign_znode(lock)?;
        let limit = self.limit_to_set(lock, &acquire)?;
        let open = acquire.open.clone();
        let name = open.session.clone();
        let known = self.live(&name).is_some();
        let request = request_of(&acquire);
        let waiting = self.waiters(lock).len() as u32;
        let queues = acquire.wait && acquire.queue_max.is_none_or(|max| waiting < max);
        if !queues && self.would_wait(lock, request) {
            return Err(self.busy(lock, ""));
        }
        if !known && self.sessions.len() as u32 >= self.limits.sessions_max {
            return full(Bound::Sessions, self.limits.sessions_max);
        }
        if let Some(rejection) = self.no_room(id, lock, request) {
            return Err(rejection);
        }
        let location = self.location(lock, request.mode)?;
        let before = self.clone();
        if known {
            self.renew_lease_by_name(&name, open.ttl, acquire.attempt);
        } else {
            self.begin(&open, acquire.attempt);
        }
        let path = location.path.clone();
        location.missing.iter().for_each(|path| self.add_directory(path, None));
        if limit.is_some() {
            let policy = LockPolicy { limit, ..LockPolicy::DEFAULT };
            self.find_mut(&format!("/locks/{lock}")).policy = Some((policy, false));
        }
        self.add_entry(&location.path, location.sequence, acquire, EntryOrigin::Api, &[]);
        if let Err(rejection) = self.check_deadlock(&[(lock.clone(), path.clone())], &before) {
            *self = before;
            return Err(rejection);
        }
        Ok(self.acquire_reply(lock, &path, false, false))
    }

    /// The location of a new entry of the HTTP API: missing directories, znode, sequence number.
    pub(super) fn location(&self, lock: &LockName, mode: Mode) -> Result<EntryLocation, Rejection> {
        let directory = format!("/locks/{lock}");
        let (nearest, missing) = self.missing(&directory)?;
        self.anyone_may(&nearest, Perms::CREATE)?;
        let nearest = self.find(&nearest).unwrap();
        let sequence = if missing.is_empty() { nearest.counter() } else { nearest.floor };
        let mut path = format!("{directory}/{}", own_name(mode, sequence, ""));
        if self.find(&path).is_some() {
            let other = format!("__r{}", self.revision);
            path = format!("{directory}/{}", own_name(mode, sequence, &other));
        }
        if self.nodes.len() + missing.len() + 1 > self.limits.znodes_max as usize {
            return Err(limit_reached(Bound::Znodes, self.limits.znodes_max));
        }
        let mut all = missing.clone();
        all.push(path.clone());
        self.room_in_quotas(&path, &all, 0)?;
        Ok(EntryLocation { missing, path, sequence })
    }

    pub(super) fn no_room(
        &self,
        id: u64,
        lock: &LockName,
        request: LockRequest,
    ) -> Option<Rejection> {
        let Limits { queue_entries_per_session_max, waiters_per_lock_max, .. } = self.limits;
        if self.entries_of(id) >= queue_entries_per_session_max {
            return full(Bound::QueueEntriesPerSession, queue_entries_per_session_max).err();
        }
        let waiters = self.waiters(lock).len() as u32;
        if waiters >= waiters_per_lock_max && self.would_wait(lock, request) {
            return full(Bound::WaitersPerLock, waiters_per_lock_max).err();
        }
        None
    }

    /// Adds an entry at the end of the queue, or where its priority and the policy put it.
    pub(super) fn add_entry(
        &mut self,
        path: &str,
        sequence: u64,
        acquire: Acquire,
        origin: EntryOrigin<'_>,
        data: &[u8],
    ) {
        let (never_overtaken, multi_lock) = match origin {
            EntryOrigin::Api => (false, Vec::new()),
            EntryOrigin::Tree => (true, Vec::new()),
            EntryOrigin::MultiLock(locks) => (true, locks.to_vec()),
        };
        let (lock, options) = (lock_at(path), acquire.options.clone());
        let request = match origin {
            EntryOrigin::Tree => LockRequest::of_tree(path, self.policy(&lock).limit),
            _ => LockRequest { never_overtaken, ..request_of(&acquire) },
        };
        let Acquire { open, owner, attempt, wait_ms, .. } = acquire;
        let session = self.live_mut(&open.session);
        session.released.retain(|(l, o)| *l != lock || *o != owner);
        let id = session.id as i64;
        let entry = QueueEntry {
            sequence,
            owner,
            requested_in: self.revision,
            wait_ms,
            claims: vec![ModelClaim::new(attempt, request.mode, (self.revision, wait_ms))],
            value_by: attempt.unwrap_or(Attempt::UNNAMED),
            mode: request.mode,
            held: request.mode,
            hold: None,
            permits: request.permits,
            priority: request.priority,
            reentrant: options.reentrant,
            max_hold: options.max_hold_ms,
            min_hold: options.min_hold_ms,
            value: options.value,
            durable: options.durable,
            never_overtaken,
            rank: self.rank(&lock, request),
            multi_lock,
            reader: request.reader,
        };
        self.add(path, id, data, Some(entry));
        // A multi-lock is granted only after all its entries exist.
        let alone = !matches!(origin, EntryOrigin::MultiLock(_));
        if alone && self.waiters(&lock).first().is_some_and(|first| first.path == path) {
            self.grant_waiters(&lock);
        }
    }

    pub(super) fn release(&mut self, release: Release) -> Outcome {
        let Some(lock) = release.locks.single().cloned() else {
            return self.release_multi_lock(release);
        };
        let Release { session: name, owner, target, .. } = release;
        let nothing = Ok(Reply::Released(Released { hold_count: 0, changed: false }));
        let Some(session) = self.live(&name) else {
            let end = self.end_of(&name);
            if end == Some(SessionEnd::Expired) {
                return Err(self.gone(name));
            }
            self.acknowledge_loss(&name, &lock, &owner, target);
            return match (target, end) {
                (ReleaseTarget::Attempt(attempt), _) => {
                    self.end_attempt((&name, &lock, &owner), attempt);
                    nothing
                }
                (_, Some(_)) => nothing,
                (_, None) => Err(self.gone(name)),
            };
        };
        let id = session.id;
        if self.own_entry(&lock, id, &owner).is_none() {
            let released = session.released.contains(&(lock.clone(), owner.clone()));
            let acknowledged = self.acknowledge_loss(&name, &lock, &owner, target);
            match target {
                ReleaseTarget::Attempt(attempt) => {
                    self.end_attempt((&name, &lock, &owner), attempt);
                    return nothing;
                }
                ReleaseTarget::Hold(_) | ReleaseTarget::Permits(..) => return nothing,
                ReleaseTarget::AnyEntry => {}
            }
            if acknowledged {
                // The released hold was already lost.
                self.live_mut(&name).released.push((lock, owner));
                return nothing;
            }
            return match self.other_holder(&lock, "") {
                Some(holder) if !released => {
                    Err(Rejection::Lock(LockRejection::NotHolder { holder: holder.into() }))
                }
                Some(_) | None => nothing,
            };
        }
        let meant = self.meant_entries(&lock, (id, &owner), target);
        let released = match (target, &meant[..]) {
            (ReleaseTarget::Attempt(attempt), []) => {
                self.end_attempt((&name, &lock, &owner), attempt);
                nothing.clone()
            }
            (_, []) => nothing.clone(),
            (ReleaseTarget::Attempt(attempt), [node]) if !entry(node).is_only_claim(attempt) => {
                Ok(Reply::Released(self.end_claim(&lock, &node.path, attempt)))
            }
            (ReleaseTarget::Permits(of, permits), [node]) => {
                self.release_permits(&lock, node, (of, permits), &name)
            }
            (_, all) => {
                all.iter().for_each(|node| self.leave(&node.path, LossCause::Released));
                self.close_if_anonymous_and_idle(id);
                self.grant_waiters(&lock);
                Ok(Reply::Released(Released { hold_count: 0, changed: true }))
            }
        };
        if released == nothing {
            self.acknowledge_loss(&name, &lock, &owner, target);
        }
        released
    }

    /// Gives back permits, from the highest slot down; the last one ends the hold or the wait.
    fn release_permits(
        &mut self,
        lock: &LockName,
        node: &Node,
        (of, permits): (HoldName, u32),
        name: &SessionName,
    ) -> Outcome {
        let has = entry(node).permits;
        if permits == 0 || permits > has {
            return Err(LockRejection::PermitsMismatch { permits: has }.into());
        }
        if permits == has {
            return match of {
                HoldName::Attempt(attempt) if !entry(node).is_only_claim(attempt) => {
                    Ok(Reply::Released(self.end_claim(lock, &node.path, attempt)))
                }
                _ => {
                    self.release_entry(lock, &node.path, name);
                    Ok(Reply::Released(Released { hold_count: 0, changed: true }))
                }
            };
        }
        let own = self.find_mut(&node.path).entry.as_mut().unwrap();
        own.permits = has - permits;
        let hold_count = own.claims.len() as u32;
        if let Some(hold) = &mut own.hold {
            hold.slots.truncate((has - permits) as usize);
        }
        self.grant_waiters(lock);
        Ok(Reply::Released(Released { hold_count, changed: true }))
    }

    /// The entries of an owner in a lock, oldest first.
    pub(super) fn own_entries(&self, lock: &LockName, id: u64, owner: &Owner) -> Vec<&Node> {
        let is_own =
            |node: &&Node| node.stat.ephemeral_owner == id as i64 && entry(node).owner == *owner;
        let mut own: Vec<&Node> = self.queue(lock).into_iter().filter(is_own).collect();
        own.sort_by_key(|node| node.stat.czxid);
        own
    }

    pub(super) fn own_entry(&self, lock: &LockName, id: u64, owner: &Owner) -> Option<&Node> {
        self.own_entries(lock, id, owner).into_iter().next()
    }

    /// The entry that a call without an attempt means.
    fn unnamed_entry(&self, lock: &LockName, id: u64, owner: &Owner) -> Option<&Node> {
        let own = self.own_entries(lock, id, owner);
        let unnamed = own.iter().find(|node| entry(node).claim(Attempt::UNNAMED).is_some());
        unnamed.or(own.first()).copied()
    }

    /// The entry that an acquire repeats, nests in or changes: in a semaphore, each attempt has its own.
    pub(super) fn entry_for(&self, lock: &LockName, id: u64, acquire: &Acquire) -> Option<&Node> {
        if acquire.locks.is_multi_lock() || self.policy(lock).limit.is_none() {
            return self.own_entry(lock, id, &acquire.owner);
        }
        match acquire.change.or(acquire.attempt) {
            None => self.unnamed_entry(lock, id, &acquire.owner),
            Some(number) => {
                let own = self.own_entries(lock, id, &acquire.owner);
                let found = own.into_iter().find(|node| entry(node).claim(number).is_some());
                let enters = acquire.enters && acquire.change.is_none();
                found.or(self.unnamed_entry(lock, id, &acquire.owner).filter(|_| enters))
            }
        }
    }

    /// The entries of an owner that a release means.
    pub(super) fn meant_entries(
        &self,
        lock: &LockName,
        (id, owner): (u64, &Owner),
        target: ReleaseTarget,
    ) -> Vec<Node> {
        let own = self.own_entries(lock, id, owner);
        let semaphore = self.policy(lock).limit.is_some();
        let claims = |node: &&Node, number| entry(node).claim(number).is_some();
        let meant: Vec<&Node> = match target {
            ReleaseTarget::AnyEntry if semaphore => own,
            ReleaseTarget::Attempt(number) if semaphore => {
                own.into_iter().filter(|node| claims(node, number)).collect()
            }
            ReleaseTarget::AnyEntry | ReleaseTarget::Attempt(_) => {
                own.into_iter().take(1).collect()
            }
            ReleaseTarget::Permits(HoldName::Unnamed, _) => {
                self.unnamed_entry(lock, id, owner).into_iter().collect()
            }
            ReleaseTarget::Permits(HoldName::Attempt(number), _) => {
                own.into_iter().find(|node| claims(node, number)).into_iter().collect()
            }
            ReleaseTarget::Hold(token) | ReleaseTarget::Permits(HoldName::Token(token), _) => {
                own.into_iter().filter(|node| entry(node).had(token.0)).collect()
            }
        };
        meant.into_iter().cloned().collect()
    }

    pub(super) fn release_entry(&mut self, lock: &LockName, path: &str, name: &SessionName) {
        self.leave(path, LossCause::Released);
        let id = self.live(name).unwrap().id;
        self.close_if_anonymous_and_idle(id);
        self.grant_waiters(lock);
    }

    pub(super) fn cancel(&mut self, cancel: Cancel) -> Reply {
        let Cancel { lock, session: name, owner, ticket, requested_in } = cancel;
        let Some(id) = self.live(&name).map(|session| session.id as i64) else {
            return Reply::Cancelled;
        };
        let queue = self.queue(&lock);
        let meant = |node: &&&Node| {
            node.stat.czxid.0 == ticket.0
                && node.stat.ephemeral_owner == id
                && entry(node).owner == owner
        };
        let Some(node) = queue.iter().find(meant) else { return Reply::Cancelled };
        let own = entry(node);
        let path = node.path.clone();
        let converts = own.hold.is_some() && own.mode != own.held;
        let ended = own.end_wait(requested_in.0);
        let Some((_, rest)) = ended.filter(|_| own.hold.is_none() || converts) else {
            return self.acquire_reply(&lock, &path, true, false);
        };
        if rest.is_empty() {
            self.release_entry(&lock, &path, &name);
            return Reply::Cancelled;
        }
        for lock in if own.multi_lock.is_empty() { vec![lock] } else { own.multi_lock.clone() } {
            let queue = self.queue(&lock);
            let Some(node) = queue.iter().find(|node| meant(node)) else { continue };
            // A later call may have changed the entry of one lock alone.
            let Some((number, rest)) = entry(node).end_wait(requested_in.0) else { continue };
            // The last claim of an entry stays: the multi-lock waits as a whole.
            if rest.is_empty() {
                continue;
            }
            let path = node.path.clone();
            self.end_attempt((&name, &lock, &owner), number);
            self.set_claims(&lock, &path, rest);
        }
        Reply::Cancelled
    }
}

/// The name of an HTTP caller's entry.
pub(super) fn own_name(mode: Mode, sequence: u64, other: &str) -> String {
    let word = if mode == Mode::Shared { "READ" } else { "WRIT" };
    format!("{sequence:010}{other}__{word}__{sequence:010}__lock__{sequence:010}")
}

fn request_of(acquire: &Acquire) -> LockRequest {
    let (mode, permits) = (acquire.mode.unwrap_or_default(), acquire.permits.unwrap_or(1));
    let (priority, reader) = (acquire.options.priority, Reader::Own);
    LockRequest { mode, permits, priority, never_overtaken: false, reader }
}

/// The lock whose directory holds this path.
fn lock_at(entry: &str) -> LockName {
    super::super::script_commands::path(entry).parent().unwrap().as_lock().unwrap()
}
