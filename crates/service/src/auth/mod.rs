//! Who calls, and what it may do: credentials, permissions, their administration, and refused calls.

pub(crate) mod access_token;
pub(crate) mod administration;
pub(crate) mod authorization;
pub(crate) mod refusals;
