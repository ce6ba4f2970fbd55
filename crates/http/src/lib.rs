//! The HTTP front-end: it turns requests into methods of the service, and their results into status, headers and JSON.
//!
//! A call is an `operation::Operation` with its parameters and its handler. A file has the calls on one noun or a few, a folder
//! those on a large one: in `locks` a large call has a file of its own. `operations` lists all calls; the router, the OpenAPI
//! document and the page `/docs` are derived from that list. `status` maps every failure to its status code. When a client disconnects, the future of its call is dropped.
//!
//! Bounds: at most [`HttpConfig::connections_max`] connections; further ones get 503 and are closed. One connection has
//! at most one call in flight. [`HttpConfig`] bounds heads, bodies, idle times, large bodies and watches. A stream
//! holds at most the changes of one revision, in addition to the bound of the service.

mod access;
mod activity;
mod auth;
mod body;
mod call;
mod cluster;
mod config;
mod connection;
mod description;
mod elections;
mod front;
mod head;
mod identity;
mod late_copies;
mod lines;
mod locks;
mod members;
mod metrics;
mod node;
mod operation;
mod operations;
mod pages;
mod precondition;
mod recipes;
mod reply;
mod routes;
mod server;
mod session_names;
mod sessions;
mod state;
mod status;
mod tree;
mod unmatched;

pub use config::{HttpConfig, LogFilter};
pub use description::description;
pub use identity::{caller_address, has_tls};
pub use metrics::HttpMetrics;
pub use server::{HttpListener, serve};
pub use status::explanation;
