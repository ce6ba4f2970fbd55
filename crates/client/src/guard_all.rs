//! The guard of several locks that are held together.
//!
//! Owns what is true of all of them: they are held while each is, and the first loss is the guard's. Each lock keeps its own
//! token and its own loss, so that one that is taken away is told while the others are held; what is given back is given
//! back in one call. Bounds: as many locks as one call may name, 16.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use holdfast_types::{FencingToken, LockName};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::claim::Claim;
use crate::clock::Moment;
use crate::hold::Changes;
use crate::session::Use;
use crate::{Error, Guard, Hold, Loss, ReleaseRequest};

/// Several locks that are held together, each with a token of its own, renewed as long as this lives. Dropping it gives all
/// of them back in the background; [`GuardAll::release`] does so for certain.
#[derive(Debug)]
#[must_use = "dropping the guard gives the locks back"]
pub struct GuardAll {
    members: Vec<Guard>,
    cancel: CancellationToken,
    sentinel: JoinHandle<()>,
}

impl GuardAll {
    /// Of at least one.
    pub(crate) fn new(members: Vec<Guard>) -> Self {
        let cancel = CancellationToken::new();
        let holds: Vec<Hold> = members.iter().map(Guard::hold).collect();
        let told = cancel.clone();
        let watch = async move {
            drop(first_loss(&holds).await);
            told.cancel();
        };
        let sentinel = tokio::spawn(watch);
        Self { members, cancel, sentinel }
    }

    /// What is known of each lock, in the order in which a node named them: by name.
    pub fn holds(&self) -> impl Iterator<Item = &Hold> {
        self.members.iter().map(|member| &**member)
    }

    /// What is known of one lock; none if it is not among them, or was given back.
    pub fn hold(&self, lock: &str) -> Option<&Hold> {
        self.holds().find(|hold| hold.lock().as_str() == lock)
    }

    /// The token of each lock, to carry into what that lock protects.
    pub fn tokens(&self) -> BTreeMap<LockName, FencingToken> {
        self.holds().map(|hold| (hold.lock().clone(), hold.token())).collect()
    }

    /// Whether all are certainly still held, for use with `?` right before each write.
    ///
    /// # Errors
    /// Why one of them is lost.
    pub fn ensure(&self) -> Result<(), Loss> {
        self.standing(Moment::now()).map(drop)
    }

    /// Whether all are certainly still held.
    pub fn is_held(&self) -> bool {
        self.ensure().is_ok()
    }

    /// What is left until the first deadline of any; zero if one is lost.
    pub fn remaining(&self) -> Duration {
        let now = Moment::now();
        self.standing(now).map_or(Duration::ZERO, |deadline| deadline.left(now))
    }

    /// Nobody else can have any of them before this; none if one is lost.
    pub fn deadline_moment(&self) -> Option<Moment> {
        self.standing(Moment::now()).ok()
    }

    /// Resolves with the first deadline of any as soon as it is another one than the one that is known, as
    /// [`Hold::deadline_after`]. It moves back when one of the locks gets an earlier deadline than the others.
    ///
    /// # Errors
    /// Why one of them is lost, although the others are held.
    pub async fn deadline_after(&self, known: Moment) -> Result<Moment, Loss> {
        let mut changes: Vec<Changes> = self.holds().map(Hold::changes).collect();
        loop {
            changes.iter_mut().for_each(Changes::mark_seen);
            let deadline = self.standing(Moment::now())?;
            if deadline != known {
                return Ok(deadline);
            }
            tokio::select! {
                _changed = first_of(changes.iter_mut().map(Changes::next)) => {}
                (_, loss) = self.lost() => return Err(loss),
            }
        }
    }

    /// Resolves when the first of them is lost, with which: the others are held still, until they are given back. Never, if
    /// they are given back before.
    pub async fn lost(&self) -> (LockName, Loss) {
        let holds: Vec<Hold> = self.members.iter().map(Guard::hold).collect();
        first_loss(&holds).await
    }

    /// Resolves when somebody asks for the release of one of them, with which, as [`Hold::release_requested`].
    pub async fn release_requested(&self) -> (LockName, ReleaseRequest) {
        let (at, request) = first_of(self.holds().map(Hold::release_requested)).await;
        (self.members[at].lock().clone(), request)
    }

    /// Cancelled when one of them is lost, and when the guard ends in any other way.
    pub fn cancel_token(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Gives one of them back, for certain, and keeps the others.
    ///
    /// # Errors
    /// [`Error::Argument`] if it is not among them; otherwise as [`Guard::release`].
    pub async fn release_one(&mut self, lock: &str) -> Result<(), Error> {
        let at = self.members.iter().position(|member| member.lock().as_str() == lock);
        let Some(at) = at else {
            return Err(Error::Argument(format!("{lock} is not among the locks of this guard")));
        };
        self.members.remove(at).release().await
    }

    /// Gives all of them back at once, and waits until that is certain.
    ///
    /// # Errors
    /// [`Error::Lost`] if one of them was lost before; otherwise see [`Error`]. Whatever it is, they are free after the
    /// session's time-to-live without a renewal at the latest.
    pub async fn release(mut self) -> Result<(), Error> {
        let before = self.ensure();
        let Some((used, claims)) = self.claims() else { return Ok(()) };
        let released = used.session().give_back_all(&claims).await;
        if !matches!(released, Err(Error::Retry(_) | Error::Unknown(_))) {
            self.settle();
        }
        match (before, released) {
            (Err(loss), _) => Err(Error::Lost(loss)),
            (Ok(()), Err(Error::Refused(_))) => Err(Error::Lost(Loss::TakenAway)),
            (Ok(()), other) => other,
        }
    }

    /// The session, and what is to be given back; none if nothing is.
    fn claims(&self) -> Option<(Use, Vec<Arc<Claim>>)> {
        let used = Use::of(self.members.first()?.used.session());
        Some((used, self.members.iter().map(|member| member.hold.claim.clone()).collect()))
    }

    /// Nothing is left to give back.
    fn settle(&mut self) {
        self.members.iter_mut().for_each(|member| member.released = true);
        self.members.clear();
    }

    fn standing(&self, now: Moment) -> Result<Moment, Loss> {
        let mut first: Option<Moment> = None;
        for member in &self.members {
            let deadline = member.standing(now)?;
            first = Some(first.map_or(deadline, |first| first.min(deadline)));
        }
        // All were given back, one by one.
        first.ok_or(Loss::TakenAway)
    }
}

impl Drop for GuardAll {
    fn drop(&mut self) {
        self.sentinel.abort();
        self.cancel.cancel();
        if let Some((used, claims)) = self.claims() {
            used.session().give_back_all_later(claims);
            self.settle();
        }
    }
}

/// The first loss among some holds.
async fn first_loss(holds: &[Hold]) -> (LockName, Loss) {
    let (at, loss) = first_of(holds.iter().map(Hold::lost)).await;
    (holds[at].lock().clone(), loss)
}

/// The first future that resolves, by its place among them.
async fn first_of<F: Future>(all: impl Iterator<Item = F>) -> (usize, F::Output) {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        for (at, one) in all.iter_mut().enumerate() {
            if let Poll::Ready(output) = one.as_mut().poll(context) {
                return Poll::Ready((at, output));
            }
        }
        Poll::Pending
    })
    .await
}
