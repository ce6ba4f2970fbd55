//! The ZooKeeper front-end: unmodified ZooKeeper clients of any language use the tree, its sessions and its watches.
//!
//! ```text
//! server ─► connection ─► handshake ─► request_loop ─► ops ─► service::SessionStream
//!                                      reply_loop   ◄─ ops ◄─ the stream's outbox
//! ```
//!
//! - `server` accepts connections and enforces their limits; `connection` serves one of them.
//! - `handshake` opens the session, and waits for the credential of a connection that needs one.
//! - `request_loop` reads requests in order; `reply_loop` writes replies and watch events in the order of the outbox.
//! - `ops` has the operations of the protocol. `paths` and `errors` have the errors of ZooKeeper; `values` converts values.
//! - `four_letter` answers the status commands of monitoring.
//!
//! `zkwire` encodes and decodes the bytes. The order of replies and watch events, sessions and leases belong to `service`.
//!
//! Bounds: [`ZkConfig`] limits the connections in total and for each address. A connection reads one frame at a time, with
//! a length checked before anything is allocated. Further requests wait in the client's socket. Replies and events wait
//! in the stream's outbox, bounded by [`ZkConfig::stream`].

mod connection;
mod connection_table;
mod context;
mod errors;
mod four_letter;
mod frame_reader;
mod handshake;
mod identity;
mod metrics;
mod ops;
mod paths;
mod reply_loop;
mod request_loop;
mod server;
mod values;

pub use context::{Words, ZkConfig};
pub use metrics::ZkMetrics;
pub use server::{ZkListener, serve};
