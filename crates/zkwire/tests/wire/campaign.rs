//! A short run of the fuzzer with a fixed seed; `cargo run -p holdfast-zkwire --example fuzz` runs longer.

use crate::corpus;
use crate::exercise::every_decoder;
use crate::mutate::{Chance, damage};

#[test]
fn every_decoder_keeps_its_invariants_for_damaged_frames() {
    let frames = corpus::frames().unwrap();
    let mut chance = Chance::new(7);
    let mut read = 0;
    for _ in 0..20_000 {
        let other = &frames[chance.below(frames.len())].bytes;
        let mut frame = frames[chance.below(frames.len())].bytes.to_vec();
        damage(&mut frame, other, &mut chance);
        read += every_decoder(&frame.into());
    }
    assert!(read > 20_000, "only {read} decoders accepted a damaged frame");
}
