//! What a guard knows about its lock, without keeping it: for the work that the lock protects.
//!
//! Every look compares the clock with the deadline, so a process that was paused finds out by itself, before any timer
//! has run and any answer has come. Invariant: once it says lost it says so for ever.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_api::{GrantBody, lock_path};
use holdfast_types::{FencingToken, LockName, Mode, SessionName};
use tokio::sync::watch;

use crate::calls::timer;
use crate::claim::{Claim, release_of};
use crate::clock::Moment;
use crate::lease::Lease;
use crate::limit::Limits;
use crate::session::Session;
use crate::{Loss, ReleaseRequest};

/// A view of a held lock. Clones are cheap; none of them keeps the lock, only the [`Guard`](crate::Guard) does.
#[derive(Clone, Debug)]
pub struct Hold {
    pub(crate) session: Arc<Session>,
    pub(crate) claim: Arc<Claim>,
    /// As the cluster answered it last: another mode may come with another token.
    pub(crate) grant: Arc<watch::Sender<Arc<GrantBody>>>,
}

impl Hold {
    /// The proof of order to carry into every write that the lock protects. An [upgrade](crate::Guard::upgrade) gives
    /// another one, in every view of the hold.
    pub fn token(&self) -> FencingToken {
        self.grant.borrow().token
    }

    /// The lock; of one that was asked for by its segments, the segment: `stock/3`.
    pub fn lock(&self) -> &LockName {
        self.claim.lock()
    }

    /// Which segment it is, if it was asked for by its segments.
    pub fn segment(&self) -> Option<u32> {
        self.grant.borrow().segment
    }

    /// The session that holds it.
    pub fn session(&self) -> &SessionName {
        &self.session.name
    }

    /// How it is held.
    pub fn mode(&self) -> Mode {
        self.grant.borrow().mode
    }

    /// The grant as a node answered it last.
    pub fn grant(&self) -> Arc<GrantBody> {
        self.grant.borrow().clone()
    }

    /// Whether the lock is certainly still held.
    pub fn is_held(&self) -> bool {
        self.ensure().is_ok()
    }

    /// What is left until the deadline, which moves on with every renewal; zero if the lock is lost.
    pub fn remaining(&self) -> Duration {
        let now = Moment::now();
        self.standing(now).map_or(Duration::ZERO, |deadline| deadline.left(now))
    }

    /// Nobody else can have the lock before this instant. Moves on with every renewal.
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.remaining()
    }

    /// The same on a clock that goes on while the machine sleeps; none if the lock is lost.
    pub fn deadline_moment(&self) -> Option<Moment> {
        self.standing(Moment::now()).ok()
    }

    /// Whether the lock is certainly still held, for use with `?` right before each write.
    ///
    /// # Errors
    /// Why it is lost.
    pub fn ensure(&self) -> Result<(), Loss> {
        self.standing(Moment::now()).map(drop)
    }

    /// How the lock will be lost if nothing changes before the deadline.
    pub fn about_to_lose(&self) -> Loss {
        let at = self.deadline_moment().unwrap_or_else(Moment::now);
        self.standing(at).err().unwrap_or(Loss::SessionEnded)
    }

    /// Shows that the work goes on. Only needed for a lock with a
    /// [beacon](crate::Lock::beacon), and then at least as often as that says.
    ///
    /// # Errors
    /// Why the lock is lost: a touch that comes too late brings nothing back.
    pub fn touch(&self) -> Result<(), Loss> {
        let now = Moment::now();
        self.standing(now)?;
        let mut result = Ok(());
        self.claim.limits.send_modify(|limits| result = limits.touch(now));
        result
    }

    /// Resolves when the lock is lost; never, if it is released before. Stop then what it protected.
    pub async fn lost(&self) -> Loss {
        let mut changes = self.changes();
        loop {
            changes.mark_seen();
            let deadline = match self.standing(Moment::now()) {
                Ok(deadline) => deadline,
                Err(loss) => return loss,
            };
            tokio::select! {
                () = changes.next() => {}
                () = timer(deadline) => {}
            }
        }
    }

    /// Resolves when the lock is in jeopardy, and says what is left of it: two thirds of the time it is certain for have passed
    /// without an acknowledged renewal. It may be saved yet; finish or put away what must not be half done. At once, and with
    /// nothing left, if it is lost.
    pub async fn jeopardy(&self) -> Duration {
        let mut lease = self.session.lease.subscribe();
        loop {
            let doubt_at = lease.borrow_and_update().doubt_at();
            let now = Moment::now();
            if self.standing(now).is_err() || now >= doubt_at {
                return self.remaining();
            }
            tokio::select! {
                _changed = lease.changed() => {}
                _loss = self.lost() => {}
                () = timer(doubt_at) => {}
            }
        }
    }

    /// Resolves when somebody asks the holder to release the lock (`holdfast ask`), at once if that has happened already.
    /// The hold goes on: finish, and release the guard. Never, if nobody asks.
    pub async fn release_requested(&self) -> ReleaseRequest {
        self.release_requested_after(None).await
    }

    /// Resolves with the latest request that is not the one that is known: for a caller that reports each of them.
    pub async fn release_requested_after(&self, known: Option<&ReleaseRequest>) -> ReleaseRequest {
        let mut request = self.claim.request.subscribe();
        loop {
            if let Some(request) = request.borrow_and_update().as_ref()
                && known != Some(request)
            {
                return request.clone();
            }
            // The sender lives as long as the claim.
            drop(request.changed().await);
        }
    }

    /// Resolves with the deadline as soon as it is another one than the one that is known: later after a renewal or a
    /// [touch](Hold::touch), earlier after a request that revokes.
    ///
    /// # Errors
    /// Why the lock is lost.
    pub async fn deadline_after(&self, known: Moment) -> Result<Moment, Loss> {
        let mut changes = self.changes();
        loop {
            changes.mark_seen();
            let deadline = self.standing(Moment::now())?;
            if deadline != known {
                return Ok(deadline);
            }
            tokio::select! {
                () = changes.next() => {}
                loss = self.lost() => return Err(loss),
            }
        }
    }

    /// Path and query of the `DELETE` that releases this hold and no other: for a process that releases it on behalf of one
    /// that was killed.
    pub fn release_target(&self) -> String {
        let params = release_of(&self.claim, &self.session.name);
        format!("{}?{}", lock_path(self.lock()), params.to_query())
    }

    /// What the deadline depends on.
    pub(crate) fn changes(&self) -> Changes {
        let (lease, limits) = (self.session.lease.subscribe(), self.claim.limits.subscribe());
        Changes { lease, limits }
    }

    /// The earliest of all deadlines; else the loss.
    pub(crate) fn standing(&self, now: Moment) -> Result<Moment, Loss> {
        let own = self.claim.limits.borrow().standing(now)?;
        let session = self.session.standing(now)?;
        Ok(own.map_or(session, |own| own.min(session)))
    }
}

/// Changes of what the deadline of a hold depends on: the session's lease, and the bounds of the hold itself.
#[derive(Debug)]
pub(crate) struct Changes {
    lease: watch::Receiver<Lease>,
    limits: watch::Receiver<Limits>,
}

impl Changes {
    /// Everything up to now is known.
    pub(crate) fn mark_seen(&mut self) {
        self.lease.mark_unchanged();
        self.limits.mark_unchanged();
    }

    /// Resolves at the next change.
    pub(crate) async fn next(&mut self) {
        // The senders live as long as the hold.
        tokio::select! {
            _changed = self.lease.changed() => {}
            _changed = self.limits.changed() => {}
        }
    }
}
