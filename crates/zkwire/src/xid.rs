//! Numbers that a client gives its requests, as far as they have a meaning.
//!
//! Every other number is the client's own and only echoed.

/// A watch event: no request asked for it.
pub const EVENT: i32 = -1;
/// A ping and its answer.
pub const PING: i32 = -2;
/// An authentication and its answer.
pub const AUTH: i32 = -4;
/// Watches armed again after a reconnect, and the answer.
pub const SET_WATCHES: i32 = -8;
