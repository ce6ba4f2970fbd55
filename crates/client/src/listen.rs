//! The parked keepalive of a session: what happened to its locks, and how the guards learn of it.
//!
//! Events (a loss with its cause, a request to release) reach the guards at once. Besides, each answer lists what the session
//! holds, and that list settles every disagreement. A lock that a guard believes in and the cluster does not list is
//! lost, never taken anew. A listed lock that an acquire still waits for is asked for again, at another node. One that
//! nobody here knows of (a call that was held up somewhere, and arrived after its caller had given up) is released.
//! Bounds: one call under way; one note for each hold of the session that no guard has.

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{
    EventBody, EventKind, FenceBody, HoldBody, HolderBody, LockBody, NewsBody, ReleaseParams,
    fence_path, lock_path,
};
use holdfast_types::{FencingToken, LockName, LossCause, ReleaseTarget, Revision};

use crate::calls::Calls;
use crate::claim::{Claim, Match, Stage, is_own_name};
use crate::clock::Moment;
use crate::exchange::Answered;
use crate::request::ReleaseRequest;
use crate::session::Session;
use crate::{Error, Loss, random};

/// A closer look at one lock takes at most this part of what is left of the lease.
const LOOK_PART: u32 = 8;
/// A hold that no guard has may be a grant whose answer is on its way: it is looked into after this time.
const SETTLE: Duration = Duration::from_millis(500);
/// Between the sending of two parked keepalives. Events gather meanwhile, so a busy session is not renewed for each one.
const REST: Duration = Duration::from_millis(40);
/// The second attempt after this time if no node takes the call, then twice as long, up to the next renewal.
const RETRY: Duration = Duration::from_millis(200);
/// Doublings of [`RETRY`].
const RETRY_DOUBLINGS: u32 = 6;

/// See the module.
#[derive(Debug)]
pub(crate) struct Listener {
    /// Everything up to here was heard.
    since: Option<Revision>,
    due: Moment,
    /// Calls in a row that no node took.
    failures: u32,
    unclaimed: Vec<Unclaimed>,
}

/// A hold of the session that no guard has.
#[derive(Debug)]
struct Unclaimed {
    lock: LockName,
    token: FencingToken,
    look_at: Moment,
}

impl Listener {
    /// For a session that was opened at this revision.
    pub(crate) fn new(opened_at: Option<Revision>) -> Self {
        Self { since: opened_at, due: Moment::now(), failures: 0, unclaimed: Vec::new() }
    }

    /// When to park the next keepalive.
    pub(crate) fn due(&self) -> Moment {
        self.due
    }

    /// Parks a keepalive for a sixth of the lease: when it is answered, and until the next one is, two thirds of the lease are
    /// left at least.
    pub(crate) async fn listen(&mut self, session: &Session) -> Result<Answered<NewsBody>, Error> {
        let now = Moment::now();
        let (wait, left) = {
            let lease = session.lease.borrow();
            let left = lease.standing(now).map_or(Duration::ZERO, |deadline| deadline.left(now));
            (lease.park_for(random::chance()), left)
        };
        let looks = self.unclaimed.iter().map(|hold| hold.look_at.left(now));
        let wait = looks.fold(wait, Duration::min);
        self.due = now.plus(REST);
        session.calls.listen(&session.name, self.since, wait, left).await
    }

    /// No node took the call.
    pub(crate) fn failed(&mut self) {
        let rest = match self.failures {
            0 => REST,
            failures => RETRY * 2_u32.pow(failures.min(RETRY_DOUBLINGS)),
        };
        self.failures = self.failures.saturating_add(1);
        self.due = Moment::now().plus(rest);
    }

    /// Tells the guards what a parked keepalive brought.
    pub(crate) async fn hear(
        &mut self,
        session: &Session,
        believed: &[(Arc<Claim>, FencingToken)],
        news: NewsBody,
        held: Duration,
    ) {
        self.failures = 0;
        self.since = news.session.revision.or(self.since);
        for event in &news.events {
            tell(session, event);
        }
        if news.gap.is_some() {
            look_for_requests(session, believed, held / LOOK_PART).await;
        }
        self.compare(session, believed, &news.session.holds, held).await;
    }

    /// Compares what guards believe in with what the cluster lists.
    pub(crate) async fn compare(
        &mut self,
        session: &Session,
        believed: &[(Arc<Claim>, FencingToken)],
        holds: &[HoldBody],
        held: Duration,
    ) {
        let calls = Calls { patience: held / LOOK_PART, ..session.calls.clone() };
        let is_listed = |lock: &LockName, token: FencingToken| {
            holds.iter().any(|hold| hold.lock == *lock && hold.token == token)
        };
        for (claim, token) in believed {
            let is_held_here = || claim.stage() == Stage::Held(*token) && !claim.is_lost();
            if !is_listed(claim.lock(), *token)
                && is_held_here()
                && !is_holder(&calls, session, claim.lock(), *token).await
                && is_held_here()
            {
                claim.lose(Loss::TakenAway);
            }
        }
        self.unclaimed.retain(|hold| is_listed(&hold.lock, hold.token));
        for hold in holds {
            let found = session.claims.matching(&hold.lock, hold.token);
            if self.is_to_be_looked_into(session, hold, &found, held / 3) {
                match found {
                    Match::Known => {}
                    Match::Awaited(waiting) => {
                        for claim in waiting {
                            claim.nudge.notify_one();
                        }
                    }
                    Match::Nobodys => give_up_stray(&calls, session, hold).await,
                }
            }
        }
    }

    fn is_to_be_looked_into(
        &mut self,
        session: &Session,
        hold: &HoldBody,
        found: &Match,
        again_after: Duration,
    ) -> bool {
        let is_this = |other: &Unclaimed| other.lock == hold.lock && other.token == hold.token;
        let is_ours = match found {
            Match::Known => false,
            Match::Awaited(_) => true,
            // Others may use a session that the caller named.
            Match::Nobodys => session.own,
        };
        if !is_ours {
            self.unclaimed.retain(|other| !is_this(other));
            return false;
        }
        let now = Moment::now();
        match self.unclaimed.iter_mut().find(|other| is_this(other)) {
            Some(known) if now >= known.look_at => {
                known.look_at = now.plus(again_after);
                true
            }
            Some(_) => false,
            None => {
                let (lock, token) = (hold.lock.clone(), hold.token);
                self.unclaimed.push(Unclaimed { lock, token, look_at: now.plus(SETTLE) });
                false
            }
        }
    }
}

/// Tells the guards of one hold what happened to it.
fn tell(session: &Session, event: &EventBody) {
    let claims = session.claims.of_hold(&event.lock, event.token);
    match event.kind {
        EventKind::Granted => {}
        EventKind::Lost => {
            // A guard that is being released or changed judges by the answer to its own call.
            let holding = claims.iter().filter(|claim| claim.stage() == Stage::Held(event.token));
            holding.for_each(|claim| claim.lose(why(claim, event)));
        }
        EventKind::ReleaseRequested => {
            let request = ReleaseRequest::new(
                event.reason.clone(),
                Duration::from_millis(event.wanted_in_ms.unwrap_or(0)),
                event.revoke.unwrap_or(false),
            );
            for claim in &claims {
                claim.requested(request.clone());
            }
        }
    }
}

/// How the cluster ended a hold.
fn why(claim: &Claim, event: &EventBody) -> Loss {
    let is = |cause: LossCause| event.cause.as_deref() == Some(cause.as_str());
    let requested = || claim.request().and_then(|request| request.reason);
    if is(LossCause::Broken) {
        Loss::Broken { reason: event.reason.clone() }
    } else if is(LossCause::Revoked) {
        Loss::Revoked { reason: requested() }
    } else if is(LossCause::HandedOver) {
        Loss::HandedOver
    } else if is(LossCause::SessionClosed) || is(LossCause::SessionExpired) {
        Loss::SessionEnded
    } else if let (true, Some(max)) = (is(LossCause::MaxHold), claim.limits.borrow().max()) {
        Loss::HeldTooLong { max }
    } else {
        Loss::TakenAway
    }
}

/// Some events are forgotten: requests to release that are still open are found at the locks themselves.
async fn look_for_requests(
    session: &Session,
    believed: &[(Arc<Claim>, FencingToken)],
    patience: Duration,
) {
    let calls = Calls { patience, ..session.calls.clone() };
    for (claim, token) in believed {
        let Ok(body) = calls.get::<LockBody>(lock_path(claim.lock())).await else { continue };
        let mut holders = body.holders.into_iter();
        let holder = holders.find(|holder| is_ours(session, holder, *token));
        if let Some(request) = holder.and_then(|holder| holder.release_request) {
            let wanted_in = Duration::from_millis(request.wanted_in_ms);
            let request = ReleaseRequest::new(request.reason, wanted_in, request.revoke);
            if claim.request().is_none_or(|known| !known.is_same(&request)) {
                claim.requested(request);
            }
        }
    }
}

/// The node that renewed may show its own state, which may be older than our grant: ask the cluster. If it cannot
/// tell, the session's life is what counts.
async fn is_holder(calls: &Calls, session: &Session, lock: &LockName, token: FencingToken) -> bool {
    match calls.get::<LockBody>(lock_path(lock)).await {
        Ok(body) if body.holders.iter().any(|holder| is_ours(session, holder, token)) => true,
        // Of many holders only the first are listed; the token is the cluster's own, so it can be asked for.
        Ok(body) if lists_all(&body) => false,
        Ok(_) => {
            let judged =
                calls.get::<FenceBody>(format!("{}?token={token}", fence_path(lock))).await;
            !matches!(judged, Err(Error::Refused(_)))
        }
        Err(_) => true,
    }
}

fn is_ours(session: &Session, holder: &HolderBody, token: FencingToken) -> bool {
    holder.session == session.name && holder.token == token
}

fn lists_all(body: &LockBody) -> bool {
    usize::try_from(body.holders_total).is_ok_and(|total| total <= body.holders.len())
}

/// A hold of our own session for which there is no guard: only ours to give up if its owner was made up for a guard.
async fn give_up_stray(calls: &Calls, session: &Session, hold: &HoldBody) {
    let Ok(body) = calls.get::<LockBody>(lock_path(&hold.lock)).await else { return };
    let mut holders = body.holders.iter();
    let Some(holder) = holders.find(|holder| is_ours(session, holder, hold.token)) else { return };
    let nobodys = matches!(session.claims.matching(&hold.lock, hold.token), Match::Nobodys)
        && !session.claims.is_owner(&hold.lock, holder.owner.as_ref());
    if nobodys && is_own_name(holder.owner.as_ref()) {
        let params = ReleaseParams {
            session: session.name.clone(),
            owner: holder.owner.clone(),
            target: ReleaseTarget::Hold(hold.token),
            to: None,
            redirect: false,
        };
        // If nobody takes it, a later look finds it again.
        drop(calls.release(&hold.lock, &params).await);
    }
}
