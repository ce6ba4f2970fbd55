//! The parked keepalive of a session: delivers the events of its locks to the guards.
//!
//! Events (a loss with its cause, a release request) reach the guards immediately. Each answer also lists the session's
//! holds, and that list resolves every difference. A guard without a listed hold is lost, and the client never acquires
//! it again. If its hold has another token, another guard or program upgraded it: the guard continues with that token. A
//! listed hold for which an acquire waits makes the acquire repeat its call at another node. A listed hold without a
//! client entry (a late copy of a call) is released. Bounds: one call in flight; one record for each hold without a guard.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{
    ErrorCode, EventBody, EventKind, FenceBody, HoldBody, HolderBody, LockBody, Query,
    SessionEventsBody, fence_path, lock_path,
};
use holdfast_types::{FencingToken, LockName, LossCause, ReleaseTarget, Revision};

use crate::calls::call::Call;
use crate::calls::retry::{Answer, retry_pause};
use crate::calls::send::Calls;
use crate::clock::Moment;
use crate::http::Method;
use crate::locks::hold_limits::ReleaseRequest;
use crate::locks::queue_entry::{
    ClientQueueEntry, EntryStage, HoldMatch, is_generated_owner, release_query,
};
use crate::sessions::session::Session;
use crate::tree::is;
use crate::{Error, Loss};

/// A read of one lock may take this fraction of the remaining lease.
const READ_PART: u32 = 8;
/// A hold without a guard is examined after this time. It may be a grant whose answer is still in flight.
const EXAMINE_DELAY: Duration = Duration::from_millis(500);
/// The pause between two parked keepalives. It batches events, so a busy session is not renewed for each one.
const PAUSE: Duration = Duration::from_millis(40);

/// A hold of a guard, according to this client.
type KnownHold = (Arc<ClientQueueEntry>, FencingToken);

#[derive(Debug)]
pub(crate) struct SessionPoll {
    /// The client has delivered all events up to this revision.
    since: Option<Revision>,
    due: Moment,
    /// Consecutive parked calls that no node accepted.
    failures: u32,
    unguarded: Vec<UnguardedHold>,
}

/// A hold of the session without a guard.
#[derive(Debug)]
struct UnguardedHold {
    lock: LockName,
    token: FencingToken,
    examine_at: Moment,
}

impl SessionPoll {
    /// Creates the state for a session that was opened at this revision.
    pub(crate) fn new(opened_at: Option<Revision>) -> Self {
        Self { since: opened_at, due: Moment::now(), failures: 0, unguarded: Vec::new() }
    }

    /// The moment to park the next keepalive.
    pub(crate) fn due(&self) -> Moment {
        self.due
    }

    /// Parks a keepalive for a sixth of the lease. At least two thirds of the lease are then left when the node answers
    /// the next one.
    pub(crate) async fn poll(
        &mut self,
        session: &Session,
    ) -> Result<Answer<SessionEventsBody>, Error> {
        let now = Moment::now();
        let (wait, left) = {
            let lease = session.lease.borrow();
            let deadline = lease.deadline_or_loss(now);
            let left = deadline.map_or(Duration::ZERO, |deadline| deadline.left(now));
            (lease.park_time(), left)
        };
        let examinations = self.unguarded.iter().map(|hold| hold.examine_at.left(now));
        let wait = examinations.fold(wait, Duration::min);
        self.due = now.plus(PAUSE);
        session.calls.park_keep_alive(session.id(), self.since, wait, left).await
    }

    /// Schedules the next parked keepalive after one that no node accepted.
    pub(crate) fn poll_failed(&mut self) {
        let pause = match self.failures {
            0 => PAUSE,
            failures => retry_pause(failures),
        };
        self.failures = self.failures.saturating_add(1);
        self.due = Moment::now().plus(pause);
    }

    /// Delivers the events of a parked keepalive's answer to the guards. `held` is the length of the lease.
    pub(crate) async fn deliver(
        &mut self,
        session: &Session,
        known_holds: &[KnownHold],
        Answer { body: answer, sent }: Answer<SessionEventsBody>,
        held: Duration,
    ) {
        self.failures = 0;
        self.since = answer.session.revision.or(self.since);
        let counted_from = sent.plus(Duration::from_millis(answer.waited_ms));
        // An event names the token before or after an upgrade.
        session.entries.follow_upgrades(&answer.session.holds);
        for event in &answer.events {
            deliver_event(session, known_holds, event, counted_from);
        }
        if answer.gap.is_some() {
            session.gap.notify_one();
        }
        self.reconcile(session, known_holds, &answer.session.holds, held).await;
    }

    /// Compares the holds of the guards with those that the cluster lists. `held` is the length of the lease.
    pub(crate) async fn reconcile(
        &mut self,
        session: &Session,
        known_holds: &[KnownHold],
        listed: &[HoldBody],
        held: Duration,
    ) {
        let calls = session.calls.with_timeout(held / READ_PART);
        // The next renewal compares what is left.
        let read_until = Moment::now().plus(held / READ_PART);
        let is_listed = |lock: &LockName, token: FencingToken| {
            listed.iter().any(|hold| hold.lock == *lock && hold.token == token)
        };
        session.entries.follow_upgrades(listed);
        for (entry, token) in known_holds {
            let is_held_here = || entry.stage() == EntryStage::Held(*token) && !entry.is_lost();
            if !is_listed(entry.lock(), *token)
                && Moment::now() <= read_until
                && is_held_here()
                && !is_holder(&calls, session, entry.lock(), *token).await
                && is_held_here()
            {
                entry.lose(Loss::ReleasedElsewhere);
            }
        }
        self.unguarded.retain(|hold| is_listed(&hold.lock, hold.token));
        for hold in listed {
            let found = session.entries.matching(&hold.lock, hold.ticket, hold.token);
            // Other clients may use a session that the caller named.
            let is_ours = match found {
                HoldMatch::Known => false,
                HoldMatch::Awaited(_) => true,
                HoldMatch::Unknown => session.is_own,
            };
            if !self.is_examination_due(hold, is_ours, held / 3) {
                continue;
            }
            match found {
                HoldMatch::Known => {}
                HoldMatch::Awaited(waiting) => {
                    for entry in &waiting {
                        entry.granted_elsewhere.notify_one();
                    }
                }
                HoldMatch::Unknown => release_stray(&calls, session, hold).await,
            }
        }
    }

    /// Whether a hold without a guard has been listed for long enough. The next examination is due `again_after` later.
    fn is_examination_due(
        &mut self,
        hold: &HoldBody,
        is_ours: bool,
        again_after: Duration,
    ) -> bool {
        let is_same = |other: &UnguardedHold| other.lock == hold.lock && other.token == hold.token;
        if !is_ours {
            self.unguarded.retain(|other| !is_same(other));
            return false;
        }
        let now = Moment::now();
        match self.unguarded.iter_mut().find(|other| is_same(other)) {
            Some(known) if now >= known.examine_at => {
                known.examine_at = now.plus(again_after);
                true
            }
            Some(_) => false,
            None => {
                let (lock, token) = (hold.lock.clone(), hold.token);
                self.unguarded.push(UnguardedHold {
                    lock,
                    token,
                    examine_at: now.plus(EXAMINE_DELAY),
                });
                false
            }
        }
    }
}

/// The times of the event count from `counted_from`.
fn deliver_event(
    session: &Session,
    known_holds: &[KnownHold],
    event: &EventBody,
    counted_from: Moment,
) {
    session.entries.follow_upgrade(&event.lock, event.ticket, event.token);
    let mut entries = session.entries.of_hold(&event.lock, event.ticket, event.token);
    let had_token = |(entry, token): &&KnownHold| {
        *entry.lock() == event.lock && *token == event.token && !entry.holds(event.token)
    };
    entries.extend(known_holds.iter().filter(had_token).map(|(entry, _)| entry.clone()));
    match event.kind {
        EventKind::Granted => {}
        EventKind::Lost => {
            // A guard with a release or a conversion in progress gets the result from its own call.
            let held = entries.iter().filter(|entry| matches!(entry.stage(), EntryStage::Held(_)));
            held.for_each(|entry| entry.lose(loss_of(entry, event)));
        }
        EventKind::ReleaseRequested => {
            let request = ReleaseRequest::new(
                event.reason.clone(),
                counted_from,
                Duration::from_millis(event.wanted_in_ms.unwrap_or(0)),
                event.revoke.unwrap_or(false),
            );
            for entry in &entries {
                session.entries.request_release(entry, request.clone());
            }
        }
    }
}

fn loss_of(entry: &ClientQueueEntry, event: &EventBody) -> Loss {
    let is = |cause: LossCause| event.cause.as_deref() == Some(cause.as_str());
    if is(LossCause::ForceReleased) {
        Loss::ForceReleased { reason: event.reason.clone() }
    } else if is(LossCause::Revoked) {
        let request = entry.release_request.borrow();
        Loss::Revoked { reason: request.as_ref().and_then(|request| request.reason.clone()) }
    } else if is(LossCause::HandedOver) {
        Loss::Transferred
    } else if is(LossCause::SessionClosed) || is(LossCause::SessionExpired) {
        Loss::SessionEnded
    } else if let (true, Some(max)) = (is(LossCause::MaxHold), entry.limits.borrow().max_hold()) {
        Loss::MaxHoldExceeded { max }
    } else {
        Loss::ReleasedElsewhere
    }
}

/// Reads open release requests from the locks after each gap in the events. The renewals continue meanwhile, because reads
/// of many locks may take longer than the lease.
pub(crate) async fn read_requests_after_gaps(session: &Session) -> Infallible {
    loop {
        session.gap.notified().await;
        for (entry, _) in session.entries.held() {
            let (sent, known) = (Moment::now(), entry.release_request.subscribe());
            let read = session.calls.get::<LockBody>(lock_path(entry.lock())).await;
            let (Ok(body), EntryStage::Held(token)) = (read, entry.stage()) else { continue };
            let mut holders = body.holders.into_iter();
            let holder = holders.find(|holder| is_hold_of(session, holder, token));
            if let Some(request) = holder.and_then(|holder| holder.release_request) {
                let wanted_in = Duration::from_millis(request.wanted_in_ms);
                let request = ReleaseRequest::new(request.reason, sent, wanted_in, request.revoke);
                // An event that came during the read may be of a newer request.
                let is_newest = !known.has_changed().unwrap_or(true);
                let is_known = known.borrow().as_ref().is_some_and(|known| known.is_same(&request));
                if is_newest && !is_known {
                    session.entries.request_release(&entry, request);
                }
            }
        }
    }
}

/// Whether the session holds the lock under this token. The node that renewed may be behind the grant, so this call
/// reads the lock. If no node answers, the session's lease decides.
async fn is_holder(calls: &Calls, session: &Session, lock: &LockName, token: FencingToken) -> bool {
    match calls.get::<LockBody>(lock_path(lock)).await {
        Ok(body) if body.holders.iter().any(|holder| is_hold_of(session, holder, token)) => true,
        Ok(body) if lists_all_holders(&body) => false,
        // A node lists only the first of many holders, so the token identifies the hold.
        Ok(_) => {
            let target = format!("{}?token={token}", fence_path(lock));
            !calls
                .get::<FenceBody>(target)
                .await
                .is_err_and(|error| is(&error, ErrorCode::StaleToken))
        }
        Err(_) => true,
    }
}

fn is_hold_of(session: &Session, holder: &HolderBody, token: FencingToken) -> bool {
    holder.session == session.name && holder.token == token
}

fn lists_all_holders(body: &LockBody) -> bool {
    usize::try_from(body.holders_total).is_ok_and(|total| total <= body.holders.len())
}

/// Releases a hold without a guard of a generated session, if its owner was generated for a guard.
async fn release_stray(calls: &Calls, session: &Session, hold: &HoldBody) {
    let Ok(body) = calls.get::<LockBody>(lock_path(&hold.lock)).await else { return };
    let mut holders = body.holders.iter();
    let holder = holders.find(|holder| is_hold_of(session, holder, hold.token));
    let Some(holder) = holder.filter(|holder| is_generated_owner(holder.owner.as_ref())) else {
        return;
    };
    let found = session.entries.matching(&hold.lock, hold.ticket, hold.token);
    let is_unknown = matches!(found, HoldMatch::Unknown)
        && !session.entries.has_owner(&hold.lock, holder.owner.as_ref());
    if is_unknown {
        let target = ReleaseTarget::Hold(hold.token);
        let owner = holder.owner.as_ref();
        let query = release_query(Query::default(), &session.name, owner, target);
        // If no node answers, the next examination finds the hold again.
        drop(calls.send(&Call::new(Method::DELETE, query.target(&lock_path(&hold.lock)))).await);
    }
}
