//! The model's recipes: a model of their own, which shares the sessions and the memo with this one.

use holdfast_types::*;

use super::{Model, full};

impl Model {
    /// Copies the state that the recipe model needs for this command.
    pub(super) fn follow_in_recipes(&mut self) {
        let expired = self.ended.iter().filter(|ended| ended.end == SessionEnd::Expired);
        let expired = expired.map(|ended| ended.name.clone()).collect();
        self.recipes.follow((self.revision, self.minted), self.limits, expired);
    }

    pub(super) fn recipe(&mut self, recipe: Recipe) -> Outcome {
        let before = self.recipes.clone();
        let open = match &recipe {
            Recipe::Arrive(arrive) => Some(arrive.open.clone()),
            _ => None,
        };
        // The recipe model counts its own revisions.
        self.revision -= 1;
        self.follow_in_recipes();
        self.revision += 1;
        let mut outcome = self.recipes.apply(recipe);
        if let Some(open) = open {
            if self.live(&open.session).is_some() {
                if outcome.is_ok() && !self.recipes.is_recalled {
                    self.renew_lease_by_name(&open.session, open.ttl, None);
                }
            } else if self.recipes.live(&open.session).is_some() {
                if self.sessions.len() as u32 >= self.limits.sessions_max {
                    self.recipes = before;
                    return full(Bound::Sessions, self.limits.sessions_max);
                }
                self.begin(&open, None);
            }
        }
        if let Ok(Reply::Recipe(RecipeReply::Arrived(arrived))) = &mut outcome {
            let own = self.sessions.iter().find(|session| session.id == arrived.session.0);
            arrived.ttl = own.unwrap().ttl;
        }
        outcome
    }
}
