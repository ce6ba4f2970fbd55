//! Compares the replies of holdfast with those of a reference.
#![expect(clippy::wildcard_enum_match_arm, reason = "what is not expected is shown as it is")]

mod differential;
mod golden;
mod kills;
mod roaming_client;
