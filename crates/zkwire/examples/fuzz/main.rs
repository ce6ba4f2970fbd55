//! Damages the frames of the corpus for a number of seconds and runs every decoder over them.
//!
//! `cargo run --release -p holdfast-zkwire --example fuzz -- [seconds] [seed]`, by default 10 seconds and seed 1. A
//! frame that violates an invariant is printed as a corpus line with the seed; then the program exits with 1.

#[path = "../../tests/wire/corpus.rs"]
mod corpus;
#[path = "../../tests/wire/exercise.rs"]
mod exercise;
#[path = "../../tests/wire/footprint.rs"]
mod footprint;
#[path = "../../tests/wire/mutate.rs"]
mod mutate;

use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{env, io};

use bytes::Bytes;

use corpus::{Frame, What};
use exercise::every_decoder;
use mutate::{Chance, damage};

/// Frames between two checks of the time.
const ROUND: usize = 10_000;

fn main() -> io::Result<ExitCode> {
    let number =
        |at, default| env::args().nth(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (seconds, seed) = (number(1, 10), number(2, 1));
    let frames = corpus::frames()?;
    let mut out = io::stdout();
    writeln!(out, "seed {seed}, {seconds} s, {}", census(&frames))?;
    let mut chance = Chance::new(seed);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut tried, mut read) = (0_usize, 0_usize);
    while Instant::now() < end {
        for _ in 0..ROUND {
            let frame = damaged(&frames, &mut chance);
            let Ok(count) = catch_unwind(|| every_decoder(&frame)) else {
                writeln!(
                    out,
                    "frame {tried} of seed {seed} broke a promise:\nrequest seed-{seed} {}",
                    hex(&frame)
                )?;
                return Ok(ExitCode::FAILURE);
            };
            tried += 1;
            read += count;
        }
    }
    writeln!(out, "{tried} frames, read {read} times, no promise broken")?;
    Ok(ExitCode::SUCCESS)
}

/// What the run begins with: an empty corpus finds nothing.
fn census(frames: &[Frame]) -> String {
    let requests = frames.iter().filter(|frame| frame.what == What::Request).count();
    let last = frames.last().map_or("none", |frame| frame.name.as_str());
    format!("{} frames, {requests} of them requests, the last is {last}", frames.len())
}

fn damaged(frames: &[Frame], chance: &mut Chance) -> Bytes {
    let other = &frames[chance.below(frames.len())].bytes;
    let mut frame = frames[chance.below(frames.len())].bytes.to_vec();
    damage(&mut frame, other, chance);
    frame.into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}
