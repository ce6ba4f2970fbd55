//! Calls parked on this node until something happens to a latch or a barrier.
//!
//! Owns who is to be woken: everybody who waits for that one, because it opens for all. Of a barrier's generation the
//! event itself is kept for the caller, so that it is told how it ended even if the machine has moved on since.
//! Refuses to know why somebody waits. Bound: callers have seats, see `waiters.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_types::{Gate, RecipeEvent, RecipeName, Revision};
use parking_lot::Mutex;
use tokio::sync::watch;

/// What somebody waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    Latch(RecipeName),
    Gate(Gate, RecipeName),
}

/// Why a parked caller wakes.
#[derive(Clone, Debug)]
pub(super) enum Woken {
    /// Something happened, perhaps: look at the state.
    Look,
    /// The generation that it waits in is over, and how.
    Over(RecipeEvent),
}

type Key = (Topic, u64);

#[derive(Debug)]
struct Line {
    /// The generation that the caller waits in.
    generation: Option<Revision>,
    woken: watch::Sender<Option<Woken>>,
}

/// The registry of parked callers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gatherers {
    parked: Arc<Mutex<BTreeMap<Key, Line>>>,
}

/// One parked caller. Dropping it leaves the registry.
#[derive(Debug)]
pub(super) struct Parked {
    gatherers: Gatherers,
    key: Key,
    woken: watch::Receiver<Option<Woken>>,
}

impl Gatherers {
    /// Parks for a topic. From now on its events are kept; look at the state once after this.
    pub(super) fn park(&self, topic: Topic, generation: Option<Revision>) -> Parked {
        let (sender, woken) = watch::channel(None);
        let mut parked = self.parked.lock();
        let range = (topic.clone(), 0)..=(topic.clone(), u64::MAX);
        let number = parked.range(range).next_back().map_or(0, |((_, last), _)| last + 1);
        let key = (topic, number);
        parked.insert(key.clone(), Line { generation, woken: sender });
        drop(parked);
        Parked { gatherers: self.clone(), key, woken }
    }

    /// Callers parked now.
    pub(crate) fn len(&self) -> usize {
        self.parked.lock().len()
    }

    /// Something happened.
    pub(crate) fn see(&self, event: &RecipeEvent) {
        let (topic, generation) = match event {
            RecipeEvent::LatchOpened { latch } | RecipeEvent::LatchDeleted { latch } => {
                (Topic::Latch(latch.clone()), None)
            }
            RecipeEvent::Opened { gate, name, generation } => {
                (Topic::Gate(*gate, name.clone()), Some(*generation))
            }
            RecipeEvent::Broken { name, breach } => {
                (Topic::Gate(Gate::Barrier, name.clone()), Some(breach.generation))
            }
            RecipeEvent::PlaceFreed { name } | RecipeEvent::Out { name, .. } => {
                (Topic::Gate(Gate::Double, name.clone()), None)
            }
        };
        let parked = self.parked.lock();
        for (_, line) in parked.range((topic.clone(), 0)..=(topic, u64::MAX)) {
            if generation.is_some() && line.generation == generation {
                line.woken.send_replace(Some(Woken::Over(event.clone())));
            } else {
                line.look();
            }
        }
    }

    /// Wakes everybody to look at the state, after events were skipped.
    pub(crate) fn look(&self) {
        self.parked.lock().values().for_each(Line::look);
    }
}

impl Line {
    /// Never instead of the end of the generation.
    fn look(&self) {
        self.woken.send_if_modified(|woken| {
            let over = matches!(woken, Some(Woken::Over(_)));
            if !over {
                *woken = Some(Woken::Look);
            }
            !over
        });
    }
}

impl Parked {
    /// Waits for the next reason to wake.
    pub(super) async fn woken(&mut self) -> Woken {
        // The sender lives in the registry until `self` is dropped.
        if self.woken.changed().await.is_err() {
            return Woken::Look;
        }
        self.woken.borrow_and_update().clone().unwrap_or(Woken::Look)
    }

    /// How the generation ended, if it is known already.
    pub(super) fn over(&self) -> Option<RecipeEvent> {
        match &*self.woken.borrow() {
            Some(Woken::Over(event)) => Some(event.clone()),
            Some(Woken::Look) | None => None,
        }
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.gatherers.parked.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> RecipeName {
        RecipeName::new(name).unwrap()
    }

    fn opened(generation: u64) -> RecipeEvent {
        let (gate, generation) = (Gate::Barrier, Revision(generation));
        RecipeEvent::Opened { gate, name: name("a"), generation }
    }

    #[tokio::test]
    async fn the_end_of_a_generation_stays_known() {
        let gatherers = Gatherers::default();
        let topic = Topic::Gate(Gate::Barrier, name("a"));
        let mut mine = gatherers.park(topic.clone(), Some(Revision(7)));
        let mut next = gatherers.park(topic, Some(Revision(9)));
        gatherers.see(&opened(7));
        gatherers.look();
        gatherers.see(&opened(8));
        assert!(matches!(mine.woken().await, Woken::Over(event) if event == opened(7)));
        assert_eq!(mine.over(), Some(opened(7)));
        assert!(matches!(next.woken().await, Woken::Look));
        assert_eq!(next.over(), None);
    }

    #[tokio::test]
    async fn only_those_who_wait_for_it_wake() {
        let gatherers = Gatherers::default();
        let mut mine = gatherers.park(Topic::Latch(name("a")), None);
        let mut other = gatherers.park(Topic::Latch(name("b")), None);
        gatherers.see(&RecipeEvent::LatchOpened { latch: name("a") });
        assert!(matches!(mine.woken().await, Woken::Look));
        assert!(futures_util::poll!(std::pin::pin!(other.woken())).is_pending());
        drop((mine, other));
        assert!(gatherers.parked.lock().is_empty());
    }
}
