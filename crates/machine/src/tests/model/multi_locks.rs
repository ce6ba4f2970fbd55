//! The model's multi-locks: an entry in each queue, granted together and removed together while waiting.

use holdfast_types::LockRejection;
use holdfast_types::*;

use super::locks::{LockRequest, Reader, entry, lock_of};
use super::queue_entries::EntryOrigin;
use super::{Model, Node, full, limit_reached};

impl Model {
    /// The other entries of a waiting multi-lock.
    pub(super) fn partners(&self, node: &Node) -> Vec<Node> {
        let Some(own) = &node.entry else { return Vec::new() };
        if own.hold.is_some() || own.multi_lock.is_empty() {
            return Vec::new();
        }
        let with = |other: &&Node| {
            let same = other.stat.ephemeral_owner == node.stat.ephemeral_owner
                && other.stat.czxid == node.stat.czxid
                && other.path != node.path;
            let entry = other.entry.as_ref();
            same && entry
                .is_some_and(|entry| entry.owner == own.owner && entry.multi_lock == own.multi_lock)
        };
        let mut partners: Vec<Node> = self.nodes.iter().filter(with).cloned().collect();
        partners.sort_by_key(lock_of);
        partners
    }

    /// All entries of a waiter's multi-lock, by lock.
    pub(super) fn multi_lock_entries(&self, node: &Node) -> Vec<Node> {
        let mut entries = self.partners(node);
        entries.push(node.clone());
        entries.sort_by_key(lock_of);
        entries
    }

    pub(super) fn acquire_multi_lock(&mut self, id: u64, all: &Acquire) -> Outcome {
        let own = |lock| self.own_entry(lock, id, &all.owner).cloned();
        let entries: Vec<Node> = all.locks.iter().filter_map(own).collect();
        for lock in all.locks.iter() {
            let allowed = self.check_attempt(lock, all);
            allowed.map_err(|why| in_multi_lock(lock, why))?;
        }
        let Some(first) = entries.first() else { return self.join_multi_lock(id, all) };
        let locks: Vec<LockName> = all.locks.iter().cloned().collect();
        let same_acquire =
            |node: &Node| entry(node).multi_lock == locks && node.stat.czxid == first.stat.czxid;
        if entries.len() != locks.len() || !entries.iter().all(same_acquire) {
            return Err(LockRejection::AlreadyQueued { lock: lock_of(first) }.into());
        }
        self.renew_multi_lock(&entries, all)
    }

    /// Renews a multi-lock that is held or waiting.
    fn renew_multi_lock(&mut self, entries: &[Node], all: &Acquire) -> Outcome {
        let mut plans = Vec::new();
        for node in entries {
            let lock = lock_of(node);
            let again = self.again(&lock, node, all).map_err(|why| in_multi_lock(&lock, why))?;
            plans.push((lock, again));
        }
        self.renew_lease_by_name(&all.open.session, all.open.ttl, all.attempt);
        for (at, (node, (lock, again))) in entries.iter().zip(plans).enumerate() {
            let number = all.attempt.unwrap_or(Attempt::UNNAMED);
            let wait_ms = all.wait_ms.filter(|_| at == 0);
            self.apply_again(&lock, &node.path, again, (number, None, wait_ms));
        }
        Ok(self.asked_now(self.multi_lock_reply(entries, true)))
    }

    fn join_multi_lock(&mut self, id: u64, all: &Acquire) -> Outcome {
        let mode = all.mode.unwrap_or_default();
        let reader = Reader::Own;
        let request = LockRequest { mode, permits: 1, priority: 0, never_overtaken: true, reader };
        for lock in all.locks.iter() {
            self.check_no_foreign_znode(lock).map_err(|why| in_multi_lock(lock, why))?;
            self.limit_to_set(lock, all).map_err(|why| in_multi_lock(lock, why))?;
            let waiting = self.waiters(lock).len() as u32;
            let queues = all.wait && all.queue_max.is_none_or(|max| waiting < max);
            if !queues && self.would_wait(lock, request) {
                return Err(in_multi_lock(lock, self.busy(lock, "")));
            }
        }
        let waits = all.locks.iter().any(|lock| self.would_wait(lock, request));
        let Limits { sessions_max, queue_entries_per_session_max, .. } = self.limits;
        if id == 0 && self.sessions.len() as u32 >= sessions_max {
            return full(Bound::Sessions, sessions_max);
        }
        if self.entries_of(id) + all.locks.count() as u32 > queue_entries_per_session_max {
            return full(Bound::QueueEntriesPerSession, queue_entries_per_session_max);
        }
        let before = self.clone();
        let joined = self.join_each(all, waits).and_then(|entries| {
            let own: Vec<_> =
                entries.iter().map(|node| (lock_of(node), node.path.clone())).collect();
            self.check_deadlock(&own, &before)?;
            Ok(entries)
        });
        match joined {
            Ok(entries) => Ok(self.multi_lock_reply(&entries, false)),
            Err(rejection) => {
                *self = before;
                Err(rejection)
            }
        }
    }

    /// Adds an entry to each queue. The waiter limit applies only if the multi-lock has to wait.
    fn join_each(&mut self, all: &Acquire, waits: bool) -> Result<Vec<Node>, Rejection> {
        if self.live(&all.open.session).is_some() {
            self.renew_lease_by_name(&all.open.session, all.open.ttl, all.attempt);
        } else {
            self.begin(&all.open, all.attempt);
        }
        let mut paths = Vec::new();
        for (at, lock) in all.locks.iter().enumerate() {
            let path = self.join_one((lock, at), all, waits);
            paths.push(path.map_err(|why| in_multi_lock(lock, why))?);
        }
        self.grant_waiters(all.locks.first());
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
            return Err(limit_reached(Bound::WaitersPerLock, max));
        }
        let location = self.location(lock, all.mode.unwrap_or_default())?;
        location.missing.iter().for_each(|path| self.add_directory(path, None));
        let acquire = Acquire { wait_ms: all.wait_ms.filter(|_| at == 0), ..all.clone() };
        let locks: Vec<LockName> = all.locks.iter().cloned().collect();
        self.add_entry(
            &location.path,
            location.sequence,
            acquire,
            EntryOrigin::MultiLock(&locks),
            &[],
        );
        Ok(location.path)
    }

    /// The reply for a multi-lock: all granted, or all queued.
    fn multi_lock_reply(&self, entries: &[Node], renewed: bool) -> Reply {
        let now: Vec<(LockName, &Node)> =
            entries.iter().map(|node| (lock_of(node), self.find(&node.path).unwrap())).collect();
        if now.iter().all(|(_, node)| entry(node).hold.is_none()) {
            let queued = |(lock, node): (LockName, &Node)| self.queued(&lock, node);
            return Reply::Acquired(EntryState::Waiting(now.into_iter().map(queued).collect()));
        }
        let grants = now.into_iter().map(|(lock, node)| self.grant(&lock, node, renewed));
        Reply::Acquired(EntryState::Holding(grants.collect()))
    }

    /// Removes all entries before any grant, except for grants after an acknowledged loss.
    pub(super) fn release_multi_lock(&mut self, release: Release) -> Outcome {
        let Release { locks, session, owner, target } = release;
        let mut released = Released { hold_count: 0, changed: false };
        let Some(id) = self.live(&session).map(|session| session.id) else {
            let end = self.end_of(&session);
            if end == Some(SessionEnd::Expired) {
                return Err(self.gone(session));
            }
            for lock in locks.iter() {
                self.acknowledge_loss(&session, lock, &owner, target);
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
            let meant = self.meant_entries(lock, (id, &owner), target);
            if self.own_entry(lock, id, &owner).is_none() {
                let acknowledged = self.acknowledge_loss(&session, lock, &owner, target);
                match target {
                    ReleaseTarget::Attempt(attempt) => {
                        self.end_attempt((&session, lock, &owner), attempt);
                    }
                    ReleaseTarget::AnyEntry if acknowledged => {
                        self.live_mut(&session).released.push((lock.clone(), owner.clone()));
                    }
                    _ => {}
                }
                continue;
            }
            if let (ReleaseTarget::Attempt(attempt), []) = (target, &meant[..]) {
                self.end_attempt((&session, lock, &owner), attempt);
            }
            for node in meant {
                match target {
                    ReleaseTarget::Attempt(attempt) if !entry(&node).is_only_claim(attempt) => {
                        let one = self.end_claim(lock, &node.path, attempt);
                        released.changed |= one.changed;
                        released.hold_count = released.hold_count.max(one.hold_count);
                    }
                    _ => {
                        self.leave(&node.path, LossCause::Released);
                        released.changed = true;
                        left.push(lock.clone());
                    }
                }
            }
        }
        if !left.is_empty() {
            self.close_if_anonymous_and_idle(id);
            left.iter().for_each(|lock| self.grant_waiters(lock));
        }
        Ok(Reply::Released(released))
    }
}

fn in_multi_lock(lock: &LockName, why: Rejection) -> Rejection {
    Rejection::Lock(LockRejection::OfMultiLock { lock: lock.clone(), why: why.into() })
}
