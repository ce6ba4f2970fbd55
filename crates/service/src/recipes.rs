//! Latches and counters, and reads of barriers, for callers of any protocol: one command or one read each. Arrivals at barriers
//! have a file of their own.
//!
//! Changes are commands, and the state machine decides when a latch or a barrier opens. A waiting call writes nothing: it is parked
//! on this node (`recipes/parked.rs`), and takes a waiter permit, like a call that waits for a lock.

mod barriers;
mod parked;

use std::time::{Duration, Instant};

use holdfast_machine::{RecipeFilter, recipe_of_next};
use holdfast_types::{
    BarrierKind, BarrierView, ChangeCounter, Command, CounterView, LatchView, Page, Recipe,
    RecipeKind, RecipeName, RecipeRejection, RecipeReply, RecipeView, Rejection, Reply, RequestId,
    Revision, Right, SessionName,
};

use self::parked::RecipeTopic;
use crate::auth::authorization::allows;
use crate::request::{Failure, NotYet, ReadMode, Response};
use crate::service::Service;
use crate::waiting::{Wait, WaitEvent};

pub(crate) use self::parked::RecipeWaiters;

#[derive(Clone, Copy, Debug)]
pub struct CreatedLatch {
    pub view: LatchView,
    /// False if a latch of the same count existed.
    pub created: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct CountedDown {
    /// The count right after the key was counted; for a key that is counted later, the current count.
    pub left: u32,
    /// False if the latch was already open, or the key is counted later.
    pub counted: bool,
}

impl Service {
    /// Creates a latch; also succeeds if a latch with the same count exists.
    pub async fn create_latch(
        &self,
        latch: RecipeName,
        count: u32,
    ) -> Result<Response<CreatedLatch>, Failure> {
        let made = self.propose_recipe(Recipe::MakeLatch { latch, count }, RecipeReply::into_latch);
        Ok(made.await?.map(|(view, created)| CreatedLatch { view, created }))
    }

    /// Counts a latch down, once for each key: now, or when the session `when_ended` ends.
    pub async fn count_down(
        &self,
        latch: RecipeName,
        key: RequestId,
        when_ended: Option<SessionName>,
    ) -> Result<Response<CountedDown>, Failure> {
        let recipe = match when_ended {
            None => Recipe::CountDown { latch, key },
            Some(session) => Recipe::Promise { latch, key, session },
        };
        let counted = self.propose_recipe(recipe, RecipeReply::into_counted).await?;
        Ok(counted.map(|(left, counted)| CountedDown { left, counted }))
    }

    /// Waits until a latch is open. With a zero `wait`, the call only reads.
    ///
    /// # Errors
    /// [`Failure::NotYet`] if the latch is not open in time; a rejection if the latch does not exist; otherwise the
    /// errors of any read.
    pub async fn await_latch(
        &self,
        latch: &RecipeName,
        wait: Duration,
        mode: ReadMode,
    ) -> Result<Response<LatchView>, Failure> {
        let arrived = Instant::now();
        let _permit = self.admit(wait)?;
        let mut parked =
            self.observer().recipe_waiters.park(RecipeTopic::Latch(latch.clone()), None);
        self.freshen(mode).await?;
        let (first, _) = self.latch(latch)?;
        let mut wait = Wait::until(self, arrived + wait);
        loop {
            let (view, revision) = self.latch(latch)?;
            // The name now belongs to another latch.
            if view.created_in != first.created_in {
                return Err(no_latch());
            }
            if view.left == 0 {
                return Ok(self.labelled(view, revision, mode));
            }
            match wait.next(parked.woken()).await {
                WaitEvent::Woken(_) | WaitEvent::Renewed { .. } => {}
                WaitEvent::Deadline | WaitEvent::SessionEnded(_) => break,
                WaitEvent::Denied(rejection) => return Err(Failure::Rejected(rejection)),
                WaitEvent::Draining => return Err(Failure::ShuttingDown),
            }
        }
        // A lagging node must not report a closed latch.
        self.freshen(mode).await?;
        let (view, revision) = self.latch(latch)?;
        if view.left == 0 && view.created_in == first.created_in {
            return Ok(self.labelled(view, revision, mode));
        }
        Err(Failure::NotYet { what: NotYet::Latch(view), waited: arrived.elapsed() })
    }

    fn latch(&self, latch: &RecipeName) -> Result<(LatchView, Revision), Failure> {
        self.raft().read(|machine| {
            self.check(machine, Right::RecipeRead, latch.as_str()).map_err(Failure::Rejected)?;
            let view = machine.latch(latch).ok_or_else(no_latch)?;
            Ok((view, machine.revision()))
        })
    }

    /// Deletes a latch; returns whether it existed.
    pub async fn delete_latch(&self, latch: RecipeName) -> Result<Response<bool>, Failure> {
        self.propose_recipe(Recipe::DeleteLatch { latch }, RecipeReply::into_deleted).await
    }

    /// Changes a counter; returns the counter, or `None` if the change deleted it.
    pub async fn count(
        &self,
        count: ChangeCounter,
    ) -> Result<Response<Option<CounterView>>, Failure> {
        self.propose_recipe(Recipe::ChangeCounter(count), RecipeReply::into_counter).await
    }

    pub async fn barrier(
        &self,
        barrier_kind: BarrierKind,
        name: &RecipeName,
        mode: ReadMode,
    ) -> Result<Response<BarrierView>, Failure> {
        self.read(mode, |machine| {
            self.check(machine, Right::RecipeRead, name.as_str())?;
            Ok(machine.barrier(barrier_kind, name))
        })
        .await
    }

    pub async fn counter(
        &self,
        counter: &RecipeName,
        mode: ReadMode,
    ) -> Result<Response<CounterView>, Failure> {
        self.read(mode, |machine| {
            self.check(machine, Right::RecipeRead, counter.as_str())?;
            Ok(machine.counter(counter))
        })
        .await
    }

    /// Reads a page of the recipes that the caller may read, after one.
    pub async fn recipes(
        &self,
        filter: &RecipeFilter,
        after: Option<(RecipeKind, RecipeName)>,
        limit: usize,
        mode: ReadMode,
    ) -> Result<Response<Page<RecipeView>>, Failure> {
        self.read_page((mode, after, limit), recipe_of_next, |machine, after, limit| {
            let rights = self.enforced_rights(machine)?;
            let is_visible = |name: &RecipeName| allows(rights, Right::RecipeRead, name.as_str());
            Ok(machine.recipes(filter, after, limit, is_visible))
        })
        .await
    }

    async fn propose_recipe<T>(
        &self,
        recipe: Recipe,
        extract: impl FnOnce(RecipeReply) -> Option<T>,
    ) -> Result<Response<T>, Failure> {
        let extract = |reply: Reply| reply.into_recipe().and_then(extract);
        let proposed = self.propose(Command::Recipe(recipe), extract).await;
        proposed.map_err(|failure| {
            if let Failure::Rejected(Rejection::Recipe(RecipeRejection::NotYet {
                arrived,
                parties,
            })) = failure
            {
                let what = NotYet::Arrivals { arrived, parties };
                return Failure::NotYet { what, waited: Duration::ZERO };
            }
            failure
        })
    }
}

fn no_latch() -> Failure {
    Failure::Rejected(Rejection::Recipe(RecipeRejection::NoLatch))
}
