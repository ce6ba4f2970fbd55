//! The model's several locks at once: a place in each queue, granted together, and waiting or gone together.

use holdfast_types::LockRejection;
use holdfast_types::*;

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

    pub(super) fn acquire_several(&mut self, id: u64, all: &Acquire) -> Outcome {
        let name = &all.open.session;
        let own = |lock| self.own_place(lock, id, &all.owner).cloned();
        let places: Vec<Node> = all.locks.iter().filter_map(own).collect();
        for lock in all.locks.iter() {
            let over = self.refuse_over((name, lock, &all.owner), all.attempt);
            over.map_err(|why| refused_member(lock, why))?;
        }
        let Some(first) = places.first() else { return self.join_all(id, all) };
        let locks: Vec<LockName> = all.locks.iter().cloned().collect();
        let together =
            |node: &Node| place(node).bundle == locks && node.stat.czxid == first.stat.czxid;
        if places.len() != locks.len() || !places.iter().all(together) {
            return Err(LockRejection::AlreadyQueued { lock: lock_of(first) }.into());
        }
        self.acquire_all_again(&places, all)
    }

    /// They are held, or waited for, as they are asked for again.
    fn acquire_all_again(&mut self, places: &[Node], all: &Acquire) -> Outcome {
        let max = self.limits.hold_count_max;
        for node in places {
            let (lock, own) = (lock_of(node), place(node));
            let mode = if own.hold.is_some() { own.held } else { own.mode };
            if own.mode != mode || all.mode.is_some_and(|wanted| wanted != mode) {
                let conflict = LockRejection::ModeConflict { mode };
                return Err(refused_member(&lock, conflict.into()));
            }
            if own.hold.is_none() && !all.wait {
                return Err(refused_member(&lock, self.busy(&lock, &node.path)));
            }
            let is_new = all.attempt.is_some_and(|attempt| !own.attempts.contains(&attempt));
            if is_new && own.attempts.len() as u32 >= max {
                return Err(refused_member(&lock, refused(Bound::HoldCount, max)));
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

    fn join_all(&mut self, id: u64, all: &Acquire) -> Outcome {
        let mode = all.mode.unwrap_or_default();
        let ask = Ask { mode, permits: 1, priority: 0, fixed: true };
        for lock in all.locks.iter() {
            self.kind(lock, all).map_err(|why| refused_member(lock, why))?;
            let waiting = self.waiters(lock).len() as u32;
            let queues = all.wait && all.queue_max.is_none_or(|max| waiting < max);
            if !queues && self.would_wait(lock, ask) {
                return Err(refused_member(lock, self.busy(lock, "")));
            }
        }
        let waits = all.locks.iter().any(|lock| self.would_wait(lock, ask));
        let Limits { sessions_max, queue_entries_per_session_max, .. } = self.limits;
        if id == 0 && self.sessions.len() as u32 >= sessions_max {
            return full(Bound::Sessions, sessions_max);
        }
        if self.places(id) + all.locks.count() as u32 > queue_entries_per_session_max {
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
    fn join_each(&mut self, all: &Acquire, waits: bool) -> Result<Vec<Node>, Rejection> {
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
        self.settle(all.locks.first());
        Ok(paths.iter().map(|path| self.find(path).unwrap().clone()).collect())
    }

    fn join_one(
        &mut self,
        (lock, at): (&LockName, usize),
        all: &Acquire,
        waits: bool,
    ) -> Result<String, Rejection> {
        let max = self.limits.waiters_per_lock_max;
        if waits && self.waiters(lock).len() as u32 >= max {
            return Err(refused(Bound::WaitersPerLock, max));
        }
        let site = self.site(lock)?;
        site.missing.iter().for_each(|path| self.add_directory(path, None));
        let acquire = Acquire { wait_ms: all.wait_ms.filter(|_| at == 0), ..all.clone() };
        let locks: Vec<LockName> = all.locks.iter().cloned().collect();
        self.contend(&site.path, site.sequence, acquire, Kind::OfSeveral(&locks), &[]);
        Ok(site.path)
    }

    /// All are held, or all are waited for.
    fn standing_all(&self, places: &[Node], renewed: bool) -> Reply {
        let now: Vec<(LockName, &Node)> =
            places.iter().map(|node| (lock_of(node), self.find(&node.path).unwrap())).collect();
        if now.iter().all(|(_, node)| place(node).hold.is_none()) {
            let queued = |(lock, node): (LockName, &Node)| self.queued(&lock, node);
            return Reply::Queued(now.into_iter().map(queued).collect());
        }
        let grants = now.into_iter().map(|(lock, node)| self.grant(&lock, node, renewed));
        Reply::Granted(grants.collect())
    }

    /// All places go before anybody is granted anything, as far as nobody takes note of a loss on the way.
    pub(super) fn release_several(&mut self, release: Release) -> Outcome {
        let Release { locks, session, owner, target } = release;
        let mut released = Released { hold_count: 0, changed: false };
        let Some(id) = self.live(&session).map(|session| session.id) else {
            let end = self.end_of(&session);
            if end == Some(SessionEnd::Expired) {
                return Err(self.gone(session));
            }
            for lock in locks.iter() {
                self.take_note_of(&session, lock);
            }
            return match (target, end) {
                (ReleaseTarget::Attempt(attempt), _) => {
                    self.end_attempt((&session, locks.first(), &owner), attempt);
                    Ok(Reply::Released(released))
                }
                (_, Some(_)) => Ok(Reply::Released(released)),
                (_, None) => Err(self.gone(session)),
            };
        };
        let mut left = Vec::new();
        for lock in locks.iter() {
            let own = self.own_place(lock, id, &owner);
            let Some((path, own)) = own.map(|node| (node.path.clone(), place(node).clone())) else {
                let noted = self.take_note_of(&session, lock);
                match target {
                    ReleaseTarget::Attempt(attempt) => {
                        self.end_attempt((&session, lock, &owner), attempt);
                    }
                    ReleaseTarget::AnyPlace if noted => {
                        self.live_mut(&session).given_up.push((lock.clone(), owner.clone()));
                    }
                    _ => {}
                }
                continue;
            };
            let holds = own.hold.as_ref().map(|hold| hold.token);
            match target {
                ReleaseTarget::Attempt(attempt) if own.attempts != [attempt] => {
                    self.end_attempt((&session, lock, &owner), attempt);
                    let place = self.find_mut(&path).place.as_mut().unwrap();
                    place.attempts.retain(|other| *other != attempt);
                    released.changed |= place.attempts.len() < own.attempts.len();
                    released.hold_count = released.hold_count.max(place.attempts.len() as u32);
                }
                ReleaseTarget::Hold(token) if holds != Some(token.0) => {}
                _ => {
                    self.leave(&path, LossCause::Released);
                    released.changed = true;
                    left.push(lock.clone());
                }
            }
        }
        if !left.is_empty() {
            self.end_if_spent(id);
            left.iter().for_each(|lock| self.settle(lock));
        }
        Ok(Reply::Released(released))
    }
}

fn refused_member(lock: &LockName, why: Rejection) -> Rejection {
    Rejection::Lock(LockRejection::OfMultiLock { lock: lock.clone(), why: why.into() })
}
