//! The model's locks: acquire, release, cancel.

use holdfast_types::*;

use super::{Model, Node, Place, full, parent, znode};

impl Model {
    pub(super) fn acquire(&mut self, acquire: Acquire) -> Outcome {
        let Acquire { lock, open, owner, entry, wait, mode, .. } = acquire;
        let name = open.session.clone();
        if self.live(&name).is_none() && self.end_of(&name) == Some(SessionEnd::Expired) {
            return Err(Rejection::SessionExpired { session: name });
        }
        let id = self.live(&name).map_or(0, |session| session.id);
        if let Some(node) = self.own_place(&lock, id, &owner) {
            let Place { mode: has, held, hold, .. } = node.place.clone().unwrap();
            let wanted = mode.unwrap_or(has);
            let weaker = held == Mode::Exclusive || held == Mode::Upgradable;
            if wanted != has && (hold.is_none() || !weaker) {
                return Err(Rejection::ModeConflict { mode: has });
            }
            let up = wanted == Mode::Exclusive && held == Mode::Upgradable && hold.is_some();
            let alone = up && wanted != has && self.holders(&lock).len() == 1;
            let path = node.path.clone();
            if !wait && (hold.is_none() || up) && !alone {
                let waiters = self.waiters(&lock).len() as u32;
                let holder = self.other_holder(&lock, &path).unwrap().into();
                return Err(Rejection::LockBusy { holder, waiters });
            }
            let entries = node.place.as_ref().unwrap().entries.clone();
            let news = entry.filter(|entry| !entries.contains(entry));
            if news.is_some() && entries.len() as u32 >= self.limits.entries_per_hold_max {
                return full(Bound::EntriesPerHold, self.limits.entries_per_hold_max);
            }
            self.touch_by_name(&name, open.ttl);
            let revision = self.revision;
            let place = self.find_mut(&path).place.as_mut().unwrap();
            place.mode = wanted;
            if place.hold.is_none() || up {
                place.asked = revision;
            } else {
                place.held = wanted;
            }
            if let Some(entry) = news {
                place.left.retain(|left| *left != entry);
                place.entries.push(entry);
            }
            self.settle();
            return Ok(self.standing(&lock, &path, !up || wanted == has));
        }
        self.join(lock, open, (owner, mode.unwrap_or_default()), entry, wait)
    }

    pub(super) fn join(
        &mut self,
        lock: LockName,
        open: OpenSession,
        (owner, mode): (Owner, Mode),
        entry: Option<EntryId>,
        wait: bool,
    ) -> Outcome {
        let name = open.session.clone();
        let known = self.live(&name).is_some();
        if !wait && self.would_wait(&lock, mode) {
            let waiters = self.waiters(&lock).len() as u32;
            return Err(Rejection::LockBusy { holder: self.holder_view(&lock).into(), waiters });
        }
        if !known && self.sessions.len() as u32 >= self.limits.sessions_max {
            return full(Bound::Sessions, self.limits.sessions_max);
        }
        let id = self.live(&name).map_or(0, |session| session.id);
        if let Some(refused) = self.no_room(id, &lock, mode) {
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
        let nearest = self.find(&at).unwrap();
        let anyone =
            |e: &AclEntry| e.perms.intersects(Perms::CREATE) && e.who == Identity::anyone();
        if !nearest.acl.as_ref().is_none_or(|acl| acl.iter().any(anyone)) {
            return Err(Rejection::NotAllowed { path: znode(&at), needed: Perms::CREATE });
        }
        let sequence = if missing.is_empty() { nearest.counter() } else { nearest.floor };
        let mut path = format!("{directory}/lock-{sequence:010}");
        if self.find(&path).is_some() {
            path = format!("{directory}/lock-r{}-{sequence:010}", self.revision);
        }
        if self.nodes.len() + missing.len() + 1 > self.limits.znodes_max as usize {
            return full(Bound::Znodes, self.limits.znodes_max);
        }
        let mut all = missing.clone();
        all.push(path.clone());
        self.room_in_quotas(&path, &all, 0)?;
        if known {
            self.touch_by_name(&name, open.ttl);
        } else {
            self.begin(&open);
        }
        missing.iter().for_each(|path| self.add_directory(path, None));
        let entry = entry.unwrap_or_else(EntryId::unnamed);
        self.contend(&path, (sequence, mode), &name, owner, entry, &[]);
        Ok(self.standing(&lock, &path, false))
    }

    pub(super) fn no_room(&self, id: u64, lock: &LockName, mode: Mode) -> Option<Rejection> {
        let Limits { contenders_per_session_max, waiters_per_lock_max, .. } = self.limits;
        if self.places(id) >= contenders_per_session_max {
            return full(Bound::ContendersPerSession, contenders_per_session_max).err();
        }
        let waiters = self.waiters(lock).len() as u32;
        if self.would_wait(lock, mode) && waiters >= waiters_per_lock_max {
            return full(Bound::WaitersPerLock, waiters_per_lock_max).err();
        }
        None
    }

    pub(super) fn contend(
        &mut self,
        path: &str,
        (sequence, mode): (u64, Mode),
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
        let held = mode;
        let place = Place { sequence, owner, asked, entries, left, mode, held, hold: None };
        self.add(path, id, data, Some(place));
        self.settle();
    }

    pub(super) fn release(&mut self, release: Release) -> Outcome {
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
            return Err(Rejection::NotHolder { holder: self.holder_view(&lock).into() });
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

    pub(super) fn give_up(
        &mut self,
        lock: &LockName,
        path: &str,
        name: &SessionName,
        owner: Owner,
    ) {
        self.remove(path);
        let session = self.live_mut(name);
        session.given_up.push((lock.clone(), owner));
        let (id, anonymous) = (session.id, session.anonymous);
        if anonymous && self.places(id) == 0 {
            self.end(name, SessionEnd::Closed);
        }
        self.settle();
    }

    pub(super) fn cancel(&mut self, cancel: Cancel) -> Reply {
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
        let converts = place.hold.is_some() && place.mode != place.held;
        if (place.hold.is_some() && !converts) || place.asked > asked.0 {
            return self.standing(&lock, &path, false);
        }
        if converts {
            self.find_mut(&path).place.as_mut().unwrap().mode = Mode::Upgradable;
            self.settle();
            return Reply::Cancelled;
        }
        self.give_up(&lock, &path, &name, owner);
        Reply::Cancelled
    }
}
