//! Watching the tree and the locks without a session: changes in log order, since a revision.
//!
//! A watcher that requests discarded changes, or falls behind the change log, receives the revision to restart from.
//! Watches of sessions are in `stream`.
//!
//! Bounds: `ServiceConfig::history_events_max` changes and `history_bytes_max` bytes; `watch_streams_max` watchers,
//! each with at most [`change_log::BATCH_MAX`] copied changes.

mod change_log;
mod filter;
mod reader;
mod watchers;

pub use change_log::{WatchItem, WatchedItem, ZnodeChangeKind};
pub use filter::WatchFilter;
pub use reader::{WatchRequest, WatchStream};

pub(crate) use change_log::ChangeLog;
pub(crate) use filter::is_visible;
