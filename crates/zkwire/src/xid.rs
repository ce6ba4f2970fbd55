//! Request numbers with a fixed meaning. Every other number is the client's own; the reply repeats it.

/// A watch event.
pub const EVENT: i32 = -1;
/// A ping and its reply.
pub const PING: i32 = -2;
/// An authentication and its reply.
pub const AUTH: i32 = -4;
/// `setWatches` after a reconnect, and its reply.
pub const SET_WATCHES: i32 = -8;
