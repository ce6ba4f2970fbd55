//! Chooses a random share of the calls of a front-end.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of values that a draw can have.
const DRAWS: f64 = 4_294_967_296.0;

#[derive(Debug)]
pub struct Sampler {
    /// From 0 to 1.
    share: f64,
    /// A random function of the number of a call.
    random: RandomState,
    calls: AtomicU64,
}

impl Sampler {
    /// Chooses this share of the calls, from 0 to 1.
    pub fn new(share: f64) -> Self {
        Self { share, random: RandomState::new(), calls: AtomicU64::new(0) }
    }

    /// Whether to trace the next call.
    pub fn draw(&self) -> bool {
        let hash = self.random.hash_one(self.calls.fetch_add(1, Ordering::Relaxed));
        let [a, b, c, d, ..] = hash.to_ne_bytes();
        f64::from(u32::from_ne_bytes([a, b, c, d])) < self.share * DRAWS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_drawn_calls_is_that_of_the_sampler() {
        let drawn = |share: f64| {
            let sampler = Sampler::new(share);
            (0..10_000).filter(|_| sampler.draw()).count()
        };
        assert_eq!((drawn(0.0), drawn(1.0)), (0, 10_000));
        assert!((2_000..3_000).contains(&drawn(0.25)));
    }
}
