//! Generates random scripts from a seed.
//!
//! The generator does not track the tree: names are few, so that requests often use the same nodes, and failed requests
//! are useful too. It tracks which sessions are connected, so that most steps have a connection. It never generates a TTL
//! of −1, which terminates ZooKeeper.

mod names;
mod requests;

use std::ops::{Deref, DerefMut};

use holdfast_zkwire::{Request, SetWatches};

use names::Watched;

use crate::script::{SEEN, SLOTS, Step};
use crate::test_rng::TestRng;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    Empty,
    Connected,
    Cut,
}

/// The random numbers of a seed, and the kind of script.
struct Luck {
    dice: TestRng,
    /// True for scripts with nodes that some sessions may not read. Such scripts have no watches, because holdfast has a
    /// different rule for events of unreadable nodes.
    secrets: bool,
}

impl Luck {
    fn new(seed: u64) -> Self {
        Self { dice: TestRng::new(seed), secrets: seed.is_multiple_of(4) }
    }
}

impl Deref for Luck {
    type Target = TestRng;

    fn deref(&self) -> &TestRng {
        &self.dice
    }
}

impl DerefMut for Luck {
    fn deref_mut(&mut self) -> &mut TestRng {
        &mut self.dice
    }
}

/// Generator of scripts.
pub struct Generator {
    dice: Luck,
    slots: [Slot; SLOTS],
    steps: Vec<Step>,
}

impl Generator {
    /// A script with at least this number of requests.
    pub fn script(seed: u64, requests: usize) -> Vec<Step> {
        let mut generator =
            Self { dice: Luck::new(seed), slots: [Slot::Empty; SLOTS], steps: Vec::new() };
        let mut written = 0;
        while written < requests {
            written += generator.step();
        }
        generator.steps
    }

    /// One or two steps, and their number of requests.
    fn step(&mut self) -> usize {
        let slot = self.dice.below(SLOTS);
        match self.slots[slot] {
            Slot::Empty => self.push(slot, Step::Open { slot }, Slot::Connected),
            Slot::Cut if self.dice.percent(40) => self.resume(slot),
            Slot::Cut => 0,
            Slot::Connected => match self.dice.weighted(&[1000, 12, 16, 6, 3]) {
                0 => self.burst(slot),
                1 => self.push(slot, Step::Close { slot }, Slot::Empty),
                2 => self.push(slot, Step::Drop { slot }, Slot::Cut),
                3 => self.resume(slot),
                _ => self.push(slot, Step::Impostor { slot }, Slot::Cut),
            },
        }
    }

    fn push(&mut self, slot: usize, step: Step, then: Slot) -> usize {
        self.slots[slot] = then;
        self.steps.push(step);
        1
    }

    fn burst(&mut self, slot: usize) -> usize {
        let many = self.dice.weighted(&[70, 12, 8, 6, 4]) + 1;
        let mut requests: Vec<_> = (0..many).map(|_| requests::any(&mut self.dice)).collect();
        if let Some(at) = requests.iter().position(stands_alone) {
            requests = vec![requests.swap_remove(at)];
        }
        if requests.iter().any(ends_the_connection) {
            self.slots[slot] = Slot::Cut;
        }
        self.steps.push(Step::Burst { slot, requests });
        many
    }

    /// Reconnects and sets the watches again, as clients do.
    fn resume(&mut self, slot: usize) -> usize {
        self.push(slot, Step::Resume { slot }, Slot::Connected);
        if self.dice.secrets || self.dice.percent(25) {
            return 1;
        }
        let relative_zxid = if self.dice.percent(85) { SEEN } else { 0 };
        let mut watches = SetWatches { relative_zxid, ..SetWatches::default() };
        for _ in 0..self.dice.below(6) {
            let path = names::watched(&mut self.dice);
            let list = match (names::how(&path), self.dice.below(3)) {
                (Watched::Always, _) => &mut watches.persistent,
                (Watched::Below, _) => &mut watches.recursive,
                (Watched::Once, 0) => &mut watches.data,
                (Watched::Once, 1) => &mut watches.exist,
                (Watched::Once, _) => &mut watches.child,
            };
            list.push(path);
        }
        self.steps.push(Step::Burst { slot, requests: vec![Request::SetWatches(watches)] });
        2
    }
}

/// ZooKeeper replies to auth before earlier requests, and checks a request right after a new access list against the
/// old list. holdfast does neither.
fn stands_alone(request: &Request) -> bool {
    matches!(request, Request::Auth { .. } | Request::SetAcl { .. })
}

fn ends_the_connection(request: &Request) -> bool {
    matches!(request, Request::Auth { scheme, .. } if scheme != "digest")
}
