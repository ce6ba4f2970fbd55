//! TCP between nodes.
//!
//! Owns frames, connections and the handshake. Every pair of nodes has one connection for each purpose, opened by the
//! node that asks; a connection carries many requests, told apart by number. Refuses to know what the requests mean:
//! the server hands them to `dispatch`.
//!
//! Bounds: a frame has at most [`frame::FRAME_MAX`] bytes; a connection has at most `IN_FLIGHT_MAX` requests waiting
//! at its client and as many being worked on at its server; a server has at most `CONNECTIONS_MAX` connections, those
//! that have not yet said who they are included. Every call has a deadline.

pub(crate) mod connection;
pub(crate) mod frame;
pub(crate) mod handshake;
pub(crate) mod lane;
pub(crate) mod reach;
pub(crate) mod server;

/// Requests of one connection at once, on either side.
pub(crate) const IN_FLIGHT_MAX: usize = 512;
/// Connections of a server at once.
pub(crate) const CONNECTIONS_MAX: usize = 128;
