//! The HTTP door in front of a real node: every promise of docs/http-api.md, and every bad input.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod acl;
mod any_node;
mod bad_body;
mod bad_call;
mod bad_duration;
mod bad_name;
mod client;
mod described;
mod description;
mod documentation;
mod elections;
mod head;
mod kinds;
mod knowing;
mod locks;
mod lost;
mod node;
mod patience;
mod recipes;
mod segments;
mod self_report;
mod sessions;
mod stream;
mod tree;
mod txn;
mod watch;
