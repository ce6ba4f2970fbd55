//! The model's several locks at once: a place in each queue, granted together, and waiting or gone together.

use holdfast_types::*;
use holdfast_types::{LockRejection, SessionRejection};

use super::locks::{Ask, lock_of, place};
use super::queue_entries::Kind;
use super::{Model, Node, full, refused};

impl Model {
    /// The places that were asked for together with one that waits, this one apart.
    pub(super) fn partners(&self, node: &Node) -> Vec<Node> {
        let Some(own) = &node.place else { return Vec::new() };
        if own.hold.is_some() || own.bundle.is_empty() {
            return Vec::new();
        }
        let with = |other: &&Node| {
            let same = other.stat.ephemeral_owner == node.stat.ephemeral_owner
                && other.stat.czxid == node.stat.czxid
                && other.path != node.path;
            let place = other.place.as_ref();
            same && place
                .is_some_and(|place| place.owner == own.owner && place.bundle == own.bundle)
        };
        let mut partners: Vec<Node> = self.nodes.iter().filter(with).cloned().collect();
        partners.sort_by_key(lock_of);
        partners
    }

    /// A waiter with its partners, by lock.
    pub(super) fn members(&self, node: &Node) -> Vec<Node> {
        let mut members = self.partners(node);
        members.push(node.clone());
        members.sort_by_key(lock_of);
        members
    }

    pub(super) fn acquire_all(&mut self, all: AcquireAll) -> Outcome {
        check_bounds(&all)?;
        let name = all.open.session.clone();
        if self.live(&name).is_none() && self.end_of(&name) == Some(SessionEnd::Expired) {
            return Err(SessionRejection::Expired { session: name }.into());
        }
        let id = self.live(&name).map_or(0, |session| session.id);
        let own = |lock| self.own_place(lock, id, &all.owner).cloned();
        let places: Vec<Node> = all.locks.iter().filter_map(own).collect();
        for lock in &all.locks {
            let over = self.refuse_over((&name, lock, &all.owner), all.attempt);
            over.map_err(|why| refused_member(lock, why))?;
        }
        let Some(first) = places.first() else { return self.join_all(id, &all) };
        let together =
            |node: &Node| place(node).bundle == all.locks && node.stat.czxid == first.stat.czxid;
        if places.len() != all.locks.len() || !places.iter().all(together) {
            return Err(LockRejection::AlreadyQueued { lock: lock_of(first) }.into());
        }
        self.acquire_all_again(&places, &all)
    }

    /// They are held, or waited for, as they are asked for again.
    fn acquire_all_again(&mut self, places: &[Node], all: &AcquireAll) -> Outcome {
        for node in places {
            let (lock, own) = (lock_of(node), place(node));
            let mode = if own.hold.is_some() { own.held } else { own.mode };
            if mode != all.mode {
                return Err(refused_member(
                    &lock,
                    Rejection::Lock(LockRejection::ModeConflict { mode }),
                ));
            }
            if own.hold.is_none() && !all.wait {
                return Err(refused_member(&lock, self.busy(&lock, &node.path)));
            }
        }
        let max = self.limits.hold_count_max;
        for (lock, node) in all.locks.iter().zip(places) {
            let attempts = &place(node).attempts;
            let is_new = all.attempt.is_some_and(|attempt| !attempts.contains(&attempt));
            if is_new && attempts.len() as u32 >= max {
                return Err(refused_member(lock, refused(Bound::HoldCount, max)));
            }
        }
        self.touch_by_name(&all.open.session, all.open.ttl);
        let revision = self.revision;
        for (at, node) in places.iter().enumerate() {
            let place = self.find_mut(&node.path).place.as_mut().unwrap();
            place.attempts.extend(all.attempt.filter(|a| !place.attempts.contains(a)));
            if place.hold.is_none() {
                (place.asked, place.wait_ms) = (revision, all.wait_ms.filter(|_| at == 0));
            }
        }
        Ok(self.standing_all(places, true))
    }

    fn join_all(&mut self, id: u64, all: &AcquireAll) -> Outcome {
        let ask = Ask { mode: all.mode, permits: 1, priority: 0, fixed: true };
        let busy = all.locks.iter().find(|lock| self.would_wait(lock, ask));
        let waits = busy.is_some();
        if let Some(lock) = busy.filter(|_| !all.wait) {
            return Err(refused_member(lock, self.busy(lock, "")));
        }
        let Limits { sessions_max, queue_entries_per_session_max, .. } = self.limits;
        if id == 0 && self.sessions.len() as u32 >= sessions_max {
            return full(Bound::Sessions, sessions_max);
        }
        if self.places(id) + all.locks.len() as u32 > queue_entries_per_session_max {
            return full(Bound::QueueEntriesPerSession, queue_entries_per_session_max);
        }
        let before = self.clone();
        let joined = self.join_each(all, waits).and_then(|places| {
            let own: Vec<_> =
                places.iter().map(|node| (lock_of(node), node.path.clone())).collect();
            self.refuse_waiting_for_itself(&own)?;
            Ok(places)
        });
        match joined {
            Ok(places) => Ok(self.standing_all(&places, false)),
            Err(rejection) => {
                *self = before;
                Err(rejection)
            }
        }
    }

    /// A place in each queue. Only who has to wait needs room in the queues, as it finds them.
    fn join_each(&mut self, all: &AcquireAll, waits: bool) -> Result<Vec<Node>, Rejection> {
        if self.live(&all.open.session).is_some() {
            self.touch_by_name(&all.open.session, all.open.ttl);
        } else {
            self.begin(&all.open);
        }
        let mut paths = Vec::new();
        for (at, lock) in all.locks.iter().enumerate() {
            let path = self.join_one((lock, at), all, waits);
            paths.push(path.map_err(|why| refused_member(lock, why))?);
        }
        self.settle(&all.locks[0]);
        Ok(paths.iter().map(|path| self.find(path).unwrap().clone()).collect())
    }

    fn join_one(
        &mut self,
        (lock, at): (&LockName, usize),
        all: &AcquireAll,
        waits: bool,
    ) -> Result<String, Rejection> {
        let max = self.limits.waiters_per_lock_max;
        if waits && self.waiters(lock).len() as u32 >= max {
            return Err(refused(Bound::WaitersPerLock, max));
        }
        if self.policy(lock).limit.is_some() && all.mode != Mode::Exclusive {
            return Err(LockRejection::ModeConflict { mode: Mode::Exclusive }.into());
        }
        let site = self.site(lock)?;
        site.missing.iter().for_each(|path| self.add_directory(path, None));
        let acquire = Acquire {
            mode: Some(all.mode),
            wait_ms: all.wait_ms.filter(|_| at == 0),
            max_hold_ms: all.max_hold_ms,
            attempt: all.attempt,
            ..Acquire::new(lock.clone(), all.open.clone(), all.owner.clone())
        };
        self.contend(&site.path, site.sequence, acquire, Kind::OfSeveral(&all.locks), &[]);
        Ok(site.path)
    }

    /// All are held, or all are waited for.
    fn standing_all(&self, places: &[Node], renewed: bool) -> Reply {
        let now: Vec<(LockName, &Node)> =
            places.iter().map(|node| (lock_of(node), self.find(&node.path).unwrap())).collect();
        if now.iter().all(|(_, node)| place(node).hold.is_none()) {
            let queued = |(lock, node): (LockName, &Node)| (lock.clone(), self.queued(&lock, node));
            return Reply::QueuedAll(now.into_iter().map(queued).collect());
        }
        let grants = now.into_iter().map(|(lock, node)| self.grant(&lock, node, renewed));
        Reply::GrantedAll(grants.collect())
    }

    /// All places go before anybody is granted anything, as far as nobody takes note of a loss on the way.
    pub(super) fn release_all(&mut self, release: ReleaseAll) -> Outcome {
        let ReleaseAll { locks, session, owner, attempt } = release;
        if !AcquireAll::are_sound(&locks) {
            return Err(Rejection::OutOfBounds { what: OutOfBounds::Locks });
        }
        let Some(id) = self.live(&session).map(|session| session.id) else {
            return match (self.end_of(&session), attempt) {
                (Some(SessionEnd::Expired), _) | (None, None) => Err(self.gone(session)),
                (_, Some(attempt)) => {
                    self.end_attempt((&session, &locks[0], &owner), attempt);
                    Ok(Reply::ReleasedAll { changed: 0 })
                }
                (Some(SessionEnd::Closed), None) => Ok(Reply::ReleasedAll { changed: 0 }),
            };
        };
        let before = self.places(id);
        for lock in &locks {
            let own = self.own_place(lock, id, &owner);
            let own = own.map(|node| (node.path.clone(), place(node).attempts.clone()));
            if own.is_none() {
                self.take_note_of(&session, lock);
            }
            match (own, attempt) {
                (Some((path, attempts)), Some(attempt)) if attempts == [attempt] => {
                    self.leave(&path, LossCause::Released);
                }
                (own, Some(attempt)) => {
                    self.end_attempt((&session, lock, &owner), attempt);
                    if let Some((path, _)) = own {
                        let place = self.find_mut(&path).place.as_mut().unwrap();
                        place.attempts.retain(|other| *other != attempt);
                    }
                }
                (Some((path, _)), None) => self.leave(&path, LossCause::Released),
                (None, None) => {}
            }
        }
        let changed = before - self.places(id);
        self.end_if_spent(id);
        locks.iter().for_each(|lock| self.settle(lock));
        Ok(Reply::ReleasedAll { changed })
    }
}

fn check_bounds(all: &AcquireAll) -> Result<(), Rejection> {
    if !AcquireAll::are_sound(&all.locks) {
        return Err(Rejection::OutOfBounds { what: OutOfBounds::Locks });
    }
    if all.max_hold_ms.is_some_and(|ms| ms == 0 || ms > Acquire::HOLD_MAX_MS) {
        return Err(Rejection::OutOfBounds { what: OutOfBounds::MaxHold });
    }
    if all.mode == Mode::Upgradable {
        return Err(LockRejection::ModeConflict { mode: Mode::Exclusive }.into());
    }
    Ok(())
}

fn refused_member(lock: &LockName, why: Rejection) -> Rejection {
    Rejection::Lock(LockRejection::OfMultiLock { lock: lock.clone(), why: why.into() })
}
