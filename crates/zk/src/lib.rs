//! The `ZooKeeper` door: unmodified `ZooKeeper` clients of any language find the tree, sessions and watches they know.
//!
//! Owns sockets, handshakes, the pairing of requests and replies, the identities of connections, four-letter words, and
//! the one table from our refusals to `ZooKeeper`'s errors (`translate`). Refuses to know the log, leases and the
//! order of replies and watch events: a connection holds a `service::Stream` and writes what its outbox says, in that
//! order and nothing else. Bytes are `zkwire`'s.
//!
//! Bounds: connections in all and of one address by [`ZkConfig`]; one frame is read at a time, its length checked
//! before anything is allocated; the next request is looked at when the one before is answered, so that requests wait
//! in the client's socket; replies and events wait in the stream's outbox, bounded by [`ZkConfig::stream`].

mod config;
mod connection;
mod conversation;
mod frames;
mod identity;
mod kind;
mod ledger;
mod metrics;
mod paths;
mod plan;
mod reply;
mod server;
mod translate;
mod values;
mod words;
mod writes;

pub use config::{Words, ZkConfig, ZkMember};
pub use metrics::ZkMetrics;
pub use server::serve;
