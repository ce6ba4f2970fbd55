//! Barriers: one file a call. Double barriers share the parameters and the handlers.

pub(crate) mod arrive;
pub(crate) mod leave;
pub(crate) mod read;
