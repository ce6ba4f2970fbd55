//! One place in one lock's queue: asked for, waited in, held, given up.
//!
//! Owns what a guard and the session's renewal have to tell each other, and the list of a session's claims. A claim
//! has an attempt of its own, so that each guard leaves once; its owner is its own too, unless the caller chose one,
//! so that two tasks of one program exclude each other like two programs do.
//! Bounds: as many claims as guards and acquires under way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use holdfast_types::{
    Attempt, FencingToken, LockName, Owner, ReleaseTarget, Segments, SessionName,
};
use tokio::sync::{Notify, watch};

use crate::Loss;
use crate::clock::Moment;
use crate::limit::Limits;
use crate::request::ReleaseRequest;

/// What has become of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Asked for.
    Waiting,
    /// Held with this token.
    Held(FencingToken),
    /// Held with this token, and asked for in another mode, which may give it another one.
    Changing(FencingToken),
    /// Being given up; the cluster may not know yet.
    Leaving,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Claim {
    /// As it is asked for: of a segment the whole.
    pub(crate) asked: LockName,
    /// A segment of it is asked for.
    cut: bool,
    /// The segment that it is, once that is known.
    segment: OnceLock<LockName>,
    /// None stands for the session as such.
    pub(crate) owner: Option<Owner>,
    /// The number of the attempt; of a hold that another session handed over [`Attempt::UNNAMED`].
    attempt: AtomicU64,
    stage: Mutex<Stage>,
    /// The newest token that it was held with.
    token: Mutex<Option<FencingToken>>,
    /// The bounds of the hold, once it is one.
    pub(crate) limits: watch::Sender<Limits>,
    /// The cluster says that the lock is ours while we still wait for the answer that says so.
    pub(crate) nudge: Notify,
    /// The latest request that the holder release it.
    pub(crate) request: watch::Sender<Option<ReleaseRequest>>,
}

impl Claim {
    pub(crate) fn new(lock: LockName, owner: Option<Owner>, attempt: Attempt) -> Self {
        let (attempt, token) = (AtomicU64::new(attempt.0), Mutex::new(None));
        let (stage, nudge) = (Mutex::new(Stage::Waiting), Notify::new());
        let (cut, segment, limits) = (false, OnceLock::new(), watch::Sender::default());
        let request = watch::Sender::default();
        Self { asked: lock, cut, segment, owner, attempt, stage, token, limits, nudge, request }
    }

    /// The same for a segment of the lock.
    pub(crate) fn of_segment(self) -> Self {
        Self { cut: true, ..self }
    }

    /// It is granted, and so it is known which segment it is.
    pub(crate) fn granted_as(&self, lock: &LockName) {
        if self.cut {
            self.segment.get_or_init(|| lock.clone());
        }
    }

    /// The lock: of a segment the whole, until it is known which one.
    pub(crate) fn lock(&self) -> &LockName {
        self.segment.get().unwrap_or(&self.asked)
    }

    /// Whether it is for this lock, or may be.
    fn covers(&self, lock: &LockName) -> bool {
        match self.segment.get() {
            Some(segment) => segment == lock,
            None if self.cut => Segments::index_of(&self.asked, lock).is_some(),
            None => self.asked == *lock,
        }
    }

    pub(crate) fn stage(&self) -> Stage {
        *unpoisoned(&self.stage)
    }

    /// The attempt that calls name; none of a hold that was handed over.
    pub(crate) fn attempt(&self) -> Option<Attempt> {
        Some(Attempt(self.attempt.load(Ordering::SeqCst))).filter(|a| *a != Attempt::UNNAMED)
    }

    /// The attempt is over: the calls from now on are another one.
    pub(crate) fn begin_attempt(&self, attempt: Attempt) {
        self.attempt.store(attempt.0, Ordering::SeqCst);
    }

    pub(crate) fn enter(&self, stage: Stage) {
        if let Stage::Held(token) | Stage::Changing(token) = stage {
            *unpoisoned(&self.token) = Some(token);
        }
        *unpoisoned(&self.stage) = stage;
    }

    /// The hold is lost; the first reason stays.
    pub(crate) fn lose(&self, loss: Loss) {
        self.limits.send_modify(|limits| limits.lose(loss, Moment::now()));
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.limits.borrow().standing(Moment::now()).is_err()
    }

    /// The latest request that the holder release it.
    pub(crate) fn request(&self) -> Option<ReleaseRequest> {
        self.request.borrow().clone()
    }

    /// Somebody asks the holder to release it.
    pub(crate) fn requested(&self, request: ReleaseRequest) {
        if request.revoke {
            self.limits.send_modify(|limits| limits.revoke(&request));
        }
        self.request.send_replace(Some(request));
    }
}

/// What a session claims.
#[derive(Debug, Default)]
pub(crate) struct Claims(watch::Sender<Vec<Arc<Claim>>>);

/// What the claims make of a lock that the cluster says the session holds.
#[derive(Debug)]
pub(crate) enum Match {
    /// It is a guard's.
    Known,
    /// It is not a guard's yet: these wait for it.
    Awaited(Vec<Arc<Claim>>),
    /// Nobody here knows of it, or what was told is old.
    Nobodys,
}

impl Claims {
    pub(crate) fn add(&self, claim: Arc<Claim>) {
        self.0.send_modify(|all| all.push(claim));
    }

    pub(crate) fn remove(&self, claim: &Arc<Claim>) {
        self.0.send_modify(|all| all.retain(|other| !Arc::ptr_eq(other, claim)));
    }

    /// Resolves when nothing is claimed any more.
    pub(crate) async fn settled(&self) {
        // The sender lives as long as `self`.
        drop(self.0.subscribe().wait_for(Vec::is_empty).await);
    }

    /// Those that are held.
    pub(crate) fn held(&self) -> Vec<(Arc<Claim>, FencingToken)> {
        let all = self.0.borrow();
        let token = |claim: &Arc<Claim>| match claim.stage() {
            Stage::Held(token) => Some((claim.clone(), token)),
            Stage::Waiting | Stage::Changing(_) | Stage::Leaving => None,
        };
        all.iter().filter_map(token).collect()
    }

    /// Those of one hold: each guard that entered it has one.
    pub(crate) fn of_hold(&self, lock: &LockName, token: FencingToken) -> Vec<Arc<Claim>> {
        let all = self.0.borrow();
        let is_its = |claim: &&Arc<Claim>| {
            let stage = claim.stage();
            claim.covers(lock) && (stage == Stage::Held(token) || stage == Stage::Changing(token))
        };
        all.iter().filter(is_its).cloned().collect()
    }

    /// Several claims of one lock stand side by side if they share it, so a hold is a claim's only by its token.
    pub(crate) fn matching(&self, lock: &LockName, token: FencingToken) -> Match {
        let all = self.0.borrow();
        let same = || all.iter().filter(|claim| claim.covers(lock));
        let is_its = |claim: &Arc<Claim>| {
            let stage = claim.stage();
            stage == Stage::Held(token) || stage == Stage::Changing(token)
        };
        if same().any(is_its) {
            return Match::Known;
        }
        let asks =
            |claim: &&Arc<Claim>| matches!(claim.stage(), Stage::Waiting | Stage::Changing(_));
        let asking: Vec<_> = same().filter(asks).cloned().collect();
        if asking.is_empty() { Match::Nobodys } else { Match::Awaited(asking) }
    }

    /// Whether this claim is the only one of its lock and owner.
    pub(crate) fn is_alone(&self, claim: &Arc<Claim>) -> bool {
        let all = self.0.borrow();
        let same = |other: &&Arc<Claim>| other.lock() == claim.lock() && other.owner == claim.owner;
        all.iter().filter(same).all(|other| Arc::ptr_eq(other, claim))
    }

    /// Whether something is claimed for this owner, or was and is on its way back.
    pub(crate) fn is_owner(&self, lock: &LockName, owner: Option<&Owner>) -> bool {
        let all = self.0.borrow();
        all.iter().any(|claim| claim.covers(lock) && claim.owner.as_ref() == owner)
    }
}

/// How the owner of one guard is called, from 64 random bits.
pub(crate) fn own_name(bits: u64) -> String {
    format!("g-{bits:016x}")
}

/// Whether an owner of a lock may have been made by a client of this kind for one guard.
pub(crate) fn is_own_name(owner: Option<&Owner>) -> bool {
    owner.is_some_and(|owner| owner.as_str().starts_with("g-"))
}

impl Claim {
    /// What a release gives up: this claim and nothing that comes after it.
    fn release_target(&self) -> ReleaseTarget {
        let hold = || unpoisoned(&self.token).map(ReleaseTarget::Hold);
        self.attempt().map(ReleaseTarget::Attempt).or_else(hold).unwrap_or_default()
    }
}

/// What a release of this claim says.
pub(crate) fn release_of(claim: &Claim, session: &SessionName) -> holdfast_api::ReleaseParams {
    holdfast_api::ReleaseParams {
        session: session.clone(),
        owner: claim.owner.clone(),
        target: claim.release_target(),
        to: None,
        redirect: false,
    }
}

/// What a release of these claims says, which are of one owner and one attempt; none if there are none.
pub(crate) fn release_all_of(
    claims: &[Arc<Claim>],
    session: &SessionName,
) -> Option<holdfast_api::ReleaseAllParams> {
    let (first, session) = (claims.first()?, session.clone());
    let (owner, attempt) = (first.owner.clone(), first.attempt());
    let locks = claims.iter().map(|claim| claim.lock().clone()).collect();
    Some(holdfast_api::ReleaseAllParams { locks, session, owner, attempt, redirect: false })
}

/// A panic elsewhere leaves a stage whole: it is one value.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(lock: &str, attempt: u64) -> Arc<Claim> {
        let lock = LockName::new(lock).unwrap();
        Arc::new(Claim::new(lock, None, Attempt(attempt)))
    }

    fn found(claims: &Claims, lock: &str, token: u64) -> Match {
        claims.matching(&LockName::new(lock).unwrap(), FencingToken(token))
    }

    #[test]
    fn a_hold_is_a_guards_or_awaited_or_nobodys() {
        let claims = Claims::default();
        let (first, second) = (claim("a", 1), claim("a", 2));
        first.enter(Stage::Held(FencingToken(7)));
        claims.add(first.clone());
        assert!(matches!(found(&claims, "a", 7), Match::Known));
        assert!(matches!(found(&claims, "b", 7), Match::Nobodys));
        claims.add(second.clone());
        assert!(matches!(found(&claims, "a", 8), Match::Awaited(waiting) if waiting.len() == 1));
        claims.remove(&second);
        assert!(matches!(found(&claims, "a", 8), Match::Nobodys), "beside our own shared hold");
        assert!(claims.is_owner(first.lock(), None));
        first.enter(Stage::Changing(FencingToken(7)));
        assert!(matches!(found(&claims, "a", 7), Match::Known));
        assert!(matches!(found(&claims, "a", 8), Match::Awaited(_)), "it may be its new token");
        claims.remove(&first);
        assert!(matches!(found(&claims, "a", 8), Match::Nobodys));
        assert!(!claims.is_owner(first.lock(), None));
    }

    #[test]
    fn a_claim_of_any_segment_awaits_each_until_it_has_one() {
        let claims = Claims::default();
        let lock = |name: &str| LockName::new(name).unwrap();
        let claim = Claim::new(lock("stock"), None, Attempt(1)).of_segment();
        let claim = Arc::new(claim);
        claims.add(claim.clone());
        assert!(matches!(found(&claims, "stock/3", 7), Match::Awaited(_)));
        assert!(matches!(found(&claims, "stock", 7), Match::Nobodys));
        claim.granted_as(&lock("stock/3"));
        claim.enter(Stage::Held(FencingToken(7)));
        assert_eq!(claim.lock().as_str(), "stock/3");
        assert!(matches!(found(&claims, "stock/3", 7), Match::Known));
        assert!(matches!(found(&claims, "stock/4", 8), Match::Nobodys), "another one is not ours");
    }

    #[test]
    fn only_what_is_held_is_compared_with_the_cluster() {
        let claims = Claims::default();
        let (held, leaving) = (claim("a", 1), claim("b", 2));
        held.enter(Stage::Held(FencingToken(1)));
        leaving.enter(Stage::Leaving);
        claims.add(held);
        claims.add(leaving);
        let tokens: Vec<_> = claims.held().iter().map(|(_, token)| token.0).collect();
        assert_eq!(tokens, [1]);
    }
}
