//! Double barriers: one file a call.

pub(crate) mod enter;
pub(crate) mod leave;
pub(crate) mod read;
