//! Calls parked on this node until a latch or a barrier changes.
//!
//! A latch or a barrier opens for all its waiters, so an event wakes all of them. A call whose generation the event
//! ends also receives the event, which has the result even if the state machine has moved on.

use holdfast_types::{BarrierKind, RecipeEvent, RecipeName, Revision};
use prometheus_client::metrics::counter::Counter;

use crate::waiting::{Parked, ParkedCalls};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RecipeTopic {
    Latch(RecipeName),
    BarrierKind(BarrierKind, RecipeName),
}

/// The topic that a call waits for, and its generation of the barrier.
type RecipeKey = (RecipeTopic, Option<Revision>);

pub(super) type ParkedRecipeCall = Parked<RecipeKey, RecipeEvent>;

#[derive(Debug)]
pub(crate) struct RecipeWaiters(ParkedCalls<RecipeKey, RecipeEvent>);

impl Default for RecipeWaiters {
    fn default() -> Self {
        // The metric counts only the wake-ups of lock waiters.
        Self(ParkedCalls::new(Counter::default()))
    }
}

impl RecipeWaiters {
    pub(super) fn park(
        &self,
        topic: RecipeTopic,
        generation: Option<Revision>,
    ) -> ParkedRecipeCall {
        self.0.park((topic, generation))
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.len()
    }

    /// Wakes the calls that an event concerns. Runs inside the apply step.
    pub(crate) fn on_event(&self, event: &RecipeEvent) {
        let (topic, ended) = match event {
            RecipeEvent::LatchOpened { latch } | RecipeEvent::LatchDeleted { latch } => {
                (RecipeTopic::Latch(latch.clone()), None)
            }
            RecipeEvent::Opened { barrier_kind, name, generation } => {
                (RecipeTopic::BarrierKind(*barrier_kind, name.clone()), Some(*generation))
            }
            RecipeEvent::Broken { name, breach } => (
                RecipeTopic::BarrierKind(BarrierKind::Barrier, name.clone()),
                Some(breach.generation),
            ),
            RecipeEvent::SpaceFreed { name } | RecipeEvent::RoundLeft { name, .. } => {
                (RecipeTopic::BarrierKind(BarrierKind::Double, name.clone()), None)
            }
        };
        let keys = (topic.clone(), None)..=(topic, Some(Revision(u64::MAX)));
        self.0.wake(keys, |(_, generation)| {
            (ended.is_some() && *generation == ended).then(|| event.clone())
        });
    }

    /// Wakes every call to read the state, after events were skipped.
    pub(crate) fn wake_all(&self) {
        self.0.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::WakeUp;

    fn name(name: &str) -> RecipeName {
        RecipeName::new(name).unwrap()
    }

    fn opened(generation: u64) -> RecipeEvent {
        let (barrier_kind, generation) = (BarrierKind::Barrier, Revision(generation));
        RecipeEvent::Opened { barrier_kind, name: name("a"), generation }
    }

    #[tokio::test]
    async fn only_members_of_the_generation_get_the_event_that_ends_it() {
        let waiters = RecipeWaiters::default();
        let topic = RecipeTopic::BarrierKind(BarrierKind::Barrier, name("a"));
        let mut mine = waiters.park(topic.clone(), Some(Revision(7)));
        let mut next = waiters.park(topic, Some(Revision(9)));
        waiters.on_event(&opened(7));
        waiters.wake_all();
        waiters.on_event(&opened(8));
        assert_eq!(mine.event(), Some(opened(7)));
        assert_eq!(mine.woken().await, WakeUp::Event(opened(7)));
        assert_eq!(next.woken().await, WakeUp::Look);
        assert_eq!(next.event(), None);
    }

    #[tokio::test]
    async fn only_calls_that_wait_for_the_latch_wake() {
        let waiters = RecipeWaiters::default();
        let mut mine = waiters.park(RecipeTopic::Latch(name("a")), None);
        let mut other = waiters.park(RecipeTopic::Latch(name("b")), None);
        waiters.on_event(&RecipeEvent::LatchOpened { latch: name("a") });
        assert_eq!(mine.woken().await, WakeUp::Look);
        assert!(futures_util::poll!(std::pin::pin!(other.woken())).is_pending());
        drop((mine, other));
        assert_eq!(waiters.len(), 0);
    }
}
