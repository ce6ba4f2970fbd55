//! Damage to frames, from a seed.
//!
//! The module has its own generator, so that a seed produces the same frames on every machine. The kinds of damage are
//! typical causes of bugs in decoders of lengths and counts.

/// A small generator (the mixing of `SplitMix64`).
#[derive(Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, or 0 if `end` is 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % end).unwrap_or(0)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[0]
    }
}

/// Valid and invalid lengths, counts and numbers of operations.
const NUMBERS: [i32; 16] =
    [-1, -2, 0, 1, 2, 4, 5, 14, 21, 22, 105, -11, 0x10_0000, i32::MAX, i32::MAX - 3, i32::MIN];
/// The longest generated frame, bytes.
const LEN_MAX: usize = 4096;

/// Damages a frame one to four times. `other` is the source of spliced bytes.
pub(crate) fn damage(frame: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    for _ in 0..=chance.below(4) {
        once(frame, other, chance);
    }
    frame.truncate(LEN_MAX);
}

fn once(frame: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    let at = chance.below(frame.len());
    match chance.below(8) {
        0 => flip(frame, at, chance),
        1 => frame.truncate(at),
        2 => frame.insert(at, chance.byte()),
        3 => number(frame, at, chance),
        4 => number(frame, at / 4 * 4, chance),
        5 => repeat(frame, at, chance),
        6 => splice(frame, at, other, chance),
        _ => remove(frame, at, chance),
    }
}

fn flip(frame: &mut [u8], at: usize, chance: &mut Chance) {
    if let Some(byte) = frame.get_mut(at) {
        *byte ^= 1 << chance.below(8);
    }
}

fn number(frame: &mut [u8], at: usize, chance: &mut Chance) {
    let number = NUMBERS[chance.below(NUMBERS.len())].to_be_bytes();
    for (byte, new) in frame.iter_mut().skip(at).zip(number) {
        *byte = new;
    }
}

fn repeat(frame: &mut Vec<u8>, at: usize, chance: &mut Chance) {
    let end = (at + 1 + chance.below(32)).min(frame.len());
    let piece = frame.get(at..end).unwrap_or_default().repeat(1 + chance.below(8));
    frame.splice(at..at, piece);
}

fn splice(frame: &mut Vec<u8>, at: usize, other: &[u8], chance: &mut Chance) {
    let from = chance.below(other.len());
    frame.truncate(at);
    frame.extend_from_slice(&other[from..]);
}

fn remove(frame: &mut Vec<u8>, at: usize, chance: &mut Chance) {
    let end = (at + 1 + chance.below(16)).min(frame.len());
    if at < end {
        frame.drain(at..end);
    }
}
