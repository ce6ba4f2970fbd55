//! Leaving a barrier or a double barrier. After the command, the call waits for the other members without a write.

use std::time::{Duration, Instant};

use holdfast_types::{BarrierKind, LeaveBarrier, LeaveBarrierReply, Recipe, RecipeReply};

use super::parked::RecipeTopic;
use crate::context::Response;
use crate::failure::{Failure, NotYet};
use crate::service::Service;
use crate::waiting::{Wait, WaitEvent};

impl Service {
    /// Leaves a barrier, which breaks the barrier. Or leaves a double barrier, and then waits until the other members
    /// have left. Returns whether the caller was inside.
    ///
    /// # Errors
    /// [`Failure::NotYet`] if other members are inside when the wait ends; the caller has left. Otherwise the errors of
    /// any write.
    pub async fn leave_barrier(
        &self,
        leave: LeaveBarrier,
        wait: Duration,
    ) -> Result<Response<bool>, Failure> {
        let began = Instant::now();
        let _permit = self.admit(wait)?;
        let (barrier_kind, name) = (leave.barrier_kind, leave.name.clone());
        let mut parked = self
            .observer()
            .recipe_waiters
            .park(RecipeTopic::BarrierKind(BarrierKind::Double, name.clone()), None);
        let left = self
            .propose_recipe(Recipe::LeaveBarrier(leave), RecipeReply::into_leave_barrier)
            .await?;
        let Response { value: LeaveBarrierReply { leaving, changed }, revision, .. } = left;
        let (Some((round, mut inside)), BarrierKind::Double) = (leaving, barrier_kind) else {
            return Ok(Response::new(changed, revision));
        };
        let mut wait = Wait::until(self, began + wait);
        loop {
            let (now, seen) =
                self.raft().read(|machine| (machine.round(&name), machine.revision()));
            match now {
                Some((current, count)) if current == round => inside = count,
                // This node has not applied the round yet.
                Some(_) | None if seen < revision => {}
                Some(_) | None => return Ok(Response::new(changed, seen)),
            }
            match wait.next(parked.woken()).await {
                WaitEvent::Woken(_) | WaitEvent::Renewed { .. } => {}
                WaitEvent::Deadline | WaitEvent::SessionEnded(_) => {
                    let what = NotYet::Inside { round, inside };
                    return Err(Failure::NotYet { what, waited: began.elapsed() });
                }
                WaitEvent::Denied(rejection) => return Err(Failure::Rejected(rejection)),
                WaitEvent::Draining => return Err(Failure::ShuttingDown),
            }
        }
    }
}
