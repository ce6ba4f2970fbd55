//! Double barriers: one file for each call.

pub(crate) mod enter;
pub(crate) mod leave;
pub(crate) mod read;
