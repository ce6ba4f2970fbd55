//! TCP between nodes.
//!
//! ```text
//! peers ─► channel ─► connection ═══ frames ═══► server ─► dispatch
//!          (opens,     (numbers requests,         (accepts, reads,     (replies)
//!           backs off)  matches replies)           writes replies)
//! ```
//!
//! - Every ordered pair of nodes has one connection for each [`Purpose`](crate::wire::Purpose), opened by the node
//!   that calls. So a large append or a snapshot never delays a heartbeat.
//! - A connection starts with a handshake (`handshake.rs`): both sides check protocol, cluster, node id and data
//!   directory. Then it carries many requests at once, each with a number that its reply repeats.
//! - Every call has a deadline. A failed call is [`CallError::NotSent`](crate::CallError) only if the request certainly
//!   did not leave this node, which is what makes a retry safe. After the first byte was written it is `Unknown`.
//! - A frame is written completely or the connection closes, even if the caller is dropped in the middle.
//! - A connection on which a due reply does not arrive for too long closes (`connection.rs` has the limit for each
//!   purpose). The channel then opens a new one, with a back-off.
//!
//! Bounds: a frame has at most [`frame::FRAME_MAX`] bytes. A connection has at most `IN_FLIGHT_MAX` requests waiting at
//! the client and as many in progress at the server. A server has at most `CONNECTIONS_MAX` connections of peers; those
//! in their handshake have a bound of their own.

pub(crate) mod channel;
pub(crate) mod connection;
pub(crate) mod frame;
pub(crate) mod handshake;
pub(crate) mod server;

/// The most requests of one connection at once, on either side.
pub(crate) const IN_FLIGHT_MAX: usize = 512;
/// The most connections of peers at a server at once.
pub(crate) const CONNECTIONS_MAX: usize = 128;
