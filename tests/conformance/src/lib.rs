//! Conformance tests: the same requests to holdfast and to a reference, with a comparison of the replies.
//!
//! The differential run plays ([`play`]) scripts of ZooKeeper requests ([`Generator`], [`Step`]) against ZooKeeper and
//! against holdfast, through sockets, and compares the transcripts word by word ([`compare`]). A script with a difference
//! is shrunk to few steps ([`shrink`]) and stored with the replies of ZooKeeper ([`Recording`]).
//!
//! Bounds: a transcript is in memory and as long as its script; a connection has at most one burst of open requests.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "test harness: an unexpected value is shown in the failure"
)]

mod compare;
mod faulty_proxy;
mod generate;
mod golden;
mod intended_difference;
mod pair;
mod play;
mod recording;
mod render;
mod script;
mod shrink;
mod test_rng;
mod zookeeper;

pub use compare::{Difference, compare};
pub use faulty_proxy::{Falsification, FaultyProxy};
pub use generate::Generator;
pub use golden::{FrontEnd, Outcome, play_golden};
pub use pair::{Failure, Pair};
pub use play::{Target, Transcript, play};
pub use recording::Recording;
pub use script::{SEEN, SLOTS, Step, parse_script, print_script};
pub use shrink::shrink;
pub use test_rng::TestRng;
pub use zookeeper::ZooKeeper;
