//! Waiting for a latch: nothing is written, the call is parked until this node applies what opens the latch.

use std::time::{Duration, Instant};

use holdfast_types::{LatchView, RecipeName, RecipeRejection, Rejection, Revision};

use super::NotYet;
use super::parked::Topic;
use crate::context::{ReadMode, Response};
use crate::failure::Failure;
use crate::service::Service;

impl Service {
    /// Waits until a latch is open. With a zero `wait` the call only looks.
    ///
    /// # Errors
    /// [`Failure::NotYet`] if it is not open in time; a rejection if there is no such latch; else as any read.
    pub async fn await_latch(
        &self,
        latch: &RecipeName,
        wait: Duration,
        mode: ReadMode,
    ) -> Result<Response<LatchView>, Failure> {
        let arrived = Instant::now();
        let _seat = self.admit(wait)?;
        let mut parked = self.gatherers().park(Topic::Latch(latch.clone()), None);
        self.freshen(mode).await?;
        let (first, _) = self.latch(latch)?;
        let until = tokio::time::sleep_until((arrived + wait).into());
        tokio::pin!(until);
        loop {
            let (view, revision) = self.latch(latch)?;
            // Another latch of the same name is another one.
            if view.made != first.made {
                return Err(no_latch());
            }
            if view.left == 0 {
                return Ok(self.labelled(view, revision, mode));
            }
            tokio::select! {
                _look = parked.woken() => {}
                () = &mut until => break,
                () = self.draining().cancelled() => return Err(Failure::ShuttingDown),
            }
        }
        // "Not yet" must be true of the cluster, not of a node that lags.
        self.freshen(mode).await?;
        let (view, revision) = self.latch(latch)?;
        if view.left == 0 && view.made == first.made {
            return Ok(self.labelled(view, revision, mode));
        }
        Err(Failure::NotYet { what: NotYet::Latch(view), waited: arrived.elapsed() })
    }

    fn latch(&self, latch: &RecipeName) -> Result<(LatchView, Revision), Failure> {
        let look = |machine: &holdfast_machine::Machine| (machine.latch(latch), machine.revision());
        let (view, revision) = self.raft().read(look);
        view.map(|view| (view, revision)).ok_or_else(no_latch)
    }
}

fn no_latch() -> Failure {
    Failure::Rejected(Rejection::Recipe(RecipeRejection::NoLatch))
}
