//! Barriers: one file for each call. Double barriers share the parameters and the handlers.

pub(crate) mod arrive;
pub(crate) mod leave;
pub(crate) mod read;
