//! The model's breaks, release requests and hand-overs.

use holdfast_types::LockRejection;
use holdfast_types::*;

use super::super::recipe::model::{Called, repeated};
use super::claims::ModelClaim;
use super::locks::{Reader, entry};
use super::queue_entries::own_name;
use super::{Model, Node, QueueEntry, limit_reached};

impl Model {
    /// Breaks entries on behalf of an operator.
    pub(super) fn force_release(&mut self, release: ForceRelease) -> Reply {
        let ForceRelease { lock, what, reason: _ } = release;
        let meant = |node: &&Node| match what {
            ForceReleaseTarget::Holders => entry(node).hold.is_some(),
            ForceReleaseTarget::Ticket(ticket) => node.stat.czxid.0 == ticket.0,
            ForceReleaseTarget::Sequence(sequence) => entry(node).sequence == sequence,
            ForceReleaseTarget::Token(token) => entry(node).token() == Some(token.0),
        };
        let last = self.fence(&lock).highest.map(ForceReleaseTarget::Token);
        let was_last = self.holders(&lock).is_empty() && last == Some(what);
        let ended: Vec<Node> = self.queue(&lock).into_iter().filter(meant).cloned().collect();
        for node in &ended {
            self.leave(&node.path, LossCause::ForceReleased);
            self.close_if_anonymous_and_idle(node.stat.ephemeral_owner.cast_unsigned());
        }
        if was_last
            || what == ForceReleaseTarget::Holders
            || ended.iter().any(|node| entry(node).hold.is_some())
        {
            self.end_min_hold_and_cooldown(&lock);
        }
        self.grant_waiters(&lock);
        Reply::ForceReleased { places: ended.len() as u32 }
    }

    /// Requests a release from holders. A new request replaces the pending one if it revokes and that one does not, or
    /// if its deadline is earlier; otherwise the pending one stays.
    pub(super) fn request_release(&mut self, command: RequestRelease) -> Outcome {
        let RequestRelease { lock, holder, token, reason, deadline_ms, revoke } = command;
        if deadline_ms == 0 || deadline_ms > RequestRelease::DEADLINE_MAX_MS {
            return Err(Rejection::OutOfBounds { what: OutOfBounds::Deadline });
        }
        let mut holders: Vec<String> = match holder {
            Some(who) => match self.holder_of(&lock, &who, token) {
                Err(_) if token.is_none() => return Err(self.not_holder(&lock)),
                found => found.iter().map(|node| node.path.clone()).collect(),
            },
            None => self.holders(&lock).into_iter().map(|node| node.path.clone()).collect(),
        };
        let token_of = |path: &String| self.find(path).unwrap().entry.as_ref().unwrap().token();
        holders.retain(|path| token.is_none_or(|token| token_of(path) == Some(token.0)));
        let (requested_at, deadline) = (Stamp(self.now), Stamp(self.now + deadline_ms));
        for path in &holders {
            let hold = self.find_mut(path).entry.as_mut().unwrap().hold.as_mut().unwrap();
            let stands = hold.release_request.as_ref().is_some_and(|before| {
                (before.revoke && !revoke)
                    || (before.revoke == revoke && before.deadline <= deadline)
            });
            if !stands {
                let request =
                    ReleaseRequest { reason: reason.clone(), requested_at, deadline, revoke };
                hold.release_request = Some(request);
            }
        }
        Ok(Reply::ReleaseRequested { holders: holders.len() as u32 })
    }

    /// Hands a hold over to another live session with a new token; no waiter is granted in between.
    pub(super) fn hand_over(&mut self, hand_over: HandOver) -> Outcome {
        let Some(id) = self.live(&hand_over.to.0).map(|session| session.id) else {
            let HandOver { lock, from, to, token } = hand_over;
            return Err(self
                .holder_of(&lock, &from, token)
                .err()
                .unwrap_or_else(|| self.gone(to.0)));
        };
        let HandOver { lock, to: (_, taking), token, .. } = &hand_over;
        let call = token.map(|token| Called::HandOver(format!("{lock} {taking} {token}")));
        let (id, revision) = (SessionId(id), self.revision);
        if let Some(first) = call.as_ref().and_then(|call| self.recipes.recall(id, call)) {
            return repeated(first);
        }
        let outcome = self.hand_over_once(hand_over, id.0);
        if let (Some(call), Ok(_)) = (call, &outcome) {
            self.recipes.remember(id, call, (&outcome, revision));
        }
        outcome
    }

    fn hand_over_once(&mut self, hand_over: HandOver, id: u64) -> Outcome {
        let HandOver { lock, from, to, token } = hand_over;
        let giver = self.holder_of(&lock, &from, token)?.clone();
        let taker = self.own_entry(&lock, id, &to.1).cloned();
        let before = self.clone();
        let to_itself = taker.as_ref().is_some_and(|taker| taker.path == giver.path);
        let path = match taker {
            Some(taker) if to_itself => taker.path,
            Some(taker) => self.hand_to_waiter(&lock, &giver, &taker)?,
            None => self.hand_to_new_entry(&lock, &giver, (id, to))?,
        };
        self.close_if_anonymous_and_idle(giver.stat.ephemeral_owner.cast_unsigned());
        self.grant_waiters(&lock);
        let node = self.find(&path).unwrap();
        let mut without = self.clone();
        without.nodes.retain(|node| node.path != path);
        if !to_itself && self.policy(&lock).detect_deadlocks && self.closes_cycle(node, &without) {
            *self = before;
            return Err(LockRejection::Deadlock { cycle: Vec::new() }.into());
        }
        Ok(Reply::HandedOver(self.grant(&lock, self.find(&path).unwrap(), to_itself)))
    }

    fn holder_of(
        &self,
        lock: &LockName,
        (session, owner): &(SessionName, Owner),
        token: Option<FencingToken>,
    ) -> Result<&Node, Rejection> {
        let Some(live) = self.live(session) else { return Err(self.gone(session.clone())) };
        let mut own = self.own_entries(lock, live.id, owner).into_iter();
        let is_meant = |node: &&Node| {
            let holds = entry(node).hold.as_ref().map(|hold| hold.token);
            holds.is_some() && token.is_none_or(|token| holds == Some(token.0))
        };
        own.find(is_meant).ok_or_else(|| self.not_holder(lock))
    }

    fn not_holder(&self, lock: &LockName) -> Rejection {
        match self.other_holder(lock, "") {
            Some(holder) => Rejection::Lock(LockRejection::NotHolder { holder: holder.into() }),
            None => Rejection::Lock(LockRejection::NotHeld),
        }
    }

    /// Hands over to a waiter. The waiter may overtake others, but no ZooKeeper client, and it must not be part of a
    /// multi-lock.
    fn hand_to_waiter(
        &mut self,
        lock: &LockName,
        giver: &Node,
        taker: &Node,
    ) -> Result<String, Rejection> {
        let wants = entry(taker);
        if wants.hold.is_some() {
            return Err(
                LockRejection::AlreadyHolds { holder: self.holder_view(taker).into() }.into()
            );
        }
        if !wants.multi_lock.is_empty() {
            return Err(LockRejection::AlreadyQueued { lock: lock.clone() }.into());
        }
        self.fits_instead_of(lock, giver, wants)?;
        let waiters = self.waiters(lock);
        let mut ahead = waiters.into_iter().take_while(|node| node.path != taker.path).map(entry);
        let is_passed = |other: &QueueEntry| other.never_overtaken && other.multi_lock.is_empty();
        if ahead.any(|other| wants.never_overtaken || is_passed(other)) {
            return Err(LockRejection::CannotOvertake.into());
        }
        self.leave(&giver.path, LossCause::HandedOver);
        self.grant_to(lock, taker);
        Ok(taker.path.clone())
    }

    /// Hands over to a session without an entry. The new entry takes the giver's sequence number and mode.
    fn hand_to_new_entry(
        &mut self,
        lock: &LockName,
        giver: &Node,
        (id, (session, owner)): (u64, (SessionName, Owner)),
    ) -> Result<String, Rejection> {
        if self.check_no_foreign_znode(lock).is_err() {
            return Err(Rejection::Lock(LockRejection::CannotOvertake));
        }
        let max = self.limits.queue_entries_per_session_max;
        if self.entries_of(id) >= max {
            return Err(limit_reached(Bound::QueueEntriesPerSession, max));
        }
        let before = entry(giver).clone();
        let limit = self.policy(lock).limit;
        let mode = if limit.is_some() { Mode::Exclusive } else { before.held };
        let takes = QueueEntry {
            owner: owner.clone(),
            requested_in: self.revision,
            wait_ms: None,
            claims: vec![ModelClaim::new(None, mode, (self.revision, None))],
            value_by: Attempt::UNNAMED,
            mode,
            hold: None,
            priority: 0,
            reentrant: true,
            value: None,
            never_overtaken: false,
            multi_lock: Vec::new(),
            reader: Reader::Own,
            ..before
        };
        self.fits_instead_of(lock, giver, &takes)?;
        let directory = format!("/locks/{lock}");
        self.anyone_may(&directory, Perms::CREATE)?;
        let name = |other: &str| own_name(takes.mode, takes.sequence, other);
        let mut path = format!("{directory}/{}", name(""));
        // The path of a ZooKeeper client's entry is never reused: that client would take it for its own.
        let own = path == giver.path && !before.never_overtaken;
        if self.find(&path).is_some() && !own {
            path = format!("{directory}/{}", name(&format!("__r{}", self.revision)));
        }
        self.leave(&giver.path, LossCause::HandedOver);
        self.live_mut(&session).released.retain(|(l, o)| l != lock || *o != owner);
        self.add(&path, id as i64, &[], Some(takes));
        let node = self.find(&path).unwrap().clone();
        self.grant_to(lock, &node);
        Ok(path)
    }

    /// A hand-over is a grant: the receiver must be compatible with the remaining holders.
    fn fits_instead_of(
        &self,
        lock: &LockName,
        giver: &Node,
        taker: &QueueEntry,
    ) -> Result<(), Rejection> {
        let mut without = self.clone();
        without.find_mut(&giver.path).entry = None;
        match self.policy(lock).limit {
            _ if without.has_room(lock, taker.request()) => Ok(()),
            Some(_) => {
                Err(Rejection::Lock(LockRejection::PermitsMismatch { permits: taker.permits }))
            }
            None => Err(Rejection::Lock(LockRejection::ModeConflict {
                mode: taker.mode,
                why: ModeConflictReason::HandOver,
            })),
        }
    }
}
