//! Calls of the HTTP API: where a call goes, when it is sent again, and how it proves who calls.

pub(crate) mod access_token;
pub(crate) mod call;
pub(crate) mod nodes;
pub(crate) mod retry;
pub(crate) mod send;
