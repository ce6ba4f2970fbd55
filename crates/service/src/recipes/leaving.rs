//! Leaving a barrier, and leaving a double barrier together.
//!
//! The command has left; what follows is a wait for the others, which writes nothing and can be asked for again.

use std::time::{Duration, Instant};

use holdfast_types::{Depart, Gate, Recipe, RecipeReply, Revision};

use super::parked::Topic;
use super::{NotYet, RecipeAnswer};
use crate::answer::{Answer, Failure, Response};
use crate::service::{Service, respond};

impl Service {
    pub(super) async fn depart(&self, depart: Depart, wait: Duration) -> Result<Response, Failure> {
        let began = Instant::now();
        let _seat = self.seat_for(wait)?;
        let (gate, name) = (depart.gate, depart.name.clone());
        let mut parked = self.gatherers().park(Topic::Gate(Gate::Double, name.clone()), None);
        let (reply, revision) = self.propose_recipe(Recipe::Depart(depart)).await?;
        let RecipeReply::Departed { leaving, changed } = reply else {
            return Err(Failure::OutcomeUnknown);
        };
        let done = |round, revision| {
            Ok(respond(Answer::Recipe(RecipeAnswer::Departed { round, changed }), revision))
        };
        let (Some((round, mut inside)), Gate::Double) = (leaving, gate) else {
            return done(None, revision);
        };
        let until = tokio::time::sleep_until((began + wait).into());
        tokio::pin!(until);
        loop {
            let (now, seen) =
                self.raft().read(|machine| (machine.round(&name), machine.revision()));
            match now {
                Some((current, count)) if current == round => inside = count,
                // This node has not applied the round yet.
                Some(_) | None if seen < revision => {}
                Some(_) | None => return done(Some(round), seen),
            }
            tokio::select! {
                _look = parked.woken() => {}
                () = &mut until => return Err(still_inside(round, inside, began)),
                () = self.draining().cancelled() => return Err(Failure::ShuttingDown),
            }
        }
    }
}

fn still_inside(round: Revision, inside: u32, began: Instant) -> Failure {
    Failure::NotYet { what: NotYet::Inside { round, inside }, waited: began.elapsed() }
}
