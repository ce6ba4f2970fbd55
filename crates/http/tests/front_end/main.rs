//! The HTTP front-end in front of a real node: every statement of docs/http-api.md, and invalid input.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod access;
mod acl;
mod alarms;
mod any_node;
mod audit;
mod authorization;
mod backup;
mod bad_body;
mod bad_call;
mod bad_duration;
mod bad_name;
mod bootstrap;
mod browser;
mod client;
mod described;
mod description;
mod documentation;
mod durable;
mod elections;
mod examples;
mod foreign;
mod head;
mod kinds;
mod late_copies;
mod levels;
mod locks;
mod lost;
mod namespaces;
mod node;
mod permits;
mod queue_info;
mod recipes;
mod self_report;
mod session_rights;
mod sessions;
mod shards;
mod stale;
mod stream;
mod subject_limits;
mod timeouts;
mod token_lifetimes;
mod tree;
mod txn;
mod watch;
