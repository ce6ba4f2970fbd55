//! Waiting for a latch. The call writes nothing and is parked until this node applies the change that opens the latch.

use std::time::{Duration, Instant};

use holdfast_types::{LatchView, RecipeName, RecipeRejection, Rejection, Revision, Right};

use super::parked::RecipeTopic;
use crate::context::{ReadMode, Response};
use crate::failure::{Failure, NotYet};
use crate::service::Service;
use crate::waiting::{Wait, WaitEvent};

impl Service {
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
}

fn no_latch() -> Failure {
    Failure::Rejected(Rejection::Recipe(RecipeRejection::NoLatch))
}
