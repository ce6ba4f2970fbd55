//! The sessions of a client: each is renewed while a guard needs it, and one task receives its events.

pub(crate) mod events;
pub(crate) mod lease;
pub(crate) mod registry;
pub(crate) mod renewal;
pub(crate) mod session;
