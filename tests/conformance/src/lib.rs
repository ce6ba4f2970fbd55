//! Conformance: the same things done to holdfast and to others, and the answers compared.
//!
//! Owns the differential run: scripts of `ZooKeeper` requests ([`Generator`], [`Step`]) are played ([`play`]) against a real
//! `ZooKeeper` and against holdfast, and the transcripts compared ([`compare`]) word by word; a difference is shrunk to few
//! steps ([`shrink`]), and kept with `ZooKeeper`'s answers ([`Recording`]). Refuses to know how either server works:
//! everything goes through sockets.
//!
//! Bounds: a transcript lives in memory and is as long as its script; a connection has at most a burst's requests open.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a harness: what does not hold is a failed test, and what is not expected is shown as it is"
)]

mod compare;
mod dice;
mod excuse;
mod generate;
mod golden;
mod liar;
mod pair;
mod play;
mod recording;
mod render;
mod script;
mod shrink;
mod zookeeper;

pub use compare::{Difference, compare};
pub use dice::Dice;
pub use generate::Generator;
pub use golden::{FrontEnd, Outcome, play_golden};
pub use liar::{Liar, Lie};
pub use pair::{Failure, Pair};
pub use play::{Target, Transcript, play};
pub use recording::Recording;
pub use script::{SEEN, SLOTS, Step, parse_script, print_script};
pub use shrink::shrink;
pub use zookeeper::ZooKeeper;
