//! Locks: one file for each call.

pub(crate) mod acquire;
mod acquire_stream;
pub(crate) mod acquiring;
pub(crate) mod check_token;
mod durable;
pub(crate) mod force_release;
pub(crate) mod history;
pub(crate) mod list;
pub(crate) mod multi_lock;
pub(crate) mod policy;
pub(crate) mod read;
pub(crate) mod release;
pub(crate) mod request_release;
pub(crate) mod transfer;
