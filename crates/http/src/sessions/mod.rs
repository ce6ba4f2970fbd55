//! Calls on sessions: their beginning and end, their renewal, and reads.

pub(crate) mod keep_alive;
pub(crate) mod open_close;
pub(crate) mod read;
