//! holdfast beside others: the same questions, and the answers compared.
#![expect(clippy::wildcard_enum_match_arm, reason = "what is not expected is shown as it is")]

mod differential;
mod golden;
mod kills;
mod wanderer;
