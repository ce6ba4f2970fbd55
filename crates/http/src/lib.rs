//! The HTTP door: from bytes of a socket to a call of the service, and back to status, headers and JSON.
//!
//! Owns the routes, the status codes (in one table, `status`), the headers, and the patience with clients: time
//! limits on heads, bodies and idle connections, and a graceful end. Refuses to know Raft, the log and the machine's
//! inside: a handler builds a command, calls the service, and turns the typed answer into text.
//!
//! Bounds: connections are at most [`HttpConfig::connections_max`] (beyond it a connection is told so and closed);
//! one connection has at most one call in flight; heads and bodies are bounded by [`HttpConfig`], and so is the number
//! of large bodies and of watches; a stream holds at most one revision's changes beside the service's own bound. A client that hangs
//! up drops its call's future, and the service sees that.

mod acquiring;
mod activity;
mod body;
mod config;
mod connection;
mod custody;
mod elections;
mod exchange;
mod explain;
mod fence;
mod front;
mod head;
mod identity;
mod lines;
mod locks;
mod metrics;
mod node;
mod openapi;
mod operation;
mod operations;
mod pages;
mod precondition;
mod recipes;
mod reply;
mod request_id;
mod routes;
mod server;
mod sessions;
mod several;
mod sse;
mod status;
mod tree;
mod txn;
mod watch;

pub use config::HttpConfig;
pub use metrics::HttpMetrics;
pub use pages::error::explanation;
pub use pages::openapi::description;
pub use server::serve;
