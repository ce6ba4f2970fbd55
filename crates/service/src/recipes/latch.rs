//! Waiting for a latch: nothing is written, the call is parked until this node applies what opens the latch.

use std::time::{Duration, Instant};

use holdfast_types::{LatchView, RecipeName, RecipeRejection, Rejection, Revision};

use super::parked::Topic;
use super::{NotYet, RecipeAnswer};
use crate::answer::{Answer, Failure, Response};
use crate::request::ReadMode;
use crate::service::Service;

impl Service {
    pub(super) async fn await_latch(
        &self,
        latch: RecipeName,
        wait: Duration,
        read: ReadMode,
    ) -> Result<Response, Failure> {
        let arrived = Instant::now();
        let _seat = self.seat_for(wait)?;
        let mut parked = self.gatherers().park(Topic::Latch(latch.clone()), None);
        self.freshen(read).await?;
        let (first, _) = self.latch(&latch)?;
        let until = tokio::time::sleep_until((arrived + wait).into());
        tokio::pin!(until);
        loop {
            let (view, revision) = self.latch(&latch)?;
            // Another latch of the same name is another one.
            if view.made != first.made {
                return Err(no_latch());
            }
            if view.left == 0 {
                let answer = Answer::Recipe(RecipeAnswer::Open(view));
                return Ok(self.labelled(answer, revision, read));
            }
            tokio::select! {
                _look = parked.woken() => {}
                () = &mut until => break,
                () = self.draining().cancelled() => return Err(Failure::ShuttingDown),
            }
        }
        // "Not yet" must be true of the cluster, not of a node that lags.
        self.freshen(read).await?;
        let (view, revision) = self.latch(&latch)?;
        if view.left == 0 && view.made == first.made {
            return Ok(self.labelled(Answer::Recipe(RecipeAnswer::Open(view)), revision, read));
        }
        Err(Failure::NotYet { what: NotYet::Latch(view), waited: arrived.elapsed() })
    }

    async fn freshen(&self, read: ReadMode) -> Result<(), Failure> {
        if read == ReadMode::Linearizable {
            self.raft().read_barrier(self.deadline()).await?;
        }
        Ok(())
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
