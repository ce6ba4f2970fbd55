//! Latches: one file for each call.

pub(crate) mod count_down;
pub(crate) mod delete;
pub(crate) mod make;
pub(crate) mod wait;
