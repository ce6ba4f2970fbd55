//! The model's queue entries: acquire, release, cancel.

use holdfast_types::*;
use holdfast_types::{LockRejection, SessionRejection};

use super::locks::{Ask, place};
use super::timers::check_bounds;
use super::{Model, Node, Place, full, refused};

/// A session known by its name.
pub(super) fn plain(session: SessionName) -> OpenSession {
    let labels = Labels::default();
    OpenSession { session, ttl: None, anonymous: false, labels, password: None }
}

/// How somebody comes to a lock.
#[derive(Clone, Copy)]
pub(super) enum Kind<'a> {
    Own,
    OfTree,
    /// Who asks for these at once.
    OfSeveral(&'a [LockName]),
}

/// Where a new place goes.
pub(super) struct Site {
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
        let id = self.live(&name).map_or(0, |session| session.id);
        let Some(lock) = acquire.locks.single().cloned() else {
            return self.acquire_several(id, &acquire);
        };
        self.refuse_over((&name, &lock, &acquire.owner), acquire.attempt)?;
        match self.own_place(&lock, id, &acquire.owner).cloned() {
            Some(node) => self.acquire_again(lock, &node, acquire),
            None => self.join(&lock, acquire),
        }
    }

    fn acquire_again(&mut self, lock: LockName, node: &Node, acquire: Acquire) -> Outcome {
        let Acquire { open, attempt, wait, wait_ms, options, .. } = acquire;
        let AcquireOptions { reentrant, value, .. } = options;
        let (path, old) = (node.path.clone(), place(node).clone());
        let limit = self.policy(&lock).limit;
        if acquire.limit.is_some() && acquire.limit != limit {
            return Err(LockRejection::LimitMismatch { limit }.into());
        }
        if acquire.permits.is_some_and(|permits| permits != old.permits) {
            return Err(LockRejection::PermitsMismatch { permits: old.permits }.into());
        }
        if old.hold.is_none() && !old.bundle.is_empty() {
            return Err(LockRejection::AlreadyQueued { lock }.into());
        }
        let wanted = acquire.mode.unwrap_or(old.mode);
        let holds = old.hold.is_some();
        let weaker = old.held == Mode::Exclusive || old.held == Mode::Upgradable;
        if wanted != old.mode && (!holds || !weaker || limit.is_some()) {
            return Err(LockRejection::ModeConflict { mode: old.mode }.into());
        }
        let up = holds && wanted == Mode::Exclusive && old.held == Mode::Upgradable;
        let alone = up && wanted != old.mode && self.holders(&lock).len() == 1;
        if !wait && (!holds || up) && !alone {
            return Err(self.busy(&lock, &path));
        }
        let news = attempt.filter(|attempt| !old.attempts.contains(attempt));
        if news.is_some() && !(reentrant && old.reentrant) {
            return Err(LockRejection::NotReentrant.into());
        }
        if news.is_some() && old.attempts.len() as u32 >= self.limits.hold_count_max {
            return full(Bound::HoldCount, self.limits.hold_count_max);
        }
        if up && wanted != old.mode && !alone {
            let mut then = self.clone();
            then.find_mut(&path).place.as_mut().unwrap().mode = wanted;
            then.refuse_waiting_for_itself(&[(lock.clone(), path.clone())])?;
        }
        self.touch_by_name(&open.session, open.ttl);
        let revision = self.revision;
        let place = self.find_mut(&path).place.as_mut().unwrap();
        place.mode = wanted;
        place.value = value.or(old.value);
        place.attempts.extend(news);
        if !holds || up {
            (place.asked, place.wait_ms) = (revision, wait_ms);
        } else {
            place.held = wanted;
        }
        if up {
            self.upgrade(&lock);
        } else if wanted != old.mode {
            // Weaker: others may be able to hold beside it now.
            self.settle(&lock);
        }
        Ok(self.standing(&lock, &path, !up || wanted == old.mode))
    }

    fn join(&mut self, lock: &LockName, acquire: Acquire) -> Outcome {
        let limit = self.kind(lock, &acquire)?;
        let open = acquire.open.clone();
        let name = open.session.clone();
        let known = self.live(&name).is_some();
        let ask = ask_of(&acquire);
        let waiting = self.waiters(lock).len() as u32;
        let queues = acquire.wait && acquire.queue_max.is_none_or(|max| waiting < max);
        if !queues && self.would_wait(lock, ask) {
            return Err(self.busy(lock, ""));
        }
        if !known && self.sessions.len() as u32 >= self.limits.sessions_max {
            return full(Bound::Sessions, self.limits.sessions_max);
        }
        let id = self.live(&name).map_or(0, |session| session.id);
        if let Some(refused) = self.no_room(id, lock, ask) {
            return Err(refused);
        }
        let site = self.site(lock)?;
        let before = self.clone();
        if known {
            self.touch_by_name(&name, open.ttl);
        } else {
            self.begin(&open);
        }
        let path = site.path.clone();
        site.missing.iter().for_each(|path| self.add_directory(path, None));
        if limit.is_some() {
            let policy = LockPolicy { limit, ..LockPolicy::DEFAULT };
            self.find_mut(&format!("/locks/{lock}")).rules = Some((policy, false));
        }
        self.contend(&site.path, site.sequence, acquire, Kind::Own, &[]);
        if let Err(refused) = self.refuse_waiting_for_itself(&[(lock.clone(), path.clone())]) {
            *self = before;
            return Err(refused);
        }
        Ok(self.standing(lock, &path, false))
    }

    /// Where a new place of our own door goes: what is missing of its directory, its znode, its number.
    pub(super) fn site(&self, lock: &LockName) -> Result<Site, Rejection> {
        let directory = format!("/locks/{lock}");
        let (nearest, missing) = self.missing(&directory)?;
        self.anyone_may(&nearest, Perms::CREATE)?;
        let nearest = self.find(&nearest).unwrap();
        let sequence = if missing.is_empty() { nearest.counter() } else { nearest.floor };
        let mut path = format!("{directory}/lock-{sequence:010}");
        if self.find(&path).is_some() {
            path = format!("{directory}/lock-r{}-{sequence:010}", self.revision);
        }
        if self.nodes.len() + missing.len() + 1 > self.limits.znodes_max as usize {
            return Err(refused(Bound::Znodes, self.limits.znodes_max));
        }
        let mut all = missing.clone();
        all.push(path.clone());
        self.room_in_quotas(&path, &all, 0)?;
        Ok(Site { missing, path, sequence })
    }

    pub(super) fn no_room(&self, id: u64, lock: &LockName, ask: Ask) -> Option<Rejection> {
        let Limits { queue_entries_per_session_max, waiters_per_lock_max, .. } = self.limits;
        if self.places(id) >= queue_entries_per_session_max {
            return full(Bound::QueueEntriesPerSession, queue_entries_per_session_max).err();
        }
        let waiters = self.waiters(lock).len() as u32;
        if waiters >= waiters_per_lock_max && self.would_wait(lock, ask) {
            return full(Bound::WaitersPerLock, waiters_per_lock_max).err();
        }
        None
    }

    /// A new place at the end of the queue, or where its priority and the rules put it.
    pub(super) fn contend(
        &mut self,
        path: &str,
        sequence: u64,
        acquire: Acquire,
        kind: Kind<'_>,
        data: &[u8],
    ) {
        let (fixed, bundle) = match kind {
            Kind::Own => (false, Vec::new()),
            Kind::OfTree => (true, Vec::new()),
            Kind::OfSeveral(locks) => (true, locks.to_vec()),
        };
        let ask = Ask { fixed, ..ask_of(&acquire) };
        let (lock, options) = (path_of(path), acquire.options.clone());
        let Acquire { open, owner, attempt, wait_ms, .. } = acquire;
        let session = self.live_mut(&open.session);
        session.given_up.retain(|(l, o)| *l != lock || *o != owner);
        let id = session.id as i64;
        let place = Place {
            sequence,
            owner,
            asked: self.revision,
            wait_ms,
            attempts: vec![attempt.unwrap_or(Attempt::UNNAMED)],
            mode: ask.mode,
            held: ask.mode,
            hold: None,
            permits: ask.permits,
            priority: ask.priority,
            reentrant: options.reentrant,
            max_hold: options.max_hold_ms,
            min_hold: options.min_hold_ms,
            value: options.value,
            fixed,
            rank: self.rank(&lock, ask),
            bundle,
        };
        self.add(path, id, data, Some(place));
        // Who asked for several is granted when it stands in all queues.
        let alone = !matches!(kind, Kind::OfSeveral(_));
        if alone && self.waiters(&lock).first().is_some_and(|first| first.path == path) {
            self.settle(&lock);
        }
    }

    pub(super) fn release(&mut self, release: Release) -> Outcome {
        let Some(lock) = release.locks.single().cloned() else {
            return self.release_several(release);
        };
        let Release { session: name, owner, target, .. } = release;
        let nothing = Ok(Reply::Released(Released { hold_count: 0, changed: false }));
        let Some(session) = self.live(&name) else {
            let end = self.end_of(&name);
            if end == Some(SessionEnd::Expired) {
                return Err(self.gone(name));
            }
            self.take_note_of(&name, &lock);
            return match (target, end) {
                (ReleaseTarget::Attempt(attempt), _) => {
                    self.end_attempt((&name, &lock, &owner), attempt);
                    nothing
                }
                (_, Some(_)) => nothing,
                (_, None) => Err(self.gone(name)),
            };
        };
        let Some(node) = self.own_place(&lock, session.id, &owner) else {
            let gave_up = session.given_up.contains(&(lock.clone(), owner.clone()));
            let noted = self.take_note_of(&name, &lock);
            match target {
                ReleaseTarget::Attempt(attempt) => {
                    self.end_attempt((&name, &lock, &owner), attempt);
                    return nothing;
                }
                ReleaseTarget::Hold(_) => return nothing,
                ReleaseTarget::AnyPlace => {}
            }
            if noted {
                // What it gives back was taken from it.
                self.live_mut(&name).given_up.push((lock, owner));
                return nothing;
            }
            return match self.other_holder(&lock, "") {
                Some(holder) if !gave_up => {
                    Err(Rejection::Lock(LockRejection::NotHolder { holder: holder.into() }))
                }
                Some(_) | None => nothing,
            };
        };
        let (path, place) = (node.path.clone(), place(node).clone());
        let holds = place.hold.as_ref().map(|hold| hold.token);
        match target {
            ReleaseTarget::Attempt(attempt) if place.attempts != [attempt] => {
                self.end_attempt((&name, &lock, &owner), attempt);
                let place = self.find_mut(&path).place.as_mut().unwrap();
                let before = place.attempts.len();
                place.attempts.retain(|other| *other != attempt);
                let hold_count = place.attempts.len() as u32;
                let changed = place.attempts.len() < before;
                return Ok(Reply::Released(Released { hold_count, changed }));
            }
            ReleaseTarget::Hold(token) if holds != Some(token.0) => return nothing,
            _ => {}
        }
        self.give_up(&lock, &path, &name);
        Ok(Reply::Released(Released { hold_count: 0, changed: true }))
    }

    fn give_up(&mut self, lock: &LockName, path: &str, name: &SessionName) {
        self.leave(path, LossCause::Released);
        let id = self.live(name).unwrap().id;
        self.end_if_spent(id);
        self.settle(lock);
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
                && place(node).owner == owner
        };
        let Some(node) = queue.iter().find(meant) else { return Reply::Cancelled };
        let place = place(node);
        let path = node.path.clone();
        let converts = place.hold.is_some() && place.mode != place.held;
        if (place.hold.is_some() && !converts) || place.asked > asked.0 {
            return self.standing(&lock, &path, false);
        }
        if converts {
            self.find_mut(&path).place.as_mut().unwrap().mode = Mode::Upgradable;
            self.settle(&lock);
            return Reply::Cancelled;
        }
        self.give_up(&lock, &path, &name);
        Reply::Cancelled
    }
}

fn ask_of(acquire: &Acquire) -> Ask {
    let (mode, permits) = (acquire.mode.unwrap_or_default(), acquire.permits.unwrap_or(1));
    Ask { mode, permits, priority: acquire.options.priority, fixed: false }
}

/// The lock in whose directory a place is.
fn path_of(place: &str) -> LockName {
    super::super::script_commands::path(place).parent().unwrap().as_lock().unwrap()
}
