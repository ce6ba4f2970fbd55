//! A small fixed hash: nodes compare the digests of their applied commands and of their state.
//!
//! The state has 64 bits. Each word of eight little-endian bytes is folded in with rotate, xor and an odd multiplier;
//! an avalanche step ends the hash. The hash is the same on each platform, and does not withstand an adversary. The
//! input comes from `derive(Hash)`, so it depends on the compiler and on the types. A golden digest of every part of
//! the state detects a change. [`DIGEST_SCHEMA`] then grows, and nodes of both builds do not compare their digests.

use std::hash::{Hash, Hasher};

use holdfast_types::{Event, Outcome, Revision};

/// The version of the digests. Nodes compare digests only if their schemas are equal.
pub const DIGEST_SCHEMA: u16 = 1;

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
const ROTATION: u32 = 23;

/// The state of the hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DigestHasher(u64);

impl DigestHasher {
    /// Continues from an earlier digest; 0 starts a new one.
    pub(crate) fn from(seed: u64) -> Self {
        Self(seed)
    }

    fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(ROTATION) ^ word).wrapping_mul(MULTIPLIER);
    }
}

impl Hasher for DigestHasher {
    fn finish(&self) -> u64 {
        let mut state = self.0 ^ (self.0 >> 32);
        state = state.wrapping_mul(MULTIPLIER);
        state ^ (state >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let (mut word, len) = ([0; 8], rest.len());
            for (to, from) in word.iter_mut().zip(rest) {
                *to = *from;
            }
            self.word(u64::from_le_bytes(word) | (len as u64) << 56);
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.word(n.into());
    }

    fn write_u16(&mut self, n: u16) {
        self.word(n.into());
    }

    fn write_u32(&mut self, n: u32) {
        self.word(n.into());
    }

    fn write_u64(&mut self, n: u64) {
        self.word(n);
    }

    fn write_usize(&mut self, n: usize) {
        self.word(n as u64);
    }
}

/// Folds the outcome and the events of one command into the rolling digest. The result does not depend on the batching
/// of commands into entries.
pub(crate) fn fold_command(
    digest: u64,
    revision: Revision,
    outcome: &Outcome,
    events: &[(Revision, Event)],
) -> u64 {
    let mut fold = DigestHasher::from(digest);
    revision.hash(&mut fold);
    outcome.hash(&mut fold);
    for (_, event) in events {
        event.hash(&mut fold);
    }
    fold.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(bytes: &[u8]) -> u64 {
        let mut fold = DigestHasher::from(0);
        fold.write(bytes);
        fold.finish()
    }

    /// A change of these values is a change of format: nodes of two builds would have different digests.
    #[test]
    fn the_algorithm_is_fixed() {
        assert_eq!(fold(b""), 0);
        assert_eq!(fold(b"holdfast"), 10_546_756_855_893_300_526);
        assert_eq!(fold(b"holdfast lock"), 2_654_787_930_434_726_934);
    }

    #[test]
    fn length_and_position_change_the_digest() {
        let all = [&b"a"[..], b"a\0", b"\0a", b"\0", b"\0\0", b"abcdefgh", b"abcdefgh\0"];
        for (i, a) in all.iter().enumerate() {
            for b in &all[..i] {
                assert_ne!(fold(a), fold(b), "{a:?} {b:?}");
            }
        }
    }
}
